"""Keeps tasks together in stream time while there is a backlog (docs/decisions/0058-alignment.md).

Tasks that write the same repartition topics read history at different speeds. Readers of the topics would take the
records of the task that is behind for late ones, and drop them. So a task waits while its next record is more than a
bound later than the next record of the task that is furthest behind.

``TaskPace`` is the task's side: ``wait_ms`` is called by the processing thread that holds the task, ``arrived`` and
``at_end`` by the polling thread. ``TimeAlignment`` looks at the clock, on a thread of its own. One lock per group.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from streamsapp.clock import Clock
from streamsapp.record import TaskId
from streamsapp.topology.time_alignment import TimeGroup

if TYPE_CHECKING:
    from streamsapp.runtime.alignment_watch import AlignmentWatch
    from streamsapp.tasks.stream_task import StreamTask

log = logging.getLogger(__name__)

#: No record is too late.
NO_LIMIT = (1 << 63) - 1
#: A task is behind, and the others are aligned with it, if its next record is older than this, in milliseconds, and
#: older than the bound.
BEHIND_MS = 5_000
#: A task that has not moved for so many seconds while others wait for it is waited for no longer.
STANDS_STILL = 60.0
#: After so many seconds a task has what others sent to it: records are on their way for as long, or not much longer.
SETTLED = 0.5

#: The next time of a task that has nothing to read, and of one that is not known yet.
NOTHING, UNKNOWN = math.inf, -math.inf


@dataclass(eq=False)
class TimePlace:
    """The place of one task of a group in time."""

    task: StreamTask
    #: The time of its next record, in milliseconds since 1970, or ``NOTHING``, or ``UNKNOWN``.
    time: float
    #: The commit that it works for, and its next time when that began: what it sent since then is sent after what tasks
    #: send that work for the commit before.
    epoch: int = 0
    time_before: float = UNKNOWN
    #: It was at the end of its input, or near it, since alignment began.
    caught_up: bool = False
    #: It waits for others.
    waits: bool = False
    #: The others do not wait for it, as it stands still.
    left_out: bool = False


@dataclass
class _Standing:
    """The task that others wait for, and since when it has been where it is (monotonic seconds)."""

    place: TimePlace | None = None
    time: float = UNKNOWN
    read: int = 0
    since: float = math.inf


class AlignedTasks:
    """The tasks of one group."""

    def __init__(self, group: TimeGroup, clock: Clock, wake: Callable[[Iterable[StreamTask]], None]) -> None:
        """``wake`` gets the tasks that waited and may go on."""
        self.group = group
        self.above: list[AlignedTasks] = []
        self._clock = clock
        self._wake = wake
        self._lock = Lock()
        self._places: dict[TaskId, TimePlace] = {}
        self._oldest: float = NOTHING
        self._standing = _Standing()
        #: Oldest times that were current at earlier moments (monotonic seconds).
        self._samples: list[tuple[float, float]] = []
        self._settled: float = NOTHING
        #: Alignment is on: a task was behind, and not all have caught up since.
        self.aligning = False
        #: The oldest next time of the tasks that other instances run; see ``runtime/alignment_watch.py``.
        self._elsewhere: float = NOTHING

    # ---- the task's side -----------------------------------------------------------------------------------------

    def join(self, task: StreamTask, time: float) -> TimePlace:
        """A task runs from now on, and its next record is not older than ``time``."""
        with self._lock:
            place = self._places[task.id] = TimePlace(task, time)
            self._elsewhere = UNKNOWN
            self._note(self._clock.now_ms())
        return place

    def leave(self, place: TimePlace) -> None:
        """A task does not run here any more."""
        with self._lock:
            if self._places.get(place.task.id) is place:
                del self._places[place.task.id]
                self._elsewhere = UNKNOWN
            released = self._note(self._clock.now_ms())
        if released:
            self._wake(released)

    def moved(self, place: TimePlace, time: float, epoch: int, now_ms: int) -> int:
        """The next record of a task is of this time: returns the latest time of records that it may take now."""
        with self._lock:
            if epoch > place.epoch:
                place.epoch, place.time_before = epoch, place.time
            released = self._set(place, time, now_ms)
            limit = self._limit(place, self._oldest_for(epoch), now_ms)
            place.waits = time > limit and time <= now_ms
        if released:
            self._wake(released)
        return limit

    def emptied(self, place: TimePlace, now_ms: int) -> None:
        """A task has no record left, and perhaps nothing to read."""
        with self._lock:
            if place.task.buffered_records:
                return  # one input is at its end, or a record has just come
            place.waits = False
            released = self._set(place, _time_without_records(place, now_ms), now_ms)
        if released:
            self._wake(released)

    def arrived(self, place: TimePlace, time: float) -> None:
        """A record of this time came, or one that may be of any time."""
        released: Collection[StreamTask] = ()
        with self._lock:
            if place.time in (NOTHING, UNKNOWN) and not _has_nothing(place.task):
                released = self._set(place, time, self._clock.now_ms())
        if released:
            self._wake(released)

    # ---- the rule --------------------------------------------------------------------------------------------------

    def _set(self, place: TimePlace, time: float, now_ms: int) -> Collection[StreamTask]:
        if time == place.time:
            return ()
        before, place.time, place.left_out = place.time, time, False
        return self._note(now_ms) if before <= self._oldest or time < self._oldest or self._catches_up(place) else ()

    def _catches_up(self, place: TimePlace) -> bool:
        return self.aligning and not place.caught_up

    def _note(self, now_ms: int) -> Collection[StreamTask]:
        """Find out who is furthest behind; returns the tasks that waited and may go on."""
        self._oldest = min((it.time for it in self._places.values() if not it.left_out), default=NOTHING)
        behind_ms = now_ms - max(BEHIND_MS, self.group.most_ahead_ms)
        elsewhere = NOTHING if self._elsewhere == UNKNOWN else self._elsewhere
        if not self.aligning and min(self._oldest, elsewhere) < behind_ms:
            self.aligning = True
            for place in self._places.values():
                place.caught_up = False
        if self.aligning:
            fresh_ms = now_ms - min(BEHIND_MS, self.group.most_ahead_ms)
            for place in self._places.values():
                place.caught_up |= place.time >= fresh_ms
            caught_up = all(place.caught_up or place.left_out for place in self._places.values())
            self.aligning = not (caught_up and self._elsewhere == NOTHING)
        return self._released(now_ms)

    def _released(self, now_ms: int) -> Collection[StreamTask]:
        waiting = [place for place in self._places.values() if place.waits]
        released = [place for place in waiting if place.time <= self._limit(place, self._oldest, now_ms)]
        for place in released:
            place.waits = False
        return [place.task for place in released]

    def _limit(self, place: TimePlace, oldest_here: float, now_ms: int) -> int:
        """The latest time of records that a task may take."""
        oldest = self._settled_above
        if self.aligning and self.group.are_peers:
            elsewhere = self._elsewhere
            if elsewhere == UNKNOWN and place.time >= now_ms - BEHIND_MS:
                elsewhere = NOTHING  # where others stand is asked for; a task that is not behind does not wait for that
            oldest = min(oldest, elsewhere, oldest_here)
        if oldest == NOTHING:
            return NO_LIMIT
        return -1 if oldest == UNKNOWN else min(NO_LIMIT, int(oldest) + self.group.most_ahead_ms)

    def _oldest_for(self, epoch: int) -> float:
        """The oldest next time as it was sent by the end of a commit."""
        places = self._places.values()
        if all(place.epoch <= epoch for place in places):
            return self._oldest
        times = (min(it.time, it.time_before) if it.epoch > epoch else it.time for it in places if not it.left_out)
        return min(times, default=NOTHING)

    @property
    def _settled_above(self) -> float:
        return min((each.settled for each in self.above), default=NOTHING)

    # ---- looked at by the clock ------------------------------------------------------------------------------------

    @property
    def settled(self) -> float:
        """The next time up to which readers have what the group's tasks sent; ``NOTHING`` where no task is behind."""
        return self._settled

    def look(self, now: float, now_ms: int, delay: float, *, paused: bool) -> None:
        """Let tasks go on that may by now, and leave out a task that stands still; ``delay`` is the time in seconds for
        which results are on their way beside ``SETTLED``."""
        with self._lock:
            self._settle(now, SETTLED + delay)
            released = list(self._note(now_ms))
            left_out = self._stands_still(now, paused=paused)
            if left_out is not None:
                left_out.left_out = True
                released += self._note(now_ms)
        if left_out is not None:
            log.warning(
                "task %s has stood still for %.0f s with a backlog: other tasks of its kind wait for it no longer, and "
                "what it sends when it goes on may come too late for windows (%s)",
                left_out.task.id, STANDS_STILL, left_out.task.read_so_far or "it has read nothing",
            )  # fmt: skip
        if released:
            self._wake(released)

    def _settle(self, now: float, delay: float) -> None:
        current = min(self._oldest, self._elsewhere) if self.aligning else NOTHING
        self._samples.append((now, current))
        while len(self._samples) > 1 and self._samples[1][0] <= now - delay:
            self._samples.pop(0)
        self._settled = self._samples[0][1]

    def _stands_still(self, now: float, *, paused: bool) -> TimePlace | None:
        waiting = any(place.waits for place in self._places.values())
        places = [place for place in self._places.values() if not (place.left_out or place.waits)]
        oldest = min(places, key=lambda place: place.time, default=None)
        if paused or not waiting or oldest is None or oldest.time > self._oldest:
            self._standing = _Standing()
            return None
        standing, read = self._standing, sum(queue.position or 0 for queue in list(oldest.task.queues.values()))
        if (standing.place, standing.time, standing.read) != (oldest, oldest.time, read):
            self._standing = _Standing(oldest, oldest.time, read, now)
            return None
        return oldest if now - standing.since >= STANDS_STILL else None

    def set_elsewhere(self, time: float, now_ms: int) -> None:
        """The next record of the tasks that other instances run is not older than ``time``."""
        with self._lock:
            if time == self._elsewhere:
                return
            self._elsewhere = time
            released = self._note(now_ms)
        if released:
            self._wake(released)

    @property
    def oldest(self) -> float:
        """The time of the oldest next record of a task here."""
        return self._oldest

    @property
    def elsewhere(self) -> float:
        """The oldest next time of the tasks that other instances run, as far as that is known."""
        return self._elsewhere

    @property
    def places(self) -> list[TimePlace]:
        """A copy of the places."""
        with self._lock:
            return list(self._places.values())


