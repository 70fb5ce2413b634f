"""Reads the stores of this instance, and makes sure that they were its to read when it did.

Called on threads that query. Ownership is looked at before and after the read, with the stores held open meanwhile. An
answer that is given was right at some moment between question and answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from streamsapp.clock import Clock
from streamsapp.errors import StoreNotAvailableError
from streamsapp.query.api import (
    GLOBAL,
    PAGE_BYTES,
    Found,
    Host,
    Page,
    QuerySource,
    Staleness,
    StoreInfo,
    TaskView,
    Wanted,
)
from streamsapp.query.routing import hosts_of, may_answer
from streamsapp.state.engine.entries import Entry
from streamsapp.state.layers.views import StoreView
from streamsapp.tasks.states import TaskRole

T = TypeVar("T")


class LocalReader:
    """Reads the stores that are here, or says which instance has them."""

    def __init__(self, host: Host, clock: Clock) -> None:
        self._host = host
        self._clock = clock

    def get(
        self, store: StoreInfo, partition: int, key: bytes, staleness: Staleness | None
    ) -> tuple[Found, QuerySource]:
        """Returns the entry of a key."""

        def read(view: StoreView, committed: bool) -> Found:
            return _found(view, key, view.get(key, committed=committed))

        return self._read(store, partition, staleness, read)

    def range(
        self,
        store: StoreInfo,
        partition: int,
        keys: Wanted,
        limit: int,
        staleness: Staleness | None,
        most_bytes: int = PAGE_BYTES,
    ) -> tuple[Page, QuerySource]:
        """Returns the first entries of a range."""

        def read(view: StoreView, committed: bool) -> Page:
            found = (_found(view, key, entry) for key, entry in keys.entries(view, committed=committed))
            return Page.of(found, limit, most_bytes)

        return self._read(store, partition, staleness, read)

    def _read(
        self, store: StoreInfo, partition: int, staleness: Staleness | None, read: Callable[[StoreView, bool], T]
    ) -> tuple[T, QuerySource]:
        task_id = store.task_id(partition)
        found = self._host.tasks().get(task_id)
        if found is None or store.name not in found.stores:
            raise self._not_here(store, partition, "is not here")
        view = found.stores[store.name]
        with view.readers.reading():
            before = self._check(store, partition, view, staleness)
            # The thread that fills a global store has its layer for itself.
            result = read(view, self._host.committed_only or store.is_global)
            task = self._check(store, partition, view, staleness)
        if store.is_global:
            return result, QuerySource(partition, task.role, before.lag, before.positions[store.name])
        return result, QuerySource(partition, task.role, 0 if task.authoritative else task.lag)

    def _check(self, store: StoreInfo, partition: int, view: StoreView, staleness: Staleness | None) -> TaskView:
        task = self._host.tasks().get(store.task_id(partition))
        if task is None or task.stores.get(store.name) is not view:
            raise self._not_here(store, partition, "is moving")
        if not may_answer(task, staleness, self._clock.now_ms()):
            raise self._not_here(store, partition, _why_not(task))
        if task.authoritative and not store.is_global and self._clock.monotonic() > self._host.safe_until:
            raise self._not_here(store, partition, "may have been taken over: the group's coordinator has been silent")
        return task

    def _not_here(self, store: StoreInfo, partition: int, why: str) -> StoreNotAvailableError:
        owner = hosts_of(store.task_id(partition), self._host.peers()).active
        remedy = "try again soon" if owner is None or owner == self._host.endpoint else f"ask {owner}"
        return StoreNotAvailableError(f"partition {partition} of store {store.name} {why}; {remedy}", owner)


def _found(view: StoreView, key: bytes, entry: Entry) -> Found:
    return Found(key, view.value(entry), view.raw(entry))


def _why_not(task: TaskView) -> str:
    behind = "an unknown number of" if task.lag is None else task.lag
    restoring = task.role is TaskRole.ACTIVE and not task.running
    copy = "a copy" if task.id == GLOBAL else f"a {task.role.value} replica"
    what = "being restored" if restoring else copy
    return f"is {what} here, {behind} records behind"
