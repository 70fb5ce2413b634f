"""Window stores: values by key and window start, kept for as long as the store's retention says.

Made with the task; called on the processing thread that holds it. Keys in the changelog are Kafka Streams':
``key ‖ start (8 bytes) ‖ sequence (4 bytes)``; in the engine the segment comes before it (:mod:`.segments`). Entries
older than the stream time of the store less its retention are not read, and not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any

from streamsapp.java_names.lookup import java_names
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.serdes import Serdes
from streamsapp.serdes.windowed import MAX_TIMESTAMP, Windowed, time_windowed_inner
from streamsapp.state.api import ValueAndTimestamp, ValueTimestampHeaders
from streamsapp.state.engine.entries import (
    Entry,
    EntryFormat,
    PlainFormat,
    TimestampedFormat,
    checked_bound,
    checked_timestamp,
)
from streamsapp.state.engine.headers import HeadersFormat
from streamsapp.state.engine.segments import Segments
from streamsapp.state.iterators import KeyValueIterator
from streamsapp.state.kinds.counted_windows import CountedWindows
from streamsapp.state.kinds.facade import GivenHeaders, SegmentedFacade, directed
from streamsapp.state.kinds.store_type import KEPT_LONGER_MS, Layout, StoreParts, StoreType
from streamsapp.state.layers.views import Readers, StoreView
from streamsapp.state.layers.window_view import WindowView
from streamsapp.state.layers.write_back import WriteBack

_SUFFIX = Struct(">qi")
_pack_suffix = _SUFFIX.pack
#: The bytes of a physical key before and behind the key of a window in a topic, which is ``key ‖ start (8 bytes)``.
HIDDEN_OF_WINDOWS = 8, 4
_MAX_SEQUENCE = (1 << 31) - 1
#: The shortest segment, as in Kafka Streams.
_MIN_INTERVAL_MS = 60_000


def window_key(key: bytes, start_ms: int, sequence: int = 0) -> bytes:
    """Returns the changelog's key of a window."""
    return key + _pack_suffix(start_ms, sequence)


def _start_of(logical: bytes) -> int:
    start: int = _SUFFIX.unpack_from(logical, len(logical) - _SUFFIX.size)[0]
    return start


