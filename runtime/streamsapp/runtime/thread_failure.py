"""Exceptions of the runtime's threads on their way to the polling thread, which asks the uncaught exception handler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

from streamsapp.record import TaskId


@dataclass(frozen=True)
class ThreadFailure:
    """An exception that stopped a thread, or one task of it, ``task_id``."""

    thread: str
    error: BaseException
    task_id: TaskId | None = None
    #: Nothing that the task did since its last commit concerns others, and the application wants it to fail alone.
    alone: bool = False


class Failures(SimpleQueue[ThreadFailure]):
    """The queue on which they travel; ``on_failure`` is called on the thread that failed."""

    def __init__(self, on_failure: Callable[[], None]) -> None:
        super().__init__()
        self._on_failure = on_failure

    def put(self, item: ThreadFailure, block: bool = True, timeout: float | None = None) -> None:
        super().put(item, block, timeout)
        self._on_failure()
