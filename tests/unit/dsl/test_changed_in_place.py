"""Functions that change the aggregate they are given: the old value that is sent is the one from before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from streamsapp import (
    Consumed,
    Grouped,
    KGroupedStream,
    KGroupedTable,
    KTable,
    Materialized,
    Produced,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
)
from streamsapp.testing import TopologyTestDriver

TEXT, JSON = Serdes.string(), Serdes.json()
Emit = Literal["update", "commit"]
READ: Consumed[str, Any] = Consumed(TEXT, JSON)
GROUPED: Grouped[str, Any] = Grouped(TEXT, JSON)


def _add(total: Any, value: Any) -> Any:
    total["n"] += value["n"]
    return total


def _fold(key: str, value: Any, total: Any) -> Any:
    return _add(total, value)


def _merge(key: str, total: Any, other: Any) -> Any:
    return _add(other, total)


def _none() -> Any:
    return {"n": 0}


def _kept(emit: Emit) -> Materialized[Any, Any]:
    return Materialized("st", TEXT, JSON, store="memory", emit=emit)


def _reduced(grouped: KGroupedStream[str, Any], emit: Emit) -> KTable[Any, Any]:
    return grouped.reduce(_add, _kept(emit))


def _aggregated(grouped: KGroupedStream[str, Any], emit: Emit) -> KTable[Any, Any]:
    return grouped.aggregate(_none, _fold, _kept(emit))


def _windowed(grouped: KGroupedStream[str, Any], emit: Emit) -> KTable[Any, Any]:
    return grouped.windowed_by(TimeWindows.of(100)).aggregate(_none, _fold, _kept(emit))


def _sliding(grouped: KGroupedStream[str, Any], emit: Emit) -> KTable[Any, Any]:
    return grouped.windowed_by(SlidingWindows.of(100)).aggregate(_none, _fold, _kept(emit))


def _sessions(grouped: KGroupedStream[str, Any], emit: Emit) -> KTable[Any, Any]:
    return grouped.windowed_by(SessionWindows.of(100)).aggregate(_none, _fold, _merge, _kept(emit))


def _table_grouped(grouped: KGroupedTable[str, Any], emit: Emit) -> KTable[Any, Any]:
    return grouped.reduce(_add, lambda total, value: {"n": total["n"] - value["n"]}, _kept(emit))


def _totals(table: KTable[Any, Any]) -> None:
    """The table of all rows' sum, which subtracts old values."""
    regrouped = table.group_by(lambda key, row: ("all", row["n"]), Grouped(TEXT, Serdes.long()))
    summed = regrouped.reduce(lambda total, n: total + n, lambda total, n: total - n)
    summed.to_stream().to("out", Produced(TEXT, Serdes.long()))


def _last(builder: StreamsBuilder, records: list[tuple[str, Any, int]]) -> Any:
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, JSON)
        for key, value, timestamp in records:
            topic.pipe_input(key, value, timestamp)
        return driver.create_output_topic("out", TEXT, Serdes.long()).read_records()[-1].value


RECORDS = [("k", {"n": 1}, 200), ("k", {"n": 2}, 200), ("l", {"n": 3}, 200), ("k", {"n": 4}, 200)]


@pytest.mark.parametrize("emit", ["update", "commit"])
@pytest.mark.parametrize("aggregated", [_reduced, _aggregated, _windowed, _sliding])
def test_the_old_value_of_an_aggregate_that_is_changed_in_place_is_that_of_before(
    aggregated: Callable[[KGroupedStream[str, Any], Emit], KTable[Any, Any]], emit: Emit
) -> None:
    builder = StreamsBuilder()
    _totals(aggregated(builder.stream("in", READ).group_by_key(GROUPED), emit))
    assert _last(builder, RECORDS) == 10


@pytest.mark.parametrize("emit", ["update", "commit"])
def test_the_old_value_of_sessions_that_are_changed_in_place_is_that_of_before(emit: Emit) -> None:
    builder = StreamsBuilder()
    _totals(_sessions(builder.stream("in", READ).group_by_key(GROUPED), emit))
    assert _last(builder, [(key, value, at + number) for number, (key, value, at) in enumerate(RECORDS)]) == 10


