"""Exceptions of the runtime's threads on their way to the polling thread, which asks the uncaught exception handler."""

from __future__ import annotations

from dataclasses import dataclass

from streamsapp.record import TaskId


@dataclass(frozen=True)
class ThreadFailure:
    """What a thread could not go on with; ``task_id`` when it concerns one task only."""

    thread: str
    error: BaseException
    task_id: TaskId | None = None
