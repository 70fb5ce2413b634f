"""``Late``: records that come too late go to a topic or a stream, once each, beside what the operator does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from streamsapp import (
    Consumed,
    EmitStrategy,
    Grouped,
    JoinWindows,
    KGroupedStream,
    KStream,
    KTable,
    Late,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    Windows,
)
from streamsapp.errors import TopologyError
from streamsapp.record import Record
from streamsapp.testing import TopologyTestDriver

TEXT = Serdes.string()
LATE = Late[Any, Any]("late")
#: Key, value and time of each record.
Input = list[tuple[str, str, int]]


def stream(builder: StreamsBuilder, topic: str = "in") -> KStream[str, str]:
    return builder.stream(topic, Consumed(TEXT, TEXT))


def grouped(builder: StreamsBuilder) -> KGroupedStream[str, str]:
    return stream(builder).group_by_key(Grouped(TEXT, TEXT))


def late_records(build: Callable[[StreamsBuilder], object], records: Input, topic: str = "late") -> list[Any]:
    """The records of the late topic after these, as they were piped."""
    builder = StreamsBuilder()
    build(builder)
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", TEXT, TEXT)
        for key, value, time in records:
            source.pipe_input(key, value, time, headers=[("at", str(time).encode())])
        found = driver.create_output_topic(topic, TEXT, TEXT).read_records()
    assert all(each.headers == [("at", str(each.timestamp).encode())] for each in found)
    return [(each.key, each.value, each.timestamp) for each in found]


def strip(table: KTable[Any, Any]) -> None:
    table.to_stream(lambda windowed, _: windowed.key).map_values(str).to("out", Produced(TEXT, TEXT))


class Fives(Windows):
    """Windows of a user's own, five long."""

    size_ms = 5

    def windows_for(self, timestamp: int) -> Iterator[tuple[int, int]]:
        yield timestamp // 5 * 5, timestamp // 5 * 5 + 5


def by_time(builder: StreamsBuilder, windows: Any = None, **how: Any) -> Any:
    return grouped(builder).windowed_by(windows or TimeWindows.of(10, grace=5), late=LATE, **how)


AGGREGATIONS: dict[str, Callable[[StreamsBuilder], KTable[Any, Any]]] = {
    "count": lambda builder: by_time(builder).count(),
    "count of commits": lambda builder: by_time(builder).count(Materialized(emit="commit")),
    "count in memory": lambda builder: by_time(builder).count(Materialized(store="memory")),
    "reduce": lambda builder: by_time(builder).reduce(lambda one, other: one + other),
    "aggregate": lambda builder: by_time(builder).aggregate(
        lambda: "", lambda key, value, total: total + value, materialized=Materialized(value_serde=TEXT)
    ),
    "final counts": lambda builder: by_time(builder).emit_strategy(EmitStrategy.on_window_close()).count(),
    "suppressed counts": lambda builder: by_time(builder).count().suppress(Suppressed.until_window_closes()),
    "sessions": lambda builder: by_time(builder, SessionWindows.of(10, grace=5)).count(),
    "final sessions": lambda builder: (
        by_time(builder, SessionWindows.of(10, grace=5)).emit_strategy(EmitStrategy.on_window_close()).count()
    ),
    "sliding": lambda builder: by_time(builder, SlidingWindows.of(10, grace=5)).count(),
    "own windows": lambda builder: by_time(builder, Fives()).count(),
    "grouped anew": lambda builder: (
        stream(builder)
        .group_by(lambda key, value: key, Grouped("by", TEXT, TEXT))
        .windowed_by(TimeWindows.of(10, grace=5), late=LATE)
        .count()
    ),
    "cogrouped": lambda builder: (
        grouped(builder)
        .cogroup(lambda key, value, total: total + value)
        .windowed_by(TimeWindows.of(10, grace=5), late=LATE)
        .aggregate(lambda: "", materialized=Materialized(value_serde=TEXT))
    ),
    "cogrouped sessions": lambda builder: (
        grouped(builder)
        .cogroup(lambda key, value, total: total + value)
        .windowed_by(SessionWindows.of(10, grace=5), late=LATE)
        .aggregate(lambda: "", lambda key, one, other: one + other, materialized=Materialized(value_serde=TEXT))
    ),
}


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_a_record_whose_window_has_closed_goes_to_the_topic_as_it_came(name: str) -> None:
    records = [("k", "a", 3), ("k", "b", 100), ("k", "late", 4), ("m", "late too", 5), ("k", "c", 101)]
    found = late_records(lambda builder: strip(AGGREGATIONS[name](builder)), records)
    assert found == [("k", "late", 4), ("m", "late too", 5)]


