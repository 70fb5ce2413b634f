"""Exceptions of the runtime's threads on their way to the polling thread, which asks the uncaught exception handler."""

from __future__ import annotations

from dataclasses import dataclass

from streamsapp.record import TaskId


@dataclass(frozen=True)
class ThreadFailure:
    """An exception that stopped a thread, or one task of it, ``task_id``."""

    thread: str
    error: BaseException
    task_id: TaskId | None = None
