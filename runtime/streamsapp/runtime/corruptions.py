"""Counts how often state was found damaged: once is repaired and logged; repeated damage is a disk to be replaced.

Noted on the polling and restoration threads, asked for ``/healthz`` on any thread.
"""

from __future__ import annotations

import logging
from collections import deque
from threading import Lock

from streamsapp.clock import Clock
from streamsapp.record import TaskId

log = logging.getLogger(__name__)

#: So often within so many seconds is too often.
TIMES, WINDOW = 3, 600.0


class Corruptions:
    """The times when the state of each task of an instance was found damaged."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times: dict[TaskId, deque[float]] = {}
        self._lock = Lock()

    def note(self, task_id: TaskId, error: Exception) -> None:
        """It was, and is wiped and restored."""
        log.warning("task %s: %s; its local state is wiped and restored", task_id, error)
        with self._lock:
            self._times.setdefault(task_id, deque(maxlen=TIMES)).append(self._clock.monotonic())
        if (complaint := self.complaint) is not None:
            log.error("%s", complaint)

    @property
    def complaint(self) -> str | None:
        """A sentence about state that is damaged again and again; ``None`` if there is none."""
        since = self._clock.monotonic() - WINDOW
        with self._lock:
            often = [str(task_id) for task_id, times in self._times.items() if len(times) == TIMES and times[0] > since]
        if not often:
            return None
        return (
            f"the state of task {', '.join(sorted(often))} was found damaged {TIMES} times within "
            f"{WINDOW / 60:.0f} minutes: check the disk of the state directory and the memory of the machine"
        )
