"""The polling thread at rest, with real threads: a thread that has something for it wakes it.

Its longest waits are practically endless here: a wake-up that is missed hangs the test until its time limit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from instances import eventually
from streamsapp import ProcessorContext, PunctuationType, Record
from streamsapp.clock import SystemClock
from streamsapp.collector.record_collector import RecordCollector
from streamsapp.deadline import ClosingTime
from streamsapp.kafka.fetching.fetched import Fetched
from streamsapp.kafka.wakeup import Wakeup
from streamsapp.outgoing import OutputRecord
from streamsapp.runtime import polling, processing
from streamsapp.runtime.commit import CommitSchedule
from streamsapp.runtime.hang_detection import HangDetector
from streamsapp.runtime.idle_inputs import IdleInputs
from streamsapp.runtime.input_feeder import InputPolling
from streamsapp.runtime.output import Output
from streamsapp.runtime.polling import PollingThread
from streamsapp.runtime.processing import ProcessingThread
from streamsapp.runtime.set_aside import SetAside
from streamsapp.runtime.thread_failure import Failures
from streamsapp.runtime.user_requests import UserRequests
from streamsapp.runtime.wall_clock_work import WallClockWork
from streamsapp.tasks.scheduler import MostBufferedFirst
from streamsapp.tasks.task_manager import TaskManager
from task_parts import feed, raw, task_of, through

ENDLESS = 3600.0


@pytest.fixture(autouse=True)
def endless_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "LONGEST_WAIT", ENDLESS)
    monkeypatch.setattr(polling, "LONGEST_REST", ENDLESS)
    monkeypatch.setattr(processing, "TASK_WAIT", ENDLESS)


class Life:
    """Everything that the polling thread drives, all well: a group without news, a broker that takes all at once."""

    full = holds_back = rests = ended = wants_commit = False
    hand_overs = SimpleNamespace(commit_near=False, commit_wanted=False)
    calm = may_commit = may_write = sound = True

    def __init__(self, instance: Instance) -> None:
        self.idle = IdleInputs(SystemClock(), lambda partitions: {}, lambda task: None)
        self._instance = instance
        self.incoming: list[int] = []
        self.sent: list[bytes | None] = []
        self.failed: list[BaseException] = []
        self.commits: list[Commit] = []
        #: Says whether the polling thread waits for input, or is just about to.
        self.waiting = False

    @property
    def client(self) -> Life:
        return self

    def start(self) -> None: ...
    def poll(self) -> None: ...
    def observe_lag(self, now: float) -> None: ...
    def committed(self, now: float) -> None: ...
    def take_last_news(self) -> None: ...
    def nothing_to_commit(self) -> None: ...
    def close(self, error: BaseException | None, *, leave_group: bool) -> None: ...

    def advance(self, committing: bool) -> bool:
        return False

    def pause(self, *, paused: bool) -> None:
        (self._instance.tasks.pause if paused else self._instance.tasks.resume)()

    def take_failures(self) -> None:
        while not self._instance.failures.empty():
            self.failed.append(self._instance.failures.get().error)

    def feed(self, timeout: float) -> Fetched:
        if not self.incoming and timeout > 0:
            self.waiting = True
            self._instance.wakeup.wait(timeout)
            self.waiting = False
        if self.incoming:
            feed(self._instance.task, [raw(self.incoming.pop(0))])
            self._instance.tasks.mark_ready([self._instance.task])
        return Fetched()

    def send(self, records: list[OutputRecord]) -> list[OutputRecord]:
        self.sent += [value for _, value, *_ in records]
        return []

    def new_commit(self, tasks: TaskManager) -> Commit:
        return Commit(tasks, self)


class Commit:
    """Is through when the tasks have ended their epochs."""

    def __init__(self, tasks: TaskManager, life: Life) -> None:
        self._end = tasks.end_epochs()
        self._life = life

    def give_up(self) -> None: ...

    def advance(self) -> bool:
        done = self._end.done
        if done:
            self._life.commits.append(self)
        return done


class Instance:
    """A polling and a processing thread with one task, which does ``each`` with a record."""

    def __init__(
        self,
        each: Callable[[ProcessorContext, Record], None],
        commit_interval: float = ENDLESS,
        enough: int = 1,
        *,
        prompt: bool = True,
    ) -> None:
        clock, self.wakeup = SystemClock(), Wakeup()
        wake = self.wakeup.notify
        self.life = Life(self)
        life = cast(Any, self.life)
        self.task = task_of(through(each), clock=clock)
        self.failures = Failures(wake)
        self.requests = UserRequests(ClosingTime(clock), clock, wake)
        collector = RecordCollector(100, wake, enough, prompt=prompt)
        self.tasks = TaskManager(MostBufferedFirst(), on_due_sooner=wake)
        self.processing = ProcessingThread("processing", self.tasks, collector, self.failures, clock)
        self.over = threading.Event()
        self.polling = PollingThread(
            "polling",
            life,
            InputPolling(life, self.tasks),
            Output(life, self.tasks, collector, CommitSchedule(commit_interval, clock, 1 << 30), clock),
            WallClockWork(
                self.tasks, life, HangDetector(self.tasks, self.failures, ENDLESS, SetAside(self.tasks, clock)), clock
            ),
            self.requests,
            self.over.set,
        )

    @contextmanager
    def running(self) -> Iterator[Life]:
        self.tasks.add(self.task)
        self.polling.start()
        self.processing.start()
        yield self.life
        self.requests.close(60.0, leave_group=True)
        assert self.over.wait(60)
        self.tasks.close()
        self.processing.stop()

    def arrive(self, offset: int) -> None:
        """A record arrives, and the client's library reports it."""
        self.life.incoming.append(offset)
        self.wakeup.notify()

    def both_wait(self) -> None:
        eventually(lambda: self.life.waiting and self.tasks.resting, "rest")


