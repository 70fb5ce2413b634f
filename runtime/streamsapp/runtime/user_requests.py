"""The user's requests to an instance: close it, drain it, pause it.

Any thread makes a request and returns; the polling thread looks for requests in each pass of its loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from streamsapp.clock import Clock
from streamsapp.deadline import ClosingTime, Deadline, reserve

log = logging.getLogger(__name__)

#: Seconds that an instance has for its end whose user code does not come back.
CUT_SHORT = 3.0


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
        self._is_cut_short = False
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

    def cut_short(self) -> None:
        """End at once, as waiting would change nothing; the request to drain or to close was made before."""
        if not self._is_cut_short:
            self._is_cut_short = True
            log.warning("user code hangs, so nothing can be handed over or committed: the instance ends without")
            self._closing.begin(CUT_SHORT)
            self.close_now = True

    @property
    def leaving(self) -> bool:
        """True if there is a request to drain or to close."""
        return self.hand_over_by is not None or self.close_now

    @property
    def out_of_time(self) -> bool:
        """True if the time has passed in which brokers are waited for."""
        return self._closing.remote.passed
