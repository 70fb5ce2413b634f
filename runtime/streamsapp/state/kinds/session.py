"""Session stores: values by key and session, kept for as long as the store's retention says.

Made with the task; called on the processing thread that holds it. Keys in the changelog are Kafka Streams': ``key ‖ end
(8 bytes) ‖ start (8 bytes)``. In the engine the segment of the end comes before it (:mod:`.segments`). Sessions that
ended before the stream time of the store less its retention are not read.

A store whose sessions are asked for by time, too, has every entry twice: ``segment ‖ 00 ‖ changelog key`` and
``segment ‖ 01 ‖ end ‖ start ‖ key``. The changelog has it once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from struct import Struct
from typing import Any

from streamsapp.errors import StateStoreError
from streamsapp.java_names.lookup import java_names
from streamsapp.record import InputRecord
from streamsapp.serdes.windowed import MAX_TIMESTAMP, Windowed
from streamsapp.state.api import AggregationWithHeaders
from streamsapp.state.engine.entries import Entry, EntryFormat, PhysicalEntry, PlainFormat, checked_bound
from streamsapp.state.engine.epoch import Writes
from streamsapp.state.engine.headers import HeadersFormat
from streamsapp.state.engine.segments import Segments
from streamsapp.state.engine.store_engine import Reads
from streamsapp.state.iterators import KeyValueIterator
from streamsapp.state.kinds.facade import GivenHeaders, SegmentedFacade, directed
from streamsapp.state.kinds.recent_entries import Item
from streamsapp.state.kinds.store_type import Layout, StoreParts, StoreType
from streamsapp.state.kinds.window import segment_interval_ms, windowed_changelog_settings
from streamsapp.state.layers.views import Readers, StoreView
from streamsapp.state.layers.window_view import WindowView
from streamsapp.state.layers.write_back import WriteBack

_BOUNDS = Struct(">qq")
_pack_bounds = _BOUNDS.pack
#: Of a session that earlier epochs may have, too.
_OLD = -1
_BY_KEY, _BY_TIME = b"\x00", b"\x01"
_MARK = 8


def session_key(key: bytes, start_ms: int, end_ms: int) -> bytes:
    """Returns the changelog's key of a session."""
    return key + _pack_bounds(end_ms, start_ms)


def _bounds(logical: bytes) -> tuple[int, int]:
    """Returns the end and the start of a session."""
    end, start = _BOUNDS.unpack_from(logical, len(logical) - _BOUNDS.size)
    return end, start


def _end_of(logical: bytes) -> int:
    return _bounds(logical)[0]


