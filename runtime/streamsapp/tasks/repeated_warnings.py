"""Writes the warnings about single records so that many of a kind are one line a minute.

A task's warnings are written on the processing thread that holds it, the producer's on the polling thread.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

from streamsapp.clock import Clock

log = logging.getLogger(__name__)

#: Warnings of one kind are at least so far apart, in milliseconds.
INTERVAL_MS = 60_000


@dataclass(slots=True)
class _Kind:
    """The warnings of one kind since the last line about them."""

    told_at_ms: int
    #: The records that had been taken then.
    taken: int
    count: int = 0


class RepeatedWarnings:
    """The first warning of a kind is written at once; the next minute's are counted and written as one line.

    ``whose`` begins the line, and is empty or ends with a comma and a space.
    """

    def __init__(self, clock: Clock, whose: str = "") -> None:
        self._clock = clock
        self._whose = whose
        self._kinds: dict[str, _Kind] = {}
        #: The records that were taken so far, from which the share with a warning is computed; 0 if that is not known.
        self.taken = 0
        #: The time at which ``tell_due`` has a line to write, infinite if it has none.
        self.next_due: float = math.inf

    def level(self, kind: str) -> int:
        """Returns the level of the next warning of a kind: ``WARNING`` for the first, ``DEBUG`` for a warning that is
        counted."""
        now, known = self._clock.now_ms(), self._kinds.get(kind)
        if known is None or (not known.count and now - known.told_at_ms >= INTERVAL_MS):
            self._kinds[kind] = _Kind(now, self.taken)
            return logging.WARNING
        known.count += 1
        self.next_due = min(self.next_due, known.told_at_ms + INTERVAL_MS)
        return logging.DEBUG

    def tell_due(self, now_ms: float) -> None:
        """Writes a line for each kind whose minute is over at ``now_ms``."""
        self.next_due = math.inf
        for name, kind in self._kinds.items():
            if not kind.count:
                continue
            if now_ms - kind.told_at_ms >= INTERVAL_MS:
                self._tell(name, kind)
            else:
                self.next_due = min(self.next_due, kind.told_at_ms + INTERVAL_MS)

    def tell_all(self) -> None:
        """Writes a line for each kind that was counted: nothing comes after it."""
        self.tell_due(math.inf)

    def _tell(self, name: str, kind: _Kind) -> None:
        now, taken = self._clock.now_ms(), self.taken - kind.taken
        share = f", {kind.count / taken:.1%} of those processed" if taken >= kind.count else ""
        seconds = max((now - kind.told_at_ms) / 1000, 0)
        log.warning("%s%d more records%s in %.0f s: %s", self._whose, kind.count, share, seconds, name)
        self._kinds[name] = _Kind(now, self.taken)
