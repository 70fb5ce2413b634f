"""One partition's buffer: bytes to values, time, position, and stopping at a record boundary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import data_paths
from models import in_python
from streamsapp import Serdes, TaskId, TopicPartition, native
from streamsapp.errors import DeserializationError, ProcessingError, StreamsError
from streamsapp.processor.operator import Push
from streamsapp.processor.timestamps import (
    TimestampExtractor,
    fail_on_invalid_timestamp,
    log_and_skip_on_invalid_timestamp,
    use_partition_time_on_invalid_timestamp,
)
from streamsapp.record import InputRecord
from streamsapp.tasks.lateness import LatenessFigures
from streamsapp.tasks.partition_group import PartitionGroup
from streamsapp.tasks.punctuation import Schedule
from streamsapp.tasks.record_queue import ProcessingControl, RecordQueue, TimedQueue
from streamsapp.tasks.task_context import TaskContext
from streamsapp.tasks.time_markers import TimeMarker
from streamsapp.testing import MockClock
from task_parts import Recorder, config, handling, raw

TP = TopicPartition("in", 0)


@pytest.fixture(autouse=True, params=["python", "native"])
def data_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop in C, and its model."""
    if request.param == "python":
        in_python(monkeypatch)


class Queue:
    """A record queue whose values are Kafka longs, with everything around it at hand."""

    def __init__(
        self,
        push: Push | None = None,
        *,
        extractor: TimestampExtractor = fail_on_invalid_timestamp,
        on_error: str = "fail",
        punctuate: Callable[[], None] = lambda: None,
    ) -> None:
        self.received = Recorder()
        self.context = TaskContext("app", TaskId(0, 0), MockClock())
        self.control = ProcessingControl()
        failures = handling(self.context, config(deserialization_exception_handler=on_error))
        text, number = Serdes.string(), Serdes.long()
        self.queue = RecordQueue(
            TP,
            "source",
            push or self.received,
            text,
            number,
            extractor,
            failures,
        )
        self.group = PartitionGroup(0, self.context, punctuate)
        self.group.add_queue(self.queue)

    def add(self, *records: InputRecord) -> None:
        self.queue.add([data_paths.fetched(native, record) for record in records])

    def run(self, limit: int = 100) -> int:
        return self.group.run(self.control, limit)


def numbered(offset: int, timestamp: int, **more: Any) -> InputRecord:
    return raw(offset, timestamp, value=offset.to_bytes(8, "big"), **more)


def test_pushes_deserialised_records_in_offset_order() -> None:
    it = Queue()
    it.add(numbered(0, 5), numbered(1, 3, headers=[("h", b"x")]))

    assert it.run() == 2
    assert it.received.pushed == [("k", 0, 5, None), ("k", 1, 3, [("h", b"x")])]


def test_null_keys_and_values_reach_the_topology_as_none() -> None:
    it = Queue()
    it.add(raw(0, 1, key=None, value=None))

    it.run()

    assert it.received.pushed == [(None, None, 1, None)]


def test_takes_no_more_records_than_asked_for() -> None:
    it = Queue()
    it.add(*(numbered(offset, 0) for offset in range(5)))

    assert it.run(limit=2) == 2
    assert len(it.queue) == 3


def test_position_is_the_offset_after_the_last_processed_record() -> None:
    it = Queue()
    assert it.queue.position is None
    it.add(numbered(10, 0), numbered(14, 0))

    it.run()

    assert it.queue.position == 15


def test_partition_time_is_the_highest_timestamp_processed() -> None:
    it = Queue()
    it.add(numbered(0, 7), numbered(1, 3))

    it.run()

    assert it.queue.partition_time == 7
    assert it.context.stream_time == 7


def test_a_head_that_was_read_is_processed_first() -> None:
    it = Queue()
    it.add(numbered(0, 1), numbered(1, 9), numbered(2, 2))

    assert it.run(limit=1) == 1
    assert it.queue.head_timestamp() == 9
    assert len(it.queue) == 2
    assert it.queue.position == 1

    it.run()
    assert it.received.timestamps == [1, 9, 2]


def test_the_head_is_deserialised_once() -> None:
    seen = []

    def extractor(record: InputRecord, key: Any, value: Any, partition_time: int) -> int:
        seen.append(value)
        return record.timestamp()[1]

    it = Queue(extractor=extractor)
    it.add(numbered(0, 4))

    assert it.queue.head_timestamp() == 4
    assert it.queue.head_timestamp() == 4
    it.run()

    assert seen == [0]


