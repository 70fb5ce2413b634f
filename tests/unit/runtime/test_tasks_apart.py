"""A task that is apart from the others: commits go on without it, and none of it is in a transaction before its epoch
ends."""

from __future__ import annotations

from queue import SimpleQueue

import pytest

from streamsapp.collector.record_collector import RecordCollector
from streamsapp.outgoing import OutputRecord
from streamsapp.runtime.processing import MOST_KEPT, ProcessingThread
from streamsapp.runtime.set_aside import ASKED_FOR, FAILURES, WITHIN, SetAside
from streamsapp.runtime.thread_failure import ThreadFailure
from streamsapp.tasks.fair_scheduler import FairScheduler
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_manager import TaskManager
from streamsapp.testing import MockClock
from streamsapp.topology.scheduling import Share
from task_parts import config, feed, raw, task_of, through


class Worker:
    """A processing thread that is not started, and one task that is apart."""

    def __init__(self, *, exactly_once: bool = True, apart: bool = True) -> None:
        self.clock = MockClock()
        shares = {0: Share(latency=False, weight=1, apart=apart)}
        self.tasks = TaskManager(FairScheduler(shares, self.clock.monotonic))
        self.collector = RecordCollector(100_000, prompt=not exactly_once)
        self.failures: SimpleQueue[ThreadFailure] = SimpleQueue()
        self.thread = ProcessingThread("worker", self.tasks, self.collector, self.failures, self.clock)
        self.task = task_of(through())
        self.tasks.add(self.task)

    def slice(self) -> None:
        self.thread._run_once()

    def held(self) -> StreamTask:
        task = self.tasks.take(0)
        assert task is not None
        return task

    def drained(self) -> list[bytes | None]:
        sent: list[bytes | None] = []

        def send(batch: list[OutputRecord]) -> list[OutputRecord]:
            sent.extend(value for _, value, *_ in batch)
            return []

        self.collector.drain(send, 1_000_000)
        return sent


def test_its_results_wait_for_the_end_of_its_epoch() -> None:
    it = Worker()
    feed(it.task, [raw(0, value=b"a"), raw(1, value=b"b")])
    it.slice()
    assert it.drained() == []

    end = it.tasks.end_epochs()
    it.slice()

    assert end.done
    assert it.drained() == [b"a", b"b"]
    assert len(end.epochs) == 1


def test_at_least_once_they_are_sent_at_once() -> None:
    it = Worker(exactly_once=False)
    feed(it.task, [raw(0, value=b"a")])

    it.slice()

    assert it.drained() == [b"a"]


def test_so_are_those_of_a_task_that_is_not_apart() -> None:
    it = Worker(apart=False)
    feed(it.task, [raw(0, value=b"a")])

    it.slice()

    assert it.drained() == [b"a"]


def test_a_commit_goes_on_without_it_while_it_does_not_come_back() -> None:
    it = Worker()
    held = it.held()
    end = it.tasks.end_epochs()
    assert not end.done

    it.tasks.leave_out()

    assert end.done
    assert not end.broken
    assert end.epochs == []
    assert held.control.stop
    assert it.tasks.stuck == [held]
    assert not it.tasks.anything_touched()
    assert it.tasks.end_epochs().done, "nor does the next one wait for it"


def test_a_commit_waits_for_a_task_that_is_not_apart() -> None:
    it = Worker(apart=False)
    it.held()
    end = it.tasks.end_epochs()

    it.tasks.leave_out()

    assert not end.done


def test_once_it_has_come_back_the_next_commit_carries_its_epoch() -> None:
    it = Worker()
    feed(it.task, [raw(0, value=b"a")])
    held = it.held()
    assert held.process(held.control, 1) == 1
    it.tasks.end_epochs()
    it.tasks.leave_out()
    it.tasks.give_back(held, more=True)
    assert it.tasks.stuck == []
    assert it.tasks.take(0) is None, "it processes nothing more before"
    assert it.tasks.anything_touched()

    end = it.tasks.end_epochs()
    it.slice()

    assert [next(iter(epoch.offsets.values())).offset for epoch in end.epochs] == [1]
    assert it.drained() == [b"a"]


