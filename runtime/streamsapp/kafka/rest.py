"""The rest of a consumer after records that are few: those that come meanwhile are taken together, for each look costs
as much as many records (docs/decisions/0032-few-records-together.md).

Used by the consumer, on its thread.
"""

from __future__ import annotations

from collections.abc import Callable

#: So many records are worth a look of their own: with more, a consumer looks for more at once.
FEW = 500
#: A rest is to bring about so many records, and is so many times as long as the shortest one at most.
TOGETHER, LONGEST = 4, 4


class Rest:
    """A rest that begins when records were found, and is longer where they come seldom."""

    def __init__(self, shortest: float, monotonic: Callable[[], float]) -> None:
        """Takes the shortest rest in seconds; 0 if there are to be none."""
        self._shortest = shortest
        self._monotonic = monotonic
        self._looked_at = monotonic()
        self._until = 0.0

    @property
    def left(self) -> float:
        """The seconds that are left of it; 0 or less if there is none."""
        return self._until - self._monotonic()

    def after(self, records: int) -> None:
        """A look found so many records."""
        now = self._monotonic()
        since, self._looked_at = now - self._looked_at, now
        self._until = now + self._wanted(records, since) if 0 < records < FEW else 0.0

    def end(self) -> None:
        """Looks for more are wanted."""
        self._until = 0.0

    def _wanted(self, records: int, since: float) -> float:
        return min(max(self._shortest, TOGETHER * since / records), LONGEST * self._shortest)
