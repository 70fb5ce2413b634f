"""Which ready task a free thread takes."""

from __future__ import annotations

from streamsapp.tasks.scheduler import MostBufferedFirst
from streamsapp.tasks.stream_task import StreamTask
from task_parts import feed, raw, task_of, through


def test_the_task_with_the_most_buffered_records_goes_first() -> None:
    idle, busy, some = (task_of(through(), number) for number in range(3))
    feed(busy, [raw(0, partition=1), raw(1, partition=1)])
    feed(some, [raw(0, partition=2)])

    assert MostBufferedFirst().pick([idle, busy, some]) is busy


def test_the_only_ready_task_is_taken_whatever_it_has_buffered() -> None:
    task = task_of(through())

    assert MostBufferedFirst().pick({task.id: task}.values()) is task


def test_a_task_that_others_always_outdo_is_taken_after_two_turns_for_each_before_it() -> None:
    scheduler = MostBufferedFirst()
    busy, outdone = [task_of(through(), number) for number in range(4)], task_of(through(), 4)
    for task in busy:
        feed(task, [raw(0, partition=task.id.partition)])
    line = [*busy, outdone]
    turns: list[StreamTask] = []

    while outdone not in turns and len(turns) < 100:
        turns.append(scheduler.pick(line))
        line.remove(turns[-1])
        line.append(turns[-1])

    assert outdone in turns[: 2 * len(busy) + 2]


def test_the_most_buffered_task_gets_every_other_turn_whatever_waits() -> None:
    scheduler = MostBufferedFirst()
    line = [task_of(through(), number) for number in range(5)]
    busy = line[-1]
    feed(busy, [raw(0, partition=busy.id.partition)])
    turns: list[StreamTask] = []

    for _ in range(6):
        turns.append(scheduler.pick(line))
        line.remove(turns[-1])
        line.append(turns[-1])

    assert turns[::2] == [busy] * 3
