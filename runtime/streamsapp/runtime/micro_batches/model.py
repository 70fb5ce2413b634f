"""Orders of a driver and the reports that answer them: plain data between processes, of no thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamsapp.record import TaskId, TopicPartition


@dataclass(frozen=True)
class InputTarget:
    """The part of a partition that is read in a batch."""

    #: The first offset if the group has none.
    start: int
    until: int
    #: True if the broker had nothing beyond ``until`` when the batch was planned.
    at_end: bool


@dataclass(frozen=True)
class TaskOrder:
    """One task's part of a batch: all of its inputs are named."""

    id: TaskId
    targets: Mapping[TopicPartition, InputTarget]


@dataclass(frozen=True)
class LaneOrder:
    """The part of a batch that is committed by one transaction."""

    number: int
    tasks: tuple[TaskOrder, ...]
    #: The tasks are given up afterwards, with a snapshot of their last state.
    gives_up: bool = False
    #: How often tasks were divided into other lanes before: an order of an earlier division is void.
    division: int = 0
    #: The process reads on by itself, past the targets, and commits again and again until the driver ends that.
    is_open: bool = False
    #: Records that such a commit takes at most; ``None`` if there is no limit.
    commit_records: int | None = None

    @property
    def starts(self) -> dict[TopicPartition, int]:
        """The offsets at which its tasks begin as long as neither the group nor a snapshot stands anywhere."""
        return {each: target.start for it in self.tasks for each, target in it.targets.items()}


@dataclass(frozen=True)
class LaneTaskReport:
    """The work of one task in a batch, and its positions now."""

    id: TaskId
    records: int
    outputs: int
    #: The offset up to which nothing is left to read, per input.
    positions: Mapping[TopicPartition, int]
    #: The offset that is committed, per input that has one: lower where control records follow the last record.
    committed: Mapping[TopicPartition, int]
    #: Entries and bytes of its stores, as far as they are known.
    state_rows: int
    state_bytes: int
    dropped_records: int
    #: Changelog offset of each store.
    changelogs: Mapping[str, int] = field(default_factory=dict)
    #: The time of the next batch it wants to be in without new records, in milliseconds of wall-clock time.
    due_at_ms: int | None = None
    #: The outputs that tasks of the application read.
    passed_on: int = 0


@dataclass(frozen=True)
class LaneReport:
    """The answer to an order. An open order has one for each stretch of time."""

    number: int
    tasks: tuple[LaneTaskReport, ...]
    #: From the first record to the end of the commit; of these, restoring and committing. Of an open order, the time in
    #: which there was something to do, and the mean time of its commits.
    seconds: float
    restore_seconds: float
    commit_seconds: float
    #: Since when the process cannot write snapshots, in milliseconds of wall-clock time, and why.
    outage: tuple[int, str] | None = None
    #: If the order gives up: the tasks whose snapshots stand where the tasks stood.
    published: frozenset[TaskId] = frozenset()
