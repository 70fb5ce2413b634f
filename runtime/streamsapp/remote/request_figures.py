"""Counts the requests to an object store, and says when it asks for fewer of them.

Written on every thread that asks an object store; read by status and metrics.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from threading import Lock

log = logging.getLogger(__name__)

#: Seconds for which a server that throttles is not told of again.
_TELL_AGAIN = 60.0


class RequestFigures:
    """Requests as a server gets and bills them: each try, and each part of an object, is one."""

    def __init__(self) -> None:
        self._lock = Lock()
        #: By what they do: ``read``, ``write``, ``list`` or ``delete``.
        self.requests: Counter[str] = Counter()
        #: Requests that the server refused, for it has too many (503, 429).
        self.throttled = 0
        #: The last time at which it did, in monotonic seconds.
        self.throttled_at: float | None = None
        self._told_at = -math.inf

    def count(self, verb: str) -> None:
        """A request is sent."""
        with self._lock:
            self.requests[verb] += 1

    def throttle(self, store: str) -> None:
        """``store`` refused a request; it is tried again after a pause."""
        now = time.monotonic()
        with self._lock:
            self.throttled += 1
            self.throttled_at = now
            if now - self._told_at < _TELL_AGAIN:
                return
            self._told_at = now
            throttled, total = self.throttled, self.requests.total()
        log.warning(
            "%s refuses requests for a while, as it gets too many (%d of %d so far); each is tried again after a pause "
            "of up to 2 s. If it lasts, raise the limit of the store, or take snapshots less often "
            "(remote_state.snapshot_interval)",
            store, throttled, total,
        )  # fmt: skip
