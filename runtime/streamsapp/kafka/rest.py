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
#: The rate is that of about so many records: a look that finds one of many does not say that they come seldom.
REMEMBERED = 16


class Rest:
    """A rest that begins when records were found, and is longer where they come seldom."""

    def __init__(self, shortest: float, monotonic: Callable[[], float]) -> None:
        """Takes the shortest rest in seconds; 0 if there are to be none."""
        self._shortest = shortest
        self._monotonic = monotonic
        self._looked_at = monotonic()
        #: The seconds from one record to the next, lately.
        self._apart = 0.0
        self._until = 0.0

    @property
    def left(self) -> float:
        """The seconds that are left of it; 0 or less if there is none."""
        return self._until - self._monotonic()

    def after(self, records: int) -> None:
        """A look found so many records."""
        now = self._monotonic()
        if records:
            apart = (now - self._looked_at) / records
            self._apart += (apart - self._apart) * min(1.0, records / REMEMBERED)
            self._looked_at = now
        self._until = now + self._wanted if 0 < records < FEW else 0.0

    def end(self) -> None:
        """Looks for more are wanted."""
        self._until = 0.0

    @property
    def _wanted(self) -> float:
        return min(max(self._shortest, TOGETHER * self._apart), LONGEST * self._shortest)