class IndexedSegments(Segments):
    """Makes the keys of sessions that are found by key and by time."""

    mark = _BY_KEY

    def by_time(self, logical: bytes, end_ms: int) -> bytes:
        """Returns the other key of the same entry."""
        at = len(logical) - _BOUNDS.size
        return self.prefix(end_ms // self._interval) + _BY_TIME + logical[at:] + logical[:at]

    @staticmethod
    def logical(physical: bytes) -> bytes:
        return physical[_MARK + 1 :]

    def restored(
        self, records: Sequence[InputRecord], format: EntryFormat, committed: Reads
    ) -> Sequence[PhysicalEntry]:
        by_key = super().restored(records, format, committed)
        logical = ((self.logical(key), value) for key, value in by_key)
        return [*by_key, *((self.by_time(key, _end_of(key)), value) for key, value in logical)]

    def changelog(self, writes: Writes) -> Iterable[tuple[bytes, Entry]]:
        mark = _BY_KEY[0]
        return ((key[_MARK + 1 :], entry) for key, entry in writes.writes() if key[_MARK] == mark)


@java_names("SessionStore")
class SessionStoreImpl(SegmentedFacade):
    """Keeps values by key and session."""

    def __init__(self, parts: StoreParts, segments: Segments, kind: SessionType) -> None:
        super().__init__(parts, segments)
        self._type = kind
        self._interval = kind.interval_ms
        self._indexed = segments if isinstance(segments, IndexedSegments) else None
        self.given_headers = GivenHeaders(parts.format) if kind.keeps_headers else None
        #: Makes a stored value the one that users get.
        self._shown: Callable[[Any], Any] = _with_headers(self.from_stored) if kind.keeps_headers else self.from_stored

    # ---- fast protocol, for operators: keys as bytes, values as they are stored ---------------------------------

    def read(self, key: bytes, start_ms: int, end_ms: int) -> Any:
        """Returns the stored value of a session, ``None`` if there is none."""
        if end_ms < self._readable_from:
            return None
        logical = session_key(key, start_ms, end_ms)
        return self._layers.peek(self._segments.physical(logical, end_ms), committed=False)[0]

    def write(
        self,
        key: bytes,
        start_ms: int,
        end_ms: int,
        stored: Any,
        timestamp: int,
        epoch: int | None = _OLD,
        *,
        moves_time: bool = True,
    ) -> None:
        """Writes or deletes a session that came in ``epoch``, as :meth:`near` returns it; ``None`` stands for a session
        that comes now."""
        segments = self._segments
        if end_ms > segments.stream_time and moves_time:
            segments.observe(end_ms)
        if end_ms < segments.deleted_before:
            return
        logical = key + _pack_bounds(end_ms, start_ms)
        physical = segments.prefixes[end_ms // self._interval] + logical
        if self._recent is not None:
            if stored is None:
                self._recent.remove(key, end_ms, start_ms)
            else:
                if epoch is None:
                    # It may have been there before, and have been deleted in this epoch.
                    epoch = _OLD if self._layers.is_dirty(physical) else self._layers.epoch
                self._recent.put(key, (end_ms, start_ms, stored, epoch))
        entry = stored, timestamp
        self._append(physical, entry)
        if self._indexed is not None:
            self._append(self._indexed.by_time(logical, end_ms), entry)

    def give_up(self, key: bytes, session: Item, timestamp: int) -> None:
        """Deletes a session that :meth:`near` has found. A session that came in the running epoch was never there: the
        changelog gets nothing of it."""
        end_ms, start_ms, _, epoch = session
        if epoch != self._layers.epoch or self._recent is None:
            self.write(key, start_ms, end_ms, None, timestamp)
            return
        self._recent.remove(key, end_ms, start_ms)
        logical = key + _pack_bounds(end_ms, start_ms)
        self._layers.forget(self._segments.prefixes[end_ms // self._interval] + logical)
        if self._indexed is not None:
            self._layers.forget(self._indexed.by_time(logical, end_ms))

    def near(self, key: bytes, from_end_ms: int) -> Iterable[Item]:
        """Returns ``(end, start, stored, epoch)`` of a key's sessions that end at ``from_end_ms`` or later, by end."""
        first, recent = self._segments.stream_time - self._type.retention_ms + 1, self._recent
        if from_end_ms > first:
            first = from_end_ms
        if recent is not None and (found := recent.between(key, first, MAX_TIMESTAMP)) is not None:
            return found
        return [(end, start, stored, _OLD) for start, end, stored in self.scan(key, first)]

    def scan(self, key: bytes, from_end_ms: int, *, reverse: bool = False) -> Iterator[tuple[int, int, Any]]:
        """Iterates over ``(start, end, stored)`` of a key's sessions that end at ``from_end_ms`` or later, by end."""
        segments, layers = self._segments, self._layers
        first, size = max(from_end_ms, self._readable_from, 0), None
        for segment in directed(segments.between(first, MAX_TIMESTAMP), reverse):
            prefix = self._prefix(segment) + key
            size = len(prefix) + _BOUNDS.size
            low, high = prefix + _BOUNDS.pack(first, 0), prefix + b"\xff"
            for physical, (stored, _) in layers.scan(low, high, reverse=reverse):
                # Of another key, which continues as this one's sessions do.
                if len(physical) == size:
                    end, start = _bounds(physical)
                    yield start, end, stored

    def between(self, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed[Any], Entry]]:
        """Iterates over all sessions that end between, both inclusive, by end, start and key (in memory by end, key and
        start backward); each with its end as timestamp. Only stores that are indexed by time have it."""
        found = self._by_time(from_ms, to_ms)
        if self._type.in_memory:
            found = _sorted(found, lambda each: each[0][0], _memory_order, reverse=False)
        for (end, key, start), stored in found:
            yield Windowed(self._deserialize_key(key), start, end), (stored, end)

    # ---- for users -----------------------------------------------------------------------------------------------

    def put(self, session: Windowed[Any], value: Any) -> None:
        """Writes the value of a session; ``None`` deletes it."""
        key, start, end = self._checked(session)
        if self.given_headers is None:
            stored = None if value is None else self.to_stored(session.key, value)
            self.write(key, start, end, stored, self._context_timestamp())
            return
        with self.given_headers.of(value):
            aggregate = value.aggregation if isinstance(value, AggregationWithHeaders) else value
            stored = None if aggregate is None else self.to_stored(session.key, aggregate)
            self.write(key, start, end, stored, self._context_timestamp())

    def remove(self, session: Windowed[Any]) -> None:
        """Deletes a session."""
        key, start, end = self._checked(session)
        # As in Kafka Streams, this is the one write that does not move the time of a store in memory.
        self.write(key, start, end, None, self._context_timestamp(), moves_time=not self._type.in_memory)

    def fetch_session(self, key: Any, start_ms: int, end_ms: int) -> Any:
        """Returns the value of a session with these bounds, ``None`` if there is none."""
        return self._shown(self.read(self._key(key), start_ms, end_ms))

    def find_sessions(
        self, key: Any, earliest_end_ms: int, latest_start_ms: int
    ) -> KeyValueIterator[Windowed[Any], Any]:
        """Iterates over a key's sessions that end at ``earliest_end_ms`` or later and start at ``latest_start_ms`` or
        earlier."""
        return self._found(key, earliest_end_ms, latest_start_ms, reverse=False)

    def backward_find_sessions(
        self, key: Any, earliest_end_ms: int, latest_start_ms: int
    ) -> KeyValueIterator[Windowed[Any], Any]:
        """Iterates over the same, the latest session first."""
        return self._found(key, earliest_end_ms, latest_start_ms, reverse=True)

    def find_sessions_range(
        self, from_key: Any, to_key: Any, earliest_end_ms: int, latest_start_ms: int
    ) -> KeyValueIterator[Windowed[Any], Any]:
        """Iterates over the same of keys from ``from_key`` to ``to_key`` (by their bytes, ``None`` is an open end)."""
        return KeyValueIterator(self._ranged(from_key, to_key, earliest_end_ms, latest_start_ms, reverse=False))

    def backward_find_sessions_range(
        self, from_key: Any, to_key: Any, earliest_end_ms: int, latest_start_ms: int
    ) -> KeyValueIterator[Windowed[Any], Any]:
        """Iterates over the same, backward."""
        return KeyValueIterator(self._ranged(from_key, to_key, earliest_end_ms, latest_start_ms, reverse=True))

    def fetch(self, key: Any) -> KeyValueIterator[Windowed[Any], Any]:
        """Iterates over all sessions of a key, by end."""
        return self._found(key, 0, MAX_TIMESTAMP, reverse=False)

    def backward_fetch(self, key: Any) -> KeyValueIterator[Windowed[Any], Any]:
        """Iterates over the same, the latest session first."""
        return self._found(key, 0, MAX_TIMESTAMP, reverse=True)

    def fetch_range(self, from_key: Any, to_key: Any) -> KeyValueIterator[Windowed[Any], Any]:
        """Iterates over all sessions of keys from ``from_key`` to ``to_key`` (by their bytes, ``None`` is an open end).
        Sessions come segment by segment, in a segment by key and end; a store in memory gives them by end and key."""
        return KeyValueIterator(self._ranged(from_key, to_key, 0, MAX_TIMESTAMP, reverse=False))

    def backward_fetch_range(self, from_key: Any, to_key: Any) -> KeyValueIterator[Windowed[Any], Any]:
        """Iterates over the same, backward."""
        return KeyValueIterator(self._ranged(from_key, to_key, 0, MAX_TIMESTAMP, reverse=True))

    @property
    def _readable_from(self) -> int:
        return self._segments.stream_time - self._type.retention_ms + 1

    def _prefix(self, segment: int) -> bytes:
        prefix = self._segments.prefix(segment)
        return prefix + _BY_KEY if self._type.by_time else prefix

    def _found(
        self, key: Any, earliest_end_ms: int, latest_start_ms: int, *, reverse: bool
    ) -> KeyValueIterator[Windowed[Any], Any]:
        key_bytes, value = self._key(key), self._shown
        if self._type.in_memory:
            return KeyValueIterator(self._ranged(key, key, earliest_end_ms, latest_start_ms, reverse=reverse))
        found = self.scan(key_bytes, earliest_end_ms, reverse=reverse)
        return KeyValueIterator(
            (Windowed(key, start, end), value(stored)) for start, end, stored in found if start <= latest_start_ms
        )

    def _ranged(
        self, from_key: Any, to_key: Any, earliest_end_ms: int, latest_start_ms: int, *, reverse: bool
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        low = b"" if from_key is None else self._key(from_key)
        high = None if to_key is None else self._key(to_key)
        first = max(earliest_end_ms, self._readable_from, 0)
        found: Iterable[_Found] = self._by_key(low, first, reverse)
        if self._type.in_memory:
            interval = self._type.interval_ms
            found = _sorted(found, lambda each: each[0][0] // interval, _memory_order, reverse=reverse)
        for (end, key, start), stored in found:
            if low <= key and (high is None or key <= high) and end >= first and start <= latest_start_ms:
                yield Windowed(self._deserialize_key(key), start, end), self._shown(stored)

    def _by_key(self, low: bytes, from_ms: int, reverse: bool) -> Iterator[_Found]:
        """Yields the sessions of keys from ``low`` on, segment by segment, in a segment by key and end."""
        logical_of = self._segments.logical
        for segment in directed(self._segments.between(from_ms, MAX_TIMESTAMP), reverse):
            prefix = self._prefix(segment)
            last = (
                self._segments.prefix(segment) + _BY_TIME if self._type.by_time else self._segments.prefix(segment + 1)
            )
            for physical, (stored, _) in self._layers.scan(prefix + low, last, reverse=reverse):
                logical = logical_of(physical)
                end, start = _bounds(logical)
                yield (end, logical[: -_BOUNDS.size], start), stored

    def _by_time(self, from_ms: int, to_ms: int) -> Iterator[_Found]:
        """Yields the sessions that end between, by end, start and key."""
        for segment in self._segments.between(from_ms, to_ms):
            prefix = self._segments.prefix(segment) + _BY_TIME
            low, high = prefix + _BOUNDS.pack(from_ms, 0), prefix + _BOUNDS.pack(to_ms + 1, 0)
            for physical, (stored, _) in self._layers.scan(low, high, reverse=False):
                end, start = _BOUNDS.unpack_from(physical, len(prefix))
                yield (end, physical[len(prefix) + _BOUNDS.size :], start), stored

    def _checked(self, session: Windowed[Any]) -> tuple[bytes, int, int]:
        if not isinstance(session, Windowed):
            raise StateStoreError(
                f"session store {self._name!r} keeps values by Windowed(key, start_ms, end_ms), got "
                f"{type(session).__name__}"
            )
        if not 0 <= session.start_ms <= session.end_ms:
            raise StateStoreError(
                f"session store {self._name!r}: a session from {session.start_ms} to {session.end_ms} does not exist; "
                "give milliseconds since the epoch, the end not before the start"
            )
        start, end = (checked_bound(self._name, field, getattr(session, field)) for field in ("start_ms", "end_ms"))
        return self._key(session.key), start, end


@dataclass(frozen=True)
class SessionType:
    """The type of stores of sessions."""

    retention_ms: int
    #: Sessions are found by their end, too, for queries for all that ended in a range of time.
    by_time: bool = False
    #: A query for the sessions of many keys gets them by end and key, not by segment and key.
    in_memory: bool = False
    keeps_headers: bool = False

    #: The changelog has the raw aggregate, with the timestamp of the record in process.
    keeps_timestamps = False
    by_end = True

    @property
    def interval_ms(self) -> int:
        """The length of a segment in milliseconds."""
        return segment_interval_ms(self.retention_ms)

    @property
    def name(self) -> str:
        """The type's name, with the interval, as the keys of another one are different."""
        kept = f"session{'_by_time' if self.by_time else ''}{'_with_headers' if self.keeps_headers else ''}"
        return f"{kept}-{self.interval_ms}"

    def with_headers(self) -> StoreType:
        return replace(self, keeps_headers=True)

    @property
    def changelog_settings(self) -> Mapping[str, str]:
        return windowed_changelog_settings(self.retention_ms)

    def format(self, value_serde: Any) -> EntryFormat:
        return HeadersFormat(PlainFormat(value_serde)) if self.keeps_headers else PlainFormat(value_serde)

    def layout(self) -> Segments:
        # A session closes one millisecond after the least retention has passed: until then its result can be sent.
        if self.by_time:
            return IndexedSegments(self.retention_ms + 1, self.interval_ms, _end_of)
        return Segments(self.retention_ms, self.interval_ms, _end_of)

    def facade(self, parts: StoreParts) -> SessionStoreImpl:
        assert isinstance(parts.layout, Segments)
        return SessionStoreImpl(parts, parts.layout, self)

    def view(self, layers: WriteBack, layout: Layout, format: EntryFormat, readers: Readers) -> StoreView | None:
        assert isinstance(layout, Segments)
        return WindowView(layers, layout, format, readers, self, mark=_BY_KEY if self.by_time else b"")

    def window_of(self, physical: bytes) -> tuple[bytes, int, int]:
        """Returns the key, start and end of a session."""
        logical = (IndexedSegments if self.by_time else Segments).logical(physical)
        end, start = _bounds(logical)
        return logical[: -_BOUNDS.size], start, end


def _with_headers(from_stored: Callable[[Any], Any]) -> Callable[[Any], AggregationWithHeaders | None]:
    def shown(stored: Any) -> AggregationWithHeaders | None:
        return None if stored is None else AggregationWithHeaders(from_stored(stored), list(stored.headers or ()))

    return shown


#: ``((end, key, start), stored)``
_Found = tuple[tuple[int, bytes, int], Any]


def _memory_order(found: _Found) -> tuple[int, bytes, int]:
    end, key, start = found[0]
    return end, key, -start


def _sorted(
    found: Iterable[_Found], group: Callable[[_Found], int], order: Callable[[_Found], Any], *, reverse: bool
) -> Iterator[_Found]:
    """Sorts sessions within each group; groups follow each other in order of time."""
    for _, each in groupby(found, group):
        yield from sorted(each, key=order, reverse=reverse)