def _time_without_records(place: TimePlace, now_ms: int) -> float:
    """The next record is not older than the last one, as far as that is known."""
    if _has_nothing(place.task):
        return NOTHING
    last = min(queue.partition_time for queue in list(place.task.queues.values()))
    return last if place.time < last <= now_ms else place.time


def _has_nothing(task: StreamTask) -> bool:
    return not task.buffered_records and all(queue.at_end for queue in list(task.queues.values()))


class TaskPace:
    """Asked by a task of a group before it takes records."""

    def __init__(self, tasks: AlignedTasks, task: StreamTask) -> None:
        self._tasks = tasks
        self._task = task
        self._place = tasks.join(task, _begins_at(task))
        #: The latest time of a record that may be taken, and how many may be taken before that is asked again.
        self.until, self.at_once = NO_LIMIT, NO_LIMIT

    @property
    def waits(self) -> bool:
        """True if the task has records and waits for other tasks."""
        return self._place.waits

    def may_go_on(self, time: int | None, epoch: int, now_ms: int) -> bool:
        """Say whether the task may take its next record, which is of this time; ``None``: it has none."""
        if time is None:
            self._tasks.emptied(self._place, now_ms)
            return True
        self.until, self.at_once = self._tasks.moved(self._place, time, epoch, now_ms), NO_LIMIT
        if time <= self.until:
            return True
        if time <= now_ms:
            return False
        # A time in the future is a mistake: it is taken as it comes, as when all tasks are up to date, and alone.
        self.until, self.at_once = time, 1
        return True

    def arrived(self, time: int | None) -> None:
        """A record came; ``None``: its time is what an extractor is going to say."""
        self._tasks.arrived(self._place, UNKNOWN if time is None else time)

    def at_end(self) -> None:
        """The broker has no more records for now."""
        self._tasks.emptied(self._place, self._tasks_now())

    def leave(self) -> None:
        """The task does not run here any more."""
        self._tasks.leave(self._place)

    def _tasks_now(self) -> int:
        return self._task.context.clock.now_ms()


def _begins_at(task: StreamTask) -> float:
    """Records that come next may be a little older than those before; not by more than others may be ahead."""
    times = [consumed.partition_time for consumed in task.start_offsets.values()]
    return min(times) if len(times) == len(task.plan.inputs) and min(times) >= 0 else UNKNOWN


@dataclass
class TimeAlignment:
    """All groups of an instance."""

    groups: list[AlignedTasks] = field(default_factory=list)
    #: Sees the tasks of other instances; ``None`` where no task waits for others.
    watch: AlignmentWatch | None = None

    @classmethod
    def of(
        cls, groups: Iterable[TimeGroup], clock: Clock, wake: Callable[[Iterable[StreamTask]], None]
    ) -> TimeAlignment:
        """The groups of a topology, without any task."""
        made = [AlignedTasks(group, clock, wake) for group in groups]
        for each in made:
            each.above = [it for it in made if not it.group.sub_topologies.isdisjoint(each.group.above)]
        return cls(made)

    def add(self, task: StreamTask) -> None:
        """A task is about to run: give it its pace, if it is of a group."""
        for each in self.groups:
            if task.id.subtopology in each.group.sub_topologies:
                task.keep_pace(TaskPace(each, task))
