"""What restoring a task costs: predicted from what was measured, and compared with what it then took.

Predicted on the threads that restore and for ``/status``; measured on the threads that transfer and replay.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamsapp.remote.rates import MeasuredRate

#: What the smallest restore takes, in seconds: asking broker and object store, opening the database, taking turns.
BESIDES = 0.5


@dataclass(frozen=True)
class Rates:
    """How fast this instance is."""

    #: Bytes per second out of the object store.
    download: MeasuredRate
    #: Changelog records per second.
    replay: MeasuredRate

    def predict(self, bytes: int, records: int) -> float | None:
        """Seconds to download a snapshot and replay the rest; ``None`` as long as a rate that counts is unknown."""
        parts = (BESIDES, _seconds(bytes, self.download), _seconds(records, self.replay))
        return None if None in parts else sum(part for part in parts if part is not None)


def _seconds(amount: int, rate: MeasuredRate) -> float | None:
    if amount == 0:
        return 0.0
    per_second = rate.per_second
    return None if per_second is None else amount / per_second


@dataclass
class RestoreTiming:
    """One restore that began with a snapshot. Times are monotonic seconds."""

    began: float
    predicted: float | None = None
    total_bytes: int = 0
    moved_bytes: int = 0
    download_seconds: float | None = None
    observed_seconds: float | None = None
