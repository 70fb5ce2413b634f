"""Scheduled callbacks: when they fire, with what time, and how often."""

from __future__ import annotations

import math
from collections.abc import Callable

from streamsapp.tasks.punctuation import PunctuationQueue, Schedule


class Firing:
    """Records which node's callback fired with which timestamp."""

    def __init__(self) -> None:
        self.fired: list[tuple[str, int]] = []

    def __call__(self, callback: Callable[[int], None], node: str, timestamp: int) -> None:
        self.fired.append((node, timestamp))
        callback(timestamp)


def nothing(timestamp: int) -> None:
    """A callback without effect."""


def schedule(queue: PunctuationQueue, node: str, due: int, interval: int) -> Schedule:
    made = Schedule(node, due, interval, nothing)
    queue.add(made)
    return made


def test_fires_when_time_reaches_the_due_time() -> None:
    queue, firing = PunctuationQueue(), Firing()
    schedule(queue, "a", due=10, interval=5)

    assert not queue.fire_due(9, firing)
    assert queue.fire_due(10, firing)
    assert firing.fired == [("a", 10)]
    assert queue.next_due == 15


def test_makes_up_for_missed_calls_with_a_single_one() -> None:
    queue, firing = PunctuationQueue(), Firing()
    schedule(queue, "a", due=10, interval=10)

    queue.fire_due(47, firing)

    assert firing.fired == [("a", 47)]
    assert queue.next_due == 50


def test_stays_on_the_grid_of_its_first_due_time() -> None:
    queue, firing = PunctuationQueue(), Firing()
    schedule(queue, "a", due=3, interval=10)

    queue.fire_due(14, firing)

    assert queue.next_due == 23


def test_fires_the_earlier_schedule_first() -> None:
    queue, firing = PunctuationQueue(), Firing()
    schedule(queue, "late", due=20, interval=100)
    schedule(queue, "early", due=10, interval=100)

    queue.fire_due(30, firing)

    assert firing.fired == [("early", 30), ("late", 30)]


def test_a_cancelled_schedule_does_not_fire_and_is_forgotten() -> None:
    queue, firing = PunctuationQueue(), Firing()
    schedule(queue, "a", due=10, interval=5).cancel()

    assert not queue.fire_due(10, firing)
    assert firing.fired == []
    assert queue.next_due == math.inf


def test_a_callback_that_cancels_its_own_schedule_fires_once() -> None:
    queue, firing = PunctuationQueue(), Firing()
    made = Schedule("a", 0, 10, lambda _: made.cancel())
    queue.add(made)

    queue.fire_due(0, firing)
    queue.fire_due(100, firing)

    assert firing.fired == [("a", 0)]


def test_a_schedule_added_by_a_callback_fires_in_the_same_round_when_it_is_due() -> None:
    queue, firing = PunctuationQueue(), Firing()

    def add_inner(timestamp: int) -> None:
        schedule(queue, "inner", due=0, interval=100)

    queue.add(Schedule("outer", 0, 100, add_inner))

    queue.fire_due(0, firing)

    assert firing.fired == [("outer", 0), ("inner", 0)]


def test_nothing_is_ever_due_in_an_empty_queue() -> None:
    assert PunctuationQueue().next_due == math.inf
