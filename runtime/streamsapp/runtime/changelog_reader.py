"""One store's way along its changelog: towards its end to become active, or behind it as a replica.

Plain data of the restoration thread; ``status`` reads it from other threads.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamsapp.record import TopicPartition
from streamsapp.tasks.restored_records import RestoredRecords
from streamsapp.tasks.stream_task import StreamTask


@dataclass(frozen=True)
class Observation:
    """The lag of a replica at one moment. The position is read before the end is asked for, and the time is
    that of the question: at that time the store was no further behind than this."""

    position: int
    end_offset: int
    observed_at_ms: int

    @property
    def lag(self) -> int:
        """Records between position and end, at most."""
        return max(0, self.end_offset - self.position)


@dataclass(eq=False)
class ChangelogReader:
    """One store on its changelog."""

    task: StreamTask
    store: str
    partition: TopicPartition
    #: Next offset to apply.
    position: int
    #: Offset at which the store is complete; ``None`` for a replica, which follows for ever.
    end: int | None = None
    #: A replica of a table reads a topic that others write: only what the group has processed is the table's state.
    #: ``None`` where the changelog is the store's own.
    limit: int | None = None
    applied: int = 0
    #: If the changelog is a source topic: the records of it that the table gets.
    restored: RestoredRecords | None = None
    #: ``None`` until the broker first reported where the changelog ends.
    observed: Observation | None = None
    #: An end that the broker reported, and that the reader has not come to yet.
    goal: Observation | None = None
    #: When a replica was last known to have all that its changelog had, in milliseconds; ``None`` before that.
    fresh_at_ms: int | None = None
    #: When a replica last read something, in milliseconds.
    read_at_ms: int = 0

    def reach(self, seen: Observation | None = None) -> None:
        """Note an end that was ``seen``, and whether the last one is reached."""
        self.goal = self.goal or seen
        if self.goal is not None and self.position >= self.goal.end_offset:
            self.fresh_at_ms, self.goal = self.goal.observed_at_ms, None
            self.task.stores.note_fresh(self.store, self.fresh_at_ms)

    @property
    def remaining(self) -> int:
        """Records left until the store is complete, at most (control records and compaction make it fewer)."""
        return 0 if self.end is None else max(0, self.end - self.position)

    @property
    def follows(self) -> bool:
        """True if this is a replica's."""
        return self.end is None