@pytest.mark.parametrize("enough", [1, 100])
def test_a_result_is_sent_although_the_polling_thread_waits_for_records(enough: int) -> None:
    def slow(context: ProcessorContext, record: Record) -> None:
        eventually(lambda: it.life.waiting)
        context.forward(record)

    it = Instance(slow, enough=enough)  # if it is not enough, then as no more are on their way
    with it.running() as life:
        for offset in range(3):
            life.sent.clear()
            it.arrive(offset)
            eventually(lambda: life.sent, "the result")
            it.both_wait()


def test_results_of_a_transaction_are_sent_when_they_are_enough() -> None:
    def slow(context: ProcessorContext, record: Record) -> None:
        eventually(lambda: it.life.waiting)
        for _ in range(3):
            context.forward(record)

    it = Instance(slow, enough=3, prompt=False)
    with it.running() as life:
        for offset in range(3):
            life.sent.clear()
            it.arrive(offset)
            eventually(lambda: len(life.sent) == 3, "the results")
            it.both_wait()


def test_few_results_are_sent_though_the_next_record_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Record] = []

    def slow(context: ProcessorContext, record: Record) -> None:
        eventually(lambda: len(it.life.sent) == len(done), "the results of the records before")
        done.append(record)
        context.forward(record)

    monkeypatch.setattr(processing, "BATCH", 1)
    it = Instance(slow, enough=100)
    feed(it.task, [raw(offset) for offset in range(3)])
    with it.running() as life:
        eventually(lambda: len(life.sent) == 3, "the results")


def test_a_failure_is_noticed_although_the_polling_thread_waits_for_records() -> None:
    def fail(context: ProcessorContext, record: Record) -> None:
        eventually(lambda: it.life.waiting)
        raise ValueError("no good")

    it = Instance(fail)
    with it.running() as life:
        it.arrive(0)
        eventually(lambda: life.failed, "the failure")


def test_callbacks_by_wall_clock_time_that_a_record_sets_up_are_called_when_they_are_due() -> None:
    def set_up(context: ProcessorContext, record: Record) -> None:
        eventually(lambda: it.life.waiting)
        context.schedule(10, PunctuationType.WALL_CLOCK_TIME, lambda time: context.forward(record))

    it = Instance(set_up)
    with it.running() as life:
        it.arrive(0)
        eventually(lambda: len(life.sent) > 3, "the callbacks' results")


def test_a_commit_that_a_record_asks_for_is_made() -> None:
    def ask(context: ProcessorContext, record: Record) -> None:
        eventually(lambda: it.life.waiting)
        context.commit()

    it = Instance(ask)
    with it.running() as life:
        for offset in range(3):
            life.commits.clear()
            it.arrive(offset)
            eventually(lambda: life.commits, "the commit")
            it.both_wait()


def test_what_a_record_did_is_committed_when_the_interval_ends_though_nothing_was_sent() -> None:
    it = Instance(lambda context, record: None, commit_interval=0.05)
    with it.running() as life:
        it.both_wait()
        it.arrive(0)
        eventually(lambda: life.commits, "the commit")
        it.both_wait()


def test_pausing_resuming_and_closing_do_not_wait_for_records() -> None:
    it = Instance(lambda context, record: context.forward(record))
    with it.running():
        it.both_wait()
        it.requests.pause(paused=True)
        eventually(lambda: it.tasks.paused, "the pause")
        it.both_wait()
        it.requests.pause(paused=False)
        eventually(lambda: not it.tasks.paused, "the end of the pause")
        it.both_wait()
