"""One fetch per pass of the polling thread's loop, which waits in it as long as nothing else is to be done.

Called on the polling thread.
"""

from __future__ import annotations

from streamsapp.runtime.input_feeder import InputFeeder
from streamsapp.tasks.task_manager import TaskManager

#: How long to wait for processing threads to make room in the input buffers, in seconds.
ROOM_WAIT = 0.002
#: How long a commit waits for records that came just before, and for them to be processed, in seconds.
FETCH, CATCH_UP = 0.04, 0.01


class InputPolling:
    """Waits for input, or for room for it."""

    def __init__(self, feeder: InputFeeder, tasks: TaskManager) -> None:
        self._feeder = feeder
        self._tasks = tasks

    def poll(self, wait: float) -> int:
        """Fill the tasks' buffers; waits up to so many seconds for records, and less where room is awaited: tasks at
        rest make none before this thread gives them something to do. Returns how many records came."""
        if not self._feeder.full:
            awaits_room = self._feeder.holds_back and not self._tasks.resting
            fetched = self._feeder.feed(min(wait, ROOM_WAIT) if awaits_room else wait)
            return fetched.count
        if wait > 0:
            self.wait_for_tasks()
        return 0

    @property
    def rests(self) -> bool:
        """True if there may be records that are not looked for yet, as the last ones were few."""
        return self._feeder.rests

    def catch_up(self) -> None:
        """Have records processed that came while the consumer rested, so that they are part of the commit that begins
        now: they would wait for the next one."""
        if self._feeder.rests and not self._feeder.full:
            fetched = self._feeder.feed_all(FETCH)
            if fetched.more or not self._tasks.wait_for_rest(CATCH_UP):
                self._feeder.hurry()

    def wait_for_tasks(self) -> None:
        """Yield to the processing threads."""
        self._tasks.wait_for_progress(ROOM_WAIT)
