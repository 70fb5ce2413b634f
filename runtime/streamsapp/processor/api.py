"""The Processor API: what a user implements and what the user is given (KIP-478, KIP-28).

User code; called on a processing thread, never on two threads at once for one task.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Protocol, TypeAlias, TypeVar, overload

from streamsapp.errors import TopologyError
from streamsapp.record import Headers, Record, RecordMetadata, TaskId

S = TypeVar("S")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: A duration: ``timedelta`` or whole milliseconds.
Duration: TypeAlias = timedelta | int


def duration_ms(duration: Duration) -> int:
    """Returns a duration in whole milliseconds; a whole number is one already. Raises ``TopologyError`` for anything
    else."""
    if isinstance(duration, timedelta):
        return duration // timedelta(milliseconds=1)
    if isinstance(duration, bool) or not isinstance(duration, int):
        raise TopologyError(
            f"a duration is a timedelta or whole milliseconds, got {duration!r}; write timedelta(seconds=10), or 10_000"
        )
    return duration


def instant_ms(instant: datetime | int) -> int:
    """Returns a time in milliseconds since 1970; a whole number is one already. Raises ``TopologyError`` for anything
    else, and for a ``datetime`` without a time zone."""
    if isinstance(instant, datetime) and instant.tzinfo is not None:
        return (instant - _EPOCH) // timedelta(milliseconds=1)
    if isinstance(instant, bool) or not isinstance(instant, int):
        raise TopologyError(
            f"a time is a datetime with a time zone or milliseconds since 1970, got {instant!r}; write "
            "datetime(2026, 1, 1, tzinfo=UTC)"
        )
    return instant


class PunctuationType(Enum):
    """The kind of time that drives a scheduled callback (KIP-138)."""

    STREAM_TIME = "stream_time"
    WALL_CLOCK_TIME = "wall_clock_time"


class Cancellable(Protocol):
    """The handle of a scheduled callback."""

    def cancel(self) -> None:
        """Ends the schedule: there are no further calls."""
        ...


class ProcessorContext(Protocol):
    """The part of a task that a processor may use (KIP-478). Its methods must be called on the processing thread,
    inside a call of the processor."""

    @property
    def application_id(self) -> str:
        """The id of the application, which is also that of its consumer group."""
        ...

    @property
    def task_id(self) -> TaskId:
        """The task that this processor belongs to."""
        ...

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """The topic, partition and offset of the record being processed; ``None`` in punctuators."""
        ...

    @property
    def current_stream_time_ms(self) -> int:
        """The highest timestamp that this task has processed, in milliseconds; -1 before the first record."""
        ...

    @property
    def current_system_time_ms(self) -> int:
        """The wall-clock time in milliseconds since 1970; in a test, that of the driver (KIP-622)."""
        ...

    def forward(self, record: Record, child: str | None = None) -> None:
        """Hands a record to all children, or to the named one. Raises ``TopologyError`` for an unknown name."""
        ...

    def schedule(
        self,
        interval: Duration,
        type: PunctuationType,
        callback: Callable[[int], None],
        start: datetime | int | None = None,
    ) -> Cancellable:
        """Calls ``callback(timestamp_ms)`` every ``interval`` (a ``timedelta`` or milliseconds) of stream or wall-clock
        time, until the returned handle is cancelled (KIP-138).

        Calls are due at ``start`` plus multiples of the interval (KIP-1146): a ``datetime`` with a time zone or
        milliseconds since 1970, which may have passed. Without it they follow the first record (stream time) or the
        present (wall clock).
        Raises ``TopologyError`` for other arguments.
        """
        ...

    def commit(self) -> None:
        """Asks for a commit as soon as possible; the call returns before it is done."""
        ...

    @overload
    def get_state_store(self, name: str) -> Any: ...
    @overload
    def get_state_store(self, name: str, kind: Callable[..., S]) -> S:
        """Returns the store of that name, annotated as a ``kind`` if one is given:
        ``get_state_store("counts", KeyValueStore[str, int])``. Raises ``TopologyError`` unless it is connected to this
        processor, and for a store of another kind. Keys and values are not looked at."""
        ...


class Processor(ABC):
    """One step of a topology, written by a user. The supplier makes one per task, so no two threads are ever in one."""

    def init(self, context: ProcessorContext) -> None:  # noqa: B027 - overriding is optional
        """Called once before the first record, and in a new processor when the task starts again. Keep ``context``, get
        the stores from it, and schedule callbacks."""

    @abstractmethod
    def process(self, record: Record) -> None:
        """Called for every record, in the order of the task's input. An error that it raises goes to the processing
        exception handler (KIP-1033)."""

    def close(self) -> None:  # noqa: B027 - overriding is optional
        """Called once after the last record, when the task is closed."""


#: ``(node_name, processor) -> processor``: called for every processor of every task, those of the DSL's operators
#: included; returns the one that it is given, or one that calls it (KIP-1112).
ProcessorWrapper: TypeAlias = Callable[[str, Processor], Processor]

#: ``(topic, key, value, number_of_partitions) -> partition``, or ``None`` for the default (murmur2 of the key's bytes).
#: A function of five arguments is given the record's headers as the fourth (KIP-1321).
#: A collection sends the record to each of its partitions, and drops a record that has none (KIP-837).
StreamPartitioner: TypeAlias = (
    Callable[[str, Any, Any, int], int | Collection[int] | None]
    | Callable[[str, Any, Any, Headers, int], int | Collection[int] | None]
)

#: ``(key, value, metadata) -> topic``: chooses the topic of each record (KIP-303).
TopicNameExtractor: TypeAlias = Callable[[Any, Any, RecordMetadata | None], str]
