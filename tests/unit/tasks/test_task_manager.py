"""A task may be touched by one thread at a time, and by none while all stand still."""

from __future__ import annotations

import threading
from collections.abc import Collection

import pytest

from managed_tasks import end_epoch, make, manager, taken, touched
from streamsapp import TaskId
from streamsapp.errors import StreamsError
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_manager import TaskManager
from task_parts import feed, raw

SOON = 60.0


# ---- taking and giving back --------------------------------------------------------------------------------------


def test_a_held_task_is_not_given_to_a_second_thread() -> None:
    tasks = manager(make())

    taken(tasks)

    assert tasks.take(0) is None


def test_a_task_given_back_with_more_to_do_is_ready_again() -> None:
    tasks = manager(make())
    task = taken(tasks)

    tasks.give_back(task, more=True)

    assert tasks.take(0) is task


def test_a_task_given_back_with_nothing_to_do_is_left_alone_until_it_has_news() -> None:
    tasks = manager(make())
    task = taken(tasks)
    tasks.give_back(task, more=False)
    assert tasks.take(0) is None

    tasks.mark_ready([task])

    assert tasks.take(0) is task


def test_news_that_arrive_while_a_task_is_held_are_not_missed() -> None:
    tasks = manager(make())
    task = taken(tasks)

    tasks.mark_ready([task])
    tasks.give_back(task, more=False)

    assert tasks.take(0) is task


def test_a_waiting_thread_gets_a_task_as_soon_as_it_is_ready() -> None:
    task = make()
    tasks = manager(task)
    tasks.give_back(taken(tasks), more=False)
    got: list[StreamTask | None] = []
    waiter = threading.Thread(target=lambda: got.append(tasks.take(SOON)))
    waiter.start()

    tasks.mark_ready([task])
    waiter.join(SOON)

    assert got == [task]


def test_the_scheduler_chooses_among_ready_tasks() -> None:
    class LastFirst:
        def pick(self, ready: Collection[StreamTask]) -> StreamTask:
            return max(ready, key=lambda task: task.id)

    tasks = TaskManager(LastFirst())
    for number in range(3):
        tasks.add(make(number))

    assert [taken(tasks).id for _ in range(3)] == [TaskId(0, 2), TaskId(0, 1), TaskId(0, 0)]


def test_a_task_with_one_record_gets_its_turn_beside_one_whose_buffer_is_always_full() -> None:
    busy, downstream = make(0), make(1)
    feed(busy, [raw(offset) for offset in range(100)])
    feed(downstream, [raw(0, partition=1)])
    tasks = manager(busy, downstream)
    turns = []

    for _ in range(3):
        turns.append(taken(tasks))
        tasks.give_back(turns[-1], more=True)

    assert turns == [busy, downstream, busy]


def test_the_same_task_cannot_be_added_twice() -> None:
    task = make()
    tasks = manager(task)

    with pytest.raises(StreamsError, match="task 0_0 is at the task manager already"):
        tasks.add(task)


def test_no_thread_gets_a_task_once_closed() -> None:
    tasks = manager(make(0), make(1))
    held = taken(tasks)

    tasks.close()

    assert held.control.stop
    assert tasks.take(0) is None


# ---- removing ----------------------------------------------------------------------------------------------------


def test_removing_a_task_that_nobody_holds_gives_it_at_once() -> None:
    task = make()
    tasks = manager(task)

    assert tasks.remove(task.id, 0) is task
    assert tasks.tasks == {}
    assert tasks.take(0) is None


def test_removing_an_unknown_task_gives_none() -> None:
    assert manager().remove(TaskId(9, 9), 0) is None


def test_removing_a_held_task_stops_it_and_waits_for_it_to_be_given_back() -> None:
    tasks = manager(make(0), make(1))
    first, second = taken(tasks), taken(tasks)
    removed: list[StreamTask | None] = []
    remover = threading.Thread(target=lambda: removed.append(tasks.remove(first.id, 60.0)))
    remover.start()
    while not first.control.stop:
        pass

    tasks.give_back(first, more=True)
    remover.join(SOON)

    assert removed == [first]
    assert tasks.held == [second]
    assert tasks.take(0) is None


def test_removing_a_task_that_is_not_given_back_says_that_it_hangs() -> None:
    tasks = manager(make())
    task = taken(tasks)

    with pytest.raises(StreamsError, match="task 0_0 hangs in user code"):
        tasks.remove(task.id, 0.01)


# ---- pausing -----------------------------------------------------------------------------------------------------


def test_no_task_is_given_out_while_paused() -> None:
    task = make()
    tasks = manager(task)

    tasks.pause()
    assert tasks.take(0) is None

    tasks.resume()
    assert tasks.take(0) is task


def test_pausing_stops_the_tasks_that_are_held() -> None:
    tasks = manager(make())
    task = taken(tasks)

    tasks.pause()

    assert task.control.stop


def test_standing_still_waits_for_held_tasks_and_says_when_that_takes_too_long() -> None:
    tasks = manager(make())
    task = taken(tasks)

    assert not tasks.stand_still(0.01)
    assert task.control.stop

    tasks.give_back(task, more=True)
    assert tasks.stand_still(0)


def test_not_even_an_epochs_end_is_given_out_while_standing_still() -> None:
    tasks = manager(touched())
    tasks.stand_still(0)

    tasks.end_epochs()
    assert tasks.take(0) is None

    tasks.go_on()
    assert tasks.take(0) is not None


def test_going_on_leaves_a_paused_application_paused() -> None:
    tasks = manager(make())
    tasks.pause()
    tasks.stand_still(0)

    tasks.go_on()

    assert tasks.take(0) is None


def test_resuming_does_not_give_a_held_task_to_a_second_thread() -> None:
    tasks = manager(make())
    task = taken(tasks)
    tasks.pause()

    tasks.resume()

    assert tasks.take(0) is None
    tasks.give_back(task, more=True)
    assert tasks.take(0) is task


def test_a_failed_task_stays_where_it_is_when_the_others_resume() -> None:
    tasks = manager(make(0), make(1))
    failed = taken(tasks)
    tasks.failed(failed)
    tasks.give_back(failed, more=False)
    tasks.pause()

    tasks.resume()

    assert taken(tasks).id != failed.id
    assert tasks.take(0) is None


def test_tasks_still_end_their_epochs_while_paused() -> None:
    """A paused application commits what it processed before."""
    task = touched(0)
    tasks = manager(task, make(1))
    tasks.pause()

    end = tasks.end_epochs()
    assert tasks.take(0) is task
    assert tasks.paused
    end_epoch(tasks, task)
    tasks.give_back(task, more=True)

    assert end.done
    assert tasks.take(0) is None
