"""``idle_after``: windows close, and outer joins and buffers emit, where an input is silent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from streamsapp import (
    Consumed,
    EmitStrategy,
    Grouped,
    JoinWindows,
    KStream,
    Materialized,
    Produced,
    PunctuationType,
    Serdes,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from streamsapp.errors import TopologyError
from streamsapp.processor.api import Processor, ProcessorContext
from streamsapp.record import Record
from streamsapp.testing import TopologyTestDriver
from streamsapp.topology.time_flow import refuse_idle_after

TEXT, LONG = Serdes.string(), Serdes.long()
SECOND, MINUTE = 1_000, 60_000
UNTIL_CLOSED = Suppressed.until_window_closes()


def source(builder: StreamsBuilder, topic: str = "in", idle_after: Any = 10 * SECOND) -> KStream[str, str]:
    return builder.stream(topic, Consumed(f"{topic}-source", TEXT, TEXT, idle_after=idle_after))


def counted(stream: KStream[str, str], windows: TimeWindows, emit: EmitStrategy | None = None) -> Any:
    grouped = stream.group_by_key(Grouped("group", TEXT, TEXT)).windowed_by(windows)
    return (grouped if emit is None else grouped.emit_strategy(emit)).count(Materialized("counts"))


def sent(table: Any) -> None:
    table.to_stream(lambda window, _: window.key).to("out", Produced(TEXT, LONG))


def suppressed(builder: StreamsBuilder) -> None:
    sent(counted(source(builder), TimeWindows.of(MINUTE)).suppress(UNTIL_CLOSED))


def emitted_finally(builder: StreamsBuilder) -> None:
    sent(counted(source(builder), TimeWindows.of(MINUTE), EmitStrategy.on_window_close()))


def suppressed_at_the_commit(builder: StreamsBuilder) -> None:
    grouped = source(builder).group_by_key().windowed_by(TimeWindows.of(MINUTE))
    sent(grouped.count(Materialized("counts", emit="commit")).suppress(UNTIL_CLOSED))


@pytest.mark.parametrize("program", [suppressed, emitted_finally, suppressed_at_the_commit])
def test_a_window_closes_where_its_input_is_silent(program: Callable[[StreamsBuilder], None]) -> None:
    builder = StreamsBuilder()
    program(builder)
    with TopologyTestDriver(builder.build()) as driver:
        topic, out = driver.create_input_topic("in", TEXT, TEXT), driver.create_output_topic("out", TEXT, LONG)
        topic.pipe_input("a", "x", 30 * SECOND)
        topic.pipe_input("a", "y", 40 * SECOND)
        driver.advance_wall_clock_time(9 * SECOND)
        assert out.read_records() == []
        driver.advance_wall_clock_time(timedelta(seconds=10))
        assert out.read_records() == []
        driver.advance_wall_clock_time(2 * SECOND)
        assert [(it.key, it.value) for it in out.read_records()] == [("a", 2)]


def test_without_idle_after_no_time_passes() -> None:
    builder = StreamsBuilder()
    sent(counted(source(builder, idle_after=None), TimeWindows.of(MINUTE)).suppress(UNTIL_CLOSED))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("a", "x", 30 * SECOND)
        driver.advance_wall_clock_time(10 * MINUTE)
        assert driver.create_output_topic("out", TEXT, LONG).is_empty()


def test_a_record_behind_a_marker_is_late() -> None:
    builder = StreamsBuilder()
    suppressed(builder)
    with TopologyTestDriver(builder.build()) as driver:
        topic, out = driver.create_input_topic("in", TEXT, TEXT), driver.create_output_topic("out", TEXT, LONG)
        topic.pipe_input("a", "x", 30 * SECOND)
        driver.advance_wall_clock_time(40 * SECOND)
        topic.pipe_input("a", "late", 50 * SECOND)
        topic.pipe_input("b", "on time", 80 * SECOND)
        driver.advance_wall_clock_time(2 * MINUTE)
        assert [(it.key, it.value) for it in out.read_records()] == [("a", 1), ("b", 1)]


def _joined(builder: StreamsBuilder, idle_right: int | None) -> None:
    left, right = source(builder, "left"), source(builder, "right", idle_right)
    windows = JoinWindows.of(10 * SECOND, 5 * SECOND)
    joined = left.outer_join(
        right, lambda one, other: f"{one}+{other}", windows, StreamJoined("join", TEXT, TEXT, TEXT)
    )
    joined.to("out", Produced(TEXT, TEXT))


def test_an_outer_join_gives_up_a_record_once_both_sides_are_silent() -> None:
    builder = StreamsBuilder()
    _joined(builder, 10 * SECOND)
    with TopologyTestDriver(builder.build()) as driver:
        left, right = (driver.create_input_topic(name, TEXT, TEXT) for name in ("left", "right"))
        out = driver.create_output_topic("out", TEXT, TEXT)
        left.pipe_input("k", "l", 100 * SECOND)
        right.pipe_input("other", "r", 100 * SECOND)
        driver.advance_wall_clock_time(12 * SECOND)
        assert out.is_empty()
        driver.advance_wall_clock_time(8 * SECOND)
        assert sorted(out.read_values()) == ["None+r", "l+None"]


def test_a_side_that_never_had_a_record_holds_nothing_up_once_it_was_silent() -> None:
    builder = StreamsBuilder()
    _joined(builder, 10 * SECOND)
    with TopologyTestDriver(builder.build()) as driver:
        left = driver.create_input_topic("left", TEXT, TEXT)
        left.pipe_input("k", "l", 100 * SECOND)
        driver.advance_wall_clock_time(20 * SECOND)
        driver.advance_wall_clock_time(1)
        driver.advance_wall_clock_time(10 * SECOND)
        assert driver.create_output_topic("out", TEXT, TEXT).read_values() == ["l+None"]


def test_a_side_without_idle_after_holds_the_time_where_it_meets_the_other() -> None:
    builder = StreamsBuilder()
    _joined(builder, None)
    with TopologyTestDriver(builder.build()) as driver:
        left, right = (driver.create_input_topic(name, TEXT, TEXT) for name in ("left", "right"))
        left.pipe_input("k", "l", 100 * SECOND)
        right.pipe_input("other", "r", 100 * SECOND)
        driver.advance_wall_clock_time(10 * MINUTE)
        assert driver.create_output_topic("out", TEXT, TEXT).is_empty()


def _behind_a_topic(builder: StreamsBuilder) -> None:
    stream = source(builder).select_key(lambda key, value: value)
    grouped = stream.group_by_key(Grouped("by-value", TEXT, TEXT)).windowed_by(TimeWindows.of(MINUTE))
    sent(grouped.count(Materialized("counts")).suppress(UNTIL_CLOSED))


def test_time_goes_through_a_repartition_topic() -> None:
    builder = StreamsBuilder()
    _behind_a_topic(builder)
    with TopologyTestDriver(builder.build()) as driver:
        topic, out = driver.create_input_topic("in", TEXT, TEXT), driver.create_output_topic("out", TEXT, LONG)
        topic.pipe_input("a", "x", 30 * SECOND)
        driver.advance_wall_clock_time(31 * SECOND)
        assert [(it.key, it.value) for it in out.read_records()] == [("x", 1)]


def test_a_running_partition_holds_the_time_of_the_tasks_behind_all_of_them() -> None:
    builder = StreamsBuilder()
    _behind_a_topic(builder)
    with TopologyTestDriver(builder.build(), partitions=2) as driver:
        topic, out = driver.create_input_topic("in", TEXT, TEXT), driver.create_output_topic("out", TEXT, LONG)
        topic.pipe_input("a", "x", 30 * SECOND, partition=0)
        topic.pipe_input("a", "y", 31 * SECOND, partition=1)
        driver.advance_wall_clock_time(9 * SECOND)
        topic.pipe_input("a", "z", 32 * SECOND, partition=1)  # behind, as one that catches up
        driver.advance_wall_clock_time(9 * SECOND)
        topic.pipe_input("a", "z", 33 * SECOND, partition=1)
        driver.advance_wall_clock_time(9 * SECOND)
        topic.pipe_input("a", "z", 34 * SECOND, partition=1)
        driver.advance_wall_clock_time(9 * SECOND)
        assert out.is_empty()  # although partition 0 has been silent for 36 seconds
        driver.advance_wall_clock_time(18 * SECOND)
        assert sorted((it.key, it.value) for it in out.read_records()) == [("x", 1), ("y", 1), ("z", 3)]


def test_a_partition_without_records_holds_up_no_task_behind_it() -> None:
    builder = StreamsBuilder()
    _behind_a_topic(builder)
    with TopologyTestDriver(builder.build(), partitions=3) as driver:
        topic, out = driver.create_input_topic("in", TEXT, TEXT), driver.create_output_topic("out", TEXT, LONG)
        topic.pipe_input("a", "x", 30 * SECOND, partition=1)
        driver.advance_wall_clock_time(31 * SECOND)
        driver.advance_wall_clock_time(10 * SECOND)
        assert [(it.key, it.value) for it in out.read_records()] == [("x", 1)]


def test_results_that_wait_above_a_topic_are_not_late_behind_it() -> None:
    builder = StreamsBuilder()
    first = counted(source(builder), TimeWindows.of(MINUTE)).suppress(UNTIL_CLOSED).to_stream()
    second = first.map(lambda window, count: ("all", str(count))).group_by_key(Grouped("all", TEXT, TEXT))
    sent(second.windowed_by(TimeWindows.of(10 * SECOND)).count(Materialized("second")).suppress(UNTIL_CLOSED))
    with TopologyTestDriver(builder.build()) as driver:
        topic, out = driver.create_input_topic("in", TEXT, TEXT), driver.create_output_topic("out", TEXT, LONG)
        topic.pipe_input("a", "x", 5 * SECOND)
        topic.pipe_input("b", "x", 6 * SECOND)
        for _ in range(30):
            driver.advance_wall_clock_time(10 * SECOND)
        assert [(it.key, it.value) for it in out.read_records()] == [("all", 2)]


class _EveryMinute(Processor):
    def init(self, context: ProcessorContext) -> None:
        self._context = context
        context.schedule(MINUTE, PunctuationType.STREAM_TIME, self._called)

    def process(self, record: Record) -> None:
        pass

    def _called(self, timestamp: int) -> None:
        self._context.forward(Record("called", timestamp, timestamp))


def test_callbacks_by_stream_time_are_called() -> None:
    builder = StreamsBuilder()
    source(builder).process(_EveryMinute).to("out", Produced(TEXT, LONG))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("a", "x", 30 * SECOND)
        out = driver.create_output_topic("out", TEXT, LONG)
        out.read_values()
        driver.advance_wall_clock_time(31 * SECOND)
        assert out.read_values() == [61 * SECOND]


def test_markers_end_once_nothing_waits() -> None:
    builder = StreamsBuilder()
    suppressed(builder)
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("a", "x", 30 * SECOND)
        log = driver.get_state_store("in-source-time-markers")
        for _ in range(100):
            driver.advance_wall_clock_time(10 * SECOND)
        with log.all() as entries:
            assert len(list(entries)) == 7  # ten seconds apart, until the window of the last record has closed


def test_the_state_of_the_application_names_where_its_markers_are() -> None:
    builder = StreamsBuilder()
    _behind_a_topic(builder)
    stores = [store.name for part in builder.build().sub_topologies() for store in part.stores]
    assert "in-source-time-markers" in stores
    assert "by-value-repartition-source-time-markers" in stores


@pytest.mark.parametrize("wrong", [5, 0, -1])
def test_a_silence_that_is_too_short_is_refused(wrong: int) -> None:
    builder = StreamsBuilder()
    source(builder, idle_after=wrong).to("out")
    with pytest.raises(TopologyError, match=r"source in-source: idle_after is -?\d+ ms, and must be at least 100"):
        builder.build()


def test_a_global_table_has_no_time() -> None:
    with pytest.raises(TopologyError, match=r"global_table\('in'\): nothing below it waits for time; leave idle_after"):
        StreamsBuilder().global_table("in", Consumed(TEXT, TEXT, idle_after=SECOND))


def test_calls_of_coroutines_are_refused_below_it() -> None:
    async def call(value: str) -> str:
        return value

    builder = StreamsBuilder()
    source(builder).map_async(call).to("out")
    with pytest.raises(TopologyError, match="map_async cannot be below a source with idle_after"):
        builder.build().sub_topologies()


def test_it_is_refused_by_name_where_nobody_makes_markers() -> None:
    builder = StreamsBuilder()
    source(builder).to("out")
    with pytest.raises(TopologyError, match=r"source in-source: engine: spark makes no time markers.*; leave it out"):
        refuse_idle_after(builder.build().sub_topologies(), "engine: spark", "leave it out")
