"""The stores of joins of two streams. Each has the records of one side, by key and time; the other side asks it for
records near to its own.

Made with the task; called on the processing thread that holds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from streamsapp import native
from streamsapp.record import Headers
from streamsapp.serdes.api import AnySerde, identity
from streamsapp.state.engine.entries import EntryFormat, HeadersLoggedFormat, LoggedEntry
from streamsapp.state.engine.segments import Segments
from streamsapp.state.kinds.recent_entries import Item
from streamsapp.state.kinds.store_type import StoreParts
from streamsapp.state.kinds.window import WindowStoreImpl, WindowType, windowed_changelog_settings


class JoinWindowStore(WindowStoreImpl):
    """Keeps records by key and time. A record is appended without a read, and near ones are found in memory."""

    #: In place of ``_recent``.
    _pairs: native.Recent

    def keep_recent(self) -> None:
        self._pairs = native.Recent(segments=self._segments, room=self._layers.room)

    def keeps(self, serde: AnySerde) -> bool:
        """Says whether a stored value is the bytes that this serde writes, whatever the topic."""
        return self.raw is identity and self._serdes[1] is serde

    def append(self, key: bytes, stored: Any, timestamp: int, headers: Headers | None) -> None:
        """Keeps a record, with its headers for the changelog."""
        physical = self._appended_key(key, stored, timestamp)
        self._append(physical, (stored, timestamp) if headers is None else LoggedEntry.of(stored, timestamp, headers))

    def partners(self, key: bytes, from_ms: int, to_ms: int) -> Iterable[Item]:
        """Returns the records of a key between, both inclusive: ``(time, number, stored)`` in the order of time, and of
        one time in the order in which they were appended."""
        if from_ms < self._segments.expired_before:
            from_ms = self._segments.expired_before
        if (found := self._pairs.between(key, from_ms, to_ms)) is not None:
            return found
        return ((start, 0, stored) for start, (stored, _) in self.scan(key, from_ms, to_ms))

    def _appended_key(self, key: bytes, stored: Any, start_ms: int) -> bytes:
        segments = self._segments
        segments.appended = number = segments.appended + 1
        physical = self._pairs.append(segments.prefixes[start_ms // self._interval], key, start_ms, number, stored)
        if stored is not None and start_ms > segments.stream_time:
            segments.observe(start_ms)
        return physical


@dataclass(frozen=True)
class JoinWindowType(WindowType):
    """The type of stores of one side of a join of two streams. Keys are never written again, so the changelog is not
    compacted."""

    retain_duplicates: bool = True
    #: The retention that the changelog's is reckoned from: Kafka Streams', which may be less than the store's.
    logged_ms: int = 0

    @property
    def changelog_settings(self) -> Mapping[str, str]:
        return {**windowed_changelog_settings(self.logged_ms), "cleanup.policy": "delete"}

    def format(self, value_serde: AnySerde) -> EntryFormat:
        return HeadersLoggedFormat(value_serde)

    def facade(self, parts: StoreParts) -> JoinWindowStore:
        assert isinstance(parts.layout, Segments)
        return JoinWindowStore(parts, parts.layout, self)
