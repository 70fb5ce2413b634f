"""One fetch per pass of the polling thread's loop, which waits in it as long as nothing else is to be done.

Called on the polling thread.
"""

from __future__ import annotations

from streamsapp.clock import Clock
from streamsapp.runtime.input_feeder import InputFeeder
from streamsapp.tasks.task_manager import TaskManager

#: Longest waits for input, in seconds: while records flow, and when nothing has happened for a while.
BUSY_WAIT, IDLE_WAIT = 0.002, 0.05
IDLE_AFTER = 1.0


class InputPolling:
    """Decides how long to wait for input."""

    def __init__(self, feeder: InputFeeder, tasks: TaskManager, clock: Clock) -> None:
        self._feeder = feeder
        self._tasks = tasks
        self._clock = clock
        self._last_activity = 0.0

    def poll(self, *, output_pending: bool) -> None:
        """Fill the tasks' buffers, without waiting for records while ``output_pending``."""
        if self._feeder.full:
            if not output_pending:
                self.wait_for_tasks()
            return
        now = self._clock.monotonic()
        idle = now - self._last_activity > IDLE_AFTER
        fetched = self._feeder.feed(0.0 if output_pending else IDLE_WAIT if idle else BUSY_WAIT)
        if fetched.records or output_pending:
            self._last_activity = now

    def wait_for_tasks(self) -> None:
        """Yield to the processing threads."""
        self._tasks.wait_for_progress(BUSY_WAIT)