@pytest.mark.parametrize("emit", ["update", "commit"])
def test_the_old_value_of_a_grouped_table_that_is_changed_in_place_is_that_of_before(emit: Emit) -> None:
    builder = StreamsBuilder()
    grouped = builder.table("in", READ).group_by(lambda key, row: ("group", row), GROUPED)
    _totals(_table_grouped(grouped, emit))
    assert _last(builder, [("k", {"n": 1}, 1), ("l", {"n": 2}, 2), ("m", {"n": 3}, 3)]) == 6


def test_a_session_that_is_merged_in_place_is_deleted_as_it_was() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", READ).group_by_key(GROUPED)
    rows = grouped.windowed_by(SessionWindows.of(10)).reduce(_add, Materialized("st", TEXT, JSON))
    few = rows.filter(lambda window, row: row["n"] < 3)
    few.to_stream(lambda window, row: f"{window.start_ms}/{window.end_ms}").to("out", Produced(TEXT, JSON))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, JSON)
        topic.pipe_input("k", {"n": 1}, 0)
        topic.pipe_input("k", {"n": 2}, 5)
        results = driver.create_output_topic("out", TEXT, JSON).read_records()
    assert ("0/0", None) in [(record.key, record.value) for record in results]


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ((1, True), [(1, 1), (1, 0), (True, 1)]),
        ((0.0, -0.0), [(0.0, 1), (0.0, 0), (-0.0, 1)]),
        ((["a", 1], ["a", 1.0]), [(["a", 1], 1), (["a", 1], 0), (["a", 1.0], 1)]),
        (({"n": 0}, {"n": False}), [({"n": 0}, 1), ({"n": 0}, 0), ({"n": False}, 1)]),
    ],
    ids=["int and bool", "two zeros", "lists", "documents"],
)
def test_groups_that_are_equal_to_python_alone_are_two(groups: tuple[Any, Any], expected: list[Any]) -> None:
    builder = StreamsBuilder()
    grouped = builder.table("in", READ).group_by(lambda key, row: (groups[row], row), GROUPED_BY_JSON)
    grouped.count().to_stream().to("out", Produced(JSON, Serdes.long()))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, JSON)
        for row in (0, 1):
            topic.pipe_input("k", row, row)
        results = driver.create_output_topic("out", JSON, Serdes.long()).read_records()
    assert [(repr(record.key), record.value) for record in results] == [(repr(key), count) for key, count in expected]


GROUPED_BY_JSON: Grouped[Any, Any] = Grouped(JSON, JSON)


@dataclass
class Row:
    n: int
    seen: list[int]


def _joined_in_place(value: Row, row: Row) -> Row:
    row.seen.append(value.n)
    row.n += value.n
    return row


def test_a_row_that_a_joiner_changes_in_place_is_as_it_was_for_the_next_record() -> None:
    rows = Serdes.json(Row)
    builder = StreamsBuilder()
    table = builder.table("rows", Consumed(TEXT, rows))
    builder.stream("in", Consumed(TEXT, rows)).join(table, _joined_in_place).to("out", Produced(TEXT, rows))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("rows", TEXT, rows).pipe_input("k", Row(10, [0]))
        topic = driver.create_input_topic("in", TEXT, rows)
        for n in range(5):
            topic.pipe_input("k", Row(n, []))
        results = driver.create_output_topic("out", TEXT, rows).read_values()
    assert results == [Row(10 + n, [0, n]) for n in range(5)]


@pytest.mark.parametrize("commit_each", [1, 3, 100])
def test_a_reducer_that_returns_what_it_was_given_may_have_changed_it(commit_each: int) -> None:
    def longest(last: Row, value: Row) -> Row:
        if value.n == 0:
            return last
        if value.n < 0:
            last.seen.append(value.n)
            return last
        return value

    numbers = [5, 0, 0, 0, -1, 0, 0, -2, 0, 7, 0, 0, 0, -3, 0]
    rows = Serdes.json(Row)
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(TEXT, rows)).group_by_key(Grouped(TEXT, rows))
    grouped.reduce(longest, Materialized("st", TEXT, rows, store="memory")).to_stream().to("out", Produced(TEXT, rows))
    expected, last = [], Row(5, [])
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, rows)
        for at, n in enumerate(numbers):
            topic.pipe_input("k", Row(n, []), at)
            last = Row(n, []) if n > 0 else Row(last.n, [*last.seen, n] if n else last.seen)
            expected.append(last)
            if not at % commit_each:
                driver.advance_wall_clock_time(60_000)
        assert driver.create_output_topic("out", TEXT, rows).read_values() == expected
        assert driver.get_key_value_store("st").get("k") == last
