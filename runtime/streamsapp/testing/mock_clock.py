"""A clock that stands still until it is moved; for tests, on the test's thread."""

from __future__ import annotations

from streamsapp.processor.api import Duration, duration_ms


class MockClock:
    """Wall-clock and monotonic time under the test's control."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Returns the wall-clock time, in milliseconds since 1970."""
        return self._now_ms

    def monotonic(self) -> float:
        """Returns the same time in seconds."""
        return self._now_ms / 1000

    def advance(self, duration: Duration) -> None:
        """Moves time forward by a ``timedelta`` or milliseconds; going back raises ``ValueError``."""
        step = duration_ms(duration)
        if step < 0:
            raise ValueError(f"time cannot go back by {-step} ms")
        self._now_ms += step
