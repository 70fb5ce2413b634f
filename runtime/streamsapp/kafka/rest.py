"""The rest of a consumer after few records. Records that arrive meanwhile are taken together, for each look costs as
much as many records (docs/decisions/0032-few-records-together.md).

Used by the consumer, on its thread.
"""

from __future__ import annotations

from collections.abc import Callable

#: So many records are worth a look of their own: with more, a consumer looks for more at once.
FEW = 500
#: A rest is to bring about so many records, and is so many times as long as the shortest one at most.
TOGETHER, LONGEST = 6, 12
#: For so many seconds rests are no longer than their rate says, after one that was.
HURRY = 10.0
#: Records that come further apart, in seconds, come seldom.
SELDOM = 0.005
#: The rate is that of about so many records: a look that finds one of many does not say that they come seldom.
REMEMBERED = 16


class Rest:
    """A rest that begins when records were found. It is longer where they come seldom, or where no reader can get
    results before the rest is ended."""

    def __init__(self, shortest: float, monotonic: Callable[[], float], held: float = 0.0) -> None:
        """Takes the shortest rest in seconds, 0 if there are to be none. Results are ``held`` back for so many seconds
        at most, however soon there are any. A rest takes as long, unless it is ended."""
        self._shortest = shortest
        self._monotonic = monotonic
        self._held = held if shortest else 0.0
        #: When rests may be so long again; and whether the last look was too long, and the one before.
        self._hurries_until = 0.0
        self._long = self._long_before = False
        self._looked_at = monotonic()
        #: The seconds from one record to the next, lately.
        self._apart = 0.0
        self._until = 0.0

    @property
    def left(self) -> float:
        """The seconds that are left of it; 0 or less if there is none."""
        return self._until - self._monotonic()

    def after(self, records: int, *, more: bool = False) -> None:
        """A look found so many records, and perhaps not all that there are."""
        now = self._monotonic()
        self._long, self._long_before = False, self._long
        if records:
            apart = (now - self._looked_at) / records
            self._apart += (apart - self._apart) * min(1.0, records / REMEMBERED)
            self._looked_at = now
        held = 0.0 if more or self.hurries else self._held
        self._until = now + max(held, self._wanted) if 0 < records < FEW else 0.0

    def end(self) -> None:
        """More records are wanted."""
        self._until = 0.0

    def hurry(self) -> None:
        """The look at the end of a long rest took too long, or the processing of what it found. A machine stands still
        now and then; twice in a row it is too much to be looked for so late."""
        if self._long_before:
            self._hurries_until = self._monotonic() + HURRY
        self._long = True

    @property
    def hurries(self) -> bool:
        """True if rests are only as long as the rate of records says."""
        return self._monotonic() < self._hurries_until

    @property
    def seldom(self) -> bool:
        """True if the last records came far apart."""
        return self._apart > SELDOM

    @property
    def _wanted(self) -> float:
        return min(max(self._shortest, TOGETHER * self._apart), LONGEST * self._shortest)
