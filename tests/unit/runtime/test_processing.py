"""A processing thread's slice: the results that it sends or leaves ready, and the handling of failures."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

import pytest

from streamsapp import ProcessorContext, Record, TopicPartition
from streamsapp.collector.record_collector import RecordCollector
from streamsapp.errors import ProcessingError
from streamsapp.outgoing import OutputRecord
from streamsapp.runtime.processing import TIME_SLICE, ProcessingThread
from streamsapp.runtime.thread_failure import ThreadFailure
from streamsapp.tasks.scheduler import MostBufferedFirst
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_manager import TaskManager
from streamsapp.testing import MockClock
from task_parts import config, feed, raw, task_of, through

SOON = 100.0


class Worker:
    """A processing thread that is not started: the test runs its slices."""

    def __init__(self, *tasks: StreamTask, clock: MockClock | None = None, capacity: int = 1_000) -> None:
        self.tasks = TaskManager(MostBufferedFirst())
        self.collector = RecordCollector(capacity)
        self.failures: SimpleQueue[ThreadFailure] = SimpleQueue()
        self.thread = ProcessingThread("worker", self.tasks, self.collector, self.failures, clock or MockClock())
        for task in tasks:
            self.tasks.add(task)

    def slice(self) -> None:
        self.thread._run_once()

    def drained(self) -> list[bytes | None]:
        sent: list[bytes | None] = []

        def send(batch: list[OutputRecord]) -> list[OutputRecord]:
            sent.extend(value for _, value, *_ in batch)
            return []

        self.collector.drain(send, 1_000)
        return sent


def test_a_slice_processes_what_is_buffered_and_hands_the_results_to_the_collector() -> None:
    task = task_of(through())
    feed(task, [raw(0, value=b"a"), raw(1, value=b"b")])
    it = Worker(task)

    it.slice()

    assert it.drained() == [b"a", b"b"]
    assert it.tasks.held == []
    assert it.tasks.take(0) is None, "nothing is left to do"


def test_a_slice_ends_when_its_time_is_over_and_the_task_stays_ready() -> None:
    clock = MockClock()

    def slow(context: ProcessorContext, record: Record) -> None:
        clock.advance(1)

    task = task_of(through(slow), clock=clock)
    count = int(TIME_SLICE * 1000) + 2_000
    feed(task, [raw(offset) for offset in range(count)])
    it = Worker(task, clock=clock)

    it.slice()

    assert 0 < task.buffered_records < count
    assert it.tasks.take(0) is task


def test_a_failing_task_is_reported_with_its_id_and_left_alone_until_revived() -> None:
    def fail(context: ProcessorContext, record: Record) -> None:
        raise ValueError("boom")

    task = task_of(through(fail))
    feed(task, [raw(0)])
    it = Worker(task)

    it.slice()

    failure = it.failures.get_nowait()
    assert (failure.thread, failure.task_id) == ("worker", task.id)
    assert isinstance(failure.error, ProcessingError)
    assert it.tasks.held == []
    it.tasks.mark_ready([task])
    assert it.tasks.take(0) is None


def test_results_before_a_failure_are_not_sent() -> None:
    """They stay in the task, which starts again from the last commit."""

    def fail_on_b(context: ProcessorContext, record: Record) -> None:
        if record.value == "b":
            raise ValueError("boom")
        context.forward(record)

    task = task_of(through(fail_on_b))
    feed(task, [raw(0, value=b"a"), raw(1, value=b"b")])
    it = Worker(task)

    it.slice()

    assert it.drained() == []


def test_a_full_collector_holds_processing_back() -> None:
    task = task_of(through())
    it = Worker(task, capacity=1)
    it.collector.add([("out", b"waiting", None, -1, None, None, 0, None)], epoch=0)
    feed(task, [raw(0)])

    it.slice()

    assert task.processed_records == 0
    it.drained()
    it.slice()
    assert task.processed_records == 1


def test_an_epoch_ends_at_a_record_boundary_and_processing_goes_on_in_the_next() -> None:
    task = task_of(through())
    feed(task, [raw(0, value=b"a")])
    it = Worker(task)
    it.slice()
    feed(task, [raw(1, value=b"b")])
    end = it.tasks.end_epochs()

    it.slice()

    assert end.done
    (epoch,) = end.epochs
    assert epoch.offsets[TopicPartition("in", 0)].offset == 1
    it.slice()
    assert it.drained() == [b"a"]
    it.collector.roll()
    assert it.drained() == [b"b"]
    assert it.thread.epoch_end.count == 1


def test_records_that_came_with_a_commit_are_processed_before_the_epoch_ends() -> None:
    """In one turn: a turn each for the records and for the end costs twice as much."""
    task = task_of(through())
    feed(task, [raw(0, value=b"a"), raw(1, value=b"b")])
    it = Worker(task)
    end = it.tasks.end_epochs(input_first=True)

    it.slice()

    (epoch,) = end.epochs
    assert end.done
    assert epoch.offsets[TopicPartition("in", 0)].offset == 2
    assert it.drained() == [b"a", b"b"]
    assert it.tasks.resting


def test_a_commit_that_does_not_wait_longer_leaves_records_to_the_next_one() -> None:
    clock, values = MockClock(), list[str]()

    def is_slow(context: ProcessorContext, record: Record) -> None:
        values.append(record.value)
        if len(values) == 2:
            it.tasks.end_epochs_now()

    task = task_of(through(is_slow), clock=clock)
    feed(task, [raw(number) for number in range(4)])
    it = Worker(task, clock=clock)
    end = it.tasks.end_epochs(input_first=True)

    it.slice()

    (epoch,) = end.epochs
    assert (epoch.offsets[TopicPartition("in", 0)].offset, len(values)) == (2, 2)
    it.slice()
    assert len(values) == 4


@pytest.mark.parametrize("paused", [False, True])
def test_a_task_without_records_that_it_may_process_ends_its_epoch_at_once(paused: bool) -> None:
    task = task_of(through())
    feed(task, [raw(0)])
    it = Worker(task)
    it.slice()
    if paused:
        it.tasks.pause()
        feed(task, [raw(1)])
        it.tasks.mark_ready([task])
    end = it.tasks.end_epochs(input_first=True)

    it.slice()

    (epoch,) = end.epochs
    assert (end.done, epoch.offsets[TopicPartition("in", 0)].offset) == (True, 1)


def test_a_task_gets_its_turn_although_others_have_a_backlog_and_commits_follow_each_other() -> None:
    clock = MockClock()

    def takes_a_slice(context: ProcessorContext, record: Record) -> None:
        clock.advance(int(TIME_SLICE * 1000))

    busy = [task_of(through(takes_a_slice), number, clock=clock) for number in range(3)]
    downstream = task_of(through(), len(busy), clock=clock)
    feed(downstream, [raw(0, partition=len(busy))])
    it = Worker(*busy, downstream, clock=clock)
    slices = 0

    while downstream.buffered_records and slices < 50:
        for task in busy:
            feed(task, [raw(slices, partition=task.id.partition)])
        if it.tasks._epoch_end is None or it.tasks._epoch_end.done:
            it.tasks.end_epochs()
        it.slice()
        it.drained()
        it.collector.roll()
        slices += 1

    assert downstream.processed_records == 1


def test_a_task_that_waits_for_an_input_says_when_to_look_again() -> None:
    clock = MockClock(5_000)
    task = task_of(through(topics=("in", "other")), clock=clock, settings=config(max_task_idle_ms=300))
    feed(task, [raw(0)])
    it = Worker(task, clock=clock)

    it.slice()
    assert it.tasks.scheduling(task).wake_at_ms is None, "only input helps while the broker has some"

    task.reached_end(TopicPartition("other", 0))
    it.tasks.mark_ready([task])
    it.slice()

    assert it.tasks.scheduling(task).wake_at_ms == 5_300
    assert task.processed_records == 0


def test_a_paused_application_processes_nothing_and_still_ends_its_epochs() -> None:
    task = task_of(through())
    feed(task, [raw(0)])
    it = Worker(task)
    it.slice()
    feed(task, [raw(1)])
    it.tasks.pause()
    end = it.tasks.end_epochs()

    it.slice()

    assert end.done
    assert task.processed_records == 1
    assert task.buffered_records == 1


def test_a_started_thread_works_until_it_is_stopped() -> None:
    task = task_of(through())
    it = Worker(task)
    it.thread.start()
    for offset in range(100):
        feed(task, [raw(offset)])
        it.tasks.mark_ready([task])
    while task.buffered_records:
        it.tasks.wait_for_progress(0.01)

    it.thread.stop()
    it.tasks.close()
    it.thread.join(SOON)

    assert not it.thread.is_alive()
    assert len(it.drained()) == 100


def test_a_bug_of_the_thread_itself_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(timeout: float) -> Any:
        raise RuntimeError("a bug")

    it = Worker()
    monkeypatch.setattr(it.tasks, "take", broken)

    it.thread.start()
    it.thread.join(SOON)

    failure = it.failures.get_nowait()
    assert (str(failure.error), failure.task_id) == ("a bug", None)
