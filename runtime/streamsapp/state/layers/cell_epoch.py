"""The writes of one epoch to a store whose entries are cells: a log of them in C, with the functions of an epoch that
are seldom needed.

The processing thread writes by the store's cells, and the polling thread reads the log in its order: neither looks up a
key. A thread that looks up a key finds its cell in the caches of the layers, and the cell knows its place in the log.
If the caches may have forgotten cells, or a caller wants keys in order, an index is made of the writes since the last
time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from threading import Lock
from typing import Any

from sortedcontainers import SortedDict

from streamsapp import native
from streamsapp.state.engine.entries import Entry
from streamsapp.state.engine.epoch import Delete, Living, Put, Range, Staged, Writes, without


class _StagedCells:
    """Stages each write of a log once."""

    def __init__(self, log: native.CellLog) -> None:
        self._log = log
        self._at = 0

    def stage(self, put: Put, delete: Delete, family: Any, limit: int) -> int:
        run = self._log[self._at : self._at + limit]
        run.stage(put=put, delete=delete, family=family)
        self._at += len(run)
        return len(run)


class CellEpoch(Mapping[bytes, Entry]):
    """:class:`~streamsapp.state.engine.epoch.Writes` of cells."""

    def __init__(self, log: native.CellLog, since: int, at_hand: Callable[[bytes, int], tuple[Any, bool]]) -> None:
        """Takes the number of the (first) epoch, and a function. The function returns the cell that the caches have of
        a key, or something else. It also says whether they have all cells of the epochs since then."""
        self._since = since
        self._at_hand = at_hand
        self.log = log
        self.deleted: Sequence[Range] = ()
        self.facts: bytes | None = None
        #: The place of each key's last write, of the first ``_seen`` ones. Sorted once a caller wants them in order.
        self._index: dict[bytes, int] = {}
        self._seen = 0
        self._lock = Lock()

    def __len__(self) -> int:
        """Returns the number of writes; that of keys may be less."""
        return len(self.log)

    def __iter__(self) -> Iterator[bytes]:
        with self._lock:
            return iter([*self._positions()])

    def __getitem__(self, key: bytes) -> Entry:
        entry: Entry | None = self.get(key)
        if entry is None:
            raise KeyError(key)
        return entry

    def __contains__(self, key: object) -> bool:
        return isinstance(key, bytes) and self.get(key) is not None

    def get(self, key: bytes, default: Any = None) -> Any:
        cell, is_known = self._at_hand(key, self._since)
        # Once there is an index it is used: a caller that reads one key after the other finds all keys that it was
        # given.
        if self._seen or not is_known:
            with self._lock:
                at = self._positions().get(key)
            return default if at is None else self.log[at][1]
        entry = self.log.entry(cell)
        return default if entry is None else entry

    def as_it_is(self, key: bytes) -> Any:
        """Returns a cell that the caches have forgotten, and are to have again."""
        with self._lock:
            at = self._positions().get(key)
        return None if at is None else self.log.cell(at)

    def writes(self) -> native.CellLog:
        return self.log

    def behind(self, size: int) -> native.CellRun:
        return self.log.behind(size)

    def absorb(self, newer: Writes) -> bool:
        with self._lock:
            if isinstance(self._index, SortedDict) or not isinstance(newer, CellEpoch):
                return False
            self.log.absorb(newer.log)
            self.deleted = (*self.deleted, *newer.deleted)
            self.facts = newer.facts
            return True

    def waiting(self) -> CellEpoch:
        """Returns an epoch of the same writes. Its log knows where the cells have theirs, whatever becomes of them in
        later epochs."""
        epoch = CellEpoch(self.log.only([]), self._since, self._at_hand)
        epoch.absorb(self)
        return epoch

    def in_order(self, physical: object, living: Living, deleted: Sequence[Range]) -> Staged:
        log = self.log.in_order()
        if deleted or self.facts is not None:
            log = log.only([*without(living(log.keys_from(0), self.facts), deleted)])
        return _StagedCells(log)

    def between(self, start: bytes, end: bytes | None, *, reverse: bool = False) -> Iterator[bytes]:
        with self._lock:
            positions = self._positions()
            if not isinstance(positions, SortedDict):
                self._index = positions = SortedDict(positions)
        keys: Iterator[bytes] = positions.irange(start, end, inclusive=(True, False), reverse=reverse)
        return keys

    def _positions(self) -> dict[bytes, int]:
        """Brings the index up to date; the caller holds the lock."""
        if len(self.log) > self._seen:
            keys = self.log.keys_from(self._seen)
            self._index.update(zip(keys, count(self._seen), strict=False))
            self._seen += len(keys)
        return self._index
