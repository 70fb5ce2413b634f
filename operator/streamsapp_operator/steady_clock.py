"""The operator's clock: Unix time that never jumps, as ages and limits are made of its differences.

One is made by ``__main__`` and given to everything that needs the time; read on every thread.
"""

from __future__ import annotations

from datetime import UTC, datetime

from streamsapp.clock import Clock


class SteadyClock:
    """Returns Unix time: the time of its making, plus the seconds that the monotonic clock has counted since."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.now_ms() / 1000 - clock.monotonic()

    def now(self) -> float:
        """Returns seconds of Unix time."""
        return self._began + self._clock.monotonic()

    def utc(self) -> datetime:
        """Returns the same as a date."""
        return datetime.fromtimestamp(self.now(), UTC)
