"""An active task as the task manager knows it: when it is worth a thread's time, and the wishes of a commit.

Made and guarded by the task manager. The processing thread that holds the task reads it, and sets ``wake_at_ms``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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

    @property
    def ends_epoch(self) -> bool:
        """True if the epoch is to end before another record is taken."""
        return self.epoch_end_wanted and not self.input_first

    @property
    def due_ms(self) -> float:
        """The time of the next callback by wall-clock time, end of an idle wait, or log line about dropped records;
        infinite if there is none."""
        waits_until = math.inf if self.wake_at_ms is None else self.wake_at_ms
        context = self.task.context
        return min(waits_until, context.wall_clock_punctuation.next_due, context.record_errors.warnings.next_due)