def test_stops_at_the_next_record_boundary_when_told_to() -> None:
    def stop_after_first(key: Any, value: Any, timestamp: int, headers: Any) -> None:
        it.control.stop = True

    it = Queue(stop_after_first)
    it.add(numbered(0, 0), numbered(1, 0))

    assert it.run() == 1
    assert it.queue.position == 1


def test_an_unreadable_record_fails_the_task_and_its_offset_is_not_passed() -> None:
    it = Queue()
    it.add(numbered(3, 0), raw(4, 0, value=b"short"))

    with pytest.raises(DeserializationError, match=r"node source, task 0_0, record in-0@4"):
        it.run()
    assert it.queue.position == 4


def test_an_unreadable_record_is_skipped_and_passed_when_the_handler_continues() -> None:
    it = Queue(on_error="continue")
    it.add(raw(0, 50, value=b"short"), numbered(1, 1))

    assert it.run() == 2
    assert it.received.timestamps == [1]
    assert it.queue.position == 2
    assert it.queue.partition_time == 1, "a dropped record does not move time"
    assert it.context.dropped_records == 1


def test_looking_at_the_head_passes_over_unreadable_records() -> None:
    it = Queue(on_error="continue")
    it.add(raw(0, 0, value=b"short"), raw(1, 0, value=b"short"))

    assert it.queue.head_timestamp() is None
    assert it.queue.position == 2


def test_a_record_whose_extractor_gives_a_negative_time_is_dropped_and_passed() -> None:
    it = Queue(extractor=log_and_skip_on_invalid_timestamp)
    it.add(numbered(0, -1), numbered(1, 5))

    it.run()

    assert it.received.timestamps == [5]
    assert it.context.dropped_records == 1


def test_the_default_extractor_refuses_a_record_without_a_timestamp() -> None:
    it = Queue()
    it.add(numbered(0, -1))

    with pytest.raises(StreamsError, match=r"in-0@0 has the invalid timestamp -1"):
        it.run()


