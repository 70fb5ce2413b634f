"""The task manager under real threads: no two of them ever hold one task, and nothing is lost or done twice."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from streamsapp import TopicPartition
from streamsapp.tasks.scheduler import MostBufferedFirst
from streamsapp.tasks.stream_task import StreamTask, TaskEpoch
from streamsapp.tasks.task_manager import EpochEnd, TaskManager
from task_parts import feed, raw, task_of, through

TASKS, THREADS, ROUNDS, PER_ROUND = 5, 4, 60, 8
SOON = 30.0


class Workers:
    """Threads that do what processing threads do, and watch each other."""

    def __init__(self, tasks: TaskManager) -> None:
        self._tasks = tasks
        self._owner: dict[int, threading.Thread | None] = {}
        self.shared: list[str] = []
        #: Output records by task and epoch, as the record collector would get them.
        self.sent: list[tuple[StreamTask, int, int]] = []
        self._threads = [threading.Thread(target=self._run, args=(seed,)) for seed in range(THREADS)]
        self._stopping = False

    def __enter__(self) -> Workers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        self._tasks.close()
        for thread in self._threads:
            thread.join(SOON)

    def _run(self, seed: int) -> None:
        chance = random.Random(seed)
        while not self._stopping:
            task = self._tasks.take(0.01)
            if task is not None:
                with self._alone(task):
                    self._work(task, chance)
                self._tasks.give_back(task, more=task.buffered_records > 0)

    @contextmanager
    def _alone(self, task: StreamTask) -> Iterator[None]:
        me = threading.current_thread()
        other = self._owner.get(id(task))
        if other is not None:
            self.shared.append(f"{task.id}: {me.name} and {other.name}")
        self._owner[id(task)] = me
        yield
        self._owner[id(task)] = None

    def _work(self, task: StreamTask, chance: random.Random) -> None:
        if self._tasks.scheduling(task).epoch_end_wanted:
            self._tasks.epoch_ended(task, task.freeze())
        if not self._tasks.paused:
            task.process(task.control, chance.randint(1, 5))
        output = task.take_output()
        if output:
            self.sent.append((task, self._tasks.scheduling(task).epoch, len(output)))


def wait_for(tasks: TaskManager, end: EpochEnd) -> list[TaskEpoch]:
    for _ in range(int(SOON / 0.01)):
        if end.done:
            return end.epochs
        tasks.wait_for_progress(0.01)
    raise AssertionError(f"tasks did not end their epochs: {end.waiting}")


@pytest.mark.parametrize("seed", range(3))
def test_every_record_is_processed_once_and_committed_with_what_it_sent(seed: int) -> None:
    chance = random.Random(seed)
    tasks = TaskManager(MostBufferedFirst())
    all_tasks = [task_of(through(), number) for number in range(TASKS)]
    for task in all_tasks:
        tasks.add(task)
    offsets = dict.fromkeys(all_tasks, 0)
    committed: Counter[StreamTask] = Counter()
    sent: Counter[StreamTask] = Counter()

    with Workers(tasks) as workers:
        for epoch in range(ROUNDS):
            for task in chance.sample(all_tasks, 3):
                feed(task, [raw(offsets[task] + n, partition=task.id.partition) for n in range(PER_ROUND)])
                offsets[task] += PER_ROUND
                tasks.mark_ready([task])
            if epoch % 7 == 3:
                tasks.pause()
            for ended in wait_for(tasks, tasks.end_epochs()):
                (consumed,) = ended.offsets.values()
                committed[ended.task] = consumed.offset
            tasks.resume()
            for task, in_epoch, count in list(workers.sent):
                sent[task] += count if in_epoch == epoch else 0
            # A commit carries what the records it commits led to: nothing of the next epoch, nothing missing.
            assert sent == +Counter({task: committed[task] for task in all_tasks})
        tasks.mark_ready(all_tasks)
        while any(task.buffered_records for task in all_tasks):
            tasks.wait_for_progress(0.01)
        for ended in wait_for(tasks, tasks.end_epochs()):
            committed[ended.task] = next(iter(ended.offsets.values())).offset

    assert workers.shared == []
    assert committed == Counter(offsets)
    totals: Counter[StreamTask] = Counter()
    for task, _, count in workers.sent:
        totals[task] += count
    assert totals == Counter(offsets)


def test_a_task_can_be_taken_away_from_busy_threads_and_given_to_them_again() -> None:
    tasks = TaskManager(MostBufferedFirst())
    task = task_of(through())
    tasks.add(task)
    queue = task.queues[TopicPartition("in", 0)]

    with Workers(tasks) as workers:
        for offset in range(200):
            feed(task, [raw(offset)])
            tasks.mark_ready([task])
            if offset % 10 == 0:
                assert tasks.remove(task.id, SOON) is task
                position = queue.position
                assert tasks.held == []
                assert queue.position == position, "nobody processes it any more"
                tasks.add(task)
        while task.buffered_records:
            tasks.wait_for_progress(0.01)

    assert workers.shared == []
    assert sum(count for _, _, count in workers.sent) == 200


class Counting(TaskManager):
    """Counts how often the thread of the test looks whether tasks are processed."""

    looks = 0

    @property
    def _working(self) -> bool:
        self.looks += threading.current_thread() is threading.main_thread()
        return super()._working


def test_a_thread_that_waits_for_all_tasks_is_not_woken_by_each_of_them() -> None:
    """The interpreter would go from thread to thread for every task: most of what few records of many tasks cost."""
    tasks, many = Counting(MostBufferedFirst()), 20
    for number in range(many):
        tasks.add(task_of(through(), number))
    waits = threading.Event()

    def work() -> None:
        waits.wait(SOON)
        while (task := tasks.take(0)) is not None:
            tasks.give_back(task, more=False)
            time.sleep(0.002)  # in which a thread that is woken looks

    worker = threading.Thread(target=work)
    worker.start()
    waits.set()
    assert tasks.wait_for_rest(SOON)
    worker.join(SOON)

    assert tasks.looks < many / 2


def test_a_thread_that_waits_for_progress_learns_of_the_last_epoch_that_ends_while_tasks_go_on() -> None:
    tasks = TaskManager(MostBufferedFirst())
    first, second = (task_of(through(), number) for number in range(2))
    for task in (first, second):
        tasks.add(task)
    assert {tasks.take(0), tasks.take(0)} == {first, second}
    end = tasks.end_epochs()

    def work() -> None:
        for task in (first, second):
            tasks.epoch_ended(task, None)

    worker = threading.Timer(0.05, work)
    worker.start()
    tasks.wait_for_progress(SOON)
    worker.join(SOON)

    assert end.done
    assert len(tasks.held) == 2