def test_nobody_need_read_the_table() -> None:
    records = [("k", "a", 100), ("k", "late", 4)]
    assert late_records(lambda builder: by_time(builder).count(), records) == [("k", "late", 4)]


def test_a_record_that_misses_some_of_its_windows_goes_there_once_and_counts_in_the_others() -> None:
    builder = StreamsBuilder()
    counts = by_time(builder, TimeWindows.of(10).advance_by(2)).count()
    counts.to_stream(lambda windowed, _: str(windowed.start_ms)).to("out", Produced(TEXT, Serdes.long()))
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", TEXT, TEXT)
        source.pipe_input("k", "a", 20)
        driver.create_output_topic("out", TEXT, Serdes.long()).read_records()
        source.pipe_input("k", "b", 15)
        assert driver.create_output_topic("out", TEXT, Serdes.long()).read_key_values() == [("12", 2), ("14", 2)]
        assert driver.create_output_topic("late", TEXT, TEXT).read_key_values() == [("k", "b")]
        assert driver._tasks[0].context.dropped_records == 3, "windows that begin at 6, 8 and 10"


@given(
    st.lists(st.tuples(st.sampled_from("kmn"), st.integers(0, 60)), max_size=40),
    st.integers(1, 20),
    st.integers(0, 15),
    st.booleans(),
)
def test_records_are_late_as_the_windows_say(records: list[tuple[str, int]], size: int, grace: int, hops: bool) -> None:
    windows = TimeWindows.of(size, grace=grace)
    windows = windows.advance_by(max(1, size // 3)) if hops else windows
    latest, expected = -1, []
    for number, (key, time) in enumerate(records):
        latest = max(latest, time)
        if any(windows.end_of(start) <= latest - grace for start in windows.starts_for(time)):
            expected.append((key, str(number), time))
    given_records = [(key, str(number), time) for number, (key, time) in enumerate(records)]
    for build in (
        lambda builder: by_time(builder, windows).count(),
        lambda builder: by_time(builder, windows).reduce(lambda one, other: other),
    ):
        assert late_records(build, given_records) == expected


@given(st.lists(st.integers(0, 80), max_size=40), st.integers(1, 8), st.integers(0, 10))
def test_records_are_late_as_sessions_say(times: list[int], gap: int, grace: int) -> None:
    sessions: list[tuple[int, int]] = []
    latest, expected = -1, []
    for number, time in enumerate(times):
        latest = max(latest, time)
        written = max((end for _, end in sessions), default=-1)
        alive = [each for each in sessions if each[1] > written - gap - grace]
        near = [each for each in alive if each[1] >= time - gap and each[0] <= time + gap]
        begin, end = min([time, *(each[0] for each in near)]), max([time, *(each[1] for each in near)])
        if end < latest - gap - grace:
            expected.append(("k", str(number), time))
            continue
        sessions = [each for each in sessions if each not in near] + [(begin, end)]
    records = [("k", str(number), time) for number, time in enumerate(times)]
    build = lambda builder: by_time(builder, SessionWindows.of(gap, grace=grace)).count()  # noqa: E731
    assert late_records(build, records) == expected


def test_a_function_is_given_the_stream_of_late_records_and_may_do_all_with_it() -> None:
    builder, seen = StreamsBuilder(), []

    def take(late: KStream[str, str]) -> None:
        late.foreach(lambda key, value: seen.append((key, value)))
        late.map_values(str.upper).group_by_key(Grouped(TEXT, TEXT)).count(Materialized("late-counts"))

    counts = grouped(builder).windowed_by(TimeWindows.of(10), late=Late(take)).count()
    strip(counts)
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", TEXT, TEXT)
        for time in (50, 3, 51, 4):
            source.pipe_input("k", str(time), time)
        assert seen == [("k", "3"), ("k", "4")]
        assert driver.get_key_value_store("late-counts").get("k") == 2
        assert driver.create_output_topic("out", TEXT, TEXT).read_values() == ["1", "2"]


def test_a_topic_may_have_serdes_of_its_own() -> None:
    builder = StreamsBuilder()
    produced: Produced[Any, Any] = Produced("late-sink", TEXT, Serdes.json())
    grouped(builder).windowed_by(TimeWindows.of(10), late=Late("late", produced)).count()
    topology = builder.build()
    with TopologyTestDriver(topology) as driver:
        source = driver.create_input_topic("in", TEXT, TEXT)
        source.pipe_input("k", "a", 50)
        source.pipe_input("k", "b", 3)
        assert driver.create_output_topic("late", TEXT, Serdes.json()).read_key_values() == [("k", "b")]
    assert "Sink: late-sink (topic: late)" in str(topology.describe())


def test_no_other_node_is_renamed_and_the_description_has_the_way_of_late_records() -> None:
    def described(late: Late[Any, Any] | None) -> str:
        builder = StreamsBuilder()
        strip(grouped(builder).windowed_by(TimeWindows.of(10), late=late).count())
        return str(builder.build().describe())

    plain, with_late = described(None), described(LATE)
    named = [line.split(":")[1].split()[0] for line in plain.splitlines() if ": KSTREAM" in line]
    assert all(name in with_late for name in named)
    assert "Processor: KSTREAM-AGGREGATE-0000000002-late (stores: [])" in with_late
    assert "Sink: KSTREAM-AGGREGATE-0000000002-late-sink (topic: late)" in with_late
    assert "late" not in plain


def test_aggregations_between_which_updates_are_combined_are_combined_with_late_records_too() -> None:
    def table(late: Late[Any, Any] | None) -> Topology:
        builder = StreamsBuilder()
        counts = grouped(builder).windowed_by(TimeWindows.of(10), late=late).count()
        per_key = counts.to_stream(lambda windowed, _: windowed.key)
        per_key.group_by_key(Grouped("per-key", TEXT, Serdes.long())).reduce(lambda one, other: one + other)
        return builder.build()

    for late in (None, LATE):
        (node,) = (node for node in table(late).nodes if node.name == "KSTREAM-AGGREGATE-0000000002")
        assert node.supplier().combines, late  # type: ignore[union-attr]


# ---- joins -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["join", "left_join", "outer_join", "join_prior"])
def test_a_record_that_no_later_record_can_join_goes_to_the_topic_from_either_side(kind: str) -> None:
    builder = StreamsBuilder()
    left, right = stream(builder, "left"), stream(builder, "right")
    joined = getattr(left, kind)(right, lambda one, other: f"{one}/{other}", JoinWindows.of(10, grace=5), late=LATE)
    joined.to("out", Produced(TEXT, TEXT))
    with TopologyTestDriver(builder.build()) as driver:
        lefts, rights = (driver.create_input_topic(each, TEXT, TEXT) for each in ("left", "right"))
        for topic, value in ((lefts, "l"), (rights, "r")):
            topic.pipe_input("k", value, 100)
            topic.pipe_input("k", f"{value} kept", 80)
            topic.pipe_input("k", f"{value} late", 3)
            topic.pipe_input(None, "without key", 4)
            topic.pipe_input("k", None, 5)
        late = driver.create_output_topic("late", TEXT, TEXT).read_records()
    assert [(each.value, each.timestamp) for each in late] == [("l late", 3), ("r late", 3)]


# ---- versioned tables ------------------------------------------------------------------------------------------


def versioned_of_stream(builder: StreamsBuilder) -> KTable[str, str]:
    return stream(builder).to_table(materialized=Materialized("rows", TEXT, TEXT, versioned=50), late=LATE)


def versioned_of_topic(builder: StreamsBuilder) -> KTable[str, str]:
    return builder.table("in", Consumed(TEXT, TEXT), Materialized("rows", versioned=50), late=LATE)


@pytest.mark.parametrize("table", [versioned_of_stream, versioned_of_topic])
def test_an_update_that_is_older_than_the_history_goes_to_the_topic(
    table: Callable[[StreamsBuilder], KTable[str, str]],
) -> None:
    records = [("k", "a", 500_000), ("k", "in time", 499_990), ("k", "late", 4), ("m", "late", 5)]
    assert late_records(table, records) == [("k", "late", 4), ("m", "late", 5)]


@pytest.mark.parametrize("operation", ["table", "to_table"])
def test_a_table_without_versions_is_refused(operation: str) -> None:
    builder = StreamsBuilder()
    build: Callable[..., object] = stream(builder).to_table if operation == "to_table" else builder.table
    with pytest.raises(TopologyError, match=f"{operation}: late=... is for a table that keeps versions"):
        build(*(() if operation == "to_table" else ("in",)), late=LATE)


# ---- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Late("no topic"), "Late: 'no topic' is not the name of a topic"),
        (lambda: Late(lambda: None), r"Late calls its function with \(stream\)"),  # type: ignore[arg-type,misc]
        (lambda: Late("t", TEXT), "Late takes Produced here, not"),  # type: ignore[arg-type]
        (lambda: Late(lambda late: None, Produced(TEXT, TEXT)), "writes no topic itself"),
        (lambda: grouped(StreamsBuilder()).windowed_by(TimeWindows.of(1), late="t"), "windowed_by takes Late here"),  # type: ignore[call-overload]
    ],
)
def test_what_is_no_side_output_is_refused(make: Callable[[], object], told: str) -> None:
    with pytest.raises(TopologyError, match=told):
        make()


