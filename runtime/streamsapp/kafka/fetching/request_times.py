"""The times at which a broker is asked next, and its answer is due. Used by ``BrokerConnection`` on the consumer's
thread."""

from __future__ import annotations

import time

from streamsapp.brokers.bounds import throttle

#: So many answers in a row may have nothing to tell before they are due; from then on the pauses before the next
#: request grow, up to so many seconds.
_HOLLOW, _FIRST_PAUSE, _LONGEST_PAUSE = 3, 0.05, 1.0


class RequestTimes:
    """The times of one broker, in monotonic seconds."""

    def __init__(self) -> None:
        #: Not to be asked before.
        self.not_before = 0.0
        #: When the broker answers at the latest, if it is well, and for how long it may wait until then.
        self._due_at = self._waits = 0.0
        self._asked_at = time.monotonic()
        #: How many answers, one after the other, had nothing to tell and came long before they were due.
        self._hollow = 0

    def asked(self, waits: float) -> None:
        """It may wait for so many seconds before it answers."""
        self._asked_at = time.monotonic()
        self._due_at, self._waits = self._asked_at + waits, waits

    @property
    def idle(self) -> float:
        """The seconds since it was asked last, or since the connection was begun."""
        return time.monotonic() - self._asked_at

    @property
    def late(self) -> float:
        """The seconds for which the answer is due by now; negative while the broker may wait for records."""
        return time.monotonic() - self._due_at

    def leave_alone(self, milliseconds: int, broker: object) -> None:
        """Ask nothing for so long, as the broker wants it."""
        self.not_before = time.monotonic() + throttle(milliseconds, broker)

    def told(self, *, anything: bool) -> None:
        """The answer says something, or not: a broker that has nothing waits for it, and is not asked again and again
        if it does not."""
        early = self._due_at - time.monotonic() > self._waits / 2 > 0
        self._hollow = 0 if anything or not early else self._hollow + 1
        if (beyond := self._hollow - _HOLLOW) >= 0:
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(beyond, 8))
            self.not_before = max(self.not_before, time.monotonic() + pause)
