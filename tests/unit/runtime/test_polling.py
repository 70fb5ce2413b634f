"""The polling thread's loop over fakes of what it drives: pausing, failures, lost transactions, the last commit."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamsapp import TaskId
from streamsapp.collector.record_collector import RecordCollector
from streamsapp.deadline import ClosingTime
from streamsapp.errors import ProcessingError, StateStoreError, StreamsError
from streamsapp.kafka.fetching.fetched import Fetched
from streamsapp.kafka.sending import AbortableError
from streamsapp.outgoing import OutputRecord
from streamsapp.runtime.commit import CommitSchedule
from streamsapp.runtime.hang_detection import HangDetector
from streamsapp.runtime.idle_inputs import IdleInputs
from streamsapp.runtime.input_feeder import InputPolling
from streamsapp.runtime.output import Output
from streamsapp.runtime.polling import PollingThread
from streamsapp.runtime.set_aside import SetAside
from streamsapp.runtime.thread_failure import ThreadFailure
from streamsapp.runtime.user_requests import CUT_SHORT, UserRequests
from streamsapp.runtime.wall_clock_work import WallClockWork
from streamsapp.tasks.scheduler import MostBufferedFirst
from streamsapp.tasks.task_manager import TaskManager
from streamsapp.testing import MockClock
from task_parts import feed, raw, task_of, through

SOON = 100.0


class FakeProducer:
    def __init__(self) -> None:
        self.sent: list[bytes | None] = []

    def send(self, records: list[OutputRecord]) -> list[OutputRecord]:
        self.sent += [value for _, value, *_ in records]
        return []

    def poll(self) -> None:
        """Every record is acknowledged at once."""


class FakeCommit:
    """Goes through in two steps that take 10 ms each, or raises in the second."""

    def __init__(self, error: Exception | None, clock: MockClock) -> None:
        self._steps = 0
        self._error = error
        self._clock = clock

    def give_up(self) -> None:
        """Nothing holds anybody up."""

    def advance(self) -> bool:
        self._steps += 1
        self._clock.advance(10)
        if self._steps == 2 and self._error is not None:
            raise self._error
        return self._steps == 2


class FakeLife:
    """Writes down what the loop asks for."""

    def __init__(self, clock: MockClock, tasks: TaskManager) -> None:
        self.clock = clock
        self.tasks = tasks
        self.producer = FakeProducer()
        self.failures: SimpleQueue[ThreadFailure] = SimpleQueue()
        self.asked: list[str] = []
        self.commit_error: Exception | None = None
        self.advance_errors: list[Exception] = []
        self.ended = False
        self.calm = True
        self.may_commit = self.may_write = self.sound = True
        self.drained = False
        self.wants_commit = False
        self.hand_overs = SimpleNamespace(commit_near=False, commit_wanted=False)
        self.nothings = 0
        self.closed_with: list[BaseException | None] = []
        self.causes: list[BaseException | None] = []
        self.on_close: Callable[[], None] = lambda: None

    def start(self) -> None:
        self.asked.append("start")

    def take_failures(self) -> None:
        while not self.failures.empty():
            self.failed(self.failures.get())

    def advance(self, committing: bool) -> bool:
        if self.advance_errors:
            raise self.advance_errors.pop(0)
        return False

    def take_last_news(self) -> None:
        """The group has no news."""

    def pause(self, *, paused: bool) -> None:
        (self.tasks.pause if paused else self.tasks.resume)()

    def drain(self) -> None:
        self.asked.append("drain")

    def make_commit(self) -> FakeCommit:
        self.asked.append("commit")
        return FakeCommit(self.commit_error, self.clock)

    def committed(self, now: float) -> None:
        self.asked.append("committed")

    def nothing_to_commit(self) -> None:
        self.nothings += 1

    def abort(self, error: Exception) -> None:
        self.asked.append(f"abort: {error}")

    def failed(self, failure: ThreadFailure) -> None:
        self.asked.append(f"failed: {failure.error}")
        self.causes.append(failure.error.__cause__)

    def close(self, error: BaseException | None, *, leave_group: bool) -> None:
        self.closed_with.append(error)
        self.on_close()


class FakeStreamsProducer:
    def __init__(self, life: FakeLife) -> None:
        self._life = life
        self.client = life.producer

    def new_commit(self, tasks: TaskManager) -> FakeCommit:
        return self._life.make_commit()


class FakeFeeder:
    full = holds_back = rests = False

    def __init__(self) -> None:
        self.fetched: list[Fetched] = []
        self.timeouts: list[float] = []
        self.idle = IdleInputs(MockClock(), lambda partitions: {}, lambda task: None)

    def feed(self, timeout: float) -> Fetched:
        self.timeouts.append(timeout)
        return self.fetched.pop(0) if self.fetched else Fetched()

    def observe_lag(self, now: float) -> None:
        """Nothing is consumed."""


class Loop:
    """A polling thread that is not started: the test runs its passes."""

    def __init__(self) -> None:
        self.clock = MockClock()
        self.tasks = TaskManager(MostBufferedFirst())
        self.life, self.feeder = FakeLife(self.clock, self.tasks), FakeFeeder()
        self.task = task_of(through(), clock=self.clock)
        self.tasks.add(self.task)
        self.collector = RecordCollector(100)
        self.failures = self.life.failures
        self.over: list[bool] = []
        self.requests = UserRequests(ClosingTime(self.clock), self.clock)
        schedule = CommitSchedule(1.0, self.clock, 1_000_000)
        producer, feeder = cast(Any, FakeStreamsProducer(self.life)), cast(Any, self.feeder)
        self.output = Output(producer, self.tasks, self.collector, schedule, self.clock)
        self.thread = PollingThread(
            "polling",
            cast(Any, self.life),
            InputPolling(feeder, self.tasks),
            self.output,
            WallClockWork(
                self.tasks,
                feeder,
                HangDetector(self.tasks, self.failures, 300.0, SetAside(self.tasks, self.clock)),
                self.clock,
            ),
            self.requests,
            lambda: self.over.append(True),
        )

    def passes(self, count: int = 1) -> None:
        for _ in range(count):
            self.thread._pass()

    def touch(self) -> None:
        feed(self.task, [raw(0)])
        self.task.process(self.task.control, 1)


def test_results_in_the_collector_are_sent() -> None:
    it = Loop()
    it.collector.add([("out", b"v", None, -1, None, None, 0, None)], epoch=0)

    it.passes()

    assert it.life.producer.sent == [b"v"]


def test_a_commit_is_started_when_it_is_due_and_advanced_pass_by_pass() -> None:
    it = Loop()
    it.touch()
    it.passes()
    assert it.life.asked == []

    it.clock.advance(1_000)
    it.passes()
    assert it.life.asked == ["commit"]
    it.passes()
    assert it.life.asked == ["commit", "committed"]
    assert it.output.commit_latency.count == 1


def test_a_commit_under_way_sends_nothing_while_others_may_have_taken_over() -> None:
    it = Loop()
    it.touch()
    it.clock.advance(1_000)
    it.passes()

    it.life.may_write = False
    it.passes(3)
    assert (it.life.asked, it.output.committing) == (["commit"], True)

    it.life.may_write = True
    it.passes()
    assert it.life.asked == ["commit", "committed"]


def test_no_commit_is_started_when_nothing_happened() -> None:
    it = Loop()
    it.clock.advance(1_000)

    it.passes()

    assert it.life.asked == []


def test_no_commit_is_started_while_a_failed_tasks_output_is_in_the_transaction() -> None:
    it = Loop()
    it.touch()
    it.life.may_commit = False
    it.clock.advance(1_000)

    it.passes()

    assert it.life.asked == []


def test_a_lost_transaction_is_given_up_and_the_loop_goes_on() -> None:
    it = Loop()
    it.touch()
    it.life.commit_error = AbortableError("lost")
    it.clock.advance(1_000)

    it.passes(2)
    assert it.life.asked == ["commit", "abort: lost"]

    it.life.commit_error = None
    it.clock.advance(1_000)
    it.passes(2)
    assert it.life.asked[2:] == ["commit", "committed"]


def test_failures_of_other_threads_are_put_to_the_handler() -> None:
    it = Loop()
    it.failures.put(ThreadFailure("processing-1", ProcessingError("boom"), TaskId(0, 0)))

    it.passes()

    assert it.life.asked == ["failed: boom"]


def test_what_the_loop_itself_raises_is_put_to_the_handler_too() -> None:
    it = Loop()
    it.life.advance_errors = [StreamsError("no broker")]

    it.passes(2)

    assert it.life.asked == ["failed: no broker"]


@pytest.mark.parametrize("error", [TypeError("no bytes"), ValueError("no text"), OverflowError("too large")])
def test_what_a_client_raises_is_put_to_the_handler_with_its_cause(error: Exception) -> None:
    it = Loop()
    it.life.advance_errors = [error]

    it.passes(2)

    assert it.life.asked == [f"failed: {type(error).__name__} on the polling thread: {error}"]
    assert it.life.causes == [error]


def test_pausing_and_resuming_take_effect_in_the_next_pass() -> None:
    it = Loop()
    it.requests.paused = True
    it.passes()
    assert it.tasks.take(0) is None

    it.requests.paused = False
    it.passes()
    assert it.tasks.take(0) is it.task


def test_an_application_that_is_resumed_before_it_came_to_rest_goes_on() -> None:
    it = Loop()
    held = it.tasks.take(0)
    assert held is not None
    it.requests.paused = True
    it.passes()

    it.requests.paused = False
    it.passes()
    it.tasks.give_back(held, more=True)

    assert it.tasks.take(0) is it.task


def test_tasks_whose_callbacks_are_due_are_woken() -> None:
    it = Loop()
    held = it.tasks.take(0)
    assert held is not None
    it.tasks.scheduling(held).wake_at_ms = 500
    it.tasks.give_back(held, more=False)

    it.clock.advance(499)
    it.passes()
    assert it.tasks.take(0) is None

    it.clock.advance(1)
    it.passes()
    assert it.tasks.take(0) is it.task


def test_closing_commits_what_was_processed_and_ends() -> None:
    it = Loop()
    it.touch()
    it.requests.close(5.0, leave_group=True)

    it.thread.start()
    it.thread.join(SOON)

    assert it.life.asked == ["start", "commit", "committed"]
    assert it.life.closed_with == [None]
    assert it.over == [True]


def test_closing_while_a_commit_is_under_way_commits_what_was_processed_meanwhile_too() -> None:
    it = Loop()
    it.touch()
    it.clock.advance(1_000)
    it.passes()
    it.requests.close(5.0, leave_group=True)

    it.thread.start()
    it.thread.join(SOON)

    assert it.life.asked == ["commit", "start", "committed", "commit", "committed"]
    assert it.tasks.paused


def test_a_failure_of_closing_is_not_lost() -> None:
    it = Loop()
    full = ThreadFailure("restoration", StateStoreError("no space"))
    it.life.on_close = lambda: it.failures.put(full)
    it.requests.close(5.0, leave_group=True)

    it.thread.start()
    it.thread.join(SOON)

    assert it.life.asked == ["start", "failed: no space"]
    assert it.over == [True]


def test_closing_without_anything_processed_ends_at_once() -> None:
    it = Loop()
    it.requests.close(5.0, leave_group=True)

    it.thread.start()
    it.thread.join(SOON)

    assert it.life.asked == ["start"]


@pytest.mark.parametrize("error", [StreamsError("no topics"), KeyError("a bug")])
def test_an_error_at_the_start_ends_the_instance_with_it(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise error

    it = Loop()
    monkeypatch.setattr(it.life, "start", fail)

    it.thread.start()
    it.thread.join(SOON)

    assert it.life.closed_with == [error]
    assert it.over == [True]


@pytest.mark.parametrize("drains", [True, False])
def test_an_instance_that_leaves_while_user_code_hangs_does_not_wait_for_it(drains: bool) -> None:
    """Nothing can be handed over or committed; the others get the tasks once it is gone."""
    it = Loop()
    feed(it.task, [raw(0), raw(1)])
    assert it.tasks.take(0) is it.task
    it.task.context.message = raw(0)
    it.passes()
    it.clock.advance(61_000)
    if drains:
        it.requests.drain(55.0)
    else:
        it.requests.close(55.0, leave_group=True)
    it.passes()

    assert it.requests.close_now
    assert not it.requests.out_of_time
    it.clock.advance(int(1000 * CUT_SHORT))
    assert it.requests.out_of_time
    it.passes()


def test_an_instance_that_leaves_in_good_order_keeps_its_time() -> None:
    it = Loop()
    it.passes()
    it.clock.advance(31_000)
    it.requests.drain(55.0)
    it.clock.advance(int(1000 * CUT_SHORT))
    assert not it.requests.out_of_time


def test_the_first_results_of_tasks_that_were_taken_over_are_committed_at_once() -> None:
    it = Loop()
    it.collector.prompt = False
    it.touch()
    it.passes(2)
    assert it.feeder.timeouts[-1] > 0
    assert it.life.asked == []

    it.life.wants_commit = it.life.hand_overs.commit_wanted = True
    it.passes()

    assert it.feeder.timeouts[-1] == 0
    assert it.life.asked[:1] == ["commit"]


def test_the_thread_waits_where_first_results_may_not_be_committed_yet() -> None:
    it = Loop()
    it.touch()
    it.life.wants_commit = it.life.hand_overs.commit_wanted = True
    it.life.may_commit = False
    it.passes()

    assert it.feeder.timeouts[-1] > 0
    assert it.life.asked == []


def test_a_commit_that_is_wanted_and_has_nothing_to_commit_is_over_at_once() -> None:
    it = Loop()
    it.life.wants_commit = True
    it.passes()
    assert (it.life.asked, it.life.nothings) == ([], 1)

    it.touch()
    it.passes()

    assert (it.life.asked[0], it.life.nothings) == ("commit", 1)


def test_an_instance_that_drains_commits_before_the_others_are_asked_to_take_over() -> None:
    it = Loop()
    it.touch()
    it.requests.drain(55.0)
    it.passes()
    assert it.life.asked[0] == "commit"

    it.passes(2)

    assert it.life.asked == ["commit", "committed", "drain"]


def test_an_instance_that_drains_and_may_not_commit_asks_the_others_at_once() -> None:
    it = Loop()
    it.touch()
    it.life.may_commit = False
    it.requests.drain(55.0)
    it.passes()

    assert it.life.asked == ["drain"]
