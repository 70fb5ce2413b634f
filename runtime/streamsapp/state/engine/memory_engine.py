"""Holds committed entries in a sorted dict.

Read on processing threads, written by the polling and restoration threads; a lock guards the order of the keys.
Its offsets live as long as it does: a new instance restores from the beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from threading import Lock

from sortedcontainers import SortedDict

from streamsapp.state.engine.entries import ABSENT, Entry, EntryFormat, PhysicalEntry
from streamsapp.state.engine.epoch import Range, Writes

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

    def take_in(self, epoch: Writes, slice_size: int) -> Iterator[None]:
        """Takes an epoch in slices, as readers wait for the lock meanwhile."""
        items = iter(epoch.writes())
        while chunk := list(islice(items, slice_size)):
            self._write(chunk)
            yield
        self._delete(epoch.deleted)

    def restore(self, restored: Sequence[PhysicalEntry], deleted: Sequence[Range]) -> None:
        """Writes all entries at once."""
        entry = self._format.entry
        self._write((key, ABSENT if value is None else entry(value)) for key, value in restored)
        self._delete(deleted)

    def statistics(self) -> dict[str, int]:
        """Returns the number of keys (KIP-1250)."""
        return {"num_keys": len(self._entries)}

    def _write(self, writes: Iterable[tuple[bytes, Entry]]) -> None:
        with self._lock:
            for key, entry in writes:
                if entry[0] is None:
                    self._entries.pop(key, None)
                else:
                    self._entries[key] = self._readable(entry)

    def _delete(self, ranges: Sequence[Range]) -> None:
        for start, end in ranges:
            with self._lock:
                for key in list(self._entries.irange(start, end, inclusive=(True, False))):
                    del self._entries[key]
