"""Wall-clock and monotonic time as a parameter, so that logic can be tested without waiting.

Used by every thread; the only place of the runtime that reads the system's clocks.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Source of time."""

    def now_ms(self) -> int:
        """Wall-clock time in milliseconds since the epoch; may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; for timeouts and intervals."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    #: The function itself, as it is called thousands of times a second.
    monotonic = staticmethod(time.monotonic)
