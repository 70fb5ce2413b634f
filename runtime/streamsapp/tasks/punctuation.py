"""Scheduled callbacks of one task: by stream time and by wall clock (KIP-138).

Scheduled from a processor's ``init`` or ``process``; fired on the processing thread that holds the task.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from streamsapp.tasks.priority_queue import PriorityQueue

#: Calls the user's callback with a timestamp; wraps context and error handling.
Fire = Callable[[Callable[[int], None], str, int], None]


class Firing(NamedTuple):
    """One call of a callback: each is an object of its own."""

    node: str


class Schedule:
    """One scheduled callback; cancelling takes effect at once."""

    def __init__(self, node: str, due: int, interval: int, callback: Callable[[int], None]) -> None:
        self.node = node
        self.due = due
        self.interval = interval
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        """Make no further calls."""
        self.cancelled = True

    def advance(self, now: int) -> None:
        """Move to the next multiple of the interval after ``now``: missed calls are made up by one, not by many."""
        self.due += ((now - self.due) // self.interval + 1) * self.interval


class PunctuationQueue:
    """The callbacks driven by one kind of time. Loops in C read ``next_due`` for every record, in its slot."""

    __slots__ = ("_queue", "firing", "next_due")

    def __init__(self) -> None:
        self._queue: PriorityQueue[Schedule] = PriorityQueue(lambda schedule: schedule.due)
        #: The time at which the next callback is due; infinite when there is none.
        self.next_due: float = math.inf
        #: The call that has not come back. The polling thread looks at it, too.
        self.firing: Firing | None = None

    def add(self, schedule: Schedule) -> None:
        """Add a callback."""
        self._queue.offer(schedule)
        self._note_next()

    def fire_due(self, now: int, fire: Fire) -> bool:
        """Fire everything due at ``now``, each schedule once; whether anything fired."""
        fired = False
        while (top := self._queue.peek()) is not None and top.due <= now:
            self._queue.poll()
            if top.cancelled:
                continue
            self.firing = Firing(top.node)
            try:
                fire(top.callback, top.node, now)
            finally:
                self.firing = None
            if not top.cancelled:  # it would take part in the order of schedules that are due together
                top.advance(now)
                self._queue.offer(top)
            fired = True
        self._note_next()
        return fired

    def _note_next(self) -> None:
        top = self._queue.peek()
        self.next_due = math.inf if top is None else top.due
