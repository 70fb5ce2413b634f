"""A task as a whole: its states, where it starts, callbacks, and what it contributes to a commit."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from changelog import changelog_records
from streamsapp import Processor, ProcessorContext, PunctuationType, Record, Serdes, Stores, TopicPartition, Topology
from streamsapp.errors import ProcessingError, StreamsError, TopologyError
from streamsapp.serdes.offset_metadata import OffsetMetadata
from streamsapp.tasks.states import TaskState
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_plan import ConsumedOffset
from streamsapp.testing import MockClock
from task_parts import Each, feed, forwards, raw, run, task_of, through

IN = TopicPartition("in", 0)


def process_all(task: StreamTask) -> None:
    while task.buffered_records:
        task.process(task.control, 100)


def with_store() -> Topology:
    def put(context: ProcessorContext, record: Record) -> None:
        context.get_state_store("store").put(record.key, record.value)

    builder = Stores.key_value_store_builder(
        Stores.in_memory_key_value_store("store"), Serdes.string(), Serdes.string()
    )
    return through(put).add_state_store(builder, "node")


# ---- states ------------------------------------------------------------------------------------------------------

LEGAL = {
    TaskState.CREATED: {TaskState.RESTORING, TaskState.CLOSED},
    TaskState.RESTORING: {TaskState.RUNNING, TaskState.CLOSED},
    TaskState.RUNNING: {TaskState.RESTORING, TaskState.CLOSED},
    TaskState.CLOSED: set(),
}


@pytest.mark.parametrize("source", TaskState)
def test_only_legal_moves_between_states_are_possible(source: TaskState) -> None:
    assert {target for target in TaskState if source.may_become(target)} == LEGAL[source]


def test_an_illegal_move_names_task_and_states() -> None:
    task = task_of(through())
    task.transition(TaskState.CLOSED)

    with pytest.raises(StreamsError, match="task 0_0 cannot go from CLOSED to RUNNING"):
        task.transition(TaskState.RUNNING)
    assert task.state is TaskState.CLOSED


# ---- where it starts ---------------------------------------------------------------------------------------------


def test_goes_on_with_the_time_that_was_committed() -> None:
    task = task_of(through(), running=False)
    task.start_offsets = {IN: ConsumedOffset(40, 1234)}

    run(task)

    assert task.context.stream_time == 1234
    assert task.queues[IN].partition_time == 1234
    assert task.committed_offsets == {IN: 40}
    assert task.freeze() is None, "what was committed is not committed again"


def test_the_first_commit_carries_the_positions_of_a_snapshot_also_of_inputs_without_records() -> None:
    idle = TopicPartition("idle", 0)
    task = task_of(through(topics=["in", "idle"]), running=False)
    task.start_offsets = {
        IN: ConsumedOffset(40, 1234, in_group=False),
        idle: ConsumedOffset(7, 1200, in_group=False),
    }
    run(task)
    assert task.freeze() is None, "nothing happened yet"
    feed(task, [raw(40, 1300)])
    task.reached_end(idle)
    process_all(task)

    epoch = task.freeze()

    assert epoch is not None
    assert {each: at.offset for each, at in epoch.offsets.items()} == {IN: 41, idle: 7}
    assert task.freeze() is None


def test_starts_without_a_time_when_nothing_was_committed() -> None:
    task = task_of(through())

    assert task.context.stream_time == -1
    assert task.queues[IN].position is None


# ---- commits -----------------------------------------------------------------------------------------------------


def test_an_epoch_carries_offset_and_partition_time_of_the_inputs_that_moved() -> None:
    task = task_of(through(topics=("in", "quiet")))
    feed(task, [raw(7, 50), raw(8, 30)])
    process_all(task)

    epoch = task.freeze()

    assert epoch is not None
    assert epoch.offsets == {IN: ConsumedOffset(9, 50)}
    assert OffsetMetadata.decode(epoch.offsets[IN].metadata).partition_time == 50


def test_nothing_is_committed_twice() -> None:
    task = task_of(through())
    feed(task, [raw(0)])
    process_all(task)
    task.freeze()

    assert task.freeze() is None


def test_an_epoch_carries_the_last_value_per_key() -> None:
    task = task_of(with_store())
    feed(task, [raw(0, value=b"old"), raw(1, value=b"new")])
    process_all(task)

    epoch = task.freeze()

    assert epoch is not None
    assert epoch.frozen is not None
    assert [(key, value) for _, key, value, _ in changelog_records(epoch.frozen)] == [(b"k", b"new")]


def test_writes_after_the_freeze_belong_to_the_next_epoch_and_are_read_at_once() -> None:
    task = task_of(with_store())
    feed(task, [raw(0, value=b"first")])
    process_all(task)
    first = task.freeze()
    feed(task, [raw(1, value=b"second")])
    process_all(task)

    assert task.stores.stores["store"].get("k") == "second"
    assert first is not None
    assert first.frozen is not None
    assert [value for _, _, value, _ in changelog_records(first.frozen)] == [b"first"]


def test_output_is_taken_once() -> None:
    task = task_of(through())
    feed(task, [raw(0)])
    process_all(task)

    assert task.has_output
    assert len(task.take_output()) == 1
    assert not task.has_output
    assert task.take_output() == []


def test_processing_marks_the_task_as_touched() -> None:
    task = task_of(through())
    assert not task.touched
    feed(task, [raw(0)])

    process_all(task)

    assert task.touched
    assert task.processed_records == 1


def test_closing_user_code_drops_buffered_input() -> None:
    task = task_of(through())
    feed(task, [raw(0)])

    task.close_user_code()

    assert task.buffered_records == 0
    assert task.buffered_bytes == 0


# ---- callbacks ---------------------------------------------------------------------------------------------------


class Ticking(Processor):
    """Forwards the time its callback was given."""

    def __init__(self, kind: PunctuationType, *, fails: bool = False, start: datetime | int | None = None) -> None:
        self._kind, self._fails, self._start = kind, fails, start

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self.handle = context.schedule(10, self._kind, self._tick, self._start)

    def process(self, record: Record) -> None:
        """Only the callback writes."""

    def _tick(self, timestamp: int) -> None:
        if self._fails:
            raise ValueError("boom")
        assert self._context.record_metadata is None
        self._context.forward(Record("tick", str(timestamp), timestamp))


def ticking(kind: PunctuationType, clock: MockClock, *, fails: bool = False) -> StreamTask:
    topology = Topology().add_source("source", "in")
    topology.add_processor("node", lambda: Ticking(kind, fails=fails), "source").add_sink("sink", "out", "node")
    return task_of(topology, clock=clock)


def started_at(start: datetime | int, kind: PunctuationType, clock: MockClock) -> StreamTask:
    topology = Topology().add_source("source", "in")
    topology.add_processor("node", lambda: Ticking(kind, start=start), "source").add_sink("sink", "out", "node")
    return task_of(topology, clock=clock)


def ticks(task: StreamTask) -> list[int]:
    return [record[6] for record in task.take_output()]


def test_stream_time_callbacks_follow_the_records() -> None:
    task = ticking(PunctuationType.STREAM_TIME, MockClock())
    feed(task, [raw(n, timestamp) for n, timestamp in enumerate([3, 8, 12, 11, 45, 50])])

    process_all(task)

    assert ticks(task) == [3, 12, 45, 50]


def test_a_stream_time_callback_scheduled_while_time_stands_still_is_called_after_that_very_record() -> None:
    def tick(context: ProcessorContext, timestamp: int) -> None:
        context.forward(Record("tick", "tick", timestamp))

    def schedules_at_offset_2(context: ProcessorContext, record: Record) -> None:
        context.forward(record)
        metadata = context.record_metadata
        if metadata is not None and metadata.offset == 2:
            context.schedule(10, PunctuationType.STREAM_TIME, partial(tick, context))

    task = task_of(through(schedules_at_offset_2))
    feed(task, [raw(n, timestamp) for n, timestamp in enumerate([45, 45, 40, 45, 50])])

    process_all(task)

    assert ticks(task) == [45, 45, 40, 45, 45, 50, 50], "its first call is at 45, after the record at 40"


def test_a_stream_time_callback_is_called_at_once_when_the_committed_time_is_past_it() -> None:
    topology = Topology().add_source("source", "in")
    topology.add_processor("node", lambda: Ticking(PunctuationType.STREAM_TIME), "source")
    task = task_of(topology.add_sink("sink", "out", "node"), running=False)
    task.start_offsets = {IN: ConsumedOffset(40, 1234)}
    run(task)

    task.punctuate()

    assert ticks(task) == [1234]
    assert task.touched


def test_wall_clock_callbacks_follow_the_clock_from_the_moment_they_were_scheduled() -> None:
    clock = MockClock(1_005)
    task = ticking(PunctuationType.WALL_CLOCK_TIME, clock)
    task.punctuate_wall_clock()
    assert ticks(task) == []

    clock.advance(10)
    task.punctuate_wall_clock()
    clock.advance(25)
    task.punctuate_wall_clock()

    assert ticks(task) == [1_015, 1_040]
    assert task.touched


@pytest.mark.parametrize(
    ("start", "due"),
    [
        (1_020, [1_020, 1_030]),
        (1_005, [1_005, 1_015, 1_025]),  # now
        (1_002, [1_012, 1_022]),  # has passed: the next time that it would have had
        (2, [1_012, 1_022]),
        (datetime.fromtimestamp(1.018, UTC), [1_018, 1_028]),
    ],
)
def test_wall_clock_callbacks_are_due_at_their_start_and_multiples_of_the_interval(
    start: datetime | int, due: list[int]
) -> None:
    clock = MockClock(1_005)
    task = started_at(start, PunctuationType.WALL_CLOCK_TIME, clock)

    for _ in range(26):
        task.punctuate_wall_clock()
        clock.advance(1)

    assert ticks(task) == due


def test_stream_time_callbacks_are_due_at_their_start_and_multiples_of_the_interval() -> None:
    task = started_at(25, PunctuationType.STREAM_TIME, MockClock())
    feed(task, [raw(n, timestamp) for n, timestamp in enumerate([3, 24, 25, 34, 36, 60])])

    process_all(task)

    assert ticks(task) == [25, 36, 60]


@pytest.mark.parametrize("start", [datetime(2026, 1, 1), "12:00", True, 1.5])  # noqa: DTZ001 - the one without a zone
def test_a_start_that_is_no_time_is_refused(start: Any) -> None:
    with pytest.raises(TopologyError, match="a time is a datetime with a time zone or milliseconds since 1970, got"):
        started_at(start, PunctuationType.WALL_CLOCK_TIME, MockClock())


def test_a_wall_clock_callback_that_is_not_due_leaves_the_task_untouched() -> None:
    task = ticking(PunctuationType.WALL_CLOCK_TIME, MockClock())

    task.punctuate_wall_clock()

    assert not task.touched


def test_a_failing_callback_names_its_node() -> None:
    clock = MockClock()
    task = ticking(PunctuationType.WALL_CLOCK_TIME, clock, fails=True)
    clock.advance(10)

    with pytest.raises(ProcessingError, match=r"ValueError at node node \(added at .*\), task 0_0, in a punctuator"):
        task.punctuate_wall_clock()


def test_records_of_all_inputs_count_as_buffered() -> None:
    topology = Topology().add_source("source", "a", "b").add_processor("node", lambda: Each(forwards), "source")
    task = task_of(topology)
    feed(task, [raw(0, topic="a"), raw(0, topic="b"), raw(1, topic="b")])

    assert task.buffered_records == 3
    assert task.wait_ms(0) == 0
