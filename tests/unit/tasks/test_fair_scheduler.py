"""Threads are shared by class and weight, on a simulated clock, and none starves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any, cast

import pytest

from streamsapp import Scheduling, TaskId
from streamsapp.tasks.fair_scheduler import BULK_TURN, LONGEST_WAIT, FairScheduler
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.topology.scheduling import Share


class Task:
    """All that the scheduler looks at."""

    def __init__(self, sub_topology: int, partition: int = 0) -> None:
        self.id = TaskId(sub_topology, partition)


def task(sub_topology: int, partition: int = 0) -> StreamTask:
    return cast(StreamTask, Task(sub_topology, partition))


class Simulation:
    """One thread, and tasks that are always ready, or from a time on."""

    def __init__(self, *shares: Share) -> None:
        self.now = 0.0
        self.scheduler = FairScheduler(dict(enumerate(shares)), lambda: self.now)
        self.had: Counter[int] = Counter()

    def turn(self, ready: Collection[StreamTask], seconds: float) -> StreamTask:
        chosen = self.scheduler.pick(ready)
        self.now += seconds
        self.had[chosen.id.subtopology] += round(1000 * seconds)
        self.scheduler.gave_back(chosen)
        return chosen


def latency(weight: int = 1) -> Share:
    return Share(latency=True, weight=weight, apart=False)


def bulk(weight: int = 1) -> Share:
    return Share(latency=False, weight=weight, apart=False)


def test_sub_topologies_of_a_class_have_turns_by_their_weights() -> None:
    it = Simulation(bulk(1), bulk(3))
    ready = [task(0), task(1)]

    for _ in range(4_000):
        it.turn(ready, 0.01)

    assert it.had[1] / it.had[0] == pytest.approx(3, rel=0.01)


def test_the_weight_is_that_of_a_sub_topology_however_many_tasks_it_has() -> None:
    it = Simulation(bulk(), bulk())
    ready = [task(0), *(task(1, partition) for partition in range(15))]

    for _ in range(2_000):
        it.turn(ready, 0.01)

    assert it.had[1] / it.had[0] == pytest.approx(1, rel=0.01)


def test_long_turns_count_by_their_time() -> None:
    it = Simulation(bulk(), bulk())
    ready = [task(0), task(1)]

    for _ in range(2_000):
        chosen = it.scheduler.pick(ready)
        seconds = 0.05 if chosen.id.subtopology == 0 else 0.01
        it.now += seconds
        it.had[chosen.id.subtopology] += round(1000 * seconds)
        it.scheduler.gave_back(chosen)

    assert it.had[1] / it.had[0] == pytest.approx(1, rel=0.05)


def test_one_that_had_nothing_to_do_has_saved_nothing_up() -> None:
    it = Simulation(bulk(), bulk())
    for _ in range(1_000):
        it.turn([task(0)], 0.01)
    it.had.clear()

    for _ in range(100):
        it.turn([task(0), task(1)], 0.01)

    assert it.had[1] / it.had[0] == pytest.approx(1, rel=0.05)


def test_the_latency_class_goes_first() -> None:
    it = Simulation(latency(), bulk(1000))

    assert it.turn([task(1), task(0)], 0.001).id.subtopology == 0


def test_bulk_waits_for_a_bounded_time_beside_a_latency_class_that_always_has_work() -> None:
    it = Simulation(latency(1000), bulk())
    ready = [task(0), task(1)]
    waited, since = 0.0, 0.0

    for _ in range(5_000):
        chosen = it.turn(ready, 0.002)
        if chosen.id.subtopology == 1:
            waited, since = max(waited, it.now - since), it.now

    assert it.had[1] > 0
    assert waited <= LONGEST_WAIT + 0.01


def test_a_held_bulk_task_gives_way_if_no_thread_is_free() -> None:
    it = Simulation(latency(), bulk())
    held, waiting = it.scheduler.pick([task(1)]), task(0)

    assert it.scheduler.gives_way([held], [waiting], idle=0) == [held]
    assert it.scheduler.gives_way([held], [waiting], idle=1) == []
    assert it.scheduler.gives_way([held], [task(1, 1)], idle=0) == []


def test_as_many_give_way_as_others_wait() -> None:
    it = Simulation(latency(), bulk())
    held = [it.scheduler.pick([task(1, partition)]) for partition in range(3)]

    assert len(it.scheduler.gives_way(held, [task(0, 0), task(0, 1)], idle=0)) == 2


def test_the_turn_of_a_bulk_task_that_waited_long_is_not_cut_short() -> None:
    it = Simulation(latency(), bulk())
    ready = [task(0), task(1)]
    it.turn(ready, LONGEST_WAIT)

    chosen = it.scheduler.pick(ready)

    assert chosen.id.subtopology == 1
    assert it.scheduler.gives_way([chosen], [ready[0]], idle=0) == []
    it.scheduler.gave_back(chosen)
    assert it.scheduler.pick(ready).id.subtopology == 0


def test_a_bulk_turn_is_short() -> None:
    it = Simulation(latency(), bulk())

    assert it.scheduler.turn(task(1)) == BULK_TURN < it.scheduler.turn(task(0))


def test_seconds_are_reported_by_sub_topology() -> None:
    it: Any = Simulation(latency(), bulk())

    it.turn([task(0)], 0.25)

    assert it.scheduler.busy_seconds(0) == pytest.approx(0.25)
    assert it.scheduler.busy_seconds(1) == 0


def test_an_entry_is_a_user_s_word_for_a_share() -> None:
    assert Scheduling(source="orders", weight=10).name == "orders"
