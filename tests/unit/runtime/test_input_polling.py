"""How long the polling thread waits for input, and for room for it."""

from __future__ import annotations

from typing import Any, cast

from streamsapp import TopicPartition
from streamsapp.kafka.fetching.fetched import Fetched
from streamsapp.runtime.input_feeder import FETCH, ROOM_WAIT, InputPolling
from task_parts import raw

LONG = 3600.0


class FakeFeeder:
    """Writes down for how long it may wait."""

    def __init__(self) -> None:
        self.full = self.holds_back = self.rests = False
        self.timeouts: list[float] = []
        self.fetched = Fetched()
        self.hurried = 0

    def feed_all(self, timeout: float) -> Fetched:
        self.timeouts.append(timeout)
        return self.fetched

    def hurry(self) -> None:
        self.hurried += 1

    def feed(self, timeout: float) -> Fetched:
        assert not self.rests
        self.timeouts.append(timeout)
        return Fetched()


class FakeTasks:
    """Writes down for how long progress is waited for."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.resting = False

    def wait_for_progress(self, timeout: float) -> None:
        self.waits.append(timeout)


class Polling:
    def __init__(self) -> None:
        self.feeder, self.tasks = FakeFeeder(), FakeTasks()
        self.polling = InputPolling(cast(Any, self.feeder), cast(Any, self.tasks))


def test_records_are_waited_for_as_long_as_nothing_else_is_due() -> None:
    it = Polling()
    it.polling.poll(LONG)
    it.polling.poll(0.0)

    assert it.feeder.timeouts == [LONG, 0.0]


def test_partitions_that_are_held_back_are_looked_at_again_soon() -> None:
    it = Polling()
    it.feeder.holds_back = True
    it.polling.poll(LONG)
    it.polling.poll(0.0)

    assert it.feeder.timeouts == [ROOM_WAIT, 0.0]


def test_partitions_that_are_held_back_can_wait_while_no_task_is_processed() -> None:
    it = Polling()
    it.feeder.holds_back = it.tasks.resting = True
    it.polling.poll(LONG)

    assert it.feeder.timeouts == [LONG]


def test_full_buffers_leave_the_time_to_the_processing_threads_unless_there_is_something_to_send() -> None:
    it = Polling()
    it.feeder.full = True
    it.polling.poll(LONG)
    it.polling.poll(0.0)

    assert it.feeder.timeouts == []
    assert it.tasks.waits == [ROOM_WAIT]


def test_records_that_came_while_the_consumer_rests_are_fetched_before_a_commit() -> None:
    it = Polling()
    it.feeder.rests = True
    assert it.polling.catch_up() is None

    it.feeder.fetched = Fetched([(TopicPartition("in", 0), [raw(0)])])
    late = it.polling.catch_up()

    assert it.feeder.timeouts == [FETCH] * 2
    assert it.feeder.hurried == 0
    assert late is not None
    late()
    assert it.feeder.hurried == 1


def test_records_are_looked_for_sooner_if_brokers_do_not_tell_them_in_time() -> None:
    it = Polling()
    it.feeder.rests = True
    it.feeder.fetched = Fetched(more=True)
    it.polling.catch_up()
    assert it.feeder.hurried == 1


def test_a_commit_does_not_wait_for_records_while_many_come_or_the_buffers_are_full() -> None:
    it = Polling()
    it.polling.catch_up()
    it.feeder.rests = it.feeder.full = True
    it.polling.catch_up()

    assert it.feeder.timeouts == []
