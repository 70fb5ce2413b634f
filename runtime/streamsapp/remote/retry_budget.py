"""Limits the time for which a call to an object store is tried again. Used by ``S3Store`` on the calling thread."""

from __future__ import annotations

import random
import time

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0


class RetryBudget:
    """Ends so many ``seconds`` after the first failure, or after the first one since there was progress.

    Time counts and not the number of tries. A server that refuses connections would use up the tries before it is back,
    and a server that swallows packets would hold the caller for minutes.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadline: float | None = None
        self._pause = _FIRST_PAUSE

    def progressed(self) -> None:
        """Notes progress: the next failure is the first one again."""
        self._deadline = None
        self._pause = _FIRST_PAUSE

    def wait(self) -> bool:
        """After a failure: pause and answer whether to try again. Pauses grow, with jitter against thundering herds."""
        now = time.monotonic()
        if self._deadline is None:
            self._deadline = now + self._seconds
        if now >= self._deadline:
            return False
        time.sleep(min(random.uniform(0.5, 1.0) * self._pause, self._deadline - now))
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return True
