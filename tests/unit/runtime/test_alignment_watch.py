"""Where the tasks of other instances are, as brokers and committed offsets say it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta

import pytest
from confluent_kafka import KafkaError, KafkaException

from streamsapp import TaskId, TopicPartition
from streamsapp.config.settings import EXACTLY_ONCE
from streamsapp.kafka.partition_offsets import EARLIEST, LAST
from streamsapp.processor.timestamps import TimestampExtractor, fail_on_invalid_timestamp, wallclock_timestamp
from streamsapp.runtime.alignment_watch import FRESH_MS, SELDOM, AlignmentWatch
from streamsapp.serdes.offset_metadata import OffsetMetadata
from streamsapp.tasks.alignment import NOTHING, STANDS_STILL, TimeAlignment
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.testing import MockClock
from streamsapp.topology.time_alignment import TimeGroup
from task_parts import config, feed, raw, task_of, through

HOUR = 3_600_000
NOW = 1_000 * HOUR
BOUND = 10_000
OTHER = TopicPartition("in", 1)


class Brokers:
    """One partition of another instance: the times of its records by offset, and how far it is committed."""

    def __init__(self, times: list[int], begins: int = 0) -> None:
        self.times, self.begins = times, begins
        self.offset: int | None = None
        self.last_time = -1
        self.away = False
        self.asked = 0
        self.closed = False

    def commit(self, offset: int, last_time: int | None = None) -> None:
        self.offset = offset
        self.last_time = self.times[offset - 1] if last_time is None else last_time

    def committed(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> Mapping[TopicPartition, tuple[int, str]]:
        self.asked += 1
        if self.away:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return {} if self.offset is None else {OTHER: (self.offset, OffsetMetadata(self.last_time, {}).encode())}

    def offsets_at(self, wanted: Mapping[TopicPartition, int], timeout: float) -> Mapping[TopicPartition, int]:
        return {each: self._at(time) for each, time in wanted.items()}

    def _at(self, time: int) -> int:
        if time == EARLIEST:
            return self.begins
        if time == LAST:
            return len(self.times) - 1
        later = (offset for offset, at in enumerate(self.times) if offset >= self.begins and at >= time)
        return next(later, -1)

    def close(self) -> None:
        self.closed = True


class Instance:
    """An instance with one of two tasks; the other one is elsewhere."""

    def __init__(self, brokers: Brokers, extractor: TimestampExtractor = fail_on_invalid_timestamp) -> None:
        self.clock = MockClock(NOW)
        self.woken: list[StreamTask] = []
        self.commits = 0
        group = TimeGroup(frozenset({0}), BOUND, are_peers=True, above=frozenset())
        self.alignment = TimeAlignment.of([group], self.clock, self._wake)
        self.task = task_of(through(), 0, clock=self.clock)
        self.plans = {TaskId(0, number): task_of(through(), number, running=False).plan for number in range(2)}
        self.alignment.add(self.task)
        self.watch = AlignmentWatch(
            self.alignment,
            brokers,
            lambda: self.plans,
            config(default_timestamp_extractor=extractor, processing_guarantee=EXACTLY_ONCE),
            self.clock,
            paused=lambda: False,
            commit=self._commit,
        )

    def _wake(self, tasks: Iterable[StreamTask]) -> None:
        self.woken += tasks

    def _commit(self) -> None:
        self.commits += 1

    def look(self, seconds: float = 0.02) -> None:
        self.clock.advance(timedelta(seconds=seconds))
        self.watch.run()

    def take(self) -> list[int]:
        taken = []
        while self.task.wait_ms(self.clock.now_ms()) == 0 and self.task.process(self.task.control, 9):
            taken += [record[6] for record in self.task.take_output()]
        return taken


def fed(brokers: Brokers, *times: int, extractor: TimestampExtractor = fail_on_invalid_timestamp) -> Instance:
    it = Instance(brokers, extractor)
    feed(it.task, [raw(offset, time) for offset, time in enumerate(times)])
    return it


def test_a_task_waits_for_what_the_others_have_committed() -> None:
    brokers = Brokers([HOUR, HOUR + 5, 2 * HOUR, 3 * HOUR])
    brokers.commit(1)
    it = fed(brokers, HOUR, HOUR + BOUND, HOUR + BOUND + 1)
    assert it.take() == []  # it is not known yet where they are
    it.look()
    assert it.take() == [HOUR, HOUR + BOUND]
    brokers.commit(2)
    it.look()
    assert it.woken[-1:] == [it.task]
    assert it.take() == [HOUR + BOUND + 1]


def test_a_gap_in_the_others_input_holds_nobody() -> None:
    brokers = Brokers([HOUR, 3 * HOUR])
    brokers.commit(1)
    it = fed(brokers, HOUR, 2 * HOUR, 3 * HOUR + BOUND + 1)
    it.look()
    assert it.take() == [HOUR]
    it.look()  # their next record is later than the next one here
    assert it.take() == [2 * HOUR]
    it.look()
    assert it.take() == []


def test_nothing_is_committed_yet_and_the_oldest_record_of_all_begins() -> None:
    brokers = Brokers([HOUR, 2 * HOUR])
    late, early = fed(brokers, 2 * HOUR), fed(brokers, HOUR - 1, 2 * HOUR)
    for it in (late, early):
        it.look()
    assert late.take() == []
    assert early.take() == [HOUR - 1]


def test_deleted_records_are_waited_for_by_nobody() -> None:
    brokers = Brokers([0, 0, 2 * HOUR], begins=2)
    it = fed(brokers, 2 * HOUR)
    it.look()
    assert it.take() == [2 * HOUR]


def test_others_that_have_read_everything_hold_nobody_though_marks_of_transactions_follow() -> None:
    brokers = Brokers([HOUR])
    brokers.commit(1)
    it = fed(brokers, 2 * HOUR, 3 * HOUR)
    it.look()
    assert it.alignment.groups[0].elsewhere == NOTHING
    assert it.take() == [2 * HOUR, 3 * HOUR]


def test_it_commits_often_while_others_are_behind_and_more_often_when_it_can_do_nothing_else() -> None:
    brokers = Brokers([HOUR, HOUR + 1, 2 * HOUR])
    brokers.commit(1)
    it = fed(brokers, HOUR, HOUR + BOUND + 5)
    for _ in range(10):
        it.look(0.02)
    assert it.commits in (2, 3)
    it.take()
    before = it.commits
    for _ in range(10):
        it.look(0.03)
    assert it.commits == before + 10
    brokers.commit(3)
    it.look(1)
    before = it.commits
    it.look(1)
    assert it.commits == before


def test_it_asks_seldom_while_all_are_up_to_date() -> None:
    brokers = Brokers([NOW - 50, NOW - 40])
    brokers.commit(1)
    it = fed(brokers, NOW - 10)
    it.task.reached_end(TopicPartition("in", 0))
    assert it.take() == [NOW - 10]
    it.look()
    asked = brokers.asked
    it.look(SELDOM - 1)
    assert brokers.asked == asked
    it.look(1)
    assert brokers.asked == asked + 1
    assert it.commits == 0


def test_up_to_date_tasks_wait_for_others_that_have_a_backlog() -> None:
    brokers = Brokers([HOUR, 2 * HOUR, NOW - FRESH_MS])
    brokers.commit(1)
    it = fed(brokers, NOW - 10)
    it.look()
    it.look()
    assert it.take() == []
    brokers.commit(3)
    it.look(0.5)
    assert it.take() == [NOW - 10]


def test_a_partition_that_stands_still_is_left_out_until_it_moves(caplog: pytest.LogCaptureFixture) -> None:
    brokers = Brokers([HOUR, HOUR + 1, HOUR + 2, 9 * HOUR])
    brokers.commit(1)
    it = fed(brokers, 2 * HOUR, 3 * HOUR)
    it.look()
    assert it.take() == []
    with caplog.at_level(logging.WARNING):
        it.look()
        it.look(STANDS_STILL - 1)
        assert it.take() == []
        it.look(1)
    assert "in-1 has stood still at offset 1 for 60 s" in caplog.text
    (group,) = it.alignment.groups
    assert it.watch.standing_still(group) == [OTHER]
    assert it.take() == [2 * HOUR, 3 * HOUR]
    brokers.commit(2)
    feed(it.task, [raw(5, 4 * HOUR)])
    it.task.wait_ms(it.clock.now_ms())
    it.look()
    assert it.watch.standing_still(group) == []
    assert it.take() == []


def test_a_task_does_not_wait_for_ever_for_brokers_that_do_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    brokers = Brokers([HOUR, HOUR + 1])
    brokers.away = True
    it = fed(brokers, 2 * HOUR)
    it.look()
    it.look(STANDS_STILL - 1)
    assert it.take() == []
    with caplog.at_level(logging.WARNING):
        it.look(1.1)
    assert "where these are is not known" in caplog.text
    assert it.take() == [2 * HOUR]


def test_times_that_only_an_extractor_knows_are_not_asked_of_brokers() -> None:
    brokers = Brokers([HOUR, HOUR + 1])
    it = fed(brokers, 2 * HOUR, extractor=wallclock_timestamp)
    it.look()
    assert it.take() == [2 * HOUR]
    assert not brokers.asked


def test_closing_it_closes_the_connection() -> None:
    brokers = Brokers([])
    Instance(brokers).watch.close()
    assert brokers.closed
