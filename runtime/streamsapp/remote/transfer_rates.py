"""Measures and limits the speed of transfers. Safe on several threads."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from threading import Lock

from streamsapp.clock import Clock

#: Transfers that took this long together make earlier ones count for a third.
_MEMORY_SECONDS = 60.0

#: The seconds of traffic that an idle limit lets through at once.
_BURST_SECONDS = 0.25


class MeasuredRate:
    """Measures what recent transfers moved per second, be it bytes or records; long transfers weigh more than short
    ones."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._amount = 0.0
        self._seconds = 0.0

    def observe(self, amount: int, seconds: float) -> None:
        """A transfer has ended."""
        with self._lock:
            fading = math.exp(-seconds / _MEMORY_SECONDS)
            self._amount = self._amount * fading + amount
            self._seconds = self._seconds * fading + seconds

    @property
    def per_second(self) -> float | None:
        """``None`` until something was measured."""
        with self._lock:
            return self._amount / self._seconds if self._seconds > 0 and self._amount > 0 else None


class RateLimit:
    """Slows down its callers by the bytes that they moved:

    ``moved`` for an object store, shared by all its transfers.
    """

    def __init__(self, per_second: float, clock: Clock, sleep: Callable[[float], object] = time.sleep) -> None:
        """``sleep`` may be an event's ``wait``, so that no caller is slowed down any more once it is set."""
        self._per_second = per_second
        self._clock = clock
        self._sleep = sleep
        self._lock = Lock()
        self._paid_until = clock.monotonic() - _BURST_SECONDS

    def __call__(self, count: int) -> None:
        with self._lock:
            now = self._clock.monotonic()
            self._paid_until = max(self._paid_until, now - _BURST_SECONDS) + count / self._per_second
            wait = self._paid_until - now
        if wait > 0:
            self._sleep(wait)
