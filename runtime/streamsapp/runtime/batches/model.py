"""What a driver orders, and what it is told: plain data that is sent between processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamsapp.record import TaskId, TopicPartition


@dataclass(frozen=True)
class InputTarget:
    """How far a partition is read in a batch."""

    #: Where it is read from if the group has no offset of it.
    start: int
    until: int
    #: Whether the broker had nothing beyond ``until`` when the batch was planned.
    at_end: bool


@dataclass(frozen=True)
class TaskOrder:
    """What one task does in a batch: all of its inputs are named."""

    id: TaskId
    targets: Mapping[TopicPartition, InputTarget]


@dataclass(frozen=True)
class LaneOrder:
    """The part of a batch that is committed by one transaction."""

    number: int
    tasks: tuple[TaskOrder, ...]
    #: The tasks are given up afterwards, with a snapshot of what they leave.
    gives_up: bool = False


@dataclass(frozen=True)
class TaskReport:
    """What one task did in a batch, and where it stands now."""

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
    #: When it wants to be in a batch without new records, in milliseconds of wall-clock time.
    due_at_ms: int | None = None


@dataclass(frozen=True)
class LaneReport:
    """What became of an order."""

    number: int
    tasks: tuple[TaskReport, ...]
    #: From the first record to the end of the commit; of these, restoring and committing.
    seconds: float
    restore_seconds: float
    commit_seconds: float
