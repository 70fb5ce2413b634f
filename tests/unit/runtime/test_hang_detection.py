"""Noticing user code that does not come back, and naming the record it does not come back from."""

from __future__ import annotations

import logging
from collections.abc import Callable
from queue import SimpleQueue

import pytest

from streamsapp.errors import ProcessingError
from streamsapp.runtime.hang_detection import FIRST_AFTER, PERIOD, WARN_AFTER, HangDetector
from streamsapp.runtime.set_aside import SetAside
from streamsapp.runtime.thread_failure import ThreadFailure
from streamsapp.tasks.punctuation import PunctuationQueue, Schedule
from streamsapp.tasks.scheduler import MostBufferedFirst
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_manager import TaskManager
from streamsapp.testing import MockClock
from task_parts import raw, task_of, through

LIMIT = 300.0


class Watched:
    """One task, held by a processing thread."""

    def __init__(self) -> None:
        self.tasks = TaskManager(MostBufferedFirst())
        self.task: StreamTask = task_of(through())
        self.tasks.add(self.task)
        self.tasks.take(0)
        self.failures: SimpleQueue[ThreadFailure] = SimpleQueue()
        self.watch = HangDetector(self.tasks, self.failures, LIMIT, SetAside(self.tasks, MockClock()))

    def fires(self, callback: Callable[[int], None]) -> None:
        """A callback of the task is due."""
        due = PunctuationQueue()
        due.add(Schedule("mapper", 5, 10, callback))
        self.task.context.wall_clock_punctuation = due
        due.fire_due(5, self.task._fire)


def test_a_record_in_process_for_too_long_is_a_failure_that_names_it() -> None:
    it = Watched()
    it.task.context.message = raw(17, topic="orders")

    it.watch.check(0.0)
    it.watch.check(LIMIT)
    assert it.failures.empty()
    it.watch.check(LIMIT + 1)

    failure = it.failures.get_nowait()
    assert isinstance(failure.error, ProcessingError)
    assert "task 0_0 has had record orders-0@17 in process for 301 s" in str(failure.error)


def test_a_punctuator_that_does_not_come_back_is_a_failure_too() -> None:
    it, seen = Watched(), list[bool]()

    def slow(_: int) -> None:
        for now in (0.0, LIMIT, LIMIT + 1):
            seen.append(it.failures.empty())
            it.watch.check(now)

    it.fires(slow)

    assert seen == [True] * 3
    failure = it.failures.get_nowait()
    assert "task 0_0 has been in a punctuator of mapper for 301 s" in str(failure.error)


def test_punctuators_that_follow_each_other_and_a_turn_without_any_do_not_hang() -> None:
    it = Watched()
    for now in range(1_000):
        it.fires(lambda _, now=now: it.watch.check(float(now)))  # type: ignore[misc]
    for now in range(1_000, 2_000):
        it.watch.check(float(now))

    assert it.failures.empty()
    assert it.watch.longest == 0.0


def test_a_hanging_record_is_reported_once_per_limit() -> None:
    it = Watched()
    it.task.context.message = raw(17)

    for now in range(int(LIMIT) + 100):
        it.watch.check(float(now))

    it.failures.get_nowait()
    assert it.failures.empty()


def test_records_that_follow_each_other_do_not_hang() -> None:
    it = Watched()
    for now in range(1_000):
        it.task.context.message = raw(now)
        it.watch.check(float(now))

    assert it.failures.empty()
    assert it.watch.longest == 0.0


def test_a_task_that_nobody_holds_does_not_hang() -> None:
    it = Watched()
    it.task.context.message = raw(17)
    it.watch.check(0.0)
    it.tasks.give_back(it.task, more=False)

    it.watch.check(LIMIT + 1)

    assert it.failures.empty()


def test_the_longest_time_in_process_is_known_for_health() -> None:
    it = Watched()
    it.task.context.message = raw(17)
    it.watch.check(10.0)

    it.watch.check(52.0)

    assert it.watch.longest == 42.0


def test_a_slow_record_is_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    it = Watched()
    it.task.context.message = raw(17)
    with caplog.at_level(logging.WARNING):
        for now in (0.0, 61.0, 62.0, 63.0):
            it.watch.check(now)

    assert [record.getMessage() for record in caplog.records] == [
        "task 0_0 has had record in-0@17 in process for 61 s; commits wait for it"
    ]


def test_looks_no_more_than_about_once_a_second() -> None:
    it = Watched()
    it.watch.check(0.0)
    it.task.context.message = raw(17)

    it.watch.check(PERIOD / 2)
    it.watch.check(LIMIT)

    assert it.watch.longest == 0.0, "first seen at the second look"


def test_a_record_that_hangs_is_told_until_it_comes_back() -> None:
    it = Watched()
    it.task.processed_records = 1000
    it.task.context.message = raw(17, topic="orders")
    for now in (0.0, WARN_AFTER):
        it.watch.check(now)
        assert it.watch.hanging == ()
    it.watch.check(WARN_AFTER + PERIOD)
    assert [str(each) for each in it.watch.hanging] == ["task 0_0 has had record orders-0@17 in process for 31 s"]
    assert it.failures.empty()

    it.task.context.message = raw(18, topic="orders")
    it.watch.check(WARN_AFTER + 2 * PERIOD)
    assert it.watch.hanging == ()


def test_the_first_record_of_a_task_and_a_punctuator_have_twice_the_time() -> None:
    """A model is loaded, a connection opened."""
    it = Watched()
    it.task.context.message = raw(0)
    for second in range(46):
        it.watch.check(float(second))
        assert it.watch.hanging == ()
    it.watch.check(FIRST_AFTER + PERIOD)
    assert it.watch.hanging

    other = Watched()
    other.task.processed_records = 1000

    def slow(_: int) -> None:
        for second in range(46):
            other.watch.check(float(second))
            assert other.watch.hanging == ()

    other.fires(slow)


def test_the_second_record_of_the_first_turn_is_not_the_first() -> None:
    """The turn counts its records when it ends."""
    it = Watched()
    for offset, start in ((1, 0), (2, 3)):
        it.task.context.message = raw(offset)
        for second in range(start, start + 3):
            it.watch.check(float(second))
    it.watch.check(3 + WARN_AFTER + PERIOD)
    assert it.watch.hanging


def test_what_took_long_and_came_back_is_given_twice_the_time() -> None:
    """A service that is slow by nature makes an instance not ready once, and not at each record."""
    it = Watched()
    it.task.context.message = raw(1)
    for second in range(61):
        it.watch.check(float(second))
    it.task.context.message = raw(2)
    for second in range(61, 61 + 110):
        it.watch.check(float(second))
        assert it.watch.hanging == ()
    for second in range(171, 190):
        it.watch.check(float(second))
    assert it.watch.hanging


def test_who_raised_the_limit_has_records_that_take_long() -> None:
    it = Watched()
    it.watch = HangDetector(it.tasks, it.failures, 3600.0, SetAside(it.tasks, MockClock()))
    it.task.context.message = raw(1)
    it.watch.check(0.0)
    it.watch.check(360.0)
    assert it.watch.hanging == ()
    it.watch.check(361.0)
    assert it.watch.hanging
