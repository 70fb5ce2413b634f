"""Versioned key-value stores (KIP-889): they keep the values that each key had, and from when to when.

Made with the task; called on the processing thread that holds it. :mod:`.versions` says where versions lie and how they
expire. The changelog is Kafka Streams': the raw key and value, with the version's timestamp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from streamsapp.java_names.lookup import java_names
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.windowed import MAX_TIMESTAMP
from streamsapp.state.engine.entries import ABSENT, Entry, EntryFormat, checked_timestamp
from streamsapp.state.iterators import KeyValueIterator
from streamsapp.state.kinds.facade import SerdeFacade
from streamsapp.state.kinds.store_type import KEPT_LONGER_MS, Layout, StoreParts
from streamsapp.state.kinds.version_view import VersionView
from streamsapp.state.kinds.versions import (
    LATEST,
    OPEN,
    PUT_RETURN_CODE_NOT_PUT,
    PUT_RETURN_CODE_VALID_TO_UNDEFINED,
    Version,
    VersionedRecord,
    VersionFormat,
    VersionLayout,
    Versions,
)
from streamsapp.state.kinds.window import segment_interval_ms
from streamsapp.state.layers.views import Readers, StoreView
from streamsapp.state.layers.write_back import WriteBack

__all__ = ["PUT_RETURN_CODE_NOT_PUT", "PUT_RETURN_CODE_VALID_TO_UNDEFINED", "VersionedRecord"]


@java_names("VersionedKeyValueStore")
class VersionedStoreImpl(SerdeFacade):
    """Keeps values by key and time."""

    def __init__(self, parts: StoreParts, layout: VersionLayout) -> None:
        super().__init__(parts)
        self._layout = layout
        self._versions = Versions(parts.layers, layout)
        self._read = parts.layers.read

    # ---- fast protocol, for operators: keys as bytes, values as they are stored ---------------------------------

    def read(self, key: bytes) -> Entry:
        """Returns ``(stored, timestamp)`` of the latest version, ``(None, -1)`` if there is none or it is a
        deletion."""
        found = self._read(LATEST + key)[0]
        return ABSENT if found is None else (found[0], found[1])

    def read_as_of(self, key: bytes, timestamp: int) -> Entry:
        """Returns the same of the version that was valid at a time. Of a time before the history only the latest is
        known."""
        found = self._versions.as_of(key, timestamp)
        return ABSENT if found is None else (found[0], found[1])

    def write(self, key: bytes, stored: Any, timestamp: int) -> int:
        """Writes a version, a deletion if ``stored`` is ``None``. Returns the time until when it is valid (see the
        codes above)."""
        return self._versions.put(key, stored, timestamp, self._write)

    # ---- for users -----------------------------------------------------------------------------------------------

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        """Writes the value of a key from ``timestamp`` on (milliseconds since 1970), until its next version; ``None``
        deletes.

        Returns until when it is valid, ``PUT_RETURN_CODE_VALID_TO_UNDEFINED`` where it is the latest, or
        ``PUT_RETURN_CODE_NOT_PUT`` where it is older than the history. Raises ``ValueError`` for a value that is no
        timestamp.
        """
        stored = None if value is None else self.to_stored(key, value)
        return self.write(self._key(key), stored, checked_timestamp(self._name, key, timestamp))

    def get(self, key: Any, as_of: int | None = None) -> VersionedRecord | None:
        """Returns the latest version of a key, or the version that was valid at ``as_of``, inclusive. Of a time before
        the history only a version that is still the latest is known."""
        versions, key_bytes = self._versions, self._key(key)
        return self._record(versions.latest(key_bytes) if as_of is None else versions.as_of(key_bytes, as_of))

    def latest_versions(self) -> KeyValueIterator[Any, VersionedRecord]:
        """Iterates over all keys that have a value now, in the order of their bytes, and their latest versions."""
        return KeyValueIterator(self._latest_versions())

    def _latest_versions(self) -> Iterator[tuple[Any, VersionedRecord]]:
        for physical, (version, _) in self._layers.scan(LATEST, None, reverse=False):
            key = self._deserialize_key(physical[len(LATEST) :])
            yield key, VersionedRecord(self.from_stored(version.value), version.since)

    def delete(self, key: Any, timestamp: int) -> VersionedRecord | None:
        """Deletes a key from ``timestamp`` on; returns the version that was valid then."""
        if timestamp < self._layout.expired_before:
            return None
        existing = self.get(key, timestamp)
        self.put(key, None, timestamp)
        return existing

    def _record(self, version: Version | None) -> VersionedRecord | None:
        if version is None:
            return None
        value, since, until, _ = version
        return VersionedRecord(self.from_stored(value), since, None if until == OPEN else until)


@dataclass(frozen=True)
class VersionedType:
    """The type of stores that keep versions for the time of a history."""

    history_retention_ms: int

    #: Entries have their times in them.
    keeps_timestamps = False
    #: Keys have no windows.
    window_of = None

    @property
    def interval_ms(self) -> int:
        """The length of a segment, in milliseconds."""
        return segment_interval_ms(self.history_retention_ms)

    @property
    def name(self) -> str:
        """The name has the interval in it, as the keys of another one are different."""
        return f"versioned-{self.interval_ms}"

    @property
    def changelog_settings(self) -> Mapping[str, str]:
        lag = min(self.history_retention_ms + KEPT_LONGER_MS, MAX_TIMESTAMP)
        return {"min.compaction.lag.ms": str(lag)}

    def format(self, value_serde: AnySerde) -> EntryFormat:
        return VersionFormat(value_serde)

    def layout(self) -> VersionLayout:
        return VersionLayout(self.history_retention_ms, self.interval_ms)

    def facade(self, parts: StoreParts) -> VersionedStoreImpl:
        assert isinstance(parts.layout, VersionLayout)
        return VersionedStoreImpl(parts, parts.layout)

    def view(self, layers: WriteBack, layout: Layout, format: EntryFormat, readers: Readers) -> StoreView | None:
        assert isinstance(layout, VersionLayout)
        return VersionView(layers, layout, format, readers)
