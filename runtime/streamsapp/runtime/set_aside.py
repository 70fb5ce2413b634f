"""The sub-topologies that are paused while the others go on: on request, or because they failed again and again, or
hang.

Failures and hangs are judged on the polling thread; requests come, and ``/status`` reads, on any thread. Nothing of it
is kept: an instance that starts again tries all its sub-topologies again.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from streamsapp.clock import Clock
from streamsapp.tasks.task_manager import TaskManager

log = logging.getLogger(__name__)

#: A sub-topology is set aside when it fails for this time within so many seconds: what passes by itself has passed by
#: then, and a record that always fails has failed so often.
FAILURES, WITHIN = 3, 300.0
ASKED_FOR = "asked for"


@dataclass(frozen=True)
class Aside:
    """The reason for which a sub-topology is paused, and since when."""

    reason: str
    since_ms: int


class SetAside:
    """Decides which sub-topologies of an instance are paused."""

    def __init__(self, tasks: TaskManager, clock: Clock, on_change: Callable[[], None] = lambda: None) -> None:
        """``on_change`` is called on the thread that paused one, or had it go on."""
        self._tasks = tasks
        self._clock = clock
        self._on_change = on_change
        self._lock = threading.Lock()
        self._failures: dict[int, deque[float]] = {}
        #: The paused ones by their numbers; replaced, never changed.
        self.now: Mapping[int, Aside] = {}

    def failed(self, number: int, why: str) -> None:
        """A task of a sub-topology that fails alone has failed. It starts again from the last commit; if that was not
        the first time, perhaps to be paused."""
        now = self._clock.monotonic()
        failures = self._failures.setdefault(number, deque(maxlen=FAILURES))
        failures.append(now)
        if len(failures) == FAILURES and now - failures[0] <= WITHIN:
            self.pause(number, f"it failed {FAILURES} times within {WITHIN:.0f} s, the last time with {why}")

    def pause(self, number: int, reason: str) -> None:
        """Process nothing more of a sub-topology; what is processed is still committed. One that is paused stays so,
        for its first reason."""
        with self._lock:
            if number in self.now:
                return
            self._set({**self.now, number: Aside(reason, self._clock.now_ms())})
        told = log.info if reason == ASKED_FOR else log.error
        told("sub-topology %d is paused, and the others go on: %s. `streamsapp resume` lets it go on", number, reason)

    def resume(self, number: int) -> None:
        """Let a sub-topology go on, with its failures forgotten."""
        with self._lock:
            if number not in self.now:
                return
            self._failures.pop(number, None)
            self._set({each: why for each, why in self.now.items() if each != number})
        log.info("sub-topology %d goes on", number)

    def _set(self, now: Mapping[int, Aside]) -> None:
        self.now = now
        self._tasks.pause_parts(frozenset(now))
        self._on_change()
