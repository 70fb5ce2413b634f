"""Warnings about single records: at most one line a minute for each kind."""

from __future__ import annotations

import logging
import math

import pytest

from driven import Drive, text
from streamsapp import Consumed, Materialized, Serdes, StreamsBuilder, TimeWindows
from streamsapp.tasks.repeated_warnings import RepeatedWarnings
from streamsapp.testing import MockClock, TopologyTestDriver

LATE = "its window has closed; a longer grace of the windows lets later records in"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


def test_the_first_is_written_and_those_of_the_next_minute_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    clock = MockClock(1_000)
    it = RepeatedWarnings(clock, "task 0_1, ")
    assert it.level("late") == logging.WARNING
    assert it.next_due == math.inf
    assert [it.level("late") for _ in range(3)] == [logging.DEBUG] * 3
    assert it.level("null key") == logging.WARNING
    it.taken = 12
    assert it.next_due == 61_000
    clock.advance(59_999)
    it.tell_due(clock.now_ms())
    assert lines(caplog) == []
    clock.advance(1)
    it.tell_due(clock.now_ms())
    assert lines(caplog) == ["task 0_1, 3 more records, 25.0% of those processed in 60 s: late"]
    assert it.next_due == math.inf


def test_a_line_follows_another_of_its_kind_a_minute_later_at_the_soonest(caplog: pytest.LogCaptureFixture) -> None:
    clock = MockClock()
    it = RepeatedWarnings(clock)
    warned = 0
    for _ in range(600):  # ten minutes
        clock.advance(1_000)
        warned += it.level("late") == logging.WARNING
        it.tell_due(clock.now_ms())
    assert warned == 1
    assert len(lines(caplog)) == 9
    clock.advance(60_000)
    it.tell_due(clock.now_ms())
    clock.advance(60_000)
    assert it.level("late") == logging.WARNING  # it was quiet for a minute


def test_the_end_leaves_nothing_untold(caplog: pytest.LogCaptureFixture) -> None:
    it = RepeatedWarnings(MockClock())
    for _ in range(5):
        it.level("late")
    it.tell_all()
    it.tell_all()
    assert lines(caplog) == ["4 more records in 0 s: late"]


def late(drive: Drive) -> TopologyTestDriver:
    builder = StreamsBuilder()
    windows = builder.stream("in", Consumed(text, text)).group_by_key().windowed_by(TimeWindows.of(10))
    windows.count(Materialized("counts"))
    return drive(builder.build()).driver


def test_many_late_records_are_two_lines_in_a_minute_with_count_share_and_remedy(
    drive: Drive, caplog: pytest.LogCaptureFixture
) -> None:
    driver = late(drive)
    topic = driver.create_input_topic("in", text, text)
    topic.pipe_input("k", "v", 1_000)
    with caplog.at_level(logging.INFO):
        for offset in range(500):
            topic.pipe_input("k", "v", offset % 7)
        driver.advance_wall_clock_time(60_000)
    first, rest = lines(caplog)
    assert first.endswith(f"task 0_0, record in-0@1: {LATE}")
    assert rest.startswith("task 0_0, 499 more records, 99.8% of those processed in 60 s: node KSTREAM-AGGREGATE-0")
    assert rest.endswith(f"skipped: {LATE}")


def test_every_record_is_in_the_log_for_who_looks_closely(drive: Drive, caplog: pytest.LogCaptureFixture) -> None:
    topic = late(drive).create_input_topic("in", text, text)
    topic.pipe_input("k", "v", 1_000)
    with caplog.at_level(logging.DEBUG):
        topic.pipe_key_values([("k", "v")] * 20)
    assert [f"in-0@{offset}" in caplog.text for offset in range(1, 21)] == [True] * 20


def test_records_that_cannot_be_read_and_are_left_out_are_one_line(
    drive: Drive, caplog: pytest.LogCaptureFixture
) -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(text, text)).to("out")
    driver = drive(builder.build(), deserialization_exception_handler="continue").driver
    topic = driver.create_input_topic("in", Serdes.bytes(), Serdes.bytes())
    for _ in range(100):
        topic.pipe_input(b"k", b"\xff")
    driver.close()
    first, rest = lines(caplog)
    assert "record in-0@0" in first
    assert "99 more records" in rest
    assert "the exception handler drops it: UnicodeDecodeError" in rest
