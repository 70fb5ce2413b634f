"""Groups of rows that an aggregation makes: a row that is new is added to its group, and nothing is subtracted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamsapp import (
    Consumed,
    Grouped,
    KGroupedStream,
    KTable,
    Materialized,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
)
from streamsapp.testing import TopologyTestDriver

TEXT, LONG = Serdes.string(), Serdes.long()
Grouping = KGroupedStream[str, str]


def _fold(key: str, value: str, total: int) -> int:
    return total + 1


def _counted(grouped: Grouping, kept: Materialized[Any, int]) -> KTable[Any, int]:
    return grouped.count(kept)


def _aggregated(grouped: Grouping, kept: Materialized[Any, int]) -> KTable[Any, int]:
    return grouped.aggregate(lambda: 0, _fold, kept)


def _cogrouped(grouped: Grouping, kept: Materialized[Any, int]) -> KTable[Any, int]:
    return grouped.cogroup(_fold).aggregate(lambda: 0, kept)


def _windows_counted(grouped: Grouping, kept: Materialized[Any, int]) -> KTable[Any, int]:
    return grouped.windowed_by(TimeWindows.of(100)).count(kept)


def _windows_aggregated(grouped: Grouping, kept: Materialized[Any, int]) -> KTable[Any, int]:
    return grouped.windowed_by(TimeWindows.of(100)).aggregate(lambda: 0, _fold, kept)


def _sliding(grouped: Grouping, kept: Materialized[Any, int]) -> KTable[Any, int]:
    return grouped.windowed_by(SlidingWindows.of(100)).aggregate(lambda: 0, _fold, kept)


def _sessions(grouped: Grouping, kept: Materialized[Any, int]) -> KTable[Any, int]:
    return grouped.windowed_by(SessionWindows.of(1)).count(kept)


def _itself(table: KTable[Any, int]) -> KTable[Any, int]:
    return table


def _filtered(table: KTable[Any, int]) -> KTable[Any, int]:
    return table.filter(lambda key, count: count >= 0).map_values(lambda count: count)


@pytest.mark.parametrize("derive", [_itself, _filtered])
@pytest.mark.parametrize(
    "aggregate", [_counted, _aggregated, _cogrouped, _windows_counted, _windows_aggregated, _sliding, _sessions]
)
def test_the_rows_of_an_aggregation_are_counted(
    aggregate: Callable[[Any, Any], KTable[Any, int]], derive: Callable[[KTable[Any, int]], KTable[Any, int]]
) -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(TEXT, TEXT)).group_by_key(Grouped(TEXT, TEXT))
    rows = derive(aggregate(grouped, Materialized("rows", TEXT, LONG)))
    rows.group_by(lambda key, count: ("all", count), Grouped(TEXT, LONG)).count(Materialized("all"))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        for key in "abacab":
            topic.pipe_input(key, "v", timestamp_ms=1_000)
        assert driver.get_key_value_store("all").get("all") == 3


def test_the_rows_of_a_join_with_an_aggregation_are_counted() -> None:
    builder = StreamsBuilder()
    counts = builder.stream("in", Consumed(TEXT, TEXT)).group_by_key(Grouped(TEXT, TEXT)).count(Materialized("rows"))
    joined = counts.left_join(builder.table("others", Consumed(TEXT, TEXT)), lambda count, other: count)
    joined.group_by(lambda key, count: ("all", count), Grouped(TEXT, LONG)).count(Materialized("all"))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        for key in "abacab":
            topic.pipe_input(key, "v", timestamp_ms=1_000)
        driver.create_input_topic("others", TEXT, TEXT).pipe_input("a", "x")
        assert driver.get_key_value_store("all").get("all") == 3


def test_with_every_update_a_new_row_is_subtracted_as_kafka_streams_without_caches_does() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(TEXT, TEXT)).group_by_key(Grouped(TEXT, TEXT))
    rows = grouped.count(Materialized("rows", emit="update"))
    rows.group_by(lambda key, count: ("all", count), Grouped(TEXT, LONG)).count(Materialized("all"))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        for key in "abacab":
            topic.pipe_input(key, "v", timestamp_ms=1_000)
        assert driver.get_key_value_store("all").get("all") == 1