def test_a_commit_cannot_do_without_a_task_that_joins_it() -> None:
    it = Worker()
    held = it.held()
    end = it.tasks.end_epochs()
    assert it.tasks.join_commit(held)

    it.tasks.leave_out()

    assert not end.done


def test_a_task_that_was_left_out_does_not_join() -> None:
    it = Worker()
    held = it.held()
    it.tasks.end_epochs()
    it.tasks.leave_out()

    assert not it.tasks.join_commit(held)


def test_its_failure_breaks_no_commit() -> None:
    it = Worker()
    feed(it.task, [raw(0, value=b"a")])
    held = it.held()
    held.process(held.control, 1)
    end = it.tasks.end_epochs()

    assert it.tasks.failed(held)

    assert end.done
    assert not end.broken
    assert not it.tasks.end_epochs().broken


@pytest.mark.parametrize("joined", [True, False])
def test_a_failure_breaks_the_commit_that_it_has_joined(joined: bool) -> None:
    it = Worker(apart=joined)
    held = it.held()
    end = it.tasks.end_epochs()
    if joined:
        it.tasks.join_commit(held)

    assert not it.tasks.failed(held)

    assert end.broken


def test_all_can_stand_still_but_for_a_task_that_does_not_come_back() -> None:
    it = Worker()
    it.held()
    it.tasks.end_epochs()
    assert not it.tasks.stand_still(0)

    it.tasks.leave_out()

    assert it.tasks.stand_still(0)


def test_it_asks_for_a_commit_when_many_results_wait() -> None:
    it = Worker()
    feed(it.task, [raw(at, value=b"v") for at in range(MOST_KEPT + 2_000)])

    for _ in range(100):
        it.slice()
        if it.task.context.commit_requested:
            break
    it.slice()  # it has nothing to do until the commit, and waits a moment for that

    assert it.task.context.commit_requested
    assert MOST_KEPT <= it.task.processed_records < MOST_KEPT + 1_000
    it.tasks.end_epochs()
    it.slice()
    assert len(it.drained()) == it.task.processed_records


# ---- what is set aside -------------------------------------------------------------------------------------------


def test_a_sub_topology_is_paused_when_it_has_failed_often_within_a_time() -> None:
    it = Worker()
    aside = SetAside(it.tasks, it.clock)
    for _ in range(FAILURES):
        assert not aside.now
        aside.failed(0, "ValueError")

    assert "3 times" in aside.now[0].reason
    assert it.tasks.take(0) is None
    assert it.tasks.is_paused(it.task)


def test_failures_that_lie_far_apart_do_not_pause_it() -> None:
    it = Worker()
    aside = SetAside(it.tasks, it.clock)

    for _ in range(10):
        aside.failed(0, "ValueError")
        it.clock.advance(int(1000 * WITHIN / (FAILURES - 1)) + 1_000)

    assert not aside.now


def test_it_goes_on_with_its_failures_forgotten() -> None:
    it = Worker()
    aside = SetAside(it.tasks, it.clock)
    for _ in range(FAILURES):
        aside.failed(0, "ValueError")

    aside.resume(0)
    aside.failed(0, "ValueError")

    assert not aside.now
    assert it.tasks.take(0) is it.task


def test_what_was_processed_before_a_pause_is_committed() -> None:
    it = Worker()
    feed(it.task, [raw(0, value=b"a"), raw(1, value=b"b")])
    held = it.held()
    held.process(held.control, 1)
    SetAside(it.tasks, it.clock).pause(0, ASKED_FOR)
    it.tasks.give_back(held, more=True)

    end = it.tasks.end_epochs()
    it.slice()

    assert [next(iter(epoch.offsets.values())).offset for epoch in end.epochs] == [1]
    assert it.tasks.take(0) is None


def test_the_configuration_without_scheduling_leaves_no_task_apart() -> None:
    assert config().scheduling == ()
