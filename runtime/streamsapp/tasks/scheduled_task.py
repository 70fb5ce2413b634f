"""An active task as the task manager knows it: when it is worth a thread's time, and the wishes of a commit.

Made and guarded by the task manager. The processing thread that holds the task reads it, and sets ``wake_at_ms``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from streamsapp.outgoing import OutputRecord
from streamsapp.tasks.stream_task import StreamTask


@dataclass(eq=False, slots=True)
class ScheduledTask:
    """One task and its scheduling."""

    task: StreamTask
    #: The commit to which everything belongs that the task sends now.
    epoch: int
    #: Input arrived while the task was held.
    has_news: bool = False
    #: A commit waits for the task to end its epoch.
    epoch_end_wanted: bool = False
    #: The task takes records that it has before it ends its epoch.
    input_first: bool = False
    #: The time of the next look at a task that waits for input of one of its partitions; ``None`` if only input helps.
    wake_at_ms: int | None = None
    #: Processing failed: the task is not scheduled until it was revived.
    failed: bool = False
    #: The task goes to another instance: it ends its epoch and processes nothing more.
    retired: bool = False
    #: It goes before others: so do its results.
    urgent: bool = False
    #: Commits and other tasks do not depend on it: it may be left out of a commit, and fails alone.
    apart: bool = False
    #: It is part of the commit under way, and cannot be left out of it any more.
    joined: bool = False
    #: It does nothing more before the next commit, which carries its epoch: it did not end it in time for the last one,
    #: or has as many results as may wait.
    awaits_commit: bool = False
    #: Results of the epoch that are sent when it ends, of a task that is apart: until then none is in a transaction.
    kept: list[OutputRecord] = field(default_factory=list)

    @property
    def ends_epoch(self) -> bool:
        """True if the epoch is to end before another record is taken."""
        return self.epoch_end_wanted and not self.input_first

    @property
    def fails_alone(self) -> bool:
        """True if nothing that the task did since its last epoch ended is part of a transaction."""
        return self.apart and not self.joined

    @property
    def due_ms(self) -> float:
        """The time of the next callback by wall-clock time, end of an idle wait, or log line about dropped records;
        infinite if there is none."""
        waits_until = math.inf if self.wake_at_ms is None else self.wake_at_ms
        context = self.task.context
        return min(waits_until, context.wall_clock_punctuation.next_due, context.record_errors.warnings.next_due)
