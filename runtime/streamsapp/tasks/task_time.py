"""The time of a task where its inputs are silent: applies markers, records them, and tells tasks behind repartition
topics (docs/decisions/0057-time-markers.md).

Made on the polling thread when a task is initialised, for sub-topologies that time flows through; called on the
processing thread that holds the task. ``IdleInputs`` decides when an input is marked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from streamsapp.outgoing import OutputRecord
from streamsapp.processor.operator import Tally
from streamsapp.record import UNKNOWN_TOPIC, TopicIdentity, TopicPartition
from streamsapp.serdes.windowed import MAX_TIMESTAMP
from streamsapp.tasks.punctuation import Schedule
from streamsapp.tasks.record_queue import RecordQueue, TimedQueue
from streamsapp.tasks.task_context import TaskContext
from streamsapp.tasks.time_markers import BEFORE_ALL, NO_TIME, ByteStore, MarkerLog, TimeMarker, ToldTime, time_header
from streamsapp.topology.time_flow import TimeFlow


class InputTime(NamedTuple):
    """The time that an input has reached: no record of it will be earlier, as far as is known. ``idle``: nothing of it
    waits for a later one."""

    time: int
    idle: bool


#: Nothing is known of an input: what is below waits for it.
_UNKNOWN = InputTime(NO_TIME, idle=False)


class TimedNodes(Protocol):
    """The operators of a task, as far as they have a time of their own."""

    def advance(self, times: Mapping[str, int], context: TaskContext) -> None:
        """Move these nodes on to these times."""

    def send_held(self) -> None:
        """Send all that is held for the commit."""


class TaskInputs(Protocol):
    """The plan of a task, as far as its time goes by it."""

    @property
    def inputs(self) -> Mapping[TopicPartition, object]: ...
    @property
    def topic_name(self) -> Callable[[str], str]: ...
    @property
    def partition_count(self) -> Callable[[str], int]: ...


class TaskTime:
    """The time of one task."""

    def __init__(
        self,
        flow: TimeFlow,
        context: TaskContext,
        store: ByteStore,
        nodes: TimedNodes,
        emit: Callable[[OutputRecord], object],
    ) -> None:
        self.flow = flow
        self._context = context
        self._log = MarkerLog(store)
        self._nodes = nodes
        self._emit = emit
        self._queues: dict[str, list[TimedQueue]] = {}
        #: Topics below: full name and partitions; and how many tasks write them.
        self._topics: dict[str, tuple[str, int]] = {}
        self._tasks = 1
        self._last_told: dict[str, InputTime] = {}
        self._moved: set[TopicPartition] = set()
        self._markers: dict[str, Tally] = {}
        #: The time of nodes when the task was initialised, which they are moved on to before the first record.
        self._restored = True

    # ---- made by the polling thread ----------------------------------------------------------------------------

    def add_input(self, queue: TimedQueue) -> None:
        """Add an input, at its committed position and time."""
        flow, source, topic = self.flow, queue.source, queue.partition.topic
        self._queues.setdefault(source, []).append(queue)
        queue.is_told = source in flow.told_by
        if queue.is_told:
            self._log.forget_heard(topic, flow.told_by[source], queue.position or 0)
        counter = partial(self._context.counter, source)
        self._markers[source] = counter("time-marker")
        if source in flow.idle_after_ms:
            queue.recorded.extend(self._log.after(topic, queue.partition_time, queue.topic_id))
            last = next(self._log.after(topic, queue.partition_time - 1, queue.topic_id), None)
            if last is not None and last.idle and last.time == queue.partition_time:
                queue.idle_at = last.offset

    def begin(
        self, queues: Iterable[RecordQueue], topics: Mapping[TopicPartition, TopicIdentity], plan: TaskInputs
    ) -> None:
        """All inputs stand at their positions, in these topics."""
        for queue in queues:
            assert isinstance(queue, TimedQueue)
            queue.topic_id = topics.get(queue.partition, UNKNOWN_TOPIC).id_bytes
            self.add_input(queue)
        self._tasks = max((plan.partition_count(each.topic) for each in plan.inputs), default=1)
        for topic in self.flow.topics:
            full_name = plan.topic_name(topic)
            self._topics[topic] = full_name, plan.partition_count(full_name)
        if self._topics:
            every, now = self.flow.interval_ms, self._context.stream_time
            first = (max(now, 0) // every + 1) * every  # the same steps after a restart
            self._context.stream_time_punctuation.add(Schedule(next(iter(self._queues)), first, every, self._tell_step))

    def take_moved(self) -> frozenset[TopicPartition]:
        """Returns the inputs whose time markers have moved since the last call: a commit has it, also without a
        record."""
        moved = frozenset(self._moved)
        self._moved.clear()
        return moved

    # ---- markers -----------------------------------------------------------------------------------------------

    def apply(self, queue: TimedQueue, what: TimeMarker | ToldTime, offset: int) -> None:
        """It is the turn of a marker, or of what a task upstream has told in the record with this offset."""
        self.restore()
        self._markers[queue.source].value += 1
        self._moved.add(queue.partition)
        topic = queue.partition.topic
        if isinstance(what, ToldTime):
            queue.position = offset + 1
            # History is before all that the topic has: a task that goes on from here must not forget what it was told.
            self._log.hear(topic, what, BEFORE_ALL if self._context.execution.over_history else offset)
            time = self._of_told(queue).time
        else:
            self._log.add(topic, what, queue.topic_id)
            self._log.drop_before(topic, queue.first_offset)
            time = what.time
            if what.idle:
                queue.idle_at = what.offset
        if time > queue.partition_time:
            queue.partition_time = time
            self._context.stream_time = max(self._context.stream_time, time)
        self._move_on({queue.source})
        self._tell()

    def begin_anew(self, partition: TopicPartition, topic_id: bytes) -> None:
        """An input goes on with another topic: the places of the one before mean nothing there."""
        for queue, _ in self.queues():
            if queue.partition == partition:
                queue.recorded.clear()
                queue.idle_at = queue.next_offset = queue.end = None
                queue.topic_id = topic_id
                self._log.drop_before(partition.topic, MAX_TIMESTAMP, most=sys.maxsize)

    def add_recorded(self, queue: TimedQueue, markers: Iterable[TimeMarker], topic_id: bytes) -> None:
        """Apply markers at their places that were recorded elsewhere, of the topic with this id, which may be empty. No
        record is processed yet."""
        queue.topic_id = topic_id
        for marker in sorted(markers, key=lambda each: each.time):
            self._log.add(queue.partition.topic, marker, queue.topic_id)
            if marker.time > queue.partition_time:
                queue.recorded.append(marker)

    def restore(self) -> None:
        """Move the nodes on to where markers had moved them when the task was committed."""
        if self._restored:
            self._restored = False
            marked = {
                source for source, queues in self._queues.items() if any(self._last_marked(each) for each in queues)
            }
            if marked:
                self._move_on(marked)

    def _last_marked(self, queue: TimedQueue) -> bool:
        """Return whether the time of an input is that of a marker: no later record has moved it on."""
        if queue.is_told:
            return self._of_told(queue).time >= 0
        time = queue.partition_time
        return time >= 0 and any(
            each.time == time for each in self._log.after(queue.partition.topic, time - 1, queue.topic_id)
        )

    def _move_on(self, sources: set[str]) -> None:
        times: dict[str, int] = {}
        for name, above in self.flow.nodes.items():
            if not sources.isdisjoint(above) and (now := self._at(above).time) >= 0:
                times[name] = now
        self._context.message = None
        self._nodes.advance(times, self._context)

    # ---- times -------------------------------------------------------------------------------------------------

    def _at(self, above: Mapping[str, int]) -> InputTime:
        """The time of a node, below these sources whose records may be so much behind there."""
        known: list[InputTime] = []
        for source, held_ms in above.items():
            for queue in self._queues.get(source, ()):
                found = self._of_told(queue) if queue.is_told else self._of_records(queue)
                if found is _UNKNOWN:
                    return _UNKNOWN
                if found.time >= 0:
                    known.append(InputTime(found.time - held_ms, found.idle))
        return _least(known)

    def _of_records(self, queue: TimedQueue) -> InputTime:
        if queue.partition_time >= 0:
            return InputTime(queue.partition_time, queue.is_idle)
        empty = queue.is_idle if queue.source in self.flow.idle_after_ms else queue.at_end
        return InputTime(NO_TIME, idle=True) if empty else _UNKNOWN

    def _of_told(self, queue: TimedQueue) -> InputTime:
        """The time of a repartition topic: the least that the tasks that write it have told, once all have."""
        topic, known = queue.partition.topic, []
        for sub_topology in self.flow.told_by[queue.source]:
            heard = self._log.heard(topic, sub_topology)
            tasks = max((each.tasks for each in heard), default=1)
            if len(heard) < tasks:
                return _UNKNOWN
            known += [InputTime(each.time, each.idle) for each in heard]
        return _least([each for each in known if each.time >= 0])

    # ---- what is told ------------------------------------------------------------------------------------------

    def _tell_step(self, stream_time: int) -> None:
        """Stream time has reached another step by records."""
        self._tell()

    def _tell(self) -> None:
        for topic, (full_name, partitions) in self._topics.items():
            time, idle = told = self._at(self.flow.topics[topic])
            if self._last_told.get(topic) == told or (time < 0 and not idle):
                continue
            self._nodes.send_held()  # it comes before the time that it belongs to
            self._last_told[topic] = told
            headers = time_header(ToldTime(self._context.task_id, self._tasks, max(time, NO_TIME), idle))
            for partition in range(partitions):
                self._emit((full_name, None, None, partition, None, None, max(time, 0), headers))

    # ---- what IdleInputs asks ----------------------------------------------------------------------------------

    def queues(self) -> Iterator[tuple[TimedQueue, int]]:
        """The inputs that are marked, each with the silence after which it is, in milliseconds."""
        for source, queues in self._queues.items():
            if (idle_after_ms := self.flow.idle_after_ms.get(source)) is not None:
                for queue in queues:
                    yield queue, idle_after_ms


def _least(times: Iterable[InputTime]) -> InputTime:
    """The least time of inputs that are not idle. If all are, nothing waits: the highest."""
    times = list(times)
    running = [each.time for each in times if not each.idle]
    if running:
        return InputTime(min(running), idle=False)
    return InputTime(max((each.time for each in times), default=NO_TIME), idle=True)
