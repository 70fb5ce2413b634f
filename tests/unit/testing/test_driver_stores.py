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
from streamsapp.state.versioned import VersionedRecord
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


def test_a_store_of_another_kind_is_not_given() -> None:
    with _driver() as driver, pytest.raises(KeyError, match="sessions"):
        driver.get_window_store("sessions")
