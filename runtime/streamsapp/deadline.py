"""The one deadline of an instance that closes: every wait on the way to its end is bounded by it.

It is set by whichever thread closes the instance, and asked by every thread that waits for something. A wait that is
under way when the deadline is set ends with it, too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from streamsapp.clock import Clock

#: Seconds between two looks whether the deadline was set meanwhile.
LOOK = 0.05
#: The end of the time for closing belongs to the instance's own stores and threads: so many seconds, or that share of
#: the whole where it is less. Brokers and the object store are not waited for any more by then.
RESERVE, RESERVE_SHARE = 3.0, 0.2


class Deadline:
    """A point in time that is not known yet, or until which something is waited for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at = math.inf

    def set(self, at: float) -> None:
        """Sets the deadline to ``at`` (monotonic seconds), unless there is an earlier one."""
        self._at = min(self._at, at)

    @property
    def passed(self) -> bool:
        """Says whether nothing is to be waited for any more."""
        return self._clock.monotonic() >= self._at

    def left(self, most: float, part: float = 1.0) -> float:
        """Returns the seconds that a wait may take: at most ``most``, and no more than this ``part`` of the time that
        is left until the deadline, so that later waits have time, too."""
        return max(0.0, min(most, part * (self._at - self._clock.monotonic())))

    def wait(self, once: Callable[[float], bool], most: float) -> bool:
        """Says whether ``once``, which waits for the given number of seconds, is true within ``most`` seconds and
        before the deadline, also if that is set meanwhile."""
        give_up = time.monotonic() + most  # the other party lives in the machine's time
        while True:
            step = self.left(min(LOOK, give_up - time.monotonic()))
            if once(step):
                return True
            if step == 0.0:
                return False


class ClosingTime:
    """The deadline of closing, and the earlier one of every wait for another machine."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: For brokers and the object store.
        self.remote = Deadline(clock)
        #: For everything.
        self.end = Deadline(clock)

    def begin(self, within: float) -> None:
        """Sets the deadlines of an instance that has to end within so many seconds."""
        at = self._clock.monotonic() + within
        self.end.set(at)
        self.remote.set(at - reserve(within))


def reserve(within: float) -> float:
    """Returns how many of the seconds for closing are kept for the work after the last commit."""
    return min(RESERVE, RESERVE_SHARE * within)
