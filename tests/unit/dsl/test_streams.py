"""The work of streams on records, through the test driver."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamsapp.config.streams_config import StreamsConfig
from streamsapp.dsl.builder import StreamsBuilder
from streamsapp.dsl.kstream import KStream
from streamsapp.dsl.options import Branched, Consumed, Grouped, Materialized, Printed, Produced, Repartitioned
from streamsapp.errors import ProcessingError, TopologyError
from streamsapp.record import Record
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.serdes import Serdes
from streamsapp.testing import TopologyTestDriver

STRING = Serdes.string()
LONG = Serdes.long()
TYPED: Produced[str, str] = Produced(STRING, STRING)

#: ``(key, value, timestamp)``
Piped = tuple[Any, Any, int]


def run(
    program: Callable[[KStream[str, str]], object],
    records: list[Piped],
    output: str = "out",
    value_serde: AnySerde = STRING,
) -> list[Piped]:
    """Returns what a program makes of records of topic ``in``, without headers."""
    builder = StreamsBuilder()
    program(builder.stream("in", Consumed(STRING, STRING)))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", STRING, STRING)
        for key, value, timestamp in records:
            topic.pipe_input(key, value, timestamp)
        if output not in driver.produced_topic_names:
            return []
        results = driver.create_output_topic(output, STRING, value_serde).read_records()
    return [(record.key, record.value, record.timestamp) for record in results]


def test_filter_keeps_what_the_predicate_holds_for_and_filter_not_drops_it() -> None:
    records: list[Piped] = [("a", "yes", 1), ("b", "no", 2), (None, "yes", 3)]
    assert run(lambda s: s.filter(lambda k, v: v == "yes").to("out"), records) == [("a", "yes", 1), (None, "yes", 3)]
    assert run(lambda s: s.filter_not(lambda k, v: v == "yes").to("out"), records) == [("b", "no", 2)]


def test_mappers_of_values_get_the_key_only_when_they_must_take_two_arguments() -> None:
    records: list[Piped] = [("k", "v", 1)]
    assert run(lambda s: s.map_values(lambda v, suffix="!": v + suffix).to("out", TYPED), records) == [("k", "v!", 1)]
    assert run(lambda s: s.map_values(lambda k, v: k + v).to("out", TYPED), records) == [("k", "kv", 1)]
    assert run(lambda s: s.flat_map_values(lambda k, v: [k, v]).to("out", TYPED), records) == [
        ("k", "k", 1),
        ("k", "v", 1),
    ]


def test_map_and_flat_map_take_pairs_and_keep_time() -> None:
    assert run(lambda s: s.map(lambda k, v: (v, k)).to("out", TYPED), [("k", "v", 7)]) == [("v", "k", 7)]
    doubled = run(lambda s: s.flat_map(lambda k, v: ((k, v), (v, k))).to("out", TYPED), [("k", "v", 7)])
    assert doubled == [("k", "v", 7), ("v", "k", 7)]


def test_flat_map_sends_nothing_of_an_iterable_that_fails_half_way() -> None:
    def half(value: str) -> Any:
        yield value
        raise ValueError("no more")

    builder = StreamsBuilder()
    builder.stream("in", Consumed(STRING, STRING)).flat_map_values(half).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        with pytest.raises(ProcessingError, match=r"KSTREAM-FLATMAPVALUES-0000000001.*in-0@0.*no more"):
            driver.create_input_topic("in", STRING, STRING).pipe_input("k", "v")
        assert driver.create_output_topic("out", STRING, STRING).is_empty()


def test_each_record_takes_the_first_branch_that_wants_it() -> None:
    def program(stream: KStream[str, str]) -> None:
        branches = (
            stream.split("by-")
            .branch(lambda k, v: v < "c", "small")
            .branch(lambda k, v: v < "e", Branched(function=lambda s: s.map_values(str.upper)))
            .default_branch(Branched("rest", consumer=lambda s: s.to("rest", TYPED)))
        )
        assert list(branches) == ["by-small", "by-2"]
        branches["by-small"].merge(branches["by-2"]).to("out", TYPED)

    records: list[Piped] = [("k", letter, 0) for letter in "adz"]
    assert [value for _, value, _ in run(program, records)] == ["a", "D"]
    assert [value for _, value, _ in run(program, records, "rest")] == ["z"]


def test_records_without_a_branch_are_dropped_unless_there_is_a_default() -> None:
    def program(stream: KStream[str, str]) -> None:
        stream.split("b").branch(lambda k, v: v == "x").no_default_branch()["b1"].to("out")

    assert run(program, [("k", "x", 0), ("k", "y", 0)]) == [("k", "x", 0)]


def test_count_keeps_the_latest_time_and_ignores_records_without_key_or_value() -> None:
    records: list[Piped] = [("a", "x", 10), ("a", "x", 5), (None, "x", 20), ("a", None, 30), ("b", "x", 1)]
    counted = run(lambda s: s.group_by_key().count().to_stream().to("out"), records, value_serde=LONG)
    assert counted == [("a", 1, 10), ("a", 2, 10), ("b", 1, 1)]


def test_reduce_begins_with_the_first_value_and_deletes_where_the_reducer_returns_nothing() -> None:
    def reducer(aggregate: str, value: str) -> Any:
        return None if value == "stop" else aggregate + value

    records: list[Piped] = [("a", "x", 1), ("a", "y", 3), ("a", "stop", 2), ("a", "z", 1)]
    reduced = run(lambda s: s.group_by_key().reduce(reducer).to_stream().to("out"), records)
    assert reduced == [("a", "x", 1), ("a", "xy", 3), ("a", None, 3), ("a", "z", 1)]


def test_aggregate_folds_from_the_initial_value() -> None:
    def program(stream: KStream[str, str]) -> None:
        grouped = stream.group_by_key()
        table = grouped.aggregate(lambda: 100, lambda k, v, total: total + len(v), Materialized(value_serde=LONG))
        table.to_stream().to("out")

    assert run(program, [("a", "xx", 1), ("a", "yyy", 2)], value_serde=LONG) == [("a", 102, 1), ("a", 105, 2)]


def test_aggregates_of_values_that_can_change_in_place_are_stored_as_bytes() -> None:
    def program(stream: KStream[str, str]) -> None:
        def append(key: str, value: str, seen: list[str]) -> list[str]:
            seen.append(value)
            return seen

        table = stream.group_by_key().aggregate(list, append, Materialized(value_serde=Serdes.json()))
        table.to_stream().to("out")

    grown = run(program, [("a", "x", 1), ("a", "y", 2)], value_serde=Serdes.json())
    assert [value for _, value, _ in grown] == [["x"], ["x", "y"]]


def test_repartitioning_drops_records_without_a_key() -> None:
    def keep_letters(key: str, value: str) -> Any:
        return value or None

    def program(stream: KStream[str, str]) -> None:
        stream.select_key(keep_letters).repartition(Repartitioned(STRING)).to("out")

    assert run(program, [("k", "", 1), ("k", "a", 2)]) == [("a", "a", 2)]


def test_combining_before_the_repartition_topic_gives_the_same_counts_and_sums() -> None:
    records: list[Piped] = [(None, word, at) for at, word in enumerate("abacaba")]

    def count(stream: KStream[str, str]) -> None:
        grouped = stream.group_by(lambda k, v: v, Grouped(STRING, STRING, combine=True))
        grouped.count().to_stream().to("out")

    def reduce(stream: KStream[str, str]) -> None:
        grouped = stream.group_by(lambda k, v: v, Grouped(STRING, STRING, combine=True))
        grouped.reduce(lambda one, two: one + two).to_stream().to("out")

    counts = {key: (value, at) for key, value, at in run(count, records, value_serde=LONG)}
    assert counts == {"a": (4, 6), "b": (2, 5), "c": (1, 3)}
    texts = {key: value for key, value, _ in run(reduce, records)}
    assert texts == {"a": "aaaa", "b": "bb", "c": "c"}


def test_records_are_combined_by_the_configured_serdes() -> None:
    builder = StreamsBuilder()
    builder.stream("in").group_by(lambda k, v: float(v), Grouped(combine=True)).count().to_stream().to("out")
    config = StreamsConfig(
        application_id="app", bootstrap_servers="none:9092", default_key_serde=Serdes.double(), default_value_serde=LONG
    )
    with TopologyTestDriver(builder.build(), config) as driver:
        topic = driver.create_input_topic("in", Serdes.double(), LONG)
        topic.pipe_input(0.0, 1)
        topic.pipe_input(0.0, 1)
        assert driver.create_output_topic("out", Serdes.double(), LONG).read_key_values() == [(1.0, 1), (1.0, 2)]


def test_print_writes_label_key_and_value(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "printed.txt"
    options: Printed[str, str] = Printed("label", mapper=lambda k, v: f"{k}={v}", path=str(path))

    def program(stream: KStream[str, str]) -> None:
        stream.print()
        stream.print(options)

    run(program, [("a", None, 1)])
    assert capsys.readouterr().out == "[KSTREAM-SOURCE-0000000000]: a, null\n"
    assert path.read_text() == "[label]: a=None\n"


def test_headers_travel_along() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(STRING, STRING))
    stream.filter(lambda k, v: True).map_values(str.upper).group_by_key(Grouped(STRING, STRING)).count().to_stream().to(
        "out"
    )
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", STRING, STRING).pipe_record(Record("k", "v", 3, [("h", b"1")]))
        assert driver.create_output_topic("out", STRING, LONG).read_record() == Record("k", 1, 3, [("h", b"1")])


@pytest.mark.parametrize("left", [False, True])
def test_a_joiner_with_a_global_table_has_both_keys_if_it_wants_four_arguments(left: bool) -> None:
    builder = StreamsBuilder()
    rates = builder.global_table("rates", Consumed(STRING, STRING))
    orders = builder.stream("orders", Consumed(STRING, STRING))
    join = orders.left_join if left else orders.join
    join(
        rates,
        lambda key, order: order if order in ("euro", "lei") else None,
        lambda key, row_key, order, rate: f"{key} {row_key} {order} {rate}",
    ).to("out", TYPED)
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("rates", STRING, STRING).pipe_input("euro", "1.1")
        driver.create_input_topic("orders", STRING, STRING).pipe_key_values([("a", "euro"), ("b", "lei"), ("c", "x")])
        results = driver.create_output_topic("out", STRING, STRING).read_values()
    assert results == ["a euro euro 1.1", "b lei lei None", "c None x None"][: 3 if left else 1]


def test_a_joiner_of_arguments_that_no_join_has_is_refused() -> None:
    builder = StreamsBuilder()
    consumed = Consumed(STRING, STRING)
    rates, table = builder.global_table("rates", consumed), builder.table("rows", consumed)
    stream = builder.stream("in", consumed)
    with pytest.raises(TopologyError, match=r"calls its function with \(key, row_key, value, row\)"):
        stream.join(rates, lambda key, value: key, lambda a, b, c, d, e: a)
    with pytest.raises(TopologyError, match=r"calls its function with \(key, value, row\)"):
        stream.join(table, lambda a, b, c, d: a)
    with pytest.raises(TopologyError, match=r"or \(key, value, row\) or \(key, row_key, value, row\)"):
        stream.join(rates, lambda key, value: key, 7)  # type: ignore[call-overload]


@pytest.mark.parametrize("name", ["orders-{key}", "orders-%s", f"orders-{str.upper}"])
def test_a_topic_that_depends_on_the_record_is_refused_with_the_way_to_write_it(name: str) -> None:
    with pytest.raises(TopologyError, match=r"to: .* is not the name of a topic; .*; give a function for a name"):
        run(lambda s: s.to(name), [])
    with pytest.raises(TopologyError) as raised:
        run(lambda s: s.to("a b"), [])
    assert "give a function" not in str(raised.value)
