"""Decides when the time of a silent input moves on, and by how much: docs/decisions/0057-time-markers.md.

Called on the polling thread in each pass of its loop, and by the test driver. The clock is the instance's monotonic
one: a wall clock that jumps moves no time, and an instance that begins counts a silence from then on. Brokers are asked
before each marker whether there is really no record: while they do not answer, nobody knows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from streamsapp.clock import Clock
from streamsapp.record import TopicPartition
from streamsapp.tasks.record_queue import TimedQueue
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.time_markers import NO_TIME, TimeMarker

#: Returns where partitions begin and end, as far as brokers say so.
AskEnds = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, tuple[int, int]]]
#: A look at an input whose records are still in process is made again so many seconds later.
_AGAIN = 0.02


@dataclass
class _Silence:
    """One input and its silence, as far as they are known."""

    task: StreamTask
    queue: TimedQueue
    idle_after: float
    #: Since when it is silent (monotonic seconds), as noted last; ``None``: it was not.
    since: float | None = None
    #: The time of its last record, once that is processed.
    base: int | None = None
    #: When it is to be looked at.
    due: float = math.inf

    def follow(self) -> bool:
        """Takes note of records that came; returns whether the input is silent."""
        if self.queue.silent_since != self.since:
            self.since, self.base = self.queue.silent_since, None
            self.due = math.inf if self.since is None else self.since + self.idle_after
        return self.since is not None

    @property
    def is_processed(self) -> bool:
        """True if all records and markers that it had are processed."""
        queue = self.queue
        return not queue and not queue.recorded and (queue.next_offset in (None, queue.position))


class IdleInputs:
    """The inputs of an instance that are marked when they are silent."""

    def __init__(self, clock: Clock, ask_ends: AskEnds, on_marked: Callable[[StreamTask], None]) -> None:
        self._clock = clock
        self._ask_ends = ask_ends
        self._on_marked = on_marked
        self._silences: dict[TopicPartition, _Silence] = {}

    def add(self, tasks: Collection[StreamTask]) -> None:
        """Look after the inputs of tasks."""
        for task in tasks:
            for queue, idle_after_ms in () if task.time is None else task.time.queues():
                known = self._silences.get(queue.partition)
                if known is None or known.queue is not queue:
                    self._silences[queue.partition] = _Silence(task, queue, idle_after_ms / 1000)

    def remove(self, partitions: Collection[TopicPartition]) -> None:
        """Leave them alone."""
        for partition in partitions:
            self._silences.pop(partition, None)

    @property
    def due_in(self) -> float:
        """Seconds until one is to be looked at; infinite if there is none."""
        if not self._silences:
            return math.inf
        silent = [each.due for each in self._silences.values() if each.follow()]
        return max(0.0, min(silent, default=math.inf) - self._clock.monotonic())

    def run(self) -> None:
        """Mark the inputs that are silent for long enough."""
        if not self._silences:
            return
        now = self._clock.monotonic()
        due = [each for each in self._silences.values() if each.follow() and each.due <= now]
        ready = [each for each in due if each.is_processed]
        for each in due:
            each.due = now + _AGAIN
        if not ready:
            return
        ends = self._ask_ends([each.queue.partition for each in ready])
        for each in ready:
            first_and_end = ends.get(each.queue.partition)
            if first_and_end is None:
                each.due = now + each.idle_after  # no broker says so
            elif each.queue.end is None or first_and_end[1] <= each.queue.end:
                each.queue.first_offset = first_and_end[0]
                self._mark(each, now)

    def _mark(self, silence: _Silence, now: float) -> None:
        queue, since = silence.queue, silence.since
        assert since is not None
        assert silence.task.time is not None
        if silence.base is None:
            silence.base = queue.partition_time
        flow = silence.task.time.flow
        if queue.partition_time == NO_TIME:
            silence.due = math.inf
            if not queue.is_idle:
                self._add(silence, TimeMarker(queue.place, NO_TIME, idle=True))
            return
        if queue.is_idle and not flow.has_processors:
            silence.due = math.inf
            return
        elapsed = now - since
        time = silence.base + int(elapsed * 1000)
        idle = queue.is_idle or time > self._latest(silence.task) + flow.closing_ms
        if time > queue.partition_time:
            self._add(silence, TimeMarker(queue.place, time, idle))
        if not idle:
            silence.due = since + (elapsed // silence.idle_after + 1) * silence.idle_after
        else:  # nothing is known to wait: processors of the user's are called more and more seldom
            silence.due = now + max(elapsed, silence.idle_after) if flow.has_processors else math.inf

    def _latest(self, task: StreamTask) -> int:
        """The time of the last record of any input."""
        own = {each.queue.partition: each.base for each in self._silences.values() if each.task is task}
        return max(
            queue.partition_time if (base := own.get(queue.partition)) is None else base
            for queue in task.queues.values()
        )

    def _add(self, silence: _Silence, marker: TimeMarker) -> None:
        silence.queue.add_marker(marker)
        self._on_marked(silence.task)