def test_a_serde_that_does_not_fit_is_refused() -> None:
    builder = StreamsBuilder()
    produced: Produced[Any, Any] = Produced(TEXT, Serdes.long())
    with pytest.raises(TopologyError, match=r"Late\('late'\): its values are string"):
        grouped(builder).windowed_by(TimeWindows.of(10), late=Late("late", produced)).count()


# ---- a processor's side outputs --------------------------------------------------------------------------------


def test_a_processor_reaches_a_side_output_by_its_name_alone() -> None:
    class Sorting(Processor):
        def init(self, context: ProcessorContext) -> None:
            self._context = context

        def process(self, record: Record) -> None:
            self._context.forward(record, "odd" if record.timestamp % 2 else None)

    class Upper(Sorting):
        def process(self, record: Record) -> None:
            self._context.forward(record.with_value(record.value.upper()))

    topology = Topology().add_source("in", "in", key_deserializer=TEXT, value_deserializer=TEXT)
    topology.add_processor("sorting", Sorting, "in").add_side_output("odd", Upper, "sorting")
    topology.add_sink("even-sink", "even", "sorting", key_serializer=TEXT, value_serializer=TEXT)
    topology.add_sink("odd-sink", "odd", "odd", key_serializer=TEXT, value_serializer=TEXT)
    with TopologyTestDriver(topology) as driver:
        source = driver.create_input_topic("in", TEXT, TEXT)
        source.pipe_input("k", "a", 1)
        source.pipe_input("k", "b", 2)
        assert driver.create_output_topic("even", TEXT, TEXT).read_values() == ["b"]
        assert driver.create_output_topic("odd", TEXT, TEXT).read_values() == ["A"]
