"""Reads what waiting records need before their turn comes, while a database's files are not all here.

Records are given on the polling thread, and entries read on threads that may wait for blocks. So the blocks of many
records come side by side, and not one round trip after the other. It changes nothing: an entry is read and dropped, and
its block stays in its file. So a guess will do: a record's key is the key of stores, as in aggregations without windows
and in joins with tables. A wrong guess costs a look at RocksDB's filters, which are always here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock
from typing import NamedTuple

from streamsapp.errors import StreamsError
from streamsapp.record import InputRecord
from streamsapp.state.engine.missing_blocks import MissingBlocks

#: Entries of one task that are read at the same time.
READERS = 24
#: Keys that a reader takes in a row, before other tasks get their turn.
_IN_A_ROW = 32
#: Keys that were read lately and are not read again.
_KNOWN = 100_000


class _Batch(NamedTuple):
    """Records of one partition, in the order of their offsets."""

    records: Sequence[InputRecord]
    #: Returns the offset of the next record to be processed; ``None`` if it is not known.
    position: Callable[[], int | None]


class ReadAhead:
    """The records of one task that wait, from the one on that is read next. Safe on several threads."""

    def __init__(self, read: Callable[[bytes], None], missing: MissingBlocks) -> None:
        """``read`` reads the entries of a key, and raises a ``StreamsError`` where it cannot."""
        self._read = read
        self._missing = missing
        self._lock = Lock()
        self._batches: deque[_Batch] = deque()
        self._next = 0
        self._known: set[bytes] = set()
        self._readers = 0

    def add(self, records: Sequence[InputRecord], position: Callable[[], int | None]) -> None:
        """These records of one partition wait from now on."""
        with self._lock:
            self._batches.append(_Batch(records, position))
            begun = max(0, min(READERS - self._readers, len(records)))
            self._readers += begun
        for _ in range(begun):
            self._missing.soon(self._go_on)

    def clear(self) -> None:
        """No record waits any more."""
        with self._lock:
            self._batches.clear()
            self._next = 0

    @property
    def waits(self) -> bool:
        """Says whether a record waits to be read, or is read now."""
        return self._readers > 0

    def _go_on(self) -> None:
        for _ in range(_IN_A_ROW):
            if (key := self._taken()) is None:
                return
            try:
                self._read(key)
            except StreamsError:
                # The task finds out itself, if it still is here when the record's turn comes.
                self.clear()
        self._missing.soon(self._go_on)

    def _taken(self) -> bytes | None:
        """The next key that no reader has had; ``None`` ends a reader."""
        with self._lock:
            while self._batches:
                records, position = self._batches[0]
                processed = position() or 0
                while self._next < len(records):
                    record = records[self._next]
                    self._next += 1
                    if record.offset() >= processed and (key := record.key()) and key not in self._known:
                        if len(self._known) >= _KNOWN:
                            self._known.clear()
                        self._known.add(key)
                        return key
                self._batches.popleft()
                self._next = 0
            self._readers -= 1
            return None
