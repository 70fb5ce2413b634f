"""Reads stores of windows for interactive queries: the windows of a key, or of a range of keys, in a range of time.

Read on threads that query, beside the thread that writes the store (:mod:`.views`). Entries come in the order in which
they lie, so that a page can go on where the one before it ended.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from struct import Struct
from typing import NamedTuple, Protocol, TypeAlias

from streamsapp.serdes.windowed import MAX_TIMESTAMP
from streamsapp.state.engine.entries import Entry, EntryFormat
from streamsapp.state.engine.segments import Segments
from streamsapp.state.layers.views import Readers, StoreView
from streamsapp.state.layers.write_back import WriteBack

#: Of a physical key: the serialised key, start and end of its window.
WindowOf: TypeAlias = Callable[[bytes], tuple[bytes, int, int]]


class WindowKind(Protocol):
    """The part of a store type that queries of windows need."""

    @property
    def retention_ms(self) -> int: ...

    @property
    def by_end(self) -> bool:
        """Says whether entries are kept by the end of their window."""
        ...

    def window_of(self, physical: bytes) -> tuple[bytes, int, int]:
        """Returns the key, start and end of a window."""
        ...


_LONG = Struct(">q")
#: Behind every window of a key, and before the next key of its length.
_BEHIND = b"\xff" * 9


class WindowRange(NamedTuple):
    """A range of windows: of the serialised keys ``low`` to ``high`` the windows that start from ``from_ms`` to
    ``to_ms``, all inclusive. A session belongs to it if it ends at ``from_ms`` or later, and starts at ``to_ms`` or
    earlier; a version, if it was valid at any time between."""

    #: The physical key to begin at: of the first page empty.
    start: bytes
    low: bytes = b""
    high: bytes | None = None
    from_ms: int = 0
    to_ms: int = MAX_TIMESTAMP

    def entries(self, view: StoreView, *, committed: bool) -> Iterator[tuple[bytes, Entry]]:
        """Iterates over the entries of the range that a store has."""
        assert isinstance(view, TimeView)
        return view.in_time(self, committed=committed)


class TimeView(StoreView):
    """Reads a store whose entries have times."""

    @abstractmethod
    def in_time(self, wanted: WindowRange, *, committed: bool) -> Iterator[tuple[bytes, Entry]]:
        """Iterates over the entries of a range, by physical key."""


class WindowView(TimeView):
    """Reads one store of windows of one task."""

    def __init__(
        self,
        layers: WriteBack,
        segments: Segments,
        format: EntryFormat,
        readers: Readers,
        kind: WindowKind,
        *,
        mark: bytes = b"",
    ) -> None:
        """Takes ``mark``, which stands between segment and key if entries have other keys, too, which are greater."""
        super().__init__(layers, format, readers)
        self._segments = segments
        self._kind = kind
        self._mark = mark

    def in_time(self, wanted: WindowRange, *, committed: bool) -> Iterator[tuple[bytes, Entry]]:
        """Iterates over the entries of a range by physical key, without windows that have expired."""
        window_of, by_end, high = self._kind.window_of, self._kind.by_end, wanted.high
        first = max(wanted.from_ms, self._segments.stream_time - self._kind.retention_ms + 1)
        for begin, end in self._spans(wanted, first):
            for physical, entry in self.range(max(begin, wanted.start), end, committed=committed):
                key, start_ms, end_ms = window_of(physical)
                in_time = (end_ms if by_end else start_ms) >= first and start_ms <= wanted.to_ms
                if in_time and wanted.low <= key and (high is None or key <= high):
                    yield physical, entry

    def _spans(self, wanted: WindowRange, first: int) -> Iterator[tuple[bytes, bytes]]:
        """Returns ranges of physical keys that may hold some entries. If there is a segment for each millisecond, they
        are one range."""
        segments, low, high = self._segments, wanted.low, wanted.high
        alive = segments.between(first, MAX_TIMESTAMP if self._kind.by_end else wanted.to_ms)
        if not alive:
            return
        if segments.in_order_of_time:
            yield segments.prefix(alive.start), segments.prefix(alive.stop)
            return
        # Of one key no more than its windows; they begin with their time.
        time = _LONG.pack(first) if low == high else b""
        for segment in alive:
            prefix = segments.prefix(segment) + self._mark
            end = self._end(segment) if high is None else prefix + high + _BEHIND
            if end > wanted.start:
                yield prefix + low + time, end

    def _end(self, segment: int) -> bytes:
        """Returns the first key behind all keys of a segment."""
        if not self._mark:
            return self._segments.prefix(segment + 1)
        return self._segments.prefix(segment) + bytes([self._mark[0] + 1])
