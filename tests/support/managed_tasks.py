"""Tasks in the hands of a task manager, for the tests of the manager."""

from __future__ import annotations

from streamsapp.tasks.scheduler import MostBufferedFirst
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_manager import TaskManager
from task_parts import feed, raw, task_of, through


def make(number: int = 0) -> StreamTask:
    return task_of(through(), number)


def manager(*tasks: StreamTask) -> TaskManager:
    made = TaskManager(MostBufferedFirst())
    for task in tasks:
        made.add(task)
    return made


def taken(tasks: TaskManager) -> StreamTask:
    task = tasks.take(0)
    assert task is not None
    return task


def end_epoch(tasks: TaskManager, task: StreamTask) -> None:
    tasks.epoch_ended(task, task.freeze())


def touched(number: int = 0) -> StreamTask:
    """A task that processed a record since the last commit."""
    task = make(number)
    feed(task, [raw(0, partition=number)])
    assert task.process(task.control, 1) == 1
    return task
