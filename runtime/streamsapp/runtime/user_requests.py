"""The user's requests to an instance: close it, drain it, pause it.

Any thread makes a request and returns; the polling thread looks for requests in each pass of its loop.
"""

from __future__ import annotations

from collections.abc import Callable

from streamsapp.clock import Clock
from streamsapp.deadline import ClosingTime, Deadline, reserve


class UserRequests:
    """The requests that have been made; none is taken back but a pause."""

    def __init__(self, closing: ClosingTime, clock: Clock, on_request: Callable[[], None] = lambda: None) -> None:
        """``on_request`` is called on the thread that made one."""
        self._closing = closing
        self._on_request = on_request
        #: Passes when the tasks must have been handed over; ``None`` without a request to drain.
        self.hand_over_by: Deadline | None = None
        self._clock = clock
        #: True if it is to end now.
        self.close_now = False
        #: True if the group is to assign the tasks anew at once, and not when the session times out.
        self.leave_group = True
        #: True if it is to stop processing until further notice.
        self.paused = False
        #: Set by the polling thread: whether others have taken over everything.
        self.drained = False

    def close(self, within: float, *, leave_group: bool) -> None:
        """End within so many seconds: after a last commit, or without one when that takes too long."""
        self.leave_group = leave_group
        self._closing.begin(within)
        self.close_now = True
        self._on_request()

    def drain(self, within: float) -> None:
        """Hand all tasks over, then commit and end, all within so many seconds."""
        self._closing.begin(within)
        by = Deadline(self._clock)
        by.set(self._clock.monotonic() + within - 2 * reserve(within))
        self.hand_over_by = by
        self._on_request()

    def pause(self, *, paused: bool) -> None:
        """Stop processing, or go on with it."""
        self.paused = paused
        self._on_request()

    @property
    def leaving(self) -> bool:
        """True if there is a request to drain or to close."""
        return self.hand_over_by is not None or self.close_now

    @property
    def out_of_time(self) -> bool:
        """True if the time has passed in which brokers are waited for."""
        return self._closing.remote.passed
