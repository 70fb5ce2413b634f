"""Versioned key-value stores (KIP-889): they keep the values that each key had, and from when to when.

Made with the task; called on the processing thread that holds it. In the engine every version is an entry of its own,
``length of key (4 bytes) ‖ key ‖ timestamp (8 bytes)``, so that a key's versions lie in order of time; the value
begins with a byte that says whether the version is a deletion. The changelog is Kafka Streams': the raw key and value,
with the version's timestamp. Versions that nobody can ask for any more are deleted when their key is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, NamedTuple

from streamsapp.record import InputRecord
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.windowed import MAX_TIMESTAMP
from streamsapp.state.engine import Placed
from streamsapp.state.entries import ABSENT, NO_TIMESTAMP, Entry, EntryFormat, PlainFormat, checked_timestamp
from streamsapp.state.epoch import Epoch
from streamsapp.state.facade import SerdeFacade
from streamsapp.state.store_type import Layout, PlainLayout, StoreParts
from streamsapp.state.views import Readers, StoreView
from streamsapp.state.write_back import WriteBack

#: A put returns this if the value is the key's latest: it is valid without end.
PUT_RETURN_CODE_VALID_TO_UNDEFINED = -1
#: A put returns this if it came too late for the history, and was not made.
PUT_RETURN_CODE_NOT_PUT = -(1 << 63)

_LENGTH = Struct(">I")
_TIME = Struct(">q")
_DELETION, _VALUE = b"\x00", b"\x01"
#: The stored value of a version that is a deletion.
_DELETED = object()
#: The changelog keeps old versions a day longer, as in Kafka Streams.
_ADDITIONAL_LAG_MS = 24 * 60 * 60 * 1000


class VersionedRecord(NamedTuple):
    """A value of a versioned store, the time since when it is valid, and the time until when (``None`` for the latest),
    in milliseconds since 1970."""

    value: Any
    timestamp: int
    valid_to: int | None = None


def _key_of(physical: bytes) -> bytes:
    return physical[_LENGTH.size : -_TIME.size]


def _time_of(physical: bytes) -> int:
    timestamp: int = _TIME.unpack_from(physical, len(physical) - _TIME.size)[0]
    return timestamp


def _prefix(key: bytes) -> bytes:
    return _LENGTH.pack(len(key)) + key


class VersionedLayout(PlainLayout):
    """Gives each version a key. It knows the highest timestamp of all versions that were written or restored."""

    def __init__(self) -> None:
        self.stream_time = NO_TIMESTAMP

    def placed(self, records: Sequence[InputRecord]) -> list[Placed]:
        placed: list[Placed] = []
        for record in records:
            key, timestamp = record.key(), record.timestamp()[1]
            if key is not None:
                self.stream_time = max(self.stream_time, timestamp)
                placed.append((_prefix(key) + _TIME.pack(timestamp), record))
        return placed

    def changelog(self, writes: Epoch) -> Iterable[tuple[bytes, Entry]]:
        for physical, (stored, _) in writes.items():
            if stored is not None:  # else it was deleted because nobody can ask for it any more
                yield _key_of(physical), (None if stored is _DELETED else stored, _time_of(physical))

    def facts(self) -> bytes | None:
        return _TIME.pack(self.stream_time)

    def stand_at(self, facts: bytes | None) -> None:
        self.stream_time = NO_TIMESTAMP if facts is None else _TIME.unpack(facts)[0]


class VersionFormat(PlainFormat):
    """Writes a byte before each value, as a deletion is a version too."""

    def physical(self, entry: Entry) -> bytes:
        return _DELETION if entry[0] is _DELETED else _VALUE + self._serialize(entry[0])

    def restored(self, record: InputRecord) -> bytes | None:
        raw = record.value()
        return _DELETION if raw is None else _VALUE + raw

    def entry(self, physical: bytes) -> Entry:
        return (_DELETED if physical == _DELETION else self._deserialize(physical[1:])), NO_TIMESTAMP


class VersionedStoreImpl(SerdeFacade):
    """Keeps values by key and time."""

    def __init__(self, parts: StoreParts, layout: VersionedLayout, kind: VersionedType) -> None:
        super().__init__(parts)
        self._layout = layout
        self._history = kind.history_retention_ms

    # ---- fast protocol, for operators: keys as bytes, values as they are stored ---------------------------------

    def read(self, key: bytes) -> Entry:
        """Returns ``(stored, timestamp)`` of the latest version, ``(None, -1)`` if there is none or it is a
        deletion."""
        return _readable(self._latest(key))

    def read_as_of(self, key: bytes, timestamp: int) -> Entry:
        """Returns the same of the version that was valid at a time. Of a time before the history only the latest is
        known."""
        if timestamp < self._layout.stream_time - self._history:
            stored, since = self.read(key)
            return (stored, since) if since <= timestamp else ABSENT
        return ABSENT if timestamp < 0 else _readable(next(self._versions(key, 0, timestamp, reverse=True), None))

    def write(self, key: bytes, stored: Any, timestamp: int) -> int:
        """Writes a version, a deletion if ``stored`` is ``None``. Returns the time until when it is valid (see the
        codes above)."""
        layout = self._layout
        if timestamp < layout.stream_time - self._history:
            return PUT_RETURN_CODE_NOT_PUT
        layout.stream_time = max(layout.stream_time, timestamp)
        self._write(_prefix(key) + _TIME.pack(timestamp), _DELETED if stored is None else stored, timestamp)
        self._forget(key, layout.stream_time - self._history)
        later = next(self._versions(key, timestamp + 1, MAX_TIMESTAMP, reverse=False), None)
        return PUT_RETURN_CODE_VALID_TO_UNDEFINED if later is None else later[0]

    # ---- for users -----------------------------------------------------------------------------------------------

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        """Writes the value of a key from ``timestamp`` on (milliseconds since 1970), until its next version; ``None``
        deletes.

        Returns the time until when the value is valid: ``PUT_RETURN_CODE_VALID_TO_UNDEFINED`` if it is the latest,
        ``PUT_RETURN_CODE_NOT_PUT`` if it is older than the history. Raises ``ValueError`` for a number that is no
        timestamp.
        """
        stored = None if value is None else self.to_stored(key, value)
        return self.write(self._key(key), stored, checked_timestamp(self._name, key, timestamp))

    def get(self, key: Any, as_of: int | None = None) -> VersionedRecord | None:
        """Returns the latest version of a key, or the one that was valid at ``as_of``, inclusive. Of a time before the
        history only a version that is still the latest is known."""
        key_bytes = self._key(key)
        stored, since = self.read(key_bytes) if as_of is None else self.read_as_of(key_bytes, as_of)
        if stored is None:
            return None
        later = next(self._versions(key_bytes, since + 1, MAX_TIMESTAMP, reverse=False), None)
        return VersionedRecord(self.from_stored(stored), since, None if later is None else later[0])

    def delete(self, key: Any, timestamp: int) -> VersionedRecord | None:
        """Deletes a key from ``timestamp`` on; returns the version that was valid then."""
        if timestamp < self._layout.stream_time - self._history:
            return None
        existing = self.get(key, timestamp)
        self.put(key, None, timestamp)
        return existing

    def _latest(self, key: bytes) -> tuple[int, Any] | None:
        return next(self._versions(key, 0, MAX_TIMESTAMP, reverse=True), None)

    def _versions(self, key: bytes, from_ms: int, to_ms: int, *, reverse: bool) -> Iterator[tuple[int, Any]]:
        """Iterates over ``(timestamp, stored)`` of the versions from ``from_ms`` to ``to_ms``, both inclusive."""
        prefix = _prefix(key)
        end = prefix + _TIME.pack(to_ms) + b"\x00"
        for physical, (stored, _) in self._layers.scan(prefix + _TIME.pack(from_ms), end, reverse=reverse):
            yield _time_of(physical), stored

    def _forget(self, key: bytes, horizon_ms: int) -> None:
        """Deletes the versions before the one that is valid at the horizon, and that one if it is a deletion."""
        if horizon_ms < 0:
            return
        dead = list(self._versions(key, 0, horizon_ms, reverse=True))
        for timestamp, _ in dead if dead and dead[0][1] is _DELETED else dead[1:]:
            self._write(_prefix(key) + _TIME.pack(timestamp), None, timestamp)


@dataclass(frozen=True)
class VersionedType:
    """The type of stores that keep versions for the time of a history."""

    history_retention_ms: int

    name = "versioned"
    keeps_timestamps = True

    @property
    def changelog_settings(self) -> Mapping[str, str]:
        lag = min(self.history_retention_ms + _ADDITIONAL_LAG_MS, MAX_TIMESTAMP)
        return {"min.compaction.lag.ms": str(lag)}

    def format(self, value_serde: AnySerde) -> EntryFormat:
        return VersionFormat(value_serde)

    def layout(self) -> VersionedLayout:
        return VersionedLayout()

    def facade(self, parts: StoreParts) -> VersionedStoreImpl:
        assert isinstance(parts.layout, VersionedLayout)
        return VersionedStoreImpl(parts, parts.layout, self)

    #: Keys have no windows.
    window_of = None

    def view(self, layers: WriteBack, layout: Layout, format: EntryFormat, readers: Readers) -> StoreView | None:
        return None


def _readable(version: tuple[int, Any] | None) -> Entry:
    return ABSENT if version is None or version[1] is _DELETED else (version[1], version[0])
