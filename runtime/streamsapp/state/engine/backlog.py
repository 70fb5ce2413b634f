"""Holds committed entries that RocksDB does not have yet, for writing to it is the dearest part of a commit.

A commit every 100 ms would write each of its keys at once. Kept here until they are many, a key that changes again
meanwhile is written once, and neighbours are written together. They are committed: reads and queries see them as they
see what RocksDB has. After a crash they are replayed from the changelog, which bounds how many may wait.

Read on processing threads and by queries; taken in and written by the owner of the task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

from streamsapp import native
from streamsapp.state.engine.entries import ABSENT, Entry, EntryFormat, PhysicalEntry
from streamsapp.state.engine.epoch import Epoch, Living, Range, Staged, Writes, merged, over
from streamsapp.state.engine.rocksdb import DatabaseBatch, RocksDBStore

#: An epoch that cannot be absorbed by the one before is merged with it into a new one. An earlier one that is so many
#: times as large is left alone. So few are left to look into, and an entry is copied a few times only, however many
#: commits wait.
_GROWTH = 4

#: Writes per batch: RocksDB's bindings hold the interpreter while a batch is written.
SLICE_SIZE = 2000


class BackloggedStore:
    """The engine of one persistent store: RocksDB, and the entries that RocksDB does not have yet."""

    def __init__(self, store: RocksDBStore, format: EntryFormat, living: Living) -> None:
        """Takes ``living``, which leaves out the keys of entries that no caller asks for any more."""
        self._store = store
        self._living = living
        self._readable, self._physical = format.readable, format.physical
        #: Epochs, the newest first. Replaced as a whole: readers keep what they hold. The newest may absorb the next
        #: one, so a reader that goes through entries one after the other has them in order or copied.
        self._waiting: tuple[Writes, ...] = ()
        #: Records of the changelog of a store that is being restored.
        self._gathered: native.PackedRecords | None = None
        #: Changelog records that epochs stand for.
        self.records = 0
        #: Keys of the newest epoch.
        self.newest = 0

    @property
    def entries(self) -> int:
        """The number of keys that wait, at most: a key that was written in several epochs may count for each."""
        return sum(map(len, self._waiting))

    @property
    def has_commits(self) -> bool:
        """Says whether an epoch waits, if only with ranges that are to be deleted."""
        return bool(self._waiting)

    def take_in(self, epoch: Writes, slice_size: int) -> Iterator[None]:
        """Takes an epoch in one step."""
        older = self._waiting
        newest: Writes
        if older and older[0].absorb(epoch):
            newest, older = older[0], older[1:]
        else:
            newest = epoch.waiting()
        while older and len(newest) * _GROWTH >= len(older[0]):
            newest, older = over(newest, older[0]), older[1:]
        self._waiting = (newest, *older)
        self.newest = len(epoch)
        self.records += len(epoch)
        return iter(())

    def in_order(self) -> Staged:
        """Returns the entries that RocksDB is to get, by key: it takes neighbours faster. Entries that are deleted
        again with the last batch are left out, and so are expired ones. Expiry goes by the time of the newest waiting
        epoch, which is committed. The store's own time belongs to the running epoch."""
        return _merged(self._waiting).in_order(self._physical, self._living, self.deleted)

    @property
    def deleted(self) -> Sequence[Range]:
        """The ranges to be deleted after all entries that wait have been written."""
        return [each for epoch in self._waiting for each in epoch.deleted]

    def stage(self, batch: DatabaseBatch, entries: Staged, limit: int) -> int:
        """Adds up to so many of the entries to a batch; returns how many."""
        return self._store.stage(batch, entries, limit)

    def stage_deleted(self, batch: DatabaseBatch) -> None:
        """Adds the deleted ranges to the batch that is written last."""
        self._store.stage_deleted(batch, self.deleted)

    def restore(self, restored: Sequence[PhysicalEntry], deleted: Sequence[Range]) -> None:
        """Writes to RocksDB in slices. No entry waits while a store is restored."""
        self._store.restore(restored, deleted, SLICE_SIZE)

    def gather(self, packed: native.PackedRecords) -> int:
        """Takes records of the changelog that are written together with others; returns the bytes that are gathered.
        Reads do not see them before. No epoch waits meanwhile."""
        if self._gathered is None:
            self._gathered = packed
        else:
            self._gathered.extend(packed)
        return self._gathered.size

    @property
    def has_gathered(self) -> bool:
        return self._gathered is not None

    def sort_gathered(self) -> bool:
        """Returns whether there are any records to be staged."""
        if self._gathered is not None:
            self._gathered.sort()
        return self._gathered is not None

    def stage_gathered(self, batch: DatabaseBatch, limit: int) -> bool:
        """Adds the next entries of gathered records to a batch; returns whether any are left."""
        gathered = self._gathered
        return gathered is not None and self._store.stage_packed(batch, gathered, limit)

    def written(self) -> None:
        """Forgets the entries that waited: RocksDB has them all."""
        self._waiting = ()
        self._gathered = None
        self.records = self.newest = 0

    def get(self, key: bytes) -> Entry:
        for epoch in self._waiting:
            entry = epoch.get(key)
            if entry is not None:
                return self._seen(entry)
        return self._store.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[Entry]:
        epochs = self._waiting
        if not epochs:
            return self._store.get_many(keys)
        waiting = {key: entry for epoch in reversed(epochs) for key in keys if (entry := epoch.get(key)) is not None}
        missing = [key for key in keys if key not in waiting]
        below = dict(zip(missing, self._store.get_many(missing), strict=True)) if missing else {}
        return [self._seen(waiting[key]) if key in waiting else below[key] for key in keys]

    def scan(self, start: bytes, end: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        # First what waits: written meanwhile, it is seen twice; the other way round it could be missed.
        waiting = self._waiting
        found = self._store.scan(start, end, reverse=reverse)
        for epoch in reversed(waiting):
            found = merged(found, self._in_range(epoch, start, end, reverse), reverse)
        return found

    def count(self) -> int:
        return max(0, self._store.count() + self._store.count_change(dict(_merged(self._waiting).writes())))

    def count_change(self, uncommitted: Mapping[bytes, Entry]) -> int:
        return self._store.count_change(uncommitted)

    def statistics(self) -> dict[str, int]:
        """Returns RocksDB's figures, and the number of keys that wait."""
        return {**self._store.statistics(), "backlog_entries": self.entries}

    def _in_range(self, epoch: Writes, start: bytes, end: bytes | None, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        seen = self._seen
        return ((key, seen(epoch[key])) for key in epoch.between(start, end, reverse=reverse))

    def _seen(self, entry: Entry) -> Entry:
        """Returns an entry that waits. Cells are not changed any more once their epoch is frozen."""
        return ABSENT if entry[0] is None else self._readable((entry[0], entry[1]))


def _merged(epochs: Sequence[Writes]) -> Writes:
    """Merges the layers; the newest come first, and win."""
    return reduce(lambda older, newer: over(newer, older), reversed(epochs)) if epochs else Epoch()
