"""How long the polling thread waits for input: not at all, for a moment, or longer when nothing happens."""

from __future__ import annotations

from typing import Any, cast

from streamsapp import TopicPartition
from streamsapp.kafka.consumer import Fetched
from streamsapp.runtime.input_polling import BUSY_WAIT, IDLE_AFTER, IDLE_WAIT, InputPolling
from streamsapp.testing import MockClock
from task_parts import raw

RECORDS = Fetched(records=[(TopicPartition("in", 0), [raw(0)])])


class FakeFeeder:
    """Writes down for how long it may wait."""

    def __init__(self) -> None:
        self.full = False
        self.brings = Fetched()
        self.timeouts: list[float] = []

    def feed(self, timeout: float) -> Fetched:
        self.timeouts.append(timeout)
        return self.brings


class FakeTasks:
    """Writes down for how long progress is waited for."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def wait_for_progress(self, timeout: float) -> None:
        self.waits.append(timeout)


class Polling:
    def __init__(self) -> None:
        self.clock = MockClock()
        self.feeder, self.tasks = FakeFeeder(), FakeTasks()
        self.polling = InputPolling(cast(Any, self.feeder), cast(Any, self.tasks), self.clock)

    def poll(self, *, output_pending: bool = False, after_s: float = 0.0) -> None:
        self.clock.advance(int(1000 * after_s))
        self.polling.poll(output_pending=output_pending)


def test_nothing_is_waited_for_while_there_is_something_to_send() -> None:
    it = Polling()
    it.poll(output_pending=True, after_s=2 * IDLE_AFTER)

    assert it.feeder.timeouts == [0.0]


def test_the_wait_is_long_when_nothing_has_happened_for_a_while_and_short_after_records_came() -> None:
    it = Polling()
    it.feeder.brings = RECORDS
    it.poll(after_s=2 * IDLE_AFTER)
    it.feeder.brings = Fetched()
    it.poll(after_s=IDLE_AFTER / 2)
    it.poll(after_s=IDLE_AFTER)

    assert it.feeder.timeouts == [IDLE_WAIT, BUSY_WAIT, IDLE_WAIT]


def test_full_buffers_leave_the_time_to_the_processing_threads_unless_there_is_something_to_send() -> None:
    it = Polling()
    it.feeder.full = True
    it.poll()
    it.poll(output_pending=True)

    assert it.feeder.timeouts == []
    assert it.tasks.waits == [BUSY_WAIT]
