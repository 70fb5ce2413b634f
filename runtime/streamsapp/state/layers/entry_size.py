"""The bytes that an entry of a store takes in memory, by estimate: of some entries that were read and written lately.

Used by the write-back layer, on the thread that works on it; the polling thread asks too.
"""

from __future__ import annotations

import sys
from itertools import islice

from streamsapp.state.engine.entries import Entry, LoggedEntry, headers_size
from streamsapp.state.engine.epoch import Writes

#: The bytes that an entry costs besides its key and value: tuple, timestamp, object headers, its share of the dict.
_OVERHEAD = 250
#: The same of a cell in C: the cell, its key's header, its slots, and its write; the count is a part of it.
_OF_CELL = 220
#: A key and value as large as this are assumed before any are known.
_FIRST_GUESS = bytes(64)
#: So many of the newest writes are measured, and again after so many questions. They are also measured again when there
#: are a quarter more or less of them, and while the estimate is a quarter off.
_SAMPLED, _AGAIN = 8, 16


class EntrySize:
    """The estimate for one store."""

    def __init__(self, *, in_cells: bool = False) -> None:
        self._size = _of_cell if in_cells else _of_objects
        self.bytes = self._size(b"", (_FIRST_GUESS, 0))
        self._asked = self._writes = 0

    def learn(self, key: bytes, entry: Entry) -> None:
        """An entry was read from the engine."""
        self.bytes += (self._size(key, entry) - self.bytes) // 16

    def of(self, writes: Writes) -> int:
        """The bytes of an entry, asked often while these are written: most times it is the last answer."""
        self._asked += 1
        if self._asked >= _AGAIN or 4 * abs(len(writes) - self._writes) > len(writes):
            self.sample(writes)
        return self.bytes

    def sample(self, writes: Writes) -> None:
        """Look at the newest writes."""
        self._asked, self._writes = 0, len(writes)
        # The polling thread asks, and the processing thread may write or start an epoch at this moment: then the
        # estimate stays what it was.
        try:
            sizes = [self._size(key, entry) for key, entry in islice(reversed(writes.writes()), _SAMPLED)]
        except RuntimeError:
            return
        if sizes:
            change = (sum(sizes) // len(sizes) - self.bytes) // 2
            self.bytes += change
            if 4 * abs(change) > self.bytes:
                self._asked = _AGAIN  # far off: look again the next time


def _of_objects(key: bytes, entry: Entry) -> int:
    size = _OVERHEAD + len(key) + sys.getsizeof(entry[0])
    return size + headers_size(entry.headers) if entry.__class__ is LoggedEntry else size


def _of_cell(key: bytes, entry: Entry) -> int:
    return _OF_CELL + len(key)
