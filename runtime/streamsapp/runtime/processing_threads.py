"""The processing threads of an instance, with others in the place of threads that do not come back.

Called on the polling thread; ``status`` and metrics read it on any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

from streamsapp.runtime.processing import ProcessingThread
from streamsapp.tasks.task_manager import TaskManager

#: Threads that take the place of others at a time, at most.
MOST_SPARE = 32


class ProcessingThreads:
    """The threads that were configured, and spare ones while tasks that fail alone keep some of them."""

    def __init__(self, make: Callable[[int], ProcessingThread], number: int, tasks: TaskManager) -> None:
        """``make`` makes the thread with a number."""
        self._numbers = count(1)
        self._make = make
        self._tasks = tasks
        self._spare: list[ProcessingThread] = []
        self._configured = [make(next(self._numbers)) for _ in range(number)]

    def __iter__(self) -> Iterator[ProcessingThread]:
        return iter([*self._configured, *self._spare])

    def fill_up(self) -> None:
        """Start a spare thread for each that a stuck task keeps; they end when no task is stuck any more."""
        stuck = len(self._tasks.stuck)
        if not (stuck or self._spare):
            return
        self._spare = [each for each in self._spare if each.is_alive()]
        if not stuck:
            for each in self._spare:
                each.stop()
        for _ in range(min(stuck, MOST_SPARE) - len(self._spare)):
            thread = self._make(next(self._numbers))
            self._spare = [*self._spare, thread]
            thread.start()
