"""State that is damaged once is mended; damaged again and again, it is a matter of health."""

from __future__ import annotations

from streamsapp import TaskId
from streamsapp.errors import TaskCorruptedError
from streamsapp.runtime.corruptions import TIMES, WINDOW, Corruptions
from streamsapp.testing import MockClock

ERROR = TaskCorruptedError("damaged")


def test_a_task_damaged_again_and_again_is_complained_of_until_it_was_well_for_a_while() -> None:
    clock = MockClock()
    it = Corruptions(clock)
    for _ in range(TIMES - 1):
        it.note(TaskId(0, 1), ERROR)
    assert it.complaint is None

    it.note(TaskId(0, 1), ERROR)

    assert "task 0_1 was found damaged" in (it.complaint or "")
    clock.advance(int(WINDOW * 1000))
    assert it.complaint is None


def test_tasks_damaged_once_each_are_no_reason_to_complain() -> None:
    it = Corruptions(MockClock())

    for partition in range(TIMES):
        it.note(TaskId(0, partition), ERROR)

    assert it.complaint is None


def test_damage_long_ago_does_not_count() -> None:
    clock = MockClock()
    it = Corruptions(clock)

    for _ in range(TIMES):
        it.note(TaskId(0, 1), ERROR)
        clock.advance(int(WINDOW * 1000 / 2))

    assert it.complaint is None
