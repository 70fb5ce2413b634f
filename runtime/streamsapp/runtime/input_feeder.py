"""Feeds the tasks' input buffers from the main consumer. Runs on the polling thread.

Bounded by memory: nothing is fetched while the buffers are full. But full buffers may be of no use to any thread: their
tasks wait for another of their inputs, or are slow and held already, and the other threads have nothing to do. Then
partitions that fill more than their share are paused until half of it is used, and the others are fetched. Not before:
the client drops what it has fetched ahead of a partition that is paused, and fetches it again.

There is one fetch per pass of the polling thread's loop, which waits in it as long as nothing else is to be done.
The work per fetch does not grow with the number of tasks, only with the number of buffers that hold something.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from streamsapp.clock import Clock, SystemClock
from streamsapp.errors import TaskCorruptedError, TopicGoneError
from streamsapp.kafka.consumer import BEGINNING, END, PartitionConsumer
from streamsapp.kafka.fetching.fetched import Fetched
from streamsapp.kafka.sending import AbortableError
from streamsapp.record import UNKNOWN_TOPIC, InputRecord, TopicPartition
from streamsapp.runtime.idle_inputs import IdleInputs
from streamsapp.runtime.input_classes import InputClasses
from streamsapp.runtime.start_positions import DEFAULT_POLICY, StartPositions
from streamsapp.runtime.topics_created_anew import lost_records, table_replaced, tell_created_anew
from streamsapp.tasks.record_queue import RecordQueue
from streamsapp.tasks.states import TaskState
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_manager import TaskManager

log = logging.getLogger(__name__)

#: How long to wait for processing threads to make room in the input buffers, in seconds.
ROOM_WAIT = 0.002
#: How long a commit waits for records that came just before, in seconds.
FETCH = 0.04
#: Records per fetch.
BATCH = 2000
#: Bytes that are buffered in Python for each partition, and in all at least and at most. More buys nothing, as the
#: consumer has a queue of its own, and costs: records that lie about for long are not in the processor's caches any
#: more when they are processed, nor is their memory when it is used again.
PARTITION_BYTES = 128 * 1024
LEAST_BUFFERED_BYTES, MOST_BUFFERED_BYTES = 1024 * 1024, 32 * 1024 * 1024
#: A partition that is of no use now is not paused before it has so much.
MIN_PARTITION_BYTES = 256 * 1024
#: How long tasks are expected that are on their way to some instance, in seconds.
EXPECTED_FOR = 1.0
#: How long brokers may take to say where silent inputs end, in seconds.
ENDS_WAIT = 1.0
#: Seconds between two observations of the input lag.
LAG_PERIOD = 0.5


@dataclass
class _CreatedAnew:
    """Partitions of topics that were deleted and created again."""

    #: The partitions whose buffers still have records of the topics before.
    ending: set[TopicPartition] = field(default_factory=set)
    #: The partitions that may have given records of the new topic to tasks since the last commit.
    doubted: set[TopicPartition] = field(default_factory=set)
    #: All that were found so far.
    count: int = 0


@dataclass
class _Filled:
    """Buffers that held something when they were last looked at."""

    queues: dict[TopicPartition, RecordQueue] = field(default_factory=dict)
    #: At least what they hold, in bytes: what they did when last counted, and all that came in since.
    at_most: int = 0


class InputFeeder:
    """Distributes fetched records to the tasks that own their partitions."""

    def __init__(
        self,
        consumer: PartitionConsumer,
        positions: StartPositions,
        tasks: TaskManager,
        budget_bytes: int,
        *,
        on_state_lost: Callable[[StreamTask, TaskCorruptedError], None],
        tasks_idle: bool = False,
        clock: Clock | None = None,
    ) -> None:
        """``on_state_lost`` gets the tasks whose stores have to be restored; ``tasks_idle`` says that tasks wait also
        for inputs whose ends were reached (``max.task.idle.ms``)."""
        self._consumer = consumer
        self._positions = positions
        self._tasks = tasks
        self._on_state_lost = on_state_lost
        self._tasks_idle = tasks_idle
        fair = tasks.fair
        if fair is not None:
            budget_bytes //= 2  # each class has its own
        self._most_bytes = min(budget_bytes, MOST_BUFFERED_BYTES)
        self.classes = InputClasses(consumer, budget_bytes, None if fair is None else fair.is_bulk)
        self._owners: dict[TopicPartition, StreamTask] = {}
        self._paused: set[TopicPartition] = set()
        self._anew = _CreatedAnew()
        #: Partitions that begin at their end and have delivered nothing yet.
        self._from_end: set[TopicPartition] = set()
        #: The inputs whose time moves on when they are silent.
        self.idle = IdleInputs(clock or SystemClock(), self._ends, lambda task: tasks.mark_ready([task]))
        self._filled = _Filled()
        #: Records taken from the broker since start.
        self.records_consumed = 0
        self._next_observation = 0.0

    def add(self, tasks: Collection[StreamTask]) -> None:
        """Fetch the inputs of restored tasks from where each stands."""
        positions = {task: self._positions.of(task) for task in tasks}
        for task, its_positions in positions.items():
            self._owners.update(dict.fromkeys(its_positions, task))
            self._from_end.update(each for each, at in its_positions.items() if at == END)
        self.classes.assigned({each: task for task, its_positions in positions.items() for each in its_positions})
        topics = {name: topic for task in tasks for name, topic in task.topics.items()}
        self._consumer.assign(
            {each: at for its_positions in positions.values() for each, at in its_positions.items()}, topics=topics
        )
        self._consumer.end_rest()
        self.idle.add(tasks)

    def expect_tasks(self) -> None:
        """Tasks may come soon, whose inputs are to be fetched at once."""
        self._consumer.expect_partitions(EXPECTED_FOR)

    def remove(self, tasks: Collection[StreamTask]) -> None:
        """Stop fetching tasks' partitions."""
        partitions = [partition for partition, owner in self._owners.items() if owner in tasks]
        self._forget(partitions)

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            del self._owners[partition]
            self._paused.discard(partition)
            self._anew.ending.discard(partition)
            self._anew.doubted.discard(partition)
            self._from_end.discard(partition)
            self._filled.queues.pop(partition, None)
        self.idle.remove(partitions)
        self.classes.forget(partitions)
        self._consumer.unassign(partitions)

    def close(self) -> None:
        """Close the main consumer."""
        self._consumer.close()

    @property
    def full(self) -> bool:
        """True if the buffers hold as much as they may, and processing threads live on it."""
        return self._over_budget() and not self._starving()

    @property
    def holds_back(self) -> bool:
        """True if partitions are paused until some of their buffered records were processed."""
        return bool(self._paused) or self.classes.holds_back

    @property
    def partitions_created_anew(self) -> int:
        """Partitions of topics that were found created anew."""
        return self._anew.count

    @property
    def rests(self) -> bool:
        """True if the last records were few, and more are not looked for yet."""
        return self._consumer.rests

    @property
    def seldom(self) -> bool:
        """True if the last records came far apart."""
        return self._consumer.seldom

    def feed_all(self, timeout: float) -> Fetched:
        """Fill buffers with what brokers have by now; waits up to ``timeout`` seconds for their answers."""
        return self._fill(lambda: self._consumer.poll_all(BATCH, timeout))

    def hurry(self) -> None:
        """``feed_all`` takes long, or the processing of its records: rest less for a while."""
        self._consumer.hurry()

    def feed(self, timeout: float) -> Fetched:
        """Fetch once and fill buffers; waits up to ``timeout`` seconds for the first record."""
        self._resume_emptied()
        self.classes.pause(self._tasks.paused_parts, self._owners, self._filled.queues)
        self.classes.balance()
        if self._anew.ending:
            self._begin_ended_anew()
        if self._over_budget() and self._starving():
            self._pause_overfull()
        if self._consumer.rests and self._tasks.resting and self._holds_any:
            self._consumer.end_rest()  # buffered records wait for other inputs of their task, perhaps not for long
        return self._fill(lambda: self._consumer.poll(BATCH, timeout))

    def _fill(self, fetch: Callable[[], Fetched]) -> Fetched:
        try:
            fetched = fetch()
        except TopicGoneError as error:
            self._let_go(error)
            return Fetched()
        touched: dict[int, StreamTask] = {}
        for partition, records in fetched.records:
            task = self._owners[partition]
            self._from_end.discard(partition)
            self._add(task, partition, records)
            touched[id(task)] = task
        for partition, end in fetched.ends.items():
            task = self._owners[partition]
            if partition in self._from_end:
                self._from_end.discard(partition)
                task.begin_at(partition, end)
            task.reached_end(partition, end)
            if task.buffered_records:
                touched[id(task)] = task
        if touched:
            self._tasks.mark_ready(touched.values())
        for partition in fetched.out_of_range:
            self._skip_deleted(partition)
        for partition in fetched.replaced:
            self._end(partition)
        if self._anew.ending:
            self._begin_ended_anew()
        return fetched

    def _ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """Returns where inputs begin and end, as far as brokers say so now."""
        ends = self._consumer.ends_by_now(partitions, ENDS_WAIT)
        firsts = {each: self._consumer.watermarks(each, cached=True) or (0, 0) for each in ends}
        return {each: (firsts[each][0], end) for each, end in ends.items()}

    def _skip_deleted(self, partition: TopicPartition) -> None:
        """The broker no longer has what was to be fetched next: go on as for a partition without an offset, and log it.
        Buffered records were fetched before and stay."""
        task = self._owners.get(partition)
        if task is not None and task.state is TaskState.RUNNING:
            topics = self._consumer.topics([partition.topic])
            if topics.get(partition.topic, UNKNOWN_TOPIC).is_other(task.input_topic(partition)):
                self._end(partition)
                return
            log.warning(
                "task %s: records of %s were deleted before they were read; going on from the %s offset",
                task.id, partition, task.plan.inputs[partition].offset_reset or DEFAULT_POLICY,
            )  # fmt: skip
            self._consumer.reposition({partition: self._positions.reset(task.plan, partition)}, topics)

    def _end(self, partition: TopicPartition) -> None:
        """The topic was deleted and created again: buffered records of the one before are processed first."""
        task = self._owners.get(partition)
        if task is None or task.state is not TaskState.RUNNING:
            return
        self._anew.count += 1
        if partition.topic in task.plan.repartition_topics:
            raise lost_records(task.id, partition.topic)
        if partition in task.plan.source_changelogs.values():
            self._on_state_lost(task, table_replaced(task.id, partition.topic))
            return
        self._anew.ending.add(partition)
        if self._consumer.doubts(partition.topic):
            self._anew.doubted.add(partition)

    def confirm(self) -> Callable[[], bool]:
        """Begin to find out whether all records that were delivered so far are of the topics that their positions
        belong to. The returned function says whether that is known by now. It raises ``AbortableError`` if some may be
        of topics that were created anew, and ``KafkaException`` if no broker answers."""
        found = self._consumer.confirm()

        def known() -> bool:
            replaced = found()
            if others := {each.topic for each in (*(replaced or ()), *self._anew.doubted)}:
                names = ", ".join(sorted(others))
                raise AbortableError(f"topic {names} was deleted and created again while it was read")
            return replaced is not None

        return known

    def _begin_ended_anew(self) -> None:
        held = self._tasks.held
        for partition in list(self._anew.ending):
            task = self._owners[partition]
            if task.queues[partition] or task in held:
                continue
            self._anew.ending.discard(partition)
            topic = self._consumer.topics([partition.topic]).get(partition.topic, UNKNOWN_TOPIC)
            if not topic.is_other(task.input_topic(partition)):  # a broker that was behind had reported another
                at = task.queues[partition].position
                position = self._positions.of(task)[partition] if at is None else at
                self._consumer.reposition({partition: position}, {partition.topic: task.input_topic(partition)})
                continue
            tell_created_anew(task.id, partition, task.input_topic(partition), topic)
            task.begin_anew(partition, topic)
            self._consumer.reposition({partition: BEGINNING}, {partition.topic: topic})

    def _add(self, task: StreamTask, partition: TopicPartition, records: Sequence[InputRecord]) -> None:
        queue = task.queues[partition]
        before = queue.bytes
        task.add_records(partition, records)
        if self.classes.is_bulk(task):
            self.classes.added(partition, queue)
        else:
            self._filled.queues[partition] = queue
            self._filled.at_most += queue.bytes - before
        self.records_consumed += len(records)

    def observe_lag(self, now: float) -> None:
        """Publish how many records each task still has to process, about every half second (monotonic ``now``)."""
        if now < self._next_observation:
            return
        self._next_observation = now + LAG_PERIOD
        lags: dict[int, int | None] = {}
        for partition, task in self._owners.items():
            lag, so_far = self._lag(task, partition), lags.get(id(task), 0)
            lags[id(task)] = None if lag is None or so_far is None else lag + so_far
            task.input_lag = lags[id(task)]

    def _lag(self, task: StreamTask, partition: TopicPartition) -> int | None:
        queue = task.queues[partition]
        watermarks = self.classes.bounds_of_paused(partition)
        if queue.at_end and not queue and watermarks is None:
            return 0
        watermarks = watermarks or self._consumer.watermarks(partition, cached=True)
        if watermarks is None:
            return None
        low, high = watermarks
        return max(0, high - (low if queue.position is None else queue.position))

    def _let_go(self, error: TopicGoneError) -> None:
        """A topic was deleted. Raises the ``error`` unless it was found by a pattern: then its tasks go on without it,
        and are made anew when the topics were looked through."""
        owners = {each: task for each, task in self._owners.items() if each.topic == error.topic}
        if not owners:
            return  # the client may report a partition that was left a moment ago
        if any(task.plan.inputs[each].pattern is None for each, task in owners.items()):
            raise error
        log.warning("topic %s, which a pattern matched, was deleted: its tasks go on without it", error.topic)
        for partition, task in owners.items():
            task.queues[partition].at_end = True  # it is not waited for
        self._forget(owners)

    @property
    def _budget_bytes(self) -> int:
        return min(self._most_bytes, max(LEAST_BUFFERED_BYTES, PARTITION_BYTES * len(self._owners)))

    def _over_budget(self) -> bool:
        budget = self._budget_bytes
        if self._filled.at_most >= budget:
            self._forget_emptied()
            self._filled.at_most = sum(queue.bytes for queue in self._filled.queues.values())
        return self._filled.at_most >= budget

    @property
    def _holds_any(self) -> bool:
        self._forget_emptied()
        return bool(self._filled.queues) or self.classes.holds_any

    def _forget_emptied(self) -> None:
        self._filled.queues = {partition: queue for partition, queue in self._filled.queues.items() if queue}

    def _starving(self) -> bool:
        """Return whether no task can use the buffered records, while the broker may have records that a task could
        use."""
        held = self._tasks.held
        waiting = {id(task): task for task in map(self._owners.__getitem__, self._filled.queues) if task not in held}
        return not any(map(self._can_process, waiting.values())) and any(
            self._may_get_more(task.queues[partition])
            for partition, task in self._owners.items()
            if partition not in self.classes.paused
        )

    def _can_process(self, task: StreamTask) -> bool:
        return not (task.waits_for_others or any(map(self._may_get_more, task.queues.values())))

    def _may_get_more(self, queue: RecordQueue) -> bool:
        """Return whether a buffer is empty although the broker may have more for it, or is to have it soon."""
        return not queue and (self._tasks_idle or not queue.at_end)

    def _share(self) -> int:
        return max(MIN_PARTITION_BYTES, self._budget_bytes // max(1, len(self._owners)))

    def _pause_overfull(self) -> None:
        share = self._share()
        full = [partition for partition, queue in self._filled.queues.items() if queue.bytes > share]
        if full:
            self._consumer.pause(full)
            self._paused.update(full)

    def _resume_emptied(self) -> None:
        if not self._paused:
            return
        half = self._share() // 2
        self._paused -= self.classes.paused
        emptied = [each for each in self._paused if self._owners[each].queues[each].bytes < half]
        if emptied:
            self._consumer.resume(emptied)
            self._paused.difference_update(emptied)


class InputPolling:
    """Waits for input, or for room for it."""

    def __init__(self, feeder: InputFeeder, tasks: TaskManager) -> None:
        self._feeder = feeder
        self._tasks = tasks

    def poll(self, wait: float) -> int:
        """Fill the tasks' buffers; waits up to so many seconds for records, and less where room is awaited: tasks at
        rest make none before this thread gives them something to do. Returns how many records came."""
        if not self._feeder.full:
            awaits_room = self._feeder.holds_back and not self._tasks.resting
            fetched = self._feeder.feed(min(wait, ROOM_WAIT) if awaits_room else wait)
            return fetched.count
        if wait > 0:
            self.wait_for_tasks()
        return 0

    @property
    def rests(self) -> bool:
        """True if there may be records that are not looked for yet, as the last ones were few."""
        return self._feeder.rests

    def catch_up(self) -> Callable[[], None] | None:
        """Fetch records that came while the consumer rested, so that they are part of the commit that begins now: they
        would wait for the next one. Returns what is to be called if they take too long to be processed; ``None``: none
        came."""
        if not self._feeder.rests or self._feeder.full:
            return None
        fetched = self._feeder.feed_all(FETCH)
        if fetched.more:
            self._feeder.hurry()
        return self._feeder.hurry if fetched.count else None

    def wait_for_tasks(self) -> None:
        """Yield to the processing threads."""
        self._tasks.wait_for_progress(ROOM_WAIT)
