"""The work that is due by the clock and not by records: callbacks, idle waits, hanging processors, the input lag.

Called on the polling thread in each pass of its loop.
"""

from __future__ import annotations

from collections.abc import Callable

from streamsapp.clock import Clock
from streamsapp.runtime.hang_detection import HangDetector
from streamsapp.runtime.input_feeder import InputFeeder
from streamsapp.tasks.task_manager import TaskManager


class WallClockWork:
    """Wakes tasks whose wall-clock callbacks or idle waits are due, and observes."""

    def __init__(
        self,
        tasks: TaskManager,
        feeder: InputFeeder,
        hangs: HangDetector,
        clock: Clock,
        fill_up: Callable[[], None] = lambda: None,
    ) -> None:
        """``fill_up`` starts threads in the place of threads that do not come back."""
        self._fill_up = fill_up
        self._tasks = tasks
        self._feeder = feeder
        self._hangs = hangs
        self._clock = clock

    @property
    def due_in(self) -> float:
        """Seconds until a task or a silent input is due; infinite if none will be by itself."""
        return min(self._feeder.idle.due_in, max(0.0, (self._tasks.due_ms - self._clock.now_ms()) / 1000))

    @property
    def hangs(self) -> bool:
        """True if user code does not come back: nothing is committed before it does."""
        self._hangs.check(self._clock.monotonic())
        return bool(self._hangs.hanging)

    def run(self) -> None:
        """Do what is due."""
        now = self._clock.monotonic()
        self._tasks.mark_due(self._clock.now_ms())
        self._hangs.check(now)
        self._fill_up()
        self._feeder.observe_lag(now)
        self._feeder.idle.run()
