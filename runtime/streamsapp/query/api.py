"""The values of interactive queries: an instance's view of itself, questions, and answers.

Plain data, made and read on the threads that query: user code's own threads and those of the HTTP server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from heapq import merge
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

from streamsapp.errors import InvalidQueryError
from streamsapp.java_names.lookup import java_names
from streamsapp.membership.api import Peer
from streamsapp.record import TaskId, TopicPartition
from streamsapp.serdes.api import AnySerde
from streamsapp.state.engine.entries import Entry
from streamsapp.state.layers.views import StoreView
from streamsapp.state.layers.window_view import WindowOf, WindowRange
from streamsapp.tasks.states import TaskRole

#: Stands for the global stores of an instance, as if they were those of a task.
GLOBAL = TaskId(-1, 0)


@dataclass(frozen=True)
class TaskView:
    """A task on this instance at one moment."""

    id: TaskId
    role: TaskRole
    #: Of an active task: everything is restored, and it processes or could.
    running: bool
    stores: Mapping[str, StoreView]
    #: Records it is behind its changelogs; ``None`` if that is not known.
    lag: int | None = None
    #: The time when the lag was observed, in milliseconds since the epoch.
    observed_at_ms: int | None = None
    #: Of global stores: the next offset to read of each partition of their topics, by store.
    positions: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)

    @property
    def authoritative(self) -> bool:
        """Says whether no other instance can know more."""
        return self.role is TaskRole.ACTIVE and self.running


@dataclass(frozen=True)
class StoreInfo:
    """A store of the application, wherever its tasks are."""

    name: str
    subtopology: int
    partitions: int
    key_serde: AnySerde
    value_serde: AnySerde
    #: Says whether each key is where the default partitioner puts it. That is not known if others write the topics.
    placed: bool
    #: Reads the window from an entry's key in a store of windows.
    window_of: WindowOf | None = None
    #: Reads the key of an entry of a versioned store; ``None`` for other stores.
    key_of: Callable[[bytes], bytes] | None = None

    @property
    def is_global(self) -> bool:
        """Says whether every instance has all of it."""
        return self.subtopology == GLOBAL.subtopology

    def task_id(self, partition: int) -> TaskId:
        """The task that has a partition of the store."""
        if self.is_global and partition != 0:
            raise InvalidQueryError(f"partition: every instance has all of global store {self.name}; leave it out")
        if not 0 <= partition < self.partitions:
            raise InvalidQueryError(
                f"partition: {partition} is none of store {self.name}'s; it has 0 to {self.partitions - 1}"
            )
        return TaskId(self.subtopology, partition)


class Host(Protocol):
    """The instance that queries are made at; the runtime implements it. Called on any thread; waits for nothing."""

    def tasks(self) -> Mapping[TaskId, TaskView]:
        """Returns all tasks that are here now, restoring ones and replicas included."""
        ...

    def stores(self) -> Mapping[str, StoreInfo]:
        """Returns all stores of the application; empty while the instance does not know its topics yet."""
        ...

    def peers(self) -> Mapping[str, Peer]:
        """Returns the hosts of the group's tasks, with this instance's own."""
        ...

    @property
    def endpoint(self) -> str:
        """This instance's ``host:port``; empty if it has none."""
        ...

    @property
    def safe_until(self) -> float:
        """The time until which no other instance can have taken over this instance's tasks, in monotonic seconds."""
        ...

    @property
    def committed_only(self) -> bool:
        """Says whether only committed writes may be seen."""
        ...


@dataclass(frozen=True)
class Staleness:
    """Says how far behind a replica may be that answers in place of the active task. A lag that is not known is too
    far."""

    #: Records; ``None`` for any known number.
    max_lag: int | None = None
    #: The time since the lag was observed may be so long at most; ``None`` for any time.
    max_age: timedelta | None = None

    def __post_init__(self) -> None:
        if self.max_lag is not None and self.max_lag < 0:
            raise InvalidQueryError(f"max_lag: expected an integer ≥ 0, got {self.max_lag}")

    def admits(self, task: TaskView, now_ms: int) -> bool:
        """Says whether a replica may answer."""
        if task.lag is None or task.observed_at_ms is None:
            return False
        age = timedelta(milliseconds=now_ms - task.observed_at_ms)
        return (self.max_lag is None or task.lag <= self.max_lag) and (self.max_age is None or age <= self.max_age)


@java_names("KeyQueryMetadata")
@dataclass(frozen=True)
class KeyQueryMetadata:
    """The instances that have a key, as ``host:port``, which each instance's ``application_server`` says (KIP-535)."""

    active_host: str
    standby_hosts: frozenset[str]
    partition: int


class Found(NamedTuple):
    """The entry that a store holds for a key."""

    #: Serialised; in a store of windows that of the entry, with its window.
    key: bytes
    #: The value as ``KeyValueStore.get`` gives it, with its timestamp if the store keeps one, or ``None``.
    value: Any
    #: The value as the changelog has it.
    raw: bytes | None


#: The size at which a page ends, by the bytes of its keys and values; the entry that reaches it is its last.
PAGE_BYTES = 8 << 20


class Page(NamedTuple):
    """The first entries of a range."""

    entries: list[Found]
    #: The key where the next page begins; ``None`` after the last.
    next: bytes | None

    @classmethod
    def of(cls, found: Iterable[Found], limit: int, most_bytes: int) -> Self:
        """Makes a page of as many entries as fit, at least one. A key that several partitions have is not torn
        apart."""
        entries: list[Found] = []
        size = 0
        for each in found:
            full = len(entries) >= limit or size >= most_bytes
            if full and each.key != entries[-1].key:
                return cls(entries, each.key)
            entries.append(each)
            size += len(each.key) + len(each.raw or b"")
        return cls(entries, None)

    def cut(self, limit: int, most_bytes: int) -> Page:
        """Cuts the page to as many entries as fit."""
        shorter = Page.of(self.entries, limit, most_bytes)
        return shorter if shorter.next is not None else self


def merged(pages: Sequence[Page], limit: int) -> Page:
    """Merges the pages of all partitions: the page ends where one of them may have more."""
    ends = [page.next for page in pages if page.next is not None]
    found = merge(*(page.entries for page in pages), key=lambda each: each.key)
    end = min(ends, default=None)
    page = Page.of((each for each in found if end is None or each.key < end), limit, PAGE_BYTES)
    return page if page.next is not None else Page(page.entries, end)


class QuerySource(NamedTuple):
    """The instance and the task that answered."""

    partition: int
    role: TaskRole
    lag: int | None
    #: Of a global store: the offsets up to which this instance had read its topic at least.
    positions: Mapping[TopicPartition, int] | None = None


class KeyRange(NamedTuple):
    """A range of serialised keys with ``start <= key < end``; ``None`` is an open end."""

    start: bytes
    end: bytes | None

    def entries(self, view: StoreView, *, committed: bool) -> Iterator[tuple[bytes, Entry]]:
        """Iterates over the entries of the range that a store has."""
        return view.range(self.start, self.end, committed=committed)


#: A range that is read page by page: ``start`` is where the next page begins.
Wanted: TypeAlias = KeyRange | WindowRange
