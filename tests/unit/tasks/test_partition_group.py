"""Choosing the next record among a task's partitions, and waiting for inputs that are empty (KIP-353, KIP-695)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import example, given, strategies as st

import data_paths
from models import in_python
from streamsapp import Serdes, TaskId, TopicPartition, native
from streamsapp.processor.timestamps import fail_on_invalid_timestamp
from streamsapp.record import InputRecord
from streamsapp.tasks.partition_group import NO_IDLING, PartitionGroup
from streamsapp.tasks.priority_queue import PriorityQueue
from streamsapp.tasks.record_queue import ProcessingControl, RecordQueue
from streamsapp.tasks.task_context import TaskContext
from streamsapp.testing import MockClock
from task_parts import config, handling, raw


@pytest.fixture(autouse=True, scope="module", params=["python", "native"])
def data_path(request: pytest.FixtureRequest) -> Iterator[None]:
    """The loop in C, and its model."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "python":
            in_python(patch)
        yield


class Group:
    """A partition group over topics ``t0``, ``t1``, ...; remembers ``(topic, timestamp)`` of what was processed."""

    def __init__(self, topics: int, *, idle_ms: int = 0, on_error: str = "fail") -> None:
        self.processed: list[tuple[str, int]] = []
        self.control = ProcessingControl()
        self._context = TaskContext("app", TaskId(0, 0), MockClock())
        self.group = PartitionGroup(idle_ms, self._context, lambda: None)
        failures = handling(self._context, config(deserialization_exception_handler=on_error))
        text = Serdes.string()
        self.partitions = [TopicPartition(f"t{number}", 0) for number in range(topics)]
        self._offsets = dict.fromkeys(self.partitions, 0)
        for each in self.partitions:
            self.group.add_queue(
                RecordQueue(
                    each,
                    "source",
                    self._push,
                    text,
                    text,
                    fail_on_invalid_timestamp,
                    failures,
                )
            )

    def _push(self, key: str, value: str, timestamp: int, headers: object) -> None:
        message = self._context.message
        assert message is not None
        self.processed.append((message.topic(), timestamp))

    def add(self, topic: int, *timestamps: int, value: bytes = b"v") -> None:
        partition = self.partitions[topic]
        for timestamp in timestamps:
            record: InputRecord = raw(self._offsets[partition], timestamp, topic=partition.topic, value=value)
            record = data_paths.fetched(native, record)
            self._offsets[partition] += 1
            self.group.add(partition, [record])

    def run(self, limit: int = 1000) -> int:
        return self.group.run(self.control, limit)

    def run_all(self, limit: int = 1000) -> None:
        while len(self.group):
            self.run(limit)

    def at_end(self, *topics: int) -> None:
        for topic in topics:
            self.group.queues[self.partitions[topic]].at_end = True


def test_takes_records_in_the_order_of_their_timestamps() -> None:
    it = Group(2)
    it.add(0, 1, 4, 5)
    it.add(1, 2, 3, 6)

    it.run_all()

    assert [timestamp for _, timestamp in it.processed] == [1, 2, 3, 4, 5, 6]


def test_never_reorders_within_a_partition() -> None:
    it = Group(2)
    it.add(0, 9, 1)
    it.add(1, 5)

    it.run_all()

    assert it.processed == [("t1", 5), ("t0", 9), ("t0", 1)]


def test_alternates_between_partitions_at_equal_timestamps_as_kafka_streams_does() -> None:
    it = Group(2)
    it.add(0, 7, 7)
    it.add(1, 7, 7)

    it.run_all()

    assert [topic for topic, _ in it.processed] == ["t0", "t1", "t0", "t1"]


def one_by_one(inputs: Sequence[Sequence[int]]) -> list[tuple[str, int]]:
    """Kafka Streams' way: poll the queue with the lowest head, take one record, offer the queue again."""
    rests = [list(each) for each in inputs]
    heads: PriorityQueue[int] = PriorityQueue(lambda number: rests[number][0])
    for number, rest in enumerate(rests):
        if rest:
            heads.offer(number)
    taken = []
    while len(heads):
        number = heads.poll()
        taken.append((f"t{number}", rests[number].pop(0)))
        if rests[number]:
            heads.offer(number)
    return taken


@example(inputs=[[3], [3, 1], [1, 1], [3, 1, 0, 2, 1]], limits=[6, 2, 3])
@given(
    inputs=st.lists(st.lists(st.integers(0, 4), max_size=8), min_size=1, max_size=6),
    limits=st.lists(st.integers(1, 5), min_size=1, max_size=5),
)
def test_runs_of_records_come_in_the_order_of_taking_them_one_by_one(
    inputs: list[list[int]], limits: list[int]
) -> None:
    it = Group(len(inputs))
    for number, timestamps in enumerate(inputs):
        it.add(number, *timestamps)

    for limit in itertools.cycle(limits):
        if not len(it.group):
            break
        it.run(limit)

    assert it.processed == one_by_one(inputs)


@given(inputs=st.lists(st.lists(st.integers(0, 4), max_size=8), min_size=1, max_size=6))
def test_no_record_of_a_later_time_is_taken_than_is_allowed(inputs: list[list[int]]) -> None:
    it = Group(len(inputs))
    for number, timestamps in enumerate(inputs):
        it.add(number, *timestamps)

    for until in range(5):
        before = len(it.processed)
        while it.group.run(ProcessingControl(), 3, until):
            pass
        assert all(timestamp <= until for _, timestamp in it.processed[before:])
        assert it.group.next_time is None or it.group.next_time > until

    assert sorted(it.processed) == sorted(one_by_one(inputs))  # among equal times the order is another one


