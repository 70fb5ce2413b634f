"""Tables whose rows have a time to live: rows vanish before the record that moves time is processed, and downstream
hears of it as of a deletion."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from streamsapp import (
    Consumed,
    Grouped,
    KTable,
    Materialized,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    StreamsConfig,
    TimeWindows,
    ValueAndTimestamp,
)
from streamsapp.errors import TopologyError
from streamsapp.testing import TopologyTestDriver

STRINGS = Consumed(Serdes.string(), Serdes.string())
TTL = 100


def driver_of(builder: StreamsBuilder, *, optimize: bool = False) -> TopologyTestDriver:
    text = Serdes.string()
    config = StreamsConfig(
        application_id="app", bootstrap_servers="none:9092", default_key_serde=text, default_value_serde=text
    )
    return TopologyTestDriver(builder.build(optimize=optimize), config)


class Driven:
    """A topology that writes to ``out``."""

    def __init__(self, builder: StreamsBuilder, value: Any = None) -> None:
        self.driver = driver_of(builder)
        self._out = self.driver.create_output_topic("out", Serdes.string(), value or Serdes.string())

    def pipe(self, key: str, value: str | None, at: int, topic: str = "in") -> list[tuple[Any, Any, int]]:
        self.driver.create_input_topic(topic, Serdes.string(), Serdes.string()).pipe_input(key, value, at)
        return self.results()

    def results(self) -> list[tuple[Any, Any, int]]:
        return [(record.key, record.value, record.timestamp) for record in self._out.read_records()]


def table(builder: StreamsBuilder, topic: str = "in", **options: Any) -> KTable[str, str]:
    return builder.table(topic, STRINGS, Materialized(f"{topic}-store", ttl=TTL, **options))


def test_rows_vanish_in_the_order_of_their_times_before_the_record_that_moves_time() -> None:
    builder = StreamsBuilder()
    table(builder).to_stream().to("out")
    run = Driven(builder)
    run.pipe("b", "1", 5)
    run.pipe("a", "1", 5)
    run.pipe("c", "1", 0)
    run.pipe("a", "2", 50)  # begins its time anew
    assert run.pipe("x", "1", 200) == [("c", None, 100), ("b", None, 105), ("a", None, 150), ("x", "1", 200)]
    assert dict(run.driver.get_state_store("in-store").all()) == {"x": ValueAndTimestamp("1", 200)}


def test_the_record_that_moves_time_finds_nothing_of_what_is_over() -> None:
    builder = StreamsBuilder()
    builder.stream("in", STRINGS).group_by_key().count(Materialized("counts", ttl=TTL)).to_stream().to("out")
    run = Driven(builder, Serdes.long())
    assert run.pipe("a", "", 0) == [("a", 1, 0)]
    assert run.pipe("a", "", 99) == [("a", 2, 99)]
    assert run.pipe("a", "", 199) == [("a", None, 199), ("a", 1, 199)]


@pytest.mark.parametrize("emit", ["update", "commit"])
def test_a_late_row_is_never_there_and_deletes_the_one_that_is(emit: str) -> None:
    builder = StreamsBuilder()
    table(builder, emit=emit).to_stream().to("out")
    run = Driven(builder)
    run.pipe("a", "1", 200)
    assert run.pipe("b", "late", 100) == []
    assert run.pipe("a", "late", 100) == [("a", None, 100)]
    assert run.pipe("b", "just", 101) == [("b", "just", 101)]
    assert run.pipe("c", "", 201) == [("b", None, 201), ("c", "", 201)]


def test_a_late_record_of_a_living_aggregate_counts() -> None:
    builder = StreamsBuilder()
    builder.stream("in", STRINGS).group_by_key().count(Materialized("counts", ttl=TTL)).to_stream().to("out")
    run = Driven(builder, Serdes.long())
    run.pipe("a", "", 200)
    assert run.pipe("a", "", 50) == [("a", 2, 200)]
    assert run.pipe("b", "", 50) == []


def test_groups_lose_the_rows_whose_time_is_over() -> None:
    builder = StreamsBuilder()
    rows = table(builder)
    grouped = rows.group_by(lambda key, value: (value, key), Grouped(Serdes.string(), Serdes.string()))
    grouped.count(Materialized("groups")).to_stream().to("out")
    run = Driven(builder, Serdes.long())
    run.pipe("a", "x", 0)
    run.pipe("b", "x", 10)
    assert run.pipe("c", "y", 150) == [("x", 1, 100), ("x", 0, 110), ("y", 1, 150)]


@pytest.mark.parametrize(
    ("join", "after"),
    [
        ("join", [("k", None, 100)]),
        ("left_join", [("k", None, 100)]),
        ("outer_join", [("k", "None+r", 100), ("k", None, 100)]),
    ],
)
def test_joined_tables_whose_rows_are_over_at_one_time_end_their_result(
    join: str, after: list[tuple[str, str | None, int]]
) -> None:
    builder = StreamsBuilder()
    left, right = table(builder, "in"), table(builder, "other")
    getattr(left, join)(right, lambda one, two: f"{one}+{two}").to_stream().to("out")
    run = Driven(builder)
    run.pipe("k", "l", 0)
    assert run.pipe("k", "r", 0, "other") == [("k", "l+r", 0)]
    told = run.pipe("z", None, 100)
    assert [each for each in told if each[0] == "k"] == after


def test_a_stream_does_not_join_a_row_that_is_over() -> None:
    builder = StreamsBuilder()
    rows = table(builder, "rows")
    builder.stream("in", STRINGS).left_join(rows, lambda value, row: f"{value}+{row}").to("out")
    run = Driven(builder)
    run.pipe("k", "row", 0, "rows")
    assert run.pipe("k", "1", 99) == [("k", "1+row", 99)]
    assert run.pipe("k", "2", 100) == [("k", "2+None", 100)]


def test_a_derived_table_has_a_time_of_its_own() -> None:
    builder = StreamsBuilder()
    rows = builder.table("in", STRINGS)
    rows.map_values(str.upper, materialized=Materialized("upper", ttl=TTL)).to_stream().to("out")
    run = Driven(builder)
    run.pipe("a", "x", 0)
    assert run.pipe("b", "y", 100) == [("a", None, 100), ("b", "Y", 100)]


def test_a_joined_table_that_was_deleted_is_not_subtracted_once_more() -> None:
    builder = StreamsBuilder()
    joined = builder.table("in", STRINGS).join(
        builder.table("other", STRINGS), lambda left, right: left + right, materialized=Materialized("joined", ttl=TTL)
    )
    grouped = joined.group_by(lambda key, value: ("all", value), Grouped(Serdes.string(), Serdes.string()))
    grouped.count(Materialized("groups")).to_stream().to("out")
    run = Driven(builder, Serdes.long())
    run.pipe("k", "l", 0)
    assert run.pipe("k", "r", 0, "other") == [("all", 1, 0)]
    assert run.pipe("z", "", 150) == [("all", 0, 100)]
    assert run.pipe("k", "s", 151, "other") == [("all", 1, 151)]


def test_streams_that_are_aggregated_together_delete_a_row_once() -> None:
    builder = StreamsBuilder()
    one, two = builder.stream("in", STRINGS).group_by_key(), builder.stream("other", STRINGS).group_by_key()

    def add(key: str, value: str, sum_: str) -> str:
        return sum_ + value

    both = one.cogroup(add).cogroup(two, add)
    both.aggregate(str, Materialized("both", Serdes.string(), Serdes.string(), ttl=TTL)).to_stream().to("out")
    run = Driven(builder)
    run.pipe("a", "1", 0)
    assert run.pipe("a", "2", 10, "other") == [("a", "12", 10)]
    assert run.pipe("b", "3", 110, "other") == [("a", None, 110), ("b", "3", 110)]


def test_other_inputs_move_the_time_too() -> None:
    builder = StreamsBuilder()
    rows = table(builder, "rows")
    builder.stream("in", STRINGS).left_join(rows, lambda value, row: f"{row}").to("out")
    run = Driven(builder)
    run.pipe("k", "row", 0, "rows")
    run.pipe("other", "", 1000)
    store = run.driver.get_state_store("rows-store")
    assert list(store.all()) == []
    assert store.get("k") is None


class Dedupe(Processor):
    """Forwards a key that it has not seen for a while, and looks at its store by callbacks."""

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._seen = context.get_state_store("seen")
        context.schedule(10, PunctuationType.STREAM_TIME, self._look)

    def process(self, record: Record) -> None:
        if self._seen.put_if_absent(record.key, "x", ttl=int(record.value)) is None:
            self._context.forward(record)

    def _look(self, at: int) -> None:
        assert all(self._seen.get(key) for key, _ in self._seen.all())


def test_processors_put_values_with_times_of_their_own() -> None:
    builder = StreamsBuilder()
    builder.add_state_store(
        Stores.key_value_store_with_ttl_builder(
            Stores.in_memory_key_value_store("seen"), Serdes.string(), Serdes.string()
        )
    )
    builder.stream("in", STRINGS).process(Dedupe, "seen").to("out")
    run = Driven(builder)
    assert len(run.pipe("a", "50", 0)) == 1
    assert run.pipe("a", "50", 49) == []
    assert len(run.pipe("a", "50", 50)) == 1
    assert len(run.pipe("b", "1000", 50)) == 1
    assert run.pipe("b", "1000", 1049) == []


def test_a_row_that_is_read_by_its_deletion_downstream_is_over_as_well() -> None:
    seen: list[tuple[str, list[str]]] = []

    class Looks(Processor):
        def init(self, context: ProcessorContext) -> None:
            self._rows = context.get_state_store("in-store")

        def process(self, record: Record) -> None:
            seen.append((record.key, [key for key, _ in self._rows.all()]))

    builder = StreamsBuilder()
    table(builder).to_stream().process(Looks, "in-store")
    driver = driver_of(builder)
    rows = driver.create_input_topic("in", Serdes.string(), Serdes.string())
    for key, at in (("a", 0), ("b", 1), ("c", 500)):
        rows.pipe_input(key, "v", at)
    assert seen[2:] == [("a", []), ("b", []), ("c", ["c"])]


def test_callbacks_by_stream_time_come_after_the_record_that_waited_for_deletions() -> None:
    order: list[str] = []

    class Notes(Processor):
        def init(self, context: ProcessorContext) -> None:
            context.schedule(1000, PunctuationType.STREAM_TIME, lambda at: order.append(f"at {at}"), start=500)

        def process(self, record: Record) -> None:
            order.append(f"{record.key}={record.value}")

    builder = StreamsBuilder()
    table(builder).to_stream().process(Notes)
    driver = driver_of(builder)
    rows = driver.create_input_topic("in", Serdes.string(), Serdes.string())
    for key, at in (("a", 0), ("b", 0), ("c", 0), ("d", 600)):
        rows.pipe_input(key, "v", at)
    assert order[3:] == ["a=None", "b=None", "c=None", "d=v", "at 600"]


def test_the_topic_of_a_table_is_not_its_changelog_where_rows_are_over() -> None:
    def changelogs(**options: Any) -> set[str]:
        builder = StreamsBuilder()
        builder.table("in", STRINGS, Materialized("rows", **options)).to_stream().to("out")
        parts = builder.build(optimize=True).sub_topologies()
        return {store.changelog_topic or "own" for part in parts for store in part.stores}

    assert changelogs() == {"in"}
    assert changelogs(ttl=TTL) == {"own"}


def _windowed(windows: Any) -> Callable[[StreamsBuilder], object]:
    return lambda builder: (
        builder.stream("in", STRINGS).group_by_key().windowed_by(windows).count(Materialized("w", ttl=TTL))
    )


def _grouped_rows(builder: StreamsBuilder) -> object:
    grouped = builder.table("in", STRINGS).group_by(lambda key, value: (value, key))
    return grouped.count(Materialized("g", ttl=TTL))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            _windowed(TimeWindows.of(5)),
            r"Materialized\('w', ttl=...\): windows and sessions are kept for their retention",
        ),
        (_windowed(SlidingWindows.of(5, 0)), "set retention, or leave ttl out"),
        (_windowed(SessionWindows.of(5)), "set retention, or leave ttl out"),
        (_grouped_rows, r"Materialized\('g', ttl=...\): count of grouped rows .* give the ttl to the table"),
        (
            lambda builder: builder.global_table("in", STRINGS, Materialized("g", ttl=TTL)),
            r"Materialized\('g', ttl=...\): global_table\('in'\) has the rows of its topic; leave ttl out",
        ),
        (
            lambda builder: table(builder, versioned=5),
            r"Materialized\('in-store', ttl=...\): a table that keeps versions .* leave ttl or versioned out",
        ),
        (
            lambda builder: builder.table("in", STRINGS, Materialized("t", ttl=0)),
            r"Materialized\('t', ttl=...\): a time to live is at least 1 ms .* got 0 ms",
        ),
        (
            lambda builder: builder.table("in", STRINGS, Materialized("t", ttl=timedelta(microseconds=5))),
            "a time to live is at least 1 ms .* got 0 ms",
        ),
        (
            lambda builder: builder.table("in", STRINGS, Materialized("t", ttl="1h")),  # type: ignore[call-overload]
            r"Materialized\('t', ttl=...\): a duration is a timedelta or whole milliseconds, got '1h'",
        ),
        (
            lambda builder: builder.add_global_store(_with_ttl(), "in", STRINGS, Dedupe).build(),
            r"add_global_store\('s'\): the store is restored from the topic that it reads, .* leave the time to live",
        ),
        (
            lambda builder: builder.add_read_only_state_store(_with_ttl(), "in", STRINGS, Dedupe),
            r"add_read_only_state_store\('s'\): the store is restored from the topic that it reads",
        ),
    ],
)
def test_a_time_to_live_is_refused_where_rows_can_have_none(
    build: Callable[[StreamsBuilder], object], message: str
) -> None:
    with pytest.raises(TopologyError, match=message):
        build(StreamsBuilder())


def _with_ttl() -> Any:
    return Stores.key_value_store_with_ttl_builder(Stores.in_memory_key_value_store("s"), ttl=5)


_RECORDS = st.lists(
    st.tuples(
        st.sampled_from(["in", "other"]), st.sampled_from("abc"), st.sampled_from(["x", "y", None]), st.integers(0, 300)
    ),
    max_size=30,
)


@settings(deadline=None, max_examples=40)
@given(_RECORDS)
def test_what_hangs_on_tables_is_what_their_living_rows_make_of_it(
    records: list[tuple[str, str, str | None, int]],
) -> None:
    """A table, its groups, its join with another one and the groups of that, after each record."""
    builder = StreamsBuilder()
    rows, others = table(builder), table(builder, "other")
    rows.to_stream().to("out")
    by_value = Grouped(Serdes.string(), Serdes.string())
    rows.group_by(lambda key, value: (value, key), by_value).count(Materialized("groups"))
    joined = rows.join(others, lambda left, right: left + right, materialized=Materialized("joined"))
    joined.group_by(lambda key, value: (value, key), by_value).count(Materialized("joined-groups"))
    run = Driven(builder)
    now, living, told = (
        -1,
        {"in": dict[str, tuple[str, int]](), "other": dict[str, tuple[str, int]]()},
        dict[str, Any](),
    )
    for topic, key, value, at in records:
        now = max(now, at)
        told |= {each: new for each, new, _ in run.pipe(key, value, at, topic)}
        for name, kept in living.items():
            living[name] = {each: row for each, row in kept.items() if row[1] + TTL > now}
        living[topic].pop(key, None)
        if value is not None and at + TTL > now:
            living[topic][key] = (value, at)
        left, right = ({each: row[0] for each, row in kept.items()} for kept in living.values())
        both = {each: row + right[each] for each, row in left.items() if each in right}
        assert {each: new for each, new in told.items() if new is not None} == left
        assert {each: row.value for each, row in run.driver.get_state_store("joined").all()} == both
        for store, expected in (("groups", left), ("joined-groups", both)):
            counts = {each: count.value for each, count in run.driver.get_state_store(store).all() if count.value}
            values = list(expected.values())
            assert counts == {each: values.count(each) for each in values}
    run.driver.close()


def test_rows_vanish_where_a_silent_input_moves_time() -> None:
    builder = StreamsBuilder()
    silent = Consumed(Serdes.string(), Serdes.string(), idle_after=TTL)
    builder.stream("in", silent).to_table(Materialized("rows", ttl=TTL)).to_stream().to("out")
    run = Driven(builder)
    run.pipe("a", "1", 0)
    run.pipe("b", "1", 10)
    run.driver.advance_wall_clock_time(timedelta(milliseconds=TTL))
    assert run.results() == [("a", None, 100), ("b", None, 110)]
    assert not list(run.driver.get_state_store("rows").all())
