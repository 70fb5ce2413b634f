"""Every task ends its epoch for a commit."""

from __future__ import annotations

import pytest

from managed_tasks import end_epoch, make, manager, taken, touched
from streamsapp import TaskId


def test_a_task_that_did_nothing_is_in_the_next_epoch_at_once() -> None:
    task = make()
    tasks = manager(task)

    end = tasks.end_epochs()

    assert end.done
    assert tasks.scheduling(task).epoch == 1


def test_a_task_that_processed_something_is_asked_to_end_its_epoch() -> None:
    task = touched()
    tasks = manager(task)
    tasks.give_back(taken(tasks), more=False)

    end = tasks.end_epochs()

    assert end.waiting == {task.id}
    assert tasks.take(0) is task, "ready although it has no input"
    assert tasks.scheduling(task).epoch == 0


def test_a_held_task_is_asked_even_if_it_did_nothing_yet() -> None:
    task = make()
    tasks = manager(task)
    taken(tasks)

    end = tasks.end_epochs()

    assert end.waiting == {task.id}
    assert task.control.stop


def test_an_ended_epoch_carries_the_offsets_of_what_was_processed() -> None:
    task = touched()
    tasks = manager(task)
    end = tasks.end_epochs()

    end_epoch(tasks, taken(tasks))

    assert end.done
    (epoch,) = end.epochs
    assert {str(partition): consumed.offset for partition, consumed in epoch.offsets.items()} == {"in-0": 1}
    assert tasks.scheduling(task).epoch == 1
    assert not tasks.scheduling(task).epoch_end_wanted
    assert not task.touched


def test_an_epoch_in_which_nothing_happened_adds_nothing_to_the_commit() -> None:
    tasks = manager(make())
    task = taken(tasks)
    end = tasks.end_epochs()

    end_epoch(tasks, task)

    assert end.done
    assert end.epochs == []


def test_the_wish_for_an_epochs_end_survives_giving_the_task_back() -> None:
    tasks = manager(make())
    task = taken(tasks)
    tasks.end_epochs()

    tasks.give_back(task, more=False)

    assert tasks.take(0) is task


def test_a_task_added_during_a_commit_belongs_to_the_next_epoch() -> None:
    tasks = manager(touched(0))
    end = tasks.end_epochs()
    late = make(1)

    tasks.add(late)

    assert tasks.scheduling(late).epoch == 1
    assert late.id not in end.waiting


def test_a_task_that_fails_before_its_epoch_ended_breaks_the_commit() -> None:
    tasks = manager(touched())
    task = taken(tasks)
    end = tasks.end_epochs()

    tasks.failed(task)
    tasks.give_back(task, more=True)

    assert end.done
    assert end.broken
    assert tasks.take(0) is None, "it is not scheduled until it was revived"


def test_a_task_that_failed_before_the_commit_began_breaks_it_too() -> None:
    """Its output may be in the open transaction, and its offsets will not be."""
    tasks = manager(touched())
    task = taken(tasks)
    tasks.failed(task)
    tasks.give_back(task, more=False)

    end = tasks.end_epochs()

    assert end.done
    assert end.broken


def test_a_task_that_fails_after_its_epoch_ended_leaves_the_commit_whole() -> None:
    tasks = manager(touched())
    task = taken(tasks)
    end = tasks.end_epochs()
    end_epoch(tasks, task)

    tasks.failed(task)

    assert not end.broken
    assert len(end.epochs) == 1


def test_a_task_that_is_removed_before_its_epoch_ended_breaks_the_commit() -> None:
    task = touched()
    tasks = manager(task)
    end = tasks.end_epochs()

    tasks.remove(task.id, 0)

    assert end.done
    assert end.broken


def test_a_removed_task_does_not_hold_up_the_commit() -> None:
    tasks = manager(touched(0), touched(1))
    end = tasks.end_epochs()

    tasks.remove(TaskId(0, 0), 0)

    assert end.waiting == {TaskId(0, 1)}


def test_an_epoch_that_ends_after_the_commit_was_abandoned_goes_nowhere() -> None:
    tasks = manager(touched())
    end = tasks.end_epochs()
    task = taken(tasks)

    assert tasks.abandon_commit() == 1
    end_epoch(tasks, task)

    assert end.epochs == []


@pytest.mark.parametrize("held", [False, True])
def test_a_commit_has_something_to_do_when_a_task_is_touched_or_held(held: bool) -> None:
    task = make()
    tasks = manager(task)
    assert not tasks.anything_touched()

    if held:
        taken(tasks)
    else:
        task.touched = True

    assert tasks.anything_touched()
