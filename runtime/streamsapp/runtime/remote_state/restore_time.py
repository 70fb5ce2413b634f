"""The time to restore a task: predicted from measured rates, and compared with the time it then took.

Predicted on the threads that restore and for ``/status``; measured on the threads that transfer and replay.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamsapp.remote.transfer_rates import MeasuredRate

#: Seconds that the smallest restore takes: asking broker and object store, opening the database, waiting for a thread.
BESIDES = 0.1
#: Changelog records per second where none were replayed yet. That is so wherever there are no standbys, until the first
#: restore: a gate that waits for a measurement would wait for ever. Slower than any that was measured.
ASSUMED_REPLAY = 20_000.0


@dataclass(frozen=True)
class RestoreRates:
    """The speed of this instance."""

    #: Bytes per second out of the object store.
    download: MeasuredRate
    #: Changelog records per second.
    replay: MeasuredRate

    def predict(self, bytes: int, records: int) -> float | None:
        """Seconds to download a snapshot and replay the rest; ``None`` as long as nothing was downloaded."""
        replay = records / (self.replay.per_second or ASSUMED_REPLAY)
        if bytes == 0:
            return BESIDES + replay
        download = self.download.per_second
        return None if download is None else BESIDES + bytes / download + replay


@dataclass
class RestoreTiming:
    """One restore that began with a snapshot. Times are monotonic seconds."""

    began: float
    predicted: float | None = None
    total_bytes: int = 0
    moved_bytes: int = 0
    download_seconds: float | None = None
    observed_seconds: float | None = None
