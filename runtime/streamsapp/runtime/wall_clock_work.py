"""The work that is due by the clock and not by records: callbacks, idle waits, hanging processors, the input lag.

Called on the polling thread in each pass of its loop.
"""

from __future__ import annotations

from streamsapp.clock import Clock
from streamsapp.runtime.hang_detection import HangDetector
from streamsapp.runtime.input_feeder import InputFeeder
from streamsapp.tasks.task_manager import TaskManager

#: How often due work is looked for, in seconds.
TICK = 0.01


class WallClockWork:
    """Wakes tasks whose wall-clock callbacks or idle waits are due, and observes."""

    def __init__(self, tasks: TaskManager, feeder: InputFeeder, hangs: HangDetector, clock: Clock) -> None:
        self._tasks = tasks
        self._feeder = feeder
        self._hangs = hangs
        self._clock = clock
        self._next_tick = 0.0

    def run(self) -> None:
        """Do what is due."""
        now = self._clock.monotonic()
        if now < self._next_tick:
            return
        self._next_tick = now + TICK
        self._tasks.mark_due(self._clock.now_ms())
        self._hangs.check(now)
        self._feeder.observe_lag(now)