@given(
    inputs=st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=8), min_size=2, max_size=4),
    limit=st.integers(1, 12),
)
def test_every_input_knows_how_far_it_was_processed_while_inputs_take_turns(
    inputs: list[list[int]], limit: int
) -> None:
    it = Group(len(inputs))
    for number, timestamps in enumerate(inputs):
        it.add(number, *timestamps)

    it.run(limit)

    for number, partition in enumerate(it.partitions):
        times = [timestamp for topic, timestamp in it.processed if topic == f"t{number}"]
        queue = it.group.queues[partition]
        assert (queue.position, queue.partition_time) == ((len(times), max(times)) if times else (None, -1))
        assert len(queue) == len(inputs[number]) - len(times)


def test_only_several_inputs_keep_in_mind_which_of_them_got_records() -> None:
    one, two = Group(1), Group(2)
    for time in range(3):
        for it in (one, two):
            it.add(0, time)
            it.run()

    assert len(one.group._arrivals) == 0, "it would grow for as long as the task runs"
    assert len(two.group._arrivals) == 0


def test_an_unreadable_record_is_told_with_the_input_that_has_it_while_inputs_take_turns() -> None:
    it = Group(2, on_error="continue")
    it.add(0, 1, 3, 5)
    it.add(1, 2)
    it.add(1, 3, value=b"\xff")
    it.add(1, 4, 6)

    it.run_all()

    assert it.processed == [("t0", 1), ("t1", 2), ("t0", 3), ("t1", 4), ("t0", 5), ("t1", 6)]
    assert [it.group.queues[each].position for each in it.partitions] == [3, 4]


def test_takes_at_most_the_limit() -> None:
    it = Group(2)
    it.add(0, 1, 2, 3)
    it.add(1, 9)

    assert it.run(limit=2) == 2
    assert it.processed == [("t0", 1), ("t0", 2)]


def test_looks_again_whether_to_wait_once_an_input_ran_dry() -> None:
    it = Group(2)
    it.add(0, 1)
    it.add(1, 2, 3)

    it.run()

    assert it.processed == [("t0", 1)], "t0 may get a record older than 2"


def test_stops_between_records() -> None:
    it = Group(2)
    it.add(0, 1, 3)
    it.add(1, 2)
    it.control.stop = True

    assert it.run() == 0
    assert it.processed == []


def test_counts_records_that_the_handler_drops() -> None:
    it = Group(1, on_error="continue")
    it.add(0, 1, value=b"\xff")
    it.add(0, 2)

    assert it.run() == 2
    assert it.processed == [("t0", 2)]


def test_an_unreadable_record_does_not_hide_the_one_behind_it() -> None:
    it = Group(2, on_error="continue")
    it.add(0, 1, value=b"\xff")
    it.add(0, 2)
    it.add(1, 3)

    it.run_all()

    assert it.processed == [("t0", 2), ("t1", 3)]


def test_forgets_everything_when_cleared() -> None:
    it = Group(2)
    it.add(0, 1, 2)
    it.add(1, 1)
    it.run(limit=1)

    it.group.clear()

    assert len(it.group) == 0
    it.add(0, 8)
    it.add(1, 7)
    it.processed.clear()
    it.run_all()
    assert it.processed == [("t1", 7), ("t0", 8)]


# ---- max.task.idle.ms --------------------------------------------------------------------------------------------


def test_waits_for_input_when_everything_is_empty() -> None:
    assert Group(2).group.wait_ms(0) is None


def test_does_not_wait_when_every_input_has_records() -> None:
    it = Group(2, idle_ms=100)
    it.add(0, 1)
    it.add(1, 1)

    assert it.group.wait_ms(0) == 0


@pytest.mark.parametrize("idle_ms", [0, 100])
def test_waits_for_records_that_the_broker_has(idle_ms: int) -> None:
    it = Group(2, idle_ms=idle_ms)
    it.add(0, 1)

    assert it.group.wait_ms(0) is None


def test_does_not_wait_at_all_when_idling_is_disabled() -> None:
    it = Group(2, idle_ms=NO_IDLING)
    it.add(0, 1)

    assert it.group.wait_ms(0) == 0


def test_goes_on_at_once_at_the_end_of_the_empty_input_without_an_idle_time() -> None:
    it = Group(2, idle_ms=0)
    it.add(0, 1)
    it.at_end(1)

    assert it.group.wait_ms(0) == 0


def test_waits_the_idle_time_at_the_end_of_the_empty_input() -> None:
    it = Group(2, idle_ms=100)
    it.add(0, 1)
    it.at_end(1)

    assert [it.group.wait_ms(now) for now in (1000, 1060, 1100, 1200)] == [100, 40, 0, 0]


def test_waits_anew_after_the_empty_input_had_records() -> None:
    it = Group(2, idle_ms=100)
    it.add(0, 1, 5)
    it.at_end(1)
    it.group.wait_ms(0)
    it.add(1, 1)
    assert it.group.wait_ms(150) == 0
    it.run(limit=2)
    it.at_end(1)

    assert it.group.wait_ms(200) == 100


def test_each_empty_input_gets_the_idle_time_for_itself() -> None:
    it = Group(3, idle_ms=100)
    it.add(0, 9, 9)
    it.add(1, 1)
    it.at_end(1, 2)
    it.group.wait_ms(0)
    assert it.group.wait_ms(100) == 0, "the third input was waited for"
    it.run(limit=1)
    it.at_end(1)

    assert it.group.wait_ms(110) == 100, "now the second is empty"
