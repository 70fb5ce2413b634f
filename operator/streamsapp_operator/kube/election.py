"""Decides who leads, from a Lease that several candidates may want. Pure: the clock and the API server come in as
values.

Owned by the thread of ``lease``. Only this process's monotonic clock counts: another machine wrote the times in a
Lease. So a Lease has run out once it was *seen* unchanged for its duration, never by comparing dates.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class LeaseSeen:
    """A Lease as it was read."""

    holder: str
    #: As its holder wrote it; only whether it changes counts.
    renewed: str
    seconds: float
    transitions: int


class ElectionStep(Enum):
    """The step to take about a Lease."""

    WAIT = "wait"
    #: It is free, or has run out, or is ours already: write our name.
    CLAIM = "claim"


class Election:
    """Decides for one candidate."""

    def __init__(self, identity: str, deadline: float) -> None:
        """Takes in ``deadline`` the seconds after the last renewal after which this candidate must have stopped to
        lead. It is shorter than the duration of the Lease, so that it ends before any other process may begin."""
        self.identity = identity
        self._deadline = deadline
        self._seen: LeaseSeen | None = None
        self._since = 0.0
        self._renewed_at: float | None = None

    def decide(self, lease: LeaseSeen | None, now: float) -> ElectionStep:
        """Decides what to do about the Lease that was just read; ``None`` stands for no Lease."""
        if lease != self._seen:
            self._seen, self._since = lease, now
        if lease is None or not lease.holder or lease.holder == self.identity:
            return ElectionStep.CLAIM
        return ElectionStep.CLAIM if now - self._since > lease.seconds else ElectionStep.WAIT

    def wrote(self, sent_at: float) -> None:
        """Notes that our name stands in the Lease; it counts from when the write was sent, not from when it was
        confirmed."""
        self._renewed_at = sent_at

    def remaining(self, now: float) -> float:
        """Returns for how many seconds no other process can be leading; 0 or less if one may."""
        return 0.0 if self._renewed_at is None else self._renewed_at + self._deadline - now
