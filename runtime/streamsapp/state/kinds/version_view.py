"""Versioned stores as interactive queries see them: the values that keys have now, had at a time, or had in a range of
time (KIP-960, KIP-968).

Read on threads that query, beside the thread that writes the store (:mod:`.views`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamsapp.serdes.windowed import MAX_TIMESTAMP
from streamsapp.state.engine.entries import Entry, EntryFormat
from streamsapp.state.kinds.versions import LATEST, OPEN, VersionedRecord, VersionLayout
from streamsapp.state.layers.views import Readers
from streamsapp.state.layers.window_view import TimeView, WindowRange
from streamsapp.state.layers.write_back import WriteBack


class VersionView(TimeView):
    """Reads one versioned store of one task."""

    def __init__(self, layers: WriteBack, layout: VersionLayout, format: EntryFormat, readers: Readers) -> None:
        super().__init__(layers, format, readers)
        self._layout = layout

    def get(self, key: bytes, *, committed: bool) -> Entry:
        """Returns the version that a key has now."""
        return super().get(LATEST + key, committed=committed)

    def in_time(self, wanted: WindowRange, *, committed: bool) -> Iterator[tuple[bytes, Entry]]:
        """Iterates over the versions that were valid at any time of a range: the versions of a key by time, without
        deletions and without what lies before the history."""
        layout, low, high = self._layout, wanted.low, wanted.high
        first = max(wanted.from_ms, layout.expired_before)
        for begin, end in self._spans(wanted, first):
            if end is not None and end <= wanted.start:
                continue
            for physical, entry in self.range(max(begin, wanted.start), end, committed=committed):
                version, key = entry[0], layout.key_of(physical)
                valid = version.since <= wanted.to_ms and (version.until == OPEN or version.until > first)
                if valid and version.value is not None and low <= key and (high is None or key <= high):
                    yield physical, entry

    def value(self, entry: Entry) -> Any:
        """Returns a :class:`VersionedRecord`, ``None`` for a key that has no value."""
        if entry[0] is None:
            return None
        value, since, until, _ = entry[0]
        return VersionedRecord(self._format.from_stored(value), since, None if until == OPEN else until)

    def raw(self, entry: Entry) -> bytes | None:
        return None if entry[0] is None else self._format.raw(entry[0].value)

    def _spans(self, wanted: WindowRange, first: int) -> Iterator[tuple[bytes, bytes | None]]:
        """Returns ranges of physical keys that may hold some, in their order."""
        layout, low, high = self._layout, wanted.low, wanted.high
        over = layout.between(first, MAX_TIMESTAMP) if first <= wanted.to_ms else ()
        for segment in over:
            if low == high:
                prefix = layout.prefix(segment) + layout.key_prefix(low)
                yield prefix, prefix + LATEST
            else:
                yield layout.prefix(segment), layout.prefix(segment + 1)
        yield LATEST + low, None if high is None else LATEST + high + b"\x00"
