"""Decides whether an instance has come back: ``/readyz`` answers it, and a PodDisruptionBudget counts it.

The polling thread reports assignments to it and looks at the tasks; any thread may ask. It looks at the first
assignment since the instance joined: once those of its tasks that it still has run, or have caught up, the instance
stays ready until it leaves the group. A replica that it gets later takes away nothing that was there before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from streamsapp.clock import Clock
from streamsapp.record import TaskId
from streamsapp.tasks.states import TaskRole, TaskState
from streamsapp.tasks.stream_task import StreamTask

#: Seconds between two looks at the tasks.
PERIOD = 0.05
_OUTSIDE = "not in the group yet"


class Readiness:
    """Follows an instance from joining the group until it has caught up."""

    def __init__(self, lag: Callable[[StreamTask], int | None], acceptable_lag: int, clock: Clock) -> None:
        self._lag = lag
        self._acceptable_lag = acceptable_lag
        self._clock = clock
        #: Tasks that the instance waits for; ``None`` while it is not in the group.
        self._awaited: dict[TaskId, str] | None = None
        self._next_look = 0.0

    # ---- any thread --------------------------------------------------------------------------------------------

    @property
    def complaint(self) -> str | None:
        """Returns why the instance is not ready."""
        awaited = self._awaited
        if awaited is None:
            return _OUTSIDE
        waits = list(awaited.values())
        more = f", and {len(waits) - 1} more" if len(waits) > 1 else ""
        return f"{waits[0]}{more}" if waits else None

    # ---- polling thread ----------------------------------------------------------------------------------------

    def assigned(self, tasks: Collection[TaskId]) -> None:
        """The group gave these tasks."""
        if self._awaited is None:
            self._awaited = {task: f"task {task} is being opened" for task in sorted(tasks)}
        else:
            self._awaited = {task: why for task, why in self._awaited.items() if task in tasks}
        self._next_look = 0.0

    def lost(self) -> None:
        """The group went on without this instance."""
        self._awaited = None

    def update(self, tasks: Mapping[TaskId, StreamTask]) -> None:
        """Ask how those stand that are waited for; once in a while."""
        now = self._clock.monotonic()
        if not self._awaited or now < self._next_look:
            return
        self._next_look = now + PERIOD
        waits = {each: self._complaint_of(tasks[each]) for each in self._awaited if each in tasks}
        self._awaited = {each: why for each, why in waits.items() if why is not None}

    def _complaint_of(self, task: StreamTask) -> str | None:
        if task.role is TaskRole.ACTIVE:
            return None if task.state is TaskState.RUNNING else f"task {task.id} is being restored"
        lag = self._lag(task)
        if lag is None:
            return f"{task.role.value} task {task.id}: how far it is behind is not known yet"
        if lag > self._acceptable_lag:
            return f"{task.role.value} task {task.id} is {lag} records behind"
        return None
