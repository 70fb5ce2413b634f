"""An instance as interactive queries see it.

Called on threads that query: reads what the runtime's threads publish as plain attributes, waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from streamsapp.config.streams_config import StreamsConfig
from streamsapp.membership.api import Peer
from streamsapp.query.api import GLOBAL, StoreInfo, TaskView
from streamsapp.query.store_lookup import global_stores_of, stores_of
from streamsapp.record import TaskId, TopicPartition
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.runtime.changelog_reader import Observation
from streamsapp.runtime.components import Components
from streamsapp.runtime.global_stores.thread import GlobalThread
from streamsapp.tasks.states import TaskRole, TaskState
from streamsapp.tasks.stream_task import StreamTask


class _Queryable(NamedTuple):
    layout: ApplicationLayout
    stores: Mapping[str, StoreInfo]


class InstanceHost:
    """One instance, started or not: the :class:`~streamsapp.query.api.Host` of its queries."""

    def __init__(self, config: StreamsConfig, components: Callable[[], Components | None]) -> None:
        self._config = config
        self._components = components
        self._known: _Queryable | None = None

    def tasks(self) -> Mapping[TaskId, TaskView]:
        components = self._components()
        if components is None or components.state.state.ended:
            return {}
        views = {task_id: _view(task, components) for task_id, task in list(components.owned.all.items())}
        thread = components.stores.global_thread
        return views if thread is None else {**views, GLOBAL: _global_view(thread)}

    def stores(self) -> Mapping[str, StoreInfo]:
        components = self._components()
        layout = None if components is None else components.life.layout
        if layout is None:
            return {}
        known = self._known
        if known is None or known.layout is not layout:
            thread = None if components is None else components.stores.global_thread
            shared = {} if thread is None else global_stores_of(thread.definitions, self._config)
            self._known = known = _Queryable(layout, {**stores_of(layout.plans.values(), self._config), **shared})
        return known.stores

    def peers(self) -> Mapping[str, Peer]:
        components = self._components()
        assignment = None if components is None else components.life.assignment
        return {} if assignment is None else assignment.peers

    @property
    def endpoint(self) -> str:
        return self._config.application_server

    @property
    def safe_until(self) -> float:
        components = self._components()
        return 0.0 if components is None else components.membership.safe_until

    @property
    def committed_only(self) -> bool:
        return self._config.exactly_once


def _global_view(thread: GlobalThread) -> TaskView:
    reading = list(thread.reading.partitions.items())
    positions: dict[str, dict[TopicPartition, int]] = {name: {} for name in thread.views}
    for partition, it in reading:
        positions[it.store][partition] = it.position
    seen = [it.observed for _, it in reading]
    return TaskView(
        GLOBAL,
        TaskRole.ACTIVE,
        thread.restored.is_set(),
        thread.views,
        lag=sum(each.lag for each in seen) if seen else None,
        observed_at_ms=min((each.observed_at_ms for each in seen), default=None),
        positions=positions,
    )


def _view(task: StreamTask, components: Components) -> TaskView:
    running = task.state is TaskState.RUNNING
    if task.role is TaskRole.ACTIVE and running:
        return TaskView(task.id, task.role, running, task.stores.views)
    # Without a changelog a replica has nothing, however little it lags.
    followed = {store: view for store, view in task.stores.views.items() if store in task.plan.all_changelogs}
    seen = [_observed(task, store, components) for store in followed]
    known = [each for each in seen if each is not None]
    complete = bool(seen) and len(known) == len(seen)
    return TaskView(
        task.id,
        task.role,
        running,
        followed,
        lag=max(each.lag for each in known) if complete else None,
        observed_at_ms=min(each.observed_at_ms for each in known) if complete else None,
    )


def _observed(task: StreamTask, store: str, components: Components) -> Observation | None:
    reader = components.stores.restoration.reading.readers.get(task.plan.all_changelogs[store])
    return reader.observed if reader is not None and reader.task is task else None
