"""The parts that an application gives its instance. Set by the application before the start, on its own thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streamsapp.membership.assignor.model import TaskAssignor
from streamsapp.runtime.listeners import StandbyUpdateListener, StateRestoreListener, UncaughtExceptionHandler
from streamsapp.tasks.scheduler import TaskScheduler


@dataclass
class Extensions:
    """Looked at when needed: handler and listeners may also be set later."""

    scheduler: TaskScheduler
    assignor: TaskAssignor
    uncaught_exception_handler: UncaughtExceptionHandler
    restore_listener: StateRestoreListener | None = None
    standby_listener: StandbyUpdateListener | None = None
    member_listener: Callable[[str], None] = lambda member_id: None
