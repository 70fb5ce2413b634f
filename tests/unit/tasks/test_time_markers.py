"""The formats of time markers, and of what tasks tell each other: read back as written, and nothing else is read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from streamsapp.record import RawRecord, TaskId
from streamsapp.tasks.fed_records import fed_record
from streamsapp.tasks.time_markers import (
    BEFORE_ALL,
    NO_TIME,
    TIME_HEADER,
    MarkerLog,
    TimeMarker,
    ToldTime,
    read_marker,
    time_header,
    told_by,
)

TIMES = st.integers(NO_TIME, (1 << 63) - 1000)
OFFSETS = st.integers(0, (1 << 63) - 1)
ID = bytes(range(16))


class Entries(dict[bytes, bytes]):
    """A store of bytes."""

    def put(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.pop(key, None)
        else:
            self[key] = value

    def range(self, from_key: bytes, to_key: bytes) -> Any:
        found = [(key, self[key]) for key in sorted(self) if from_key <= key <= to_key]

        class Found:
            def __enter__(self) -> Any:
                return iter(found)

            def __exit__(self, *_: object) -> None:
                pass

        return Found()


@given(OFFSETS, TIMES, st.booleans(), st.sampled_from([b"", ID]))
def test_a_marker_is_read_as_it_was_written(offset: int, time: int, idle: bool, topic_id: bytes) -> None:
    entries, marker = Entries(), TimeMarker(offset, time, idle)
    log = MarkerLog(entries)
    log.add("in", marker, topic_id)
    log.add("in2", TimeMarker(0, 5, idle=False), topic_id)
    assert list(log.after("in", NO_TIME - 1, topic_id)) == [marker]
    assert list(log.after("in", time, topic_id)) == []


def test_a_marker_of_another_topic_of_the_name_is_none() -> None:
    entries = Entries()
    log = MarkerLog(entries)
    log.add("in", TimeMarker(1, 10, idle=False), ID)
    assert list(log.after("in", NO_TIME, bytes(16))) == []
    assert len(list(log.after("in", NO_TIME, b""))) == 1


def test_markers_of_deleted_records_are_forgotten() -> None:
    log = MarkerLog(Entries())
    for offset, time in ((1, 10), (1, 20), (5, 30), (9, 40)):
        log.add("in", TimeMarker(offset, time, idle=False), ID)
    log.drop_before("in", 5)
    assert [each.time for each in log.after("in", NO_TIME, ID)] == [30, 40]


def test_what_is_read_again_is_not_known_before() -> None:
    log = MarkerLog(Entries())
    for partition, offset in ((0, 3), (1, 7)):
        log.hear("topic", ToldTime(TaskId(2, partition), 2, 100, idle=False), offset)
    log.forget_heard("topic", [2], 7)
    assert [each.task for each in log.heard("topic", 2)] == [TaskId(2, 0)]


def test_what_was_told_in_history_is_known_from_the_first_record_on() -> None:
    log = MarkerLog(Entries())
    log.hear("topic", ToldTime(TaskId(2, 0), 1, 100, idle=True), BEFORE_ALL)
    log.forget_heard("topic", [2], 0)
    assert [each.task for each in log.heard("topic", 2)] == [TaskId(2, 0)]


@given(st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_other_entries_are_no_markers(key: bytes, data: bytes | None) -> None:
    found = read_marker("in", key, data, b"")
    assert found is None or (found.offset >= 0 and found.time >= NO_TIME)


@given(st.integers(0, 999_999), TIMES, st.booleans())
def test_a_told_time_is_read_as_it_was_written(partition: int, time: int, idle: bool) -> None:
    told = ToldTime(TaskId(3, partition), 1_000_000, time, idle)
    assert told_by(fed_record("t", 0, 0, None, None, 0, time_header(told))) == told


@given(st.binary(max_size=40))
def test_any_bytes_in_the_header_are_a_told_time_or_none(data: bytes) -> None:
    told = told_by(RawRecord("t", 0, 0, None, None, 0, [(TIME_HEADER, data)]))
    assert told is None or (0 <= told.task.partition < told.tasks and told.time >= NO_TIME)


@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [
        (b"k", None, time_header(ToldTime(TaskId(0, 0), 1, 5, idle=False))),
        (None, b"v", time_header(ToldTime(TaskId(0, 0), 1, 5, idle=False))),
        (None, None, None),
        (None, None, [(TIME_HEADER, None)]),
        (None, None, [("other", b"x")]),
        (None, None, [*time_header(ToldTime(TaskId(0, 0), 1, 5, idle=False)), ("other", b"x")]),
        (None, None, time_header(ToldTime(TaskId(0, 4), 4, 5, idle=False))),
    ],
)
def test_other_records_tell_no_time(key: bytes | None, value: bytes | None, headers: Any) -> None:
    assert told_by(fed_record("t", 0, 0, key, value, 0, headers)) is None
