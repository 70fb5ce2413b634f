"""The session of a member: how long the coordinator counts it as one without hearing of it.

Kept by ``group``, on the membership's thread; ``safe_until`` is read by any thread.
"""

from __future__ import annotations

import math

from streamsapp.clock import Clock

#: Part of the session that is not counted on: clocks differ, and writes take time to arrive.
MARGIN = 0.1


class MemberSession:
    """Counts from the requests that the coordinator answered as a member's. All times are monotonic seconds."""

    def __init__(self, timeout: float, clock: Clock) -> None:
        self._timeout = timeout
        self._clock = clock
        #: The time at which the last of them was sent.
        self._confirmed = -math.inf
        #: The time at which a JoinGroup was answered: the coordinator counts the session from there.
        self._joined = -math.inf

    @property
    def safe_until(self) -> float:
        """The time up to which the coordinator surely counts this as a member."""
        return self._confirmed + (1 - MARGIN) * self._timeout

    @property
    def expired(self) -> bool:
        """True if the coordinator may have put this member out."""
        return self._clock.monotonic() > max(self._confirmed, self._joined) + self._timeout

    def joined(self) -> None:
        """A JoinGroup has been answered just now."""
        self._joined = self._clock.monotonic()

    def confirm(self, sent: float) -> None:
        """A request that was sent then has been answered as a member's."""
        self._confirmed = max(self._confirmed, sent)

    def end(self) -> None:
        """This is no member any more, or may be none."""
        self._confirmed = -math.inf
