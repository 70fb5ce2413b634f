"""The stores that the test driver gives by their kind."""

from __future__ import annotations

import pytest

from streamsapp import (
    Consumed,
    Materialized,
    Serdes,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    Windowed,
)
from streamsapp.dsl.ktable import KTable
from streamsapp.state.kinds.versioned import VersionedRecord
from streamsapp.testing import TopologyTestDriver


def _driver() -> TopologyTestDriver:
    builder = StreamsBuilder()
    consumed = Consumed(Serdes.string(), Serdes.long())
    grouped = builder.stream("in", consumed).group_by_key()
    grouped.windowed_by(TimeWindows.of(10)).count(Materialized("windows"))
    grouped.windowed_by(SessionWindows.of(5)).count(Materialized("sessions"))
    table: KTable[str, int] = builder.table("table", consumed, Materialized("versions", versioned=100))
    table.to_stream().to("out")
    return TopologyTestDriver(builder.build())


def test_stores_of_every_kind_are_given_with_plain_values() -> None:
    with _driver() as driver:
        events = driver.create_input_topic("in", Serdes.string(), Serdes.long())
        events.pipe_input("a", 1, 12)
        events.pipe_input("a", 1, 14)
        rows = driver.create_input_topic("table", Serdes.string(), Serdes.long())
        rows.pipe_input("a", 1, 10)
        rows.pipe_input("a", 2, 20)

        windows = driver.get_window_store("windows")
        assert windows.fetch("a", 10) == 2
        assert list(windows.fetch("a", 0, 20)) == [(10, 2)]
        assert list(windows.all()) == list(windows.fetch_range("a", None, 0, 20)) == [(Windowed("a", 10, 20), 2)]
        assert list(driver.get_session_store("sessions").fetch("a")) == [(Windowed("a", 12, 14), 2)]
        assert driver.get_versioned_store("versions").get("a", 15) == VersionedRecord(1, 10, 20)


def test_a_store_of_rows_is_read_and_written_as_one_without_timestamps() -> None:
    builder = StreamsBuilder()
    consumed = Consumed(Serdes.string(), Serdes.long())
    builder.table("rows", consumed, Materialized("rows")).to_stream().to("out")
    with TopologyTestDriver(builder.build(), initial_wall_clock_ms=77) as driver:
        driver.create_input_topic("rows", Serdes.string(), Serdes.long()).pipe_key_values([("a", 1), ("ab", 2)])
        rows = driver.get_key_value_store("rows")

        assert (rows.put_if_absent("a", 9), rows.put_if_absent("c", 3)) == (1, None)
        rows.put("d", 4)
        rows.put_all([("e", 5), ("d", None)])
        assert rows.delete("e") == 5
        assert list(rows.range("a", "b")) == list(rows.prefix_scan("a")) == [("a", 1), ("ab", 2)]
        assert list(rows.reverse_range("a", "b")) == [("ab", 2), ("a", 1)]
        assert list(rows.reverse_all()) == [("c", 3), ("ab", 2), ("a", 1)]
        assert driver.get_state_store("rows").get("c").timestamp == 77


def test_windows_are_read_backward_and_written() -> None:
    with _driver() as driver:
        driver.create_input_topic("in", Serdes.string(), Serdes.long()).pipe_key_values([("a", 1)])
        windows = driver.get_window_store("windows")
        windows.put("a", 7, 5)
        windows.put("b", 8, 5)

        first, second, third = Windowed("a", 0, 10), Windowed("a", 5, 15), Windowed("b", 5, 15)
        assert list(windows.backward_fetch("a", 0, 20)) == [(5, 7), (0, 1)]
        assert sorted(windows.backward_all()) == [(first, 1), (second, 7), (third, 8)]
        assert list(windows.backward_fetch_range("b", None, 0, 20)) == [(third, 8)]


def test_a_store_of_another_kind_is_not_given() -> None:
    with _driver() as driver, pytest.raises(KeyError, match="sessions"):
        driver.get_window_store("sessions")
