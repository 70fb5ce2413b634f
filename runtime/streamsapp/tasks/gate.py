"""Keeps tasks from being given to processing threads. Guarded by the task manager's lock."""

from __future__ import annotations

from dataclasses import dataclass

from streamsapp.tasks.scheduled_task import ScheduledTask


@dataclass(eq=False, slots=True)
class TaskGate:
    """The reasons for which tasks wait, all or some of them."""

    #: Tasks are given out only to end their epochs.
    paused: bool = False
    #: No task is given out, whatever for.
    standing_still: bool = False
    #: No task is given out any more.
    closed: bool = False
    #: Some tasks are to be given up.
    any_retired: bool = False
    #: Some tasks wait for the next commit.
    any_awaits_commit: bool = False
    #: The sub-topologies whose tasks are given out only to end their epochs.
    paused_parts: frozenset[int] = frozenset()

    @property
    def shut(self) -> bool:
        """True if no task is given out."""
        return self.closed or self.standing_still

    @property
    def chooses(self) -> bool:
        """True if some tasks may not be given out, or not for everything."""
        return self.paused or self.any_retired or self.any_awaits_commit or bool(self.paused_parts)

    def keeps_back(self, scheduled: ScheduledTask) -> bool:
        """Return whether a task does nothing but end its epoch when a commit wants it to."""
        aside = scheduled.retired or scheduled.awaits_commit
        return self.paused or aside or scheduled.task.id.subtopology in self.paused_parts
