"""Chooses snapshots of a task by time or by number. Used on the driver, by readers and by previews."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from streamsapp.errors import ConfigError
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.snapshot import Snapshot, milliseconds, timestamp
from streamsapp_spark.snapshots.download import NoSnapshotError, newest, numbered

#: Below it a number is a snapshot's; from here on it is milliseconds since 1970 (this one is in 1973).
_FIRST_TIME = 10**11
_LAST_TIME = 253_402_300_800_000
_DIGITS = len(str(_LAST_TIME))


@dataclass(frozen=True)
class AsOf:
    """The newest snapshot that is not after a time, in milliseconds since 1970, or not after a number."""

    time_ms: int | None = None
    number: int | None = None

    @classmethod
    def parse(cls, option: str, text: str) -> AsOf:
        """Reads a time in ISO 8601 (UTC if it names no zone), milliseconds since 1970, or the number of a snapshot.
        Raises ``ConfigError``, which names ``option``."""
        if text.isascii() and text.isdecimal() and len(text) <= _DIGITS and 0 < int(text) < _LAST_TIME:
            number = int(text)
            return cls(number=number) if number < _FIRST_TIME else cls(time_ms=number)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError as error:
            raise ConfigError(
                f"option {option!r}: expected a time (2026-11-22T10:00:00Z, or milliseconds since 1970) or the number "
                f"of a snapshot, got {text!r}"
            ) from error
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return cls(time_ms=round(moment.timestamp() * 1000))

    def __str__(self) -> str:
        return f"number {self.number}" if self.time_ms is None else timestamp(self.time_ms)

    def admits(self, snapshot: Snapshot) -> bool:
        """Says whether a snapshot is not after this. Its time is that of the state which it holds."""
        if self.number is not None:
            return snapshot.number <= self.number
        return self.time_ms is None or milliseconds(snapshot.created_at) <= self.time_ms


def chosen(chain: ManifestChain, as_of: AsOf | None) -> Snapshot:
    """Returns the newest snapshot that is not after ``as_of``. Raises ``NoSnapshotError`` if there is none,
    ``StreamsError`` if one cannot be used; both name the task."""
    if as_of is None:
        return newest(chain)
    oldest = None
    for number in chain.numbers():
        try:
            oldest = numbered(chain, number)
        except NoSnapshotError:  # an instance began there
            continue
        if as_of.admits(oldest):
            return oldest
    kept = "there is none" if oldest is None else f"the oldest is number {oldest.number}, of {oldest.created_at}"
    raise NoSnapshotError(
        f"task {chain.task_id} has no snapshot as of {as_of}: {kept}; spec.remoteState.retain says how many are kept"
    )