@pytest.mark.parametrize(
    ("extractor", "told"),
    [
        (lambda *record: 1 // 0, "by zero"),
        (lambda *record: None, "whole number of milliseconds, and NoneType is not"),
        (lambda *record: 1.5, "whole number of milliseconds, and float is not"),
    ],
)
def test_an_extractor_that_fails_is_told_with_its_record(extractor: TimestampExtractor, told: str) -> None:
    """In spite of the handlers: they are not asked about times, as in Kafka Streams."""
    it = Queue(extractor=extractor, on_error="continue")
    it.add(numbered(0, 5))

    with pytest.raises(ProcessingError, match=rf"timestamp extractor of node source, .*in-0@0: .*{told}"):
        it.run()
    assert it.queue.position is None


def test_an_extractor_is_told_the_partition_time_of_the_records_before() -> None:
    it = Queue(extractor=use_partition_time_on_invalid_timestamp)
    it.add(numbered(0, 8), numbered(1, 6), numbered(2, -1))

    it.run()

    assert it.received.timestamps == [8, 6, 8]


def test_a_record_that_fails_in_the_topology_is_not_passed() -> None:
    def fail_at_one(key: Any, value: Any, timestamp: int, headers: Any) -> None:
        if value == 1:
            raise ValueError("boom")

    it = Queue(fail_at_one)
    it.add(numbered(0, 0), numbered(1, 9))

    with pytest.raises(ValueError, match="boom"):
        it.run()
    assert it.queue.position == 1
    assert it.context.message is None


def test_the_record_in_process_is_known_while_it_is_processed() -> None:
    offsets: list[object] = []

    def note(key: Any, value: Any, timestamp: int, headers: Any) -> None:
        metadata = it.context.metadata()
        offsets.append(metadata)

    it = Queue(note)
    it.add(numbered(5, 0))
    it.run()

    assert offsets == [("in", 0, 5)]
    assert it.context.metadata() is None


def test_stream_time_callbacks_are_looked_for_after_the_first_record_at_which_they_are_due() -> None:
    fired_after: list[list[int]] = []

    def punctuate() -> None:
        fired_after.append(it.received.timestamps.copy())
        it.context.stream_time_punctuation.fire_due(it.context.stream_time, lambda *_: None)

    it = Queue(punctuate=punctuate)
    it.context.stream_time_punctuation.add(Schedule("node", 5, 2, print))
    it.add(numbered(0, 4), numbered(1, 6), numbered(2, 6), numbered(3, 7))

    it.run()

    assert fired_after == [[4, 6], [4, 6, 6, 7]], "not for the second 6, as it is due at 7 again"


def test_clearing_drops_the_head_too() -> None:
    it = Queue()
    it.add(numbered(0, 1), numbered(1, 2))
    it.queue.head_timestamp()

    it.queue.clear()

    assert len(it.queue) == 0
    assert it.queue.head_timestamp() is None


def test_new_records_mean_that_the_end_is_not_reached() -> None:
    it = Queue()
    it.queue.at_end = True

    it.add(numbered(0, 0))

    assert not it.queue.at_end


def test_memory_grows_with_the_size_of_the_values() -> None:
    small, large = Queue(), Queue()
    small.add(raw(0, value=b"v" * 10))
    large.add(raw(0, value=b"v" * 10_000))

    assert large.queue.bytes - small.queue.bytes == 9_990


def test_records_behind_stream_time_are_late_by_the_difference_also_within_a_batch() -> None:
    it = Queue()
    it.add(*(numbered(offset, timestamp) for offset, timestamp in enumerate((100, 70, 90, 110, 60))))

    it.context.lateness.begin_batch(0)
    it.context.lateness.count(it.run())

    assert it.context.stream_time == 110
    assert it.context.lateness.figures(0) == LatenessFigures((30 + 10 + 50) / 5, 50)


def with_unreadable_header(offset: int) -> InputRecord:
    value = offset.to_bytes(8, "big")
    error: Any = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
    return native.Record(topic="in", partition=0, offset=offset, key=b"k", value=value, timestamp=5, headers=error)


@pytest.mark.parametrize("limit", [100, 1])
def test_a_header_name_that_is_no_text_is_a_record_that_cannot_be_deserialised(limit: int) -> None:
    it = Queue(on_error="continue")
    it.queue.add([with_unreadable_header(0), with_unreadable_header(1)])
    it.add(numbered(2, 5, headers=[("h", b"x")]))
    it.queue.add([with_unreadable_header(3)])

    while len(it.queue):
        it.run(limit)

    assert it.received.pushed == [("k", 2, 5, [("h", b"x")])]
    assert it.queue.position == 4
    assert it.context.dropped_records == 3


def test_a_header_name_that_is_no_text_fails_with_the_records_place() -> None:
    it = Queue()
    it.queue.add([with_unreadable_header(7)])

    with pytest.raises(DeserializationError, match=r"record in-0@7: .*invalid start byte"):
        it.run()
    assert it.queue.position is None


@pytest.mark.parametrize("timestamp", [1 << 63, 10**30])
def test_a_time_later_than_any_is_told_with_its_record(timestamp: int) -> None:
    it = Queue(extractor=lambda *_: timestamp)
    it.add(numbered(3, 5))

    with pytest.raises(ProcessingError, match=rf"timestamp extractor of node source, .*in-0@3: .*{timestamp}"):
        it.run()


def test_the_latest_time_there_is_can_be_extracted() -> None:
    it = Queue(extractor=lambda *_: (1 << 63) - 1)
    it.add(numbered(0, 5))

    it.run()

    assert it.received.timestamps == [(1 << 63) - 1]


def test_a_time_marker_is_applied_between_the_records_around_it() -> None:
    it = Queue()
    called: list[Any] = []

    def apply(queue: TimedQueue, what: Any, offset: int) -> None:
        assert it.context.message is None
        called.append((what, offset, it.received.pushed[-1][1], queue.position))
        it.context.stream_time = 50

    queue = TimedQueue(
        MockClock(), apply, partition=TP, source="source", push=it.received, key=Serdes.string(), value=Serdes.long(),
        extractor=fail_on_invalid_timestamp, failures=handling(it.context, config()),
    )  # fmt: skip
    group = PartitionGroup(0, it.context, lambda: called.append(it.context.stream_time))
    group.add_queue(queue)
    it.context.stream_time_punctuation.add(Schedule("source", 40, 100, lambda now: None))
    queue.add([data_paths.fetched(native, numbered(0, 5))])
    queue.add_marker(TimeMarker(1, 30, idle=False))
    queue.add([data_paths.fetched(native, numbered(1, 6))])

    assert group.run(it.control, 2) == 2
    assert group.run(it.control, 2) == 1
    assert called[:2] == [(TimeMarker(1, 30, idle=False), 1, 0, 1), 50]
    assert [each[1] for each in it.received.pushed] == [0, 1]
    assert (queue.position, it.group.queues[TP].partition_time) == (2, -1)


def test_an_input_without_markers_refuses_one() -> None:
    it = Queue()
    it.queue._buffer.append(native.TimeMarker(timestamp=1, data=None))  # type: ignore[arg-type]
    with pytest.raises((RuntimeError, AssertionError)):
        it.run()
