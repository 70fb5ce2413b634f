"""Which ready task a free thread takes."""

from __future__ import annotations

from streamsapp.tasks.scheduler import MostBufferedFirst
from task_parts import feed, raw, task_of, through


def test_the_task_with_the_most_buffered_records_goes_first() -> None:
    idle, busy, some = (task_of(through(), number) for number in range(3))
    feed(busy, [raw(0, partition=1), raw(1, partition=1)])
    feed(some, [raw(0, partition=2)])

    assert MostBufferedFirst().pick([idle, busy, some]) is busy


def test_the_only_ready_task_is_taken_whatever_it_has_buffered() -> None:
    task = task_of(through())

    assert MostBufferedFirst().pick({task.id: task}.values()) is task