def segment_interval_ms(retention_ms: int) -> int:
    """Returns the length of the segments of a store, as in Kafka Streams."""
    return max(retention_ms // 2, _MIN_INTERVAL_MS)


def windowed_changelog_settings(retention_ms: int) -> Mapping[str, str]:
    """Returns the settings in which the changelog topics of stores with a retention differ from compacted ones."""
    # Windows without an end are kept for as long as Kafka can say.
    kept_ms = min(retention_ms + KEPT_LONGER_MS, MAX_TIMESTAMP)
    return {"cleanup.policy": "compact,delete", "retention.ms": str(kept_ms)}


class WindowSegments(Segments):
    """Makes the keys of a store that never returns expired entries, whatever else its segment has."""

    start_at = _SUFFIX.size

    def __init__(self, retention_ms: int, interval_ms: int, *, retain_duplicates: bool) -> None:
        super().__init__(retention_ms, interval_ms, _start_of)
        self.takes_cells = self.deletions_are_times = not retain_duplicates

    def living(self, keys: Iterable[bytes], facts: bytes | None) -> Iterable[bytes]:
        """Returns the keys of windows that live at the stream time of these facts. That of the running epoch may be
        later, and be taken back."""
        if facts is None:
            return keys
        expired_before = self.expired_at(self._stream_time_of(facts))
        segment = expired_before // self._interval
        # The times of one segment alone have to be looked at.
        begin, end = self.prefix(segment), self.prefix(segment + 1)
        starts, suffix = _SUFFIX.unpack_from, _SUFFIX.size
        return [
            key for key in keys if key >= end or (key >= begin and starts(key, len(key) - suffix)[0] >= expired_before)
        ]


@java_names("WindowStore")
class WindowStoreImpl(SegmentedFacade):
    """Keeps values by key and window start."""

    def __init__(self, parts: StoreParts, segments: Segments, kind: WindowType) -> None:
        super().__init__(parts, segments)
        self._type = kind
        self._interval = kind.interval_ms
        self.keeps_timestamps = kind.keeps_timestamps
        self.given_headers = GivenHeaders(parts.format) if kind.keeps_headers else None
        #: The cells in which windows are counted up in place; ``None`` if that cannot be done.
        self.cells = parts.layers.cells if parts.value_serde is Serdes.long() else None
        self._serdes = parts.key_serde, parts.value_serde

    # ---- fast protocol, for operators: keys as bytes, values as they are stored ---------------------------------

    def read(self, key: bytes, start_ms: int) -> Entry:
        """Returns ``(stored, timestamp)`` of a window, ``(None, -1)`` if there is none."""
        if start_ms < self._segments.expired_before:
            return None, -1
        return self._layers.read(self._segments.physical(window_key(key, start_ms), start_ms))

    def write(self, key: bytes, start_ms: int, stored: Any, timestamp: int) -> bool:
        """Writes or deletes a window, or appends to it if the store retains duplicates, which costs no read. Returns
        whether the window is still kept."""
        segments = self._segments
        if self._type.retain_duplicates:
            self._append(self._appended_key(key, stored, start_ms), (stored, timestamp))
            return start_ms >= segments.expired_before
        kept = segments.observe(start_ms)
        if start_ms < segments.deleted_before:
            return False
        if self._recent is not None:
            if stored is None:
                self._recent.remove(key, start_ms, 0)
            else:
                self._recent.put(key, (start_ms, 0, (stored, timestamp)))
        # Entries that have just expired are not read. As in Kafka Streams they are in the changelog while their segment
        # lives.
        self._write(segments.physical(window_key(key, start_ms), start_ms), stored, timestamp)
        return kept

    def around(self, start_ms: int) -> tuple[bytes, bytes]:
        """Returns the bytes before and after a key in the physical keys of the windows that start then."""
        return self._segments.physical(b"", start_ms), window_key(b"", start_ms)

    def read_physical(self, physical: bytes, start_ms: int) -> Entry:
        """Does what :meth:`read` does, with a key made of what :meth:`around` returns."""
        if start_ms < self._segments.expired_before:
            return None, -1
        return self._layers.read(physical)

    def write_physical(self, physical: bytes, start_ms: int, stored: Any, timestamp: int) -> None:
        """Does what :meth:`write` does where recent windows are not held, nor duplicates."""
        segments = self._segments
        if start_ms > segments.stream_time:
            segments.observe(start_ms)
        if start_ms >= segments.deleted_before:
            self._write(physical, stored, timestamp)

    def writes_as(self, key_serde: AnySerde, value_serde: AnySerde) -> bool:
        """Says whether these write windows and values in the bytes that the store has for them."""
        inner, (key, value) = time_windowed_inner(key_serde), self._serdes
        return inner is not None and inner.serialize is key.serialize and value_serde.serialize is value.serialize

    def counted_windows(self) -> CountedWindows:
        """Returns the windows of an operator that counts in the store from now on, in place of an earlier one's."""
        return CountedWindows(self._layers, self._segments, self.around)

    def deleted_at(self, key: Any, start_ms: int, end_ms: int) -> int:
        """Returns the time at which a window was deleted in the running epoch."""
        return self._deleted_at(self._segments.physical(window_key(self.key_bytes(key), start_ms), start_ms))

    def scan(self, key: bytes, start_ms: int, end_ms: int, *, reverse: bool = False) -> Iterator[tuple[int, Entry]]:
        """Iterates over ``(start, entry)`` of a key's windows that start from ``start_ms`` to ``end_ms``, both
        inclusive, by time."""
        segments, layers, size = self._segments, self._layers, len(key) + 8 + _SUFFIX.size
        first, last = max(start_ms, segments.expired_before, 0), min(end_ms, segments.stream_time)
        if self._type.time_ordered:
            for windowed, entry in self._windows(key, key, first, last, reverse=reverse):
                yield windowed.start_ms, entry
            return
        for segment in directed(segments.between(first, last), reverse):
            prefix = segments.prefix(segment) + key
            low, high = prefix + _SUFFIX.pack(first, 0), prefix + _SUFFIX.pack(last + 1, 0)
            for physical, entry in layers.scan(low, high, reverse=reverse):
                # Of another key, which continues as this one's windows do.
                if len(physical) == size:
                    yield _start_of(physical), entry

    def near(self, key: bytes, start_ms: int, end_ms: int, *, reverse: bool = False) -> Iterable[tuple[int, Entry]]:
        """Returns the same from memory if recent windows are held there and these are among them."""
        first = max(start_ms, self._segments.expired_before, 0)
        found = None if self._recent is None else self._recent.between(key, first, end_ms)
        if found is None:
            return self.scan(key, start_ms, end_ms, reverse=reverse)
        return [(start, entry) for start, _, entry in (reversed(found) if reverse else found)]

    def between(self, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed[Any], Entry]]:
        """Iterates over all windows that start between, both inclusive; by start and key if the store is in order of
        time."""
        return self._windows(b"", None, from_ms, to_ms, reverse=False)

    # ---- for users -----------------------------------------------------------------------------------------------

    def put(self, key: Any, value: Any, window_start_ms: int) -> None:
        """Writes the value of a key in the window that starts then; ``None`` deletes it."""
        # One before the epoch has expired, and is left out as Kafka Streams leaves it out.
        window_start_ms = checked_bound(self._name, "window_start_ms", window_start_ms, -MAX_TIMESTAMP)
        with nullcontext() if self.given_headers is None else self.given_headers.of(value):
            stored, timestamp = self._stored(key, value)
            self.write(self._key(key), window_start_ms, stored, timestamp)

    def fetch(self, key: Any, from_ms: int, to_ms: int | None = None) -> Any:
        """Returns the value of the window that starts at ``from_ms``, the last one if the store retains duplicates.
        With ``to_ms``, returns an iterator over ``(start, value)`` of the windows that start between, both
        inclusive."""
        if to_ms is None and self._type.retain_duplicates:
            return next((value for _, value in self._fetched(key, from_ms, from_ms, reverse=True)), None)
        if to_ms is None:
            return self._value(self.read(self._key(key), from_ms))
        return self._fetched(key, from_ms, to_ms, reverse=False)

    def backward_fetch(self, key: Any, from_ms: int, to_ms: int) -> KeyValueIterator[int, Any]:
        """Iterates over the same, the latest window first."""
        return self._fetched(key, from_ms, to_ms, reverse=True)

    def fetch_range(self, from_key: Any, to_key: Any, from_ms: int, to_ms: int) -> KeyValueIterator[Windowed[Any], Any]:
        """Iterates over the windows that start between, of keys from ``from_key`` to ``to_key`` (by their bytes,
        ``None`` is an open end)."""
        return self._ranged(from_key, to_key, from_ms, to_ms, reverse=False)

    def backward_fetch_range(
        self, from_key: Any, to_key: Any, from_ms: int, to_ms: int
    ) -> KeyValueIterator[Windowed[Any], Any]:
        """Iterates over the same, backward."""
        return self._ranged(from_key, to_key, from_ms, to_ms, reverse=True)

    def all(self) -> KeyValueIterator[Windowed[Any], Any]:
        """Iterates over every window: segment by segment, in a segment by key; a store in memory gives them by start
        and key."""
        return self._ranged(None, None, 0, self._segments.stream_time, reverse=False)

    def backward_all(self) -> KeyValueIterator[Windowed[Any], Any]:
        """Iterates over the same, backward."""
        return self._ranged(None, None, 0, self._segments.stream_time, reverse=True)

    def _fetched(self, key: Any, from_ms: int, to_ms: int, *, reverse: bool) -> KeyValueIterator[int, Any]:
        value = self._value
        found = self.scan(self._key(key), from_ms, to_ms, reverse=reverse)
        return KeyValueIterator((start, value(entry)) for start, entry in found)

    def _ranged(
        self, from_key: Any, to_key: Any, from_ms: int, to_ms: int, *, reverse: bool
    ) -> KeyValueIterator[Windowed[Any], Any]:
        low = b"" if from_key is None else self._key(from_key)
        high = None if to_key is None else self._key(to_key)
        value = self._value
        found = self._windows(low, high, from_ms, to_ms, reverse=reverse)
        return KeyValueIterator((windowed, value(entry)) for windowed, entry in found)

    def _windows(
        self, low: bytes, high: bytes | None, from_ms: int, to_ms: int, *, reverse: bool
    ) -> Iterator[tuple[Windowed[Any], Entry]]:
        segments, size, window = self._segments, self._type.window_size_ms, _SUFFIX.size
        first = max(from_ms, segments.expired_before, 0)
        for begin, end in self._spans(first, to_ms, low, reverse):
            for physical, entry in self._ordered(self._layers.scan(begin, end, reverse=reverse), reverse):
                key, start = segments.logical(physical)[:-window], _start_of(physical)
                if low <= key and (high is None or key <= high) and first <= start <= to_ms:
                    yield Windowed(self._deserialize_key(key), start, min(start + size, MAX_TIMESTAMP)), entry

    def _ordered(self, found: Iterator[tuple[bytes, Entry]], reverse: bool) -> Iterable[tuple[bytes, Entry]]:
        """Orders a segment's windows by key; in a store in memory by time and key, as Kafka Streams has them."""
        if not self._type.in_memory:
            return found
        return sorted(found, key=lambda each: (_start_of(each[0]), each[0]), reverse=reverse)

    def _spans(self, from_ms: int, to_ms: int, low: bytes, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        """Returns ranges of physical keys that hold these times and keys from ``low`` on."""
        segments = self._segments
        alive = segments.between(from_ms, to_ms)
        if self._type.time_ordered:
            return iter([(segments.prefix(alive.start), segments.prefix(alive.stop))] if alive else [])
        return ((segments.prefix(each) + low, segments.prefix(each + 1)) for each in directed(alive, reverse))

    def _stored(self, key: Any, value: Any) -> tuple[Any, int]:
        timestamp = self._context_timestamp()
        if self._type.keeps_timestamps and value is not None:
            value, timestamp = value[0], checked_timestamp(self._name, key, value[1])
        return (None if value is None else self.to_stored(key, value)), timestamp

    def _value(self, entry: Entry) -> Any:
        stored, timestamp = entry
        if stored is None or not self._type.keeps_timestamps:
            return self.from_stored(stored)
        value = self.from_stored(stored)
        if self.given_headers is None:
            return ValueAndTimestamp(value, timestamp)
        return ValueTimestampHeaders(value, timestamp, stored.headers)

    def _appended_key(self, key: bytes, stored: Any, start_ms: int) -> bytes:
        """Returns the key of an appended record. As in Kafka Streams, records without a value and records that come too
        late are numbered and logged too. Records without a value move no stream time."""
        segments = self._segments
        segments.appended = number = segments.appended + 1
        if stored is not None:
            if self._recent is not None:
                self._recent.put(key, (start_ms, number, stored))
            if start_ms > segments.stream_time:
                segments.observe(start_ms)
        return segments.prefixes[start_ms // self._interval] + key + _pack_suffix(start_ms, number & _MAX_SEQUENCE)


@dataclass(frozen=True)
class WindowType:
    """The type of stores of windows of one size."""

    retention_ms: int
    window_size_ms: int
    retain_duplicates: bool = False
    keeps_timestamps: bool = False
    #: Windows lie in the order of their starts, for queries for all that began in a range of time. A range of one key's
    #: windows then costs all windows of that range.
    time_ordered: bool = False
    #: A query for the windows of many keys gets them by time and key, not by segment and key.
    in_memory: bool = False
    keeps_headers: bool = False

    by_end = False

    @property
    def interval_ms(self) -> int:
        """The length of a segment in milliseconds."""
        return 1 if self.time_ordered else segment_interval_ms(self.retention_ms)

    @property
    def name(self) -> str:
        """The type's name, with the interval, as the keys of another one are different."""
        kept = f"{'timestamped_' if self.keeps_timestamps else ''}window{'_with_headers' if self.keeps_headers else ''}"
        return f"{kept}-{self.interval_ms}"

    def with_headers(self) -> StoreType:
        return replace(self, keeps_headers=True) if self.keeps_timestamps else self

    @property
    def changelog_settings(self) -> Mapping[str, str]:
        return windowed_changelog_settings(self.retention_ms)

    def format(self, value_serde: AnySerde) -> EntryFormat:
        plain = TimestampedFormat(value_serde) if self.keeps_timestamps else PlainFormat(value_serde)
        return HeadersFormat(plain) if self.keeps_headers else plain

    @property
    def readable_ms(self) -> int:
        """The time for which a window is read behind stream time. Kafka Streams keeps windows in the order of their
        starts a millisecond longer in RocksDB: a window that closes at the end of the retention can still be sent."""
        return self.retention_ms + (self.time_ordered and not self.in_memory)

    def layout(self) -> Segments:
        return WindowSegments(self.readable_ms, self.interval_ms, retain_duplicates=self.retain_duplicates)

    def facade(self, parts: StoreParts) -> WindowStoreImpl:
        assert isinstance(parts.layout, Segments)
        return WindowStoreImpl(parts, parts.layout, self)

    def view(self, layers: WriteBack, layout: Layout, format: EntryFormat, readers: Readers) -> StoreView | None:
        assert isinstance(layout, Segments)
        return WindowView(layers, layout, format, readers, self)

    def window_of(self, physical: bytes) -> tuple[bytes, int, int]:
        """Returns the key, start and end of a window."""
        start = _start_of(physical)
        key = Segments.logical(physical)[: -_SUFFIX.size]
        return key, start, min(start + self.window_size_ms, MAX_TIMESTAMP)
