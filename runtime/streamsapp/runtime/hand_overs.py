"""Observes for how long tasks stood still that this instance took over; ``/status`` reports the last ones.

The polling thread notes what happens, other threads read ``last``. All times are of one clock, this instance's. A
planned hand-over counts from the assignment by which the owner stops the task, which all members get at the same
moment; any other from the assignment that gives the task to this instance. It ends when results count: exactly once
with the first commit that has read anything of the task, at least once when records of it were processed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from streamsapp.clock import Clock
from streamsapp.membership.api import Assignment
from streamsapp.record import TaskId
from streamsapp.tasks.states import TaskState
from streamsapp.tasks.stream_task import StreamTask

#: So many of the last hand-overs are kept.
MOST = 64
#: A task without records for so many seconds shows no gap.
LONGEST = 60.0
PLANNED, UNPLANNED = "planned", "unplanned"


@dataclass(frozen=True)
class HandOver:
    """One task that was taken over, and the seconds for which it stood still, at most."""

    task: TaskId
    #: When its first results counted, in milliseconds of the wall clock.
    at_ms: int
    gap: float
    kind: str
    #: How many seconds of the gap had passed at each step: ``assigned`` to this instance, ``restored``, first record
    #: ``read``.
    steps: Mapping[str, float] = field(default_factory=dict, compare=False)


@dataclass
class _Coming:
    """A task that came here and has no results yet."""

    #: Since when it stands still, in monotonic seconds.
    since: float
    kind: str
    steps: dict[str, float] = field(default_factory=dict)

    def reach(self, step: str, now: float) -> None:
        """Note a step, if it is the first time."""
        self.steps.setdefault(step, round(max(0.0, now - self.since), 4))


class HandOvers:
    """The hand-overs to this instance."""

    def __init__(self, clock: Clock, *, exactly_once: bool) -> None:
        self._clock = clock
        self._exactly_once = exactly_once
        #: Since when tasks are on their way to some instance, in monotonic seconds.
        self._moving: dict[TaskId, float] = {}
        self._coming: dict[TaskId, _Coming] = {}
        self.last: deque[HandOver] = deque(maxlen=MOST)

    def assigned(self, assignment: Assignment, here: Iterable[TaskId]) -> None:
        """The group has decided; ``here`` are the active tasks that this instance has so far."""
        now, mine = self._clock.monotonic(), frozenset(here)
        self._coming = {task: since for task, since in self._coming.items() if task in assignment.active}
        for task in assignment.active - mine - self._coming.keys():
            moving = self._moving.get(task)
            self._coming[task] = _Coming(now, UNPLANNED) if moving is None else _Coming(moving, PLANNED)
            self._coming[task].reach("assigned", now)
        self._moving = {task: self._moving.get(task, now) for task in assignment.moving - mine}

    def processed(self, tasks: Iterable[StreamTask]) -> None:
        """A pass of the polling thread: at least once, results are sent as they come. A task that runs and has nothing
        to read misses nothing: its first record may come much later, and shows no gap."""
        for task in tasks if self._coming else ():
            self._follow(task)
            if task.processed_records:
                if not self._exactly_once:
                    self._end((task,), self._clock.monotonic())
            elif task.input_lag == 0 and task.state is TaskState.RUNNING:
                self._coming.pop(task.id, None)

    def _follow(self, task: StreamTask) -> None:
        coming = self._coming.get(task.id)
        if coming is not None and task.initialized:
            coming.reach("restored", self._clock.monotonic())
            if task.processed_records:
                coming.reach("read", self._clock.monotonic())

    @property
    def commit_near(self) -> bool:
        """True if tasks that came here run, and their first results will count with the commit that has them."""
        return self._exactly_once and any("restored" in coming.steps for coming in self._coming.values())

    @property
    def commit_wanted(self) -> bool:
        """True if such results are there."""
        return self._exactly_once and any("read" in coming.steps for coming in self._coming.values())

    def committed(self, tasks: Iterable[StreamTask], now: float) -> None:
        """A commit has ended, at ``now`` (monotonic seconds)."""
        if self._coming and self._exactly_once:
            self._end(filter(_has_read, tasks), now)

    def _end(self, tasks: Iterable[StreamTask], now: float) -> None:
        for task in tasks:
            if task.id in self._coming and task.state is TaskState.RUNNING:
                it = self._coming.pop(task.id)
                if (gap := now - it.since) <= LONGEST:
                    self.last.append(HandOver(task.id, self._clock.now_ms(), max(0.0, gap), it.kind, it.steps))


def _has_read(task: StreamTask) -> bool:
    """Return whether the last commit was not the one with which the task began."""
    began = {each: at.offset for each, at in task.start_offsets.items()}
    return any(began.get(each) != offset for each, offset in task.committed_offsets.items())
