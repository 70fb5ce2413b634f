"""The bytes that an entry of a store takes in memory, by estimate: of some entries that were read and written lately.

Used by the write-back layer, on the thread that works on it; the polling thread asks too.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from itertools import islice

from streamsapp.state.entries import Entry
from streamsapp.state.epoch import Writes

#: The bytes that an entry costs besides its key and value: tuple, timestamp, object headers, its share of the dict.
_OVERHEAD = 250
_FIRST_ESTIMATE = _OVERHEAD + 100
#: Of the newest writes so many are looked at, and again after so many questions, when there are a quarter more or less
#: of them, or while the estimate is a quarter off.
_SAMPLED, _AGAIN = 8, 16


class EntrySize:
    """The estimate for one store."""

    def __init__(self) -> None:
        self.bytes = _FIRST_ESTIMATE
        self._asked = self._writes = 0

    def learn(self, key: bytes, entry: Entry) -> None:
        """An entry was read from the engine."""
        self.bytes += (_size(key, entry) - self.bytes) // 16

    def of(self, writes: Writes) -> int:
        """The bytes of an entry, asked often while these are written: most times it is the last answer."""
        self._asked += 1
        if self._asked >= _AGAIN or 4 * abs(len(writes) - self._writes) > len(writes):
            self.sample(writes)
        return self.bytes

    def sample(self, writes: Writes) -> None:
        """Look at the newest writes."""
        self._asked, self._writes = 0, len(writes)
        # The polling thread asks, and the one that processes may write or start an epoch at this moment: then the
        # estimate stays what it was.
        with suppress(RuntimeError):
            sizes = [_size(key, entry) for key, entry in islice(reversed(writes.writes()), _SAMPLED)]
            if sizes:
                change = (sum(sizes) // len(sizes) - self.bytes) // 2
                self.bytes += change
                if 4 * abs(change) > self.bytes:
                    self._asked = _AGAIN  # far off: look again the next time


def _size(key: bytes, entry: Entry) -> int:
    return _OVERHEAD + len(key) + sys.getsizeof(entry[0])
