"""When the polling thread looks again whether there is something to commit, and when it sends results."""

from __future__ import annotations

import math
import threading
from typing import Any, cast

import pytest

from streamsapp.collector.record_collector import RecordCollector
from streamsapp.outgoing import OutputRecord
from streamsapp.runtime import output as module
from streamsapp.runtime.commit import CommitSchedule
from streamsapp.runtime.output import HOLD, PATIENCE, Output
from streamsapp.tasks.scheduler import MostBufferedFirst
from streamsapp.tasks.task_manager import TaskManager
from streamsapp.testing import MockClock
from task_parts import task_of, through

RESULT: OutputRecord = ("out", b"v", None, -1, None, None, 0, None)


class CountingTaskManager(TaskManager):
    """Counts how often all tasks are looked at."""

    looks = 0

    def anything_touched(self) -> bool:
        self.looks += 1
        return super().anything_touched()


class Processed:
    """The output of one task, which the test holds by turns."""

    def __init__(self) -> None:
        clock = MockClock()
        self.tasks = CountingTaskManager(MostBufferedFirst())
        self.task = task_of(through())
        self.tasks.add(self.task)
        schedule = CommitSchedule(10.0, clock, 1 << 30)
        self.output = Output(cast(Any, None), self.tasks, RecordCollector(10), schedule, clock)
        self.turn(touched=False)

    def turn(self, *, touched: bool) -> None:
        self.tasks.mark_ready([self.task])
        assert self.tasks.take(0) is self.task
        self.task.touched = touched
        self.tasks.give_back(self.task, more=False)


def test_tasks_without_anything_to_commit_are_looked_at_once_until_one_had_its_turn() -> None:
    it = Processed()
    assert [it.output.commit_in(rests=False) for _ in range(3)] == [math.inf] * 3
    assert it.tasks.looks == 1

    it.turn(touched=False)
    assert [it.output.commit_in(rests=False) for _ in range(3)] == [math.inf] * 3
    assert it.tasks.looks == 2


def test_a_commit_is_looked_for_as_soon_as_a_task_did_something_and_until_it_is_committed() -> None:
    it = Processed()
    assert it.output.commit_in(rests=False) == math.inf

    it.turn(touched=True)
    assert it.output.commit_in(rests=False) <= 10.0
    assert it.output.commit_in(rests=False) <= 10.0

    it.turn(touched=False)
    assert it.output.commit_in(rests=False) == math.inf


def test_a_commit_is_looked_for_while_there_may_be_records_that_it_brings() -> None:
    it = Processed()
    assert it.output.commit_in(rests=False) == math.inf
    assert it.output.commit_in(rests=True) <= 10.0


def test_a_commit_is_looked_for_while_a_task_is_processed() -> None:
    it = Processed()
    assert it.output.commit_in(rests=False) == math.inf

    it.tasks.mark_ready([it.task])
    assert it.output.commit_in(rests=False) <= 10.0
    it.tasks.take(0)
    assert it.output.commit_in(rests=False) <= 10.0


class Results:
    """Results; three or more of them are enough to be sent. ``sent`` counts the results of each request."""

    def __init__(self, *, prompt: bool) -> None:
        self.clock, self.tasks, self.sent = MockClock(), TaskManager(MostBufferedFirst()), list[int]()
        self.last_ones = list[bool]()
        self.task = task_of(through())
        self.tasks.add(self.task)
        self.collector = RecordCollector(100, enough=3, prompt=prompt)
        schedule = CommitSchedule(10.0, self.clock, 1 << 30)
        self.output = Output(cast(Any, self), self.tasks, self.collector, schedule, self.clock)
        self.output.send()

    @property
    def client(self) -> Results:
        return self

    def poll(self) -> None:
        """Nothing has failed."""

    def no_more(self) -> None:
        """Records that were sent need not wait for others."""
        self.last_ones.append(bool(self.sent))

    def send(self, records: list[OutputRecord]) -> list[OutputRecord]:
        self.sent.append(len(records))
        return []

    def sent_of(self, count: int) -> list[int]:
        self.sent.clear()
        self.collector.add([RESULT] * count, epoch=0)
        self.output.send()
        return self.sent


def test_prompt_results_are_sent_in_the_next_pass_however_few() -> None:
    it = Results(prompt=True)
    assert it.sent_of(1) == [1]
    assert it.sent_of(5) == [5]


def test_few_results_that_nobody_can_read_before_the_commit_wait_a_little() -> None:
    it = Results(prompt=False)
    assert it.sent_of(1) == []
    assert it.sent_of(2) == [3]
    assert it.sent_of(1) == []
    it.clock.advance(round(1000 * HOLD))
    assert it.sent_of(1) == [2]


def test_prompt_results_are_looked_for_while_tasks_are_processed_that_may_bring_more() -> None:
    it = Results(prompt=True)
    assert it.output.send_in == PATIENCE
    assert it.tasks.take(0) is it.task
    assert it.output.send_in == PATIENCE
    it.tasks.give_back(it.task, more=False)
    assert it.output.send_in == math.inf

    assert Results(prompt=False).output.send_in == math.inf


def test_results_of_few_records_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SOON", 10.0)
    it = Results(prompt=True)
    it.tasks.mark_ready([it.task])

    def process() -> None:
        assert it.tasks.take(10) is it.task
        it.collector.add([RESULT], epoch=0)
        it.tasks.give_back(it.task, more=False)

    thread = threading.Thread(target=process)
    thread.start()
    it.output.wait_for_results()
    it.output.send()
    thread.join()

    assert it.sent == [1]
    assert it.last_ones == [True]
    assert it.sent_of(5) == [5]
    assert it.last_ones == [True], "more may follow soon where records are not few"


def test_results_of_few_records_that_took_long_are_the_last_ones_once_all_tasks_rest() -> None:
    it = Results(prompt=True)
    it.tasks.mark_ready([it.task])
    assert it.tasks.take(0) is it.task
    it.output.wait_for_results()
    assert it.sent_of(1) == [1]
    assert it.last_ones == []

    it.tasks.give_back(it.task, more=False)
    assert it.sent_of(1) == [1]
    assert it.last_ones == [True]


@pytest.mark.parametrize("prompt", [True, False])
def test_results_that_take_long_or_that_nobody_can_read_before_the_commit_are_not_waited_for(prompt: bool) -> None:
    it = Results(prompt=prompt)
    it.tasks.mark_ready([it.task])
    it.tasks.take(0)

    it.output.wait_for_results()

    assert it.tasks.held == [it.task]


@pytest.mark.parametrize("near_commit", [True, False])
def test_results_that_only_a_commit_shows_are_waited_for_if_it_is_near(
    near_commit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = Results(prompt=False)
    waits: list[float] = []
    monkeypatch.setattr(it.tasks, "wait_for_rest", waits.append)

    it.output.wait_for_results(near_commit=near_commit)

    assert len(waits) == int(near_commit)
