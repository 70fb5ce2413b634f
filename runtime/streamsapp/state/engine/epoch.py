"""Holds the writes of one epoch to one store, and merges layers of entries into one.

A running epoch is written, and brought into order, by the processing thread that holds the task. From the moment it is
frozen any thread reads it, on its way through the commit and while it waits for RocksDB. While it waits, the owner of
the task lets it absorb the next epochs, for as long as no thread reads it in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, KeysView, Reversible, Sequence, ValuesView
from itertools import chain, islice
from operator import itemgetter
from threading import Lock
from typing import Any, Protocol, TypeAlias

from sortedcontainers import SortedList

from streamsapp.state.engine.entries import Entry, PhysicalEntry

#: Keys with ``start <= key < end``.
Range: TypeAlias = tuple[bytes, bytes]

#: ``(keys, facts)``: the keys of entries that live, as :meth:`Layout.living` says.
Living: TypeAlias = Callable[[Iterable[bytes], bytes | None], Iterable[bytes]]

#: Take an entry, or a key whose entry is deleted; and where it belongs.
Put: TypeAlias = Callable[[bytes, bytes, Any], object]
Delete: TypeAlias = Callable[[bytes, Any], object]


class Staged(Protocol):
    """Entries on their way to RocksDB, each once."""

    def stage(self, put: Put, delete: Delete, family: Any, limit: int, /) -> int:
        """Gives the next ones, up to so many, to ``put``, and keys of deletions to ``delete``; returns how many."""
        ...


class PhysicalEntries:
    """Entries in their physical form, to be staged."""

    def __init__(self, entries: Iterator[PhysicalEntry]) -> None:
        self._entries = entries

    def stage(self, put: Put, delete: Delete, family: Any, limit: int) -> int:
        staged = 0
        for key, physical in islice(self._entries, limit):
            if physical is None:
                delete(key, family)
            else:
                put(key, physical, family)
            staged += 1
        return staged


class Writes(Protocol):
    """The writes of one epoch to one store, by key: :class:`Epoch`, or the writes of cells in C (``cell_epoch``)."""

    #: Ranges that are deleted after the entries were written; set when the epoch is frozen.
    deleted: Sequence[Range]
    #: The facts that the store's layout knew by then, ``None`` if it knows nothing but its keys.
    facts: bytes | None

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[bytes]: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __getitem__(self, key: bytes, /) -> Entry: ...
    def get(self, key: bytes, /) -> Entry | None: ...
    def keys(self) -> KeysView[bytes]: ...
    def values(self) -> ValuesView[Entry]: ...

    def as_it_is(self, key: bytes, /) -> Entry | None:
        """Returns an entry, or a cell itself if a cell was written."""
        ...

    def writes(self) -> Reversible[tuple[bytes, Entry]]:
        """Returns keys and entries in the order of the writes. A key may come again; then the last one counts."""
        ...

    def behind(self, size: int) -> Iterable[tuple[bytes, Entry]]:
        """Returns the same by the keys without their first ``size`` bytes."""
        ...

    def absorb(self, newer: Writes) -> bool:
        """Takes the entries of a newer frozen epoch, which win, and returns whether it did. It leaves both alone if a
        reader has the keys in order, and so may be reading one entry after the other. It costs the newer entries only,
        and a reader of single keys sees all of them at once."""
        ...

    def waiting(self) -> Writes:
        """Returns a frozen epoch as an epoch that absorbs others; it may be the same object."""
        ...

    def in_order(self, physical: Callable[[Entry], bytes], living: Living, deleted: Sequence[Range]) -> Staged:
        """Returns the entries that live and are not in the deleted ranges, by key and in their physical form."""
        ...

    def between(self, start: bytes, end: bytes | None, *, reverse: bool = False) -> Iterator[bytes]:
        """Returns the keys with ``start <= key < end``, in order; the keys of a running epoch must be taken before it
        is written again."""
        ...


class Epoch(dict[bytes, Entry]):
    """Holds entries by key, and the ranges that are deleted after the entries were written. A store type writes nothing
    to a range that it has expired.

    A dict that only grows keeps its newest keys last. So its keys are sorted when a caller scans, not when they are
    written. A scan costs the keys that were written since the last one, and the keys that it reads.
    """

    __slots__ = ("_lock", "_ordered", "_seen", "deleted", "facts")

    as_it_is = dict.get

    def __init__(self, entries: Iterable[tuple[bytes, Entry]] = ()) -> None:
        super().__init__(entries)
        self.deleted: Sequence[Range] = ()
        self.facts: bytes | None = None
        self._ordered: SortedList[bytes] | None = None
        self._seen = 0
        self._lock = Lock()

    def forget(self, key: bytes) -> None:
        """Takes back a write of the running epoch, as if it had never been made."""
        if self.pop(key, None) is not None and self._ordered is not None and key in self._ordered:
            self._ordered.remove(key)
            self._seen -= 1

    def writes(self) -> Reversible[tuple[bytes, Entry]]:
        return self.items()

    def behind(self, size: int) -> Iterable[tuple[bytes, Entry]]:
        return zip(map(itemgetter(slice(size, None)), self), self.values(), strict=True)

    def absorb(self, newer: Writes) -> bool:
        with self._lock:
            if self._ordered is not None:
                return False
            self.update(newer if isinstance(newer, dict) else newer.writes())
            self.deleted = (*self.deleted, *newer.deleted)
            self.facts = newer.facts
            return True

    def waiting(self) -> Epoch:
        return self

    def in_order(self, physical: Callable[[Entry], bytes], living: Living, deleted: Sequence[Range]) -> Staged:
        keys = without(living(self, self.facts), deleted)
        entry_of = self.__getitem__
        return PhysicalEntries(
            (key, physical(entry) if (entry := entry_of(key))[0] is not None else None) for key in sorted(keys)
        )

    def between(self, start: bytes, end: bytes | None, *, reverse: bool = False) -> Iterator[bytes]:
        with self._lock:
            if self._ordered is None:
                self._ordered = SortedList()
            if len(self) > self._seen:
                self._ordered.update(list(islice(reversed(self), len(self) - self._seen)))
                self._seen = len(self)
        keys: Iterator[bytes] = self._ordered.irange(start, end, inclusive=(True, False), reverse=reverse)
        return keys


def without(keys: Iterable[bytes], deleted: Sequence[Range]) -> Iterable[bytes]:
    """Returns the keys that are in no range, in their order."""
    for start, end in dict(sorted(deleted)).items():  # of one start the furthest end
        keys = [key for key in keys if not start <= key < end]
    return keys


def over(newer: Writes, older: Writes) -> Epoch:
    """Returns two frozen epochs as one, in which the newer wins. Both stay as they are."""
    both = Epoch(older.writes())
    both.deleted = older.deleted
    both.absorb(newer)
    return both


def merged(
    below: Iterator[tuple[bytes, Entry]], above: Iterator[tuple[bytes, Entry]], reverse: bool
) -> Iterator[tuple[bytes, Entry]]:
    """Merges two iterators in the same order, as they are read; the upper one wins, and its deletions hide entries
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
