"""Holds the writes of one epoch to one store, and merges layers of entries into one.

A running epoch is written, and brought into order, by the processing thread that holds the task. From the moment it is
frozen any thread reads it, on its way through the commit and while it waits for RocksDB; while it waits, the owner of
the task lets it absorb the next ones, for as long as nobody reads it in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from threading import Lock
from typing import TypeAlias

from sortedcontainers import SortedList

from streamsapp.state.entries import Entry

#: Keys with ``start <= key < end``.
Range: TypeAlias = tuple[bytes, bytes]


class Epoch(dict[bytes, Entry]):
    """Holds entries by key, and the ranges that are deleted after the entries were written; a store type writes nothing
    to a range that it has expired.

    A dict that only grows keeps its newest keys last, so its keys are brought into order when somebody scans, not when
    they are written: a scan costs the keys that were written since the last one, and those that it reads.
    """

    __slots__ = ("_lock", "_ordered", "_seen", "deleted", "facts")

    def __init__(self, entries: Iterable[tuple[bytes, Entry]] | dict[bytes, Entry] = ()) -> None:
        super().__init__(entries)
        #: Set when the epoch is frozen.
        self.deleted: Sequence[Range] = ()
        #: The facts that the store's layout knew by then, ``None`` if it knows nothing but its keys.
        self.facts: bytes | None = None
        self._ordered: SortedList[bytes] | None = None
        self._seen = 0
        self._lock = Lock()

    def forget(self, key: bytes) -> None:
        """Takes back a write of the running epoch, as if it had never been made."""
        if self.pop(key, None) is not None and self._ordered is not None and key in self._ordered:
            self._ordered.remove(key)
            self._seen -= 1

    def absorb(self, newer: Epoch) -> bool:
        """Takes the entries of a frozen epoch that is newer, which win, and says so; or leaves both alone if somebody
        has the keys in order, and so may be reading one entry after the other. It costs the newer entries only, and a
        reader of single keys sees all of them at once."""
        with self._lock:
            if self._ordered is not None:
                return False
            self.update(newer)
            self.deleted = (*self.deleted, *newer.deleted)
            self.facts = newer.facts
            return True

    def between(self, start: bytes, end: bytes | None, *, reverse: bool = False) -> Iterator[bytes]:
        """Returns the keys with ``start <= key < end``, in order; those of a running epoch must be taken before it is
        written again."""
        with self._lock:
            if self._ordered is None:
                self._ordered = SortedList()
            if len(self) > self._seen:
                self._ordered.update(list(islice(reversed(self), len(self) - self._seen)))
                self._seen = len(self)
        keys: Iterator[bytes] = self._ordered.irange(start, end, inclusive=(True, False), reverse=reverse)
        return keys


def over(newer: Epoch, older: Epoch) -> Epoch:
    """Returns two frozen epochs as one, in which the newer wins. Both stay as they are."""
    both = Epoch(older)
    both.deleted = older.deleted
    both.absorb(newer)
    return both


def merged(
    below: Iterator[tuple[bytes, Entry]], above: Iterator[tuple[bytes, Entry]], reverse: bool
) -> Iterator[tuple[bytes, Entry]]:
    """Merges two iterators in the same order, as they are read; the one above wins, and its deletions hide entries
    below. It costs nothing if there is nothing above."""
    first = next(above, None)
    return below if first is None else _merged(below, chain((first,), above), reverse)


def _merged(
    below: Iterator[tuple[bytes, Entry]], above: Iterator[tuple[bytes, Entry]], reverse: bool
) -> Iterator[tuple[bytes, Entry]]:
    newer = next(above, None)
    for item in below:
        key = item[0]
        while newer is not None and newer[0] != key and (newer[0] < key) != reverse:
            if newer[1][0] is not None:
                yield newer
            newer = next(above, None)
        if newer is not None and newer[0] == key:
            if newer[1][0] is not None:
                yield newer
            newer = next(above, None)
        else:
            yield item
    while newer is not None:
        if newer[1][0] is not None:
            yield newer
        newer = next(above, None)
