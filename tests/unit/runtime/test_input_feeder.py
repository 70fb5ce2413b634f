"""From the consumer to the input buffers: who gets a batch, when to stop fetching, when to pause a partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from streamsapp import TopicPartition
from streamsapp.errors import TaskCorruptedError, TopicError
from streamsapp.kafka.consumer import BEGINNING
from streamsapp.kafka.fetching.fetched import Fetched
from streamsapp.kafka.sending import AbortableError
from streamsapp.record import TopicIdentity
from streamsapp.runtime.input_feeder import LAG_PERIOD, MIN_PARTITION_BYTES, InputFeeder
from streamsapp.runtime.start_positions import StartPositions
from streamsapp.tasks.scheduler import MostBufferedFirst
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_manager import TaskManager
from streamsapp.testing import MockClock
from streamsapp.topology.nodes import RepartitionTopic
from task_parts import raw, task_of, through

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
LARGE = b"v" * (MIN_PARTITION_BYTES + 1)


class FakeConsumer:
    """Delivers what the test put into ``polls``."""

    def __init__(self) -> None:
        self.polls: list[Fetched] = []
        self.assigned: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.marks: dict[TopicPartition, tuple[int, int]] = {}
        self.rests = False
        #: The topics that names stand for, and the topics that the assigned positions belong to.
        self.found: dict[str, TopicIdentity] = {}
        self.of: dict[str, TopicIdentity] = {}
        #: Topics whose last records may be of other topics.
        self.doubted: set[str] = set()

    def end_rest(self) -> None:
        self.rests = False

    def assign(self, positions: Mapping[TopicPartition, int], *, topics: Mapping[str, TopicIdentity]) -> None:
        self.assigned |= positions
        self.of |= topics

    def doubts(self, topic: str) -> bool:
        return topic in self.doubted

    def confirm(self) -> Callable[[], list[TopicPartition] | None]:
        return list

    def topics(self, names: Iterable[str]) -> Mapping[str, TopicIdentity]:
        return {each: self.found[each] for each in names}

    def reposition(self, positions: Mapping[TopicPartition, int], topics: Mapping[str, TopicIdentity]) -> None:
        self.unassign(positions)
        self.assign(positions, topics=topics)

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            del self.assigned[partition]

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self.paused |= set(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self.paused -= set(partitions)

    def poll(self, limit: int, timeout: float) -> Fetched:
        return self.polls.pop(0) if self.polls else Fetched()

    def watermarks(self, partition: TopicPartition, *, cached: bool) -> tuple[int, int] | None:
        return self.marks.get(partition)


class Fed:
    """One task that reads ``a`` and ``b``."""

    def __init__(self, budget: int = 1 << 30, *, tasks_idle: bool = False) -> None:
        self.consumer = FakeConsumer()
        self.errors: list[Exception] = []
        self.tasks = TaskManager(MostBufferedFirst())
        self.task: StreamTask = task_of(through(topics=("a", "b")))
        self.tasks.add(self.task)
        consumer = cast(Any, self.consumer)
        positions = StartPositions(consumer, MockClock())
        self.feeder = InputFeeder(
            consumer, positions, self.tasks, budget, on_state_lost=self.lost, tasks_idle=tasks_idle
        )
        self.feeder.add([self.task])

    def lost(self, task: StreamTask, error: Exception) -> None:
        self.errors.append(error)

    def arrives(self, partition: TopicPartition, *offsets: int, timestamp: int = 0, value: bytes = b"v") -> None:
        records = [raw(offset, timestamp, topic=partition.topic, value=value) for offset in offsets]
        self.consumer.polls.append(Fetched(records=[(partition, records)]))
        self.feeder.feed(0)

    def ends(self, *partitions: TopicPartition) -> None:
        self.consumer.polls.append(Fetched(ends=dict.fromkeys(partitions, 0)))
        self.feeder.feed(0)


def test_a_batch_goes_to_the_buffer_of_its_partition_and_wakes_the_task() -> None:
    it = Fed()
    held = it.tasks.take(0)
    assert held is it.task
    it.tasks.give_back(held, more=False)

    it.arrives(A, 0, 1)

    assert (len(it.task.queues[A]), len(it.task.queues[B])) == (2, 0)
    assert it.tasks.take(0) is it.task
    assert it.feeder.records_consumed == 2


def test_a_rest_ends_when_a_task_waits_for_another_of_its_inputs_and_not_before() -> None:
    it = Fed()
    it.consumer.rests = True
    it.feeder.feed(0)
    assert it.consumer.rests  # nothing is buffered

    it.arrives(A, 0)
    it.feeder.feed(0)
    assert it.consumer.rests  # it is about to be processed

    held = it.tasks.take(0)
    assert held is it.task
    it.feeder.feed(0)
    assert it.consumer.rests
    it.tasks.give_back(held, more=False)
    it.feeder.feed(0)
    assert not it.consumer.rests


def test_the_end_of_an_empty_input_lets_the_task_go_on_with_the_others() -> None:
    it = Fed()
    it.arrives(A, 0)
    assert it.task.wait_ms(0) is None

    it.ends(B)

    assert it.task.wait_ms(0) == 0


def test_nothing_more_is_fetched_while_the_buffers_are_full() -> None:
    it = Fed(budget=1_000)
    it.ends(B)
    assert not it.feeder.full

    it.arrives(A, 0, 1, 2)

    assert it.feeder.full


def test_a_slow_task_has_its_large_partitions_paused_while_another_task_starves() -> None:
    it = Fed(budget=1)
    starving = task_of(through(topics=("c",)), 1)
    it.feeder.add([starving])
    it.ends(B)
    it.arrives(A, 0, value=LARGE)
    assert it.feeder.full, "the task can be processed, so no thread is idle"

    slow = it.tasks.take(0)
    assert slow is it.task
    assert not it.feeder.full
    it.feeder.feed(0)

    assert it.consumer.paused == {A}


def test_a_paused_partition_goes_on_when_half_of_its_share_is_free() -> None:
    it = Fed(budget=1)
    it.feeder.add([task_of(through(topics=("c",)), 1)])
    it.arrives(A, 0, value=LARGE)
    it.feeder.feed(0)
    assert it.consumer.paused == {A}
    it.ends(B)
    it.task.process(it.task.control, 10)

    it.feeder.feed(0)

    assert it.consumer.paused == set()


def test_a_partition_over_its_share_is_paused_while_its_task_waits_for_another() -> None:
    it = Fed(budget=1)
    it.arrives(A, 0, value=LARGE)
    assert not it.feeder.full

    it.feeder.feed(0)

    assert it.consumer.paused == {A}


def test_full_buffers_still_let_in_what_a_task_waits_for() -> None:
    """One input far ahead of the other in time fills the buffers; the task cannot empty them without the other."""
    it = Fed(budget=2 * MIN_PARTITION_BYTES)
    it.arrives(B, 0, timestamp=1)
    it.arrives(A, 0, 1, 2, timestamp=100, value=LARGE)
    it.task.process(it.task.control, 10)
    assert it.task.wait_ms(0) is None
    assert it.consumer.paused == set()

    assert not it.feeder.full
    it.feeder.feed(0)

    assert it.consumer.paused == {A}, "nothing more of the input that is ahead"


def test_buffers_are_full_when_no_task_waits_for_more() -> None:
    it = Fed(budget=2 * MIN_PARTITION_BYTES)
    it.arrives(A, 0, value=2 * LARGE)
    it.ends(B)

    assert it.feeder.full


def test_full_buffers_still_let_in_what_a_task_waits_for_beyond_the_end_of_an_input() -> None:
    it = Fed(budget=1, tasks_idle=True)
    it.arrives(A, 0, value=LARGE)
    it.ends(B)

    assert not it.feeder.full
    it.arrives(B, 0)

    assert it.consumer.paused == {A}
    assert len(it.task.queues[B]) == 1
    assert it.feeder.full, "there is something of both"


def test_nobody_is_paused_while_every_partition_has_input_or_none_to_come() -> None:
    it = Fed(budget=1)
    it.ends(B)
    it.arrives(A, 0, value=LARGE)
    it.tasks.take(0)

    it.feeder.feed(0)

    assert it.feeder.full
    assert it.consumer.paused == set()


def test_a_large_partition_is_not_paused_while_the_buffers_have_room() -> None:
    """The client drops what it has fetched of a partition that is paused, and fetches it again."""
    it = Fed(budget=4 * MIN_PARTITION_BYTES)
    it.feeder.add([task_of(through(topics=("c",)), 1)])

    it.arrives(A, 0, value=2 * LARGE)
    it.feeder.feed(0)

    assert it.consumer.paused == set()


def test_buffers_that_were_emptied_take_records_again() -> None:
    it = Fed(budget=1_000)
    it.ends(B)
    it.arrives(A, 0, 1, 2)
    assert it.feeder.full

    it.task.process(it.task.control, 10)

    assert not it.feeder.full


def test_the_partitions_of_a_removed_task_are_given_up() -> None:
    it = Fed()

    it.feeder.remove([it.task])

    assert it.consumer.assigned == {}
    assert not it.feeder.full


def test_the_input_lag_is_what_the_broker_has_and_was_not_processed() -> None:
    it = Fed()
    it.consumer.marks = {A: (0, 10), B: (5, 8)}
    it.arrives(A, 0, 1)
    it.ends(B)
    it.task.process(it.task.control, 1)

    it.feeder.observe_lag(0.0)

    assert it.task.input_lag == 9, "nothing is left of b, whose end was reached"


def test_a_lag_that_is_not_known_of_one_partition_is_not_known_of_the_task() -> None:
    it = Fed()
    it.consumer.marks = {A: (0, 10)}

    it.feeder.observe_lag(0.0)

    assert it.task.input_lag is None


def test_records_that_were_deleted_before_they_were_read_are_no_lag() -> None:
    it = Fed()
    it.consumer.marks = {A: (7, 10), B: (0, 0)}

    it.feeder.observe_lag(0.0)

    assert it.task.input_lag == 3


def test_the_lag_is_observed_only_now_and_then() -> None:
    it = Fed()
    it.consumer.marks = {A: (0, 10), B: (0, 0)}
    it.feeder.observe_lag(0.0)
    it.consumer.marks = {A: (0, 20), B: (0, 0)}

    it.feeder.observe_lag(LAG_PERIOD / 2)
    assert it.task.input_lag == 10
    it.feeder.observe_lag(LAG_PERIOD)
    assert it.task.input_lag == 20


FIRST, SECOND = TopicIdentity("AAAAAAAAAAAAAAAAAAAAAQ", "c"), TopicIdentity("AAAAAAAAAAAAAAAAAAAAAg", "c")


def of_topic(task: StreamTask, topic: TopicIdentity) -> None:
    task._group.topics = dict.fromkeys(task.queues, topic)


def test_a_topic_that_was_created_anew_is_read_from_its_beginning_once_the_one_before_is_processed() -> None:
    it = Fed()
    of_topic(it.task, FIRST)
    it.consumer.found["a"] = SECOND
    it.ends(B)
    it.arrives(A, 0, 1)
    it.task.process(it.task.control, 1)
    it.task.freeze()

    it.consumer.polls.append(Fetched(replaced=[A]))
    it.feeder.feed(0)
    held = it.tasks.take(0)
    assert held is it.task
    it.task.process(it.task.control, 1)
    it.feeder.feed(0)
    assert it.task.input_topic(A) == FIRST  # a processing thread holds the task
    epoch = it.task.freeze()
    assert epoch is not None
    assert (epoch.offsets[A].offset, epoch.offsets[A].topic) == (2, FIRST)
    it.tasks.give_back(held, more=False)
    it.feeder.feed(0)

    assert (it.consumer.assigned[A], it.consumer.of["a"]) == (BEGINNING, SECOND)
    it.arrives(A, 0, 1)
    it.task.process(it.task.control, 2)
    epoch = it.task.freeze()
    assert epoch is not None  # the offset was committed for the earlier topic
    assert (epoch.offsets[A].offset, epoch.offsets[A].topic) == (2, SECOND)
    assert it.feeder.partitions_created_anew == 1


def test_no_transaction_is_committed_with_records_that_may_be_of_a_topic_created_anew() -> None:
    it = Fed()
    of_topic(it.task, FIRST)
    it.consumer.found["a"] = SECOND
    assert it.feeder.confirm()()

    it.consumer.doubted.add("a")
    it.consumer.polls.append(Fetched(replaced=[A]))
    it.feeder.feed(0)
    assert it.consumer.of["a"] == SECOND  # nothing was buffered: it is read from its beginning
    with pytest.raises(AbortableError, match="topic a was deleted and created again"):
        it.feeder.confirm()()

    it.feeder.remove([it.task])
    assert it.feeder.confirm()()


def test_a_topic_that_ends_before_the_position_may_be_another_one() -> None:
    it = Fed()
    of_topic(it.task, FIRST)
    it.consumer.found = {"a": SECOND, "b": FIRST}
    it.consumer.polls.append(Fetched(out_of_range=[A, B]))

    it.feeder.feed(0)

    assert it.consumer.of == {"a": SECOND, "b": FIRST}
    assert it.task.input_topic(A) == SECOND


def test_lost_records_of_a_repartition_topic_end_the_instance() -> None:
    it = Fed()
    of_topic(it.task, FIRST)
    part = replace(it.task.plan.sub_topology, repartition_sources=(RepartitionTopic("a"),))
    it.task.plan = replace(it.task.plan, sub_topology=part)
    it.consumer.polls.append(Fetched(replaced=[A]))

    with pytest.raises(TopicError, match="repartition topic a was deleted and created again"):
        it.feeder.feed(0)


def test_a_table_that_its_source_topic_restores_begins_anew_with_it() -> None:
    it = Fed()
    of_topic(it.task, FIRST)
    it.task.plan = replace(it.task.plan, source_changelogs={"table": A})
    it.consumer.polls.append(Fetched(replaced=[A]))

    it.feeder.feed(0)

    [error] = it.errors
    assert isinstance(error, TaskCorruptedError)
    assert "topic a" in str(error)
