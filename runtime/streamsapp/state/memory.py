"""Committed entries in a sorted dict.

Read on processing threads, written by the polling and restoration threads; a lock guards the order of the keys.
Its offsets live as long as it does: a new instance restores from the beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from threading import Lock

from sortedcontainers import SortedDict

from streamsapp.record import InputRecord
from streamsapp.state.entries import ABSENT, Entry, EntryFormat

#: A scan holds the lock for at most so many entries.
_SCAN_CHUNK = 256


class MemoryStore:
    """The engine of an in-memory store."""

    def __init__(self, format: EntryFormat) -> None:
        self._format = format
        self._readable = format.readable
        self._entries: SortedDict[bytes, Entry] = SortedDict()
        self._lock = Lock()

    def get(self, key: bytes) -> Entry:
        entry: Entry = self._entries.get(key, ABSENT)
        return entry

    def get_many(self, keys: Sequence[bytes]) -> list[Entry]:
        return [self._entries.get(key, ABSENT) for key in keys]

    def scan(self, start: bytes, end: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        while True:
            with self._lock:
                keys = self._entries.irange(start, end, inclusive=(True, False), reverse=reverse)
                chunk = [(key, self._entries[key]) for key in islice(keys, _SCAN_CHUNK)]
            yield from chunk
            if len(chunk) < _SCAN_CHUNK:
                return
            if reverse:
                end = chunk[-1][0]
            else:
                start = chunk[-1][0] + b"\x00"

    def count(self) -> int:
        return len(self._entries)

    def count_change(self, uncommitted: Mapping[bytes, Entry]) -> int:
        entries = self._entries
        return sum((stored is not None) - (key in entries) for key, (stored, _) in uncommitted.items())

    def write(self, writes: Iterable[tuple[bytes, Entry]]) -> None:
        """Put entries, remove deleted ones."""
        with self._lock:
            for key, entry in writes:
                if entry[0] is None:
                    self._entries.pop(key, None)
                else:
                    self._entries[key] = self._readable(entry)

    def write_restored(self, records: Iterable[InputRecord]) -> None:
        """Apply changelog records, in their order; records without key are a source topic's and skipped."""
        entry, restored = self._format.entry, self._format.restored
        keyed = ((record.key(), record.value(), record) for record in records)
        self.write(
            (key, ABSENT if raw is None else entry(restored(raw, record.timestamp()[1])))
            for key, raw, record in keyed
            if key is not None
        )
