"""Committed entries on their way into RocksDB, which is the dearest part of a commit.

A commit every 100 ms would write each of its keys at once. Kept here until they are many, a key that changes again
meanwhile is written once, and neighbours are written together. They are committed: reads and queries see them as they
see what RocksDB has. After a crash they are replayed from the changelog, which bounds how many may wait.

Read on processing threads and by queries; taken in and written by the owner of the task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from streamsapp.record import InputRecord
from streamsapp.state.entries import ABSENT, Entry, EntryFormat
from streamsapp.state.merging import merged
from streamsapp.state.rocksdb import DatabaseBatch, RocksDBStore

#: A read that misses the caches looks into each of so many epochs; more are merged, which copies what all of them hold.
_MOST_EPOCHS = 8


class BackloggedStore:
    """The engine of one persistent store: RocksDB, and what it does not have yet."""

    def __init__(self, store: RocksDBStore, format: EntryFormat) -> None:
        self._store = store
        self._readable = format.readable
        #: Epochs, the newest first. Replaced as a whole, never changed: readers keep what they hold.
        self._waiting: tuple[Mapping[bytes, Entry], ...] = ()
        #: Changelog records they stand for.
        self.records = 0
        #: Whether somebody iterated since the last look: that takes the waiting entries in order.
        self._scanned = False

    @property
    def entries(self) -> int:
        """Keys that wait, at most: one that was written in several epochs may count for each."""
        return sum(map(len, self._waiting))

    def take_in(self, writes: Mapping[bytes, Entry]) -> None:
        """A committed epoch, as long as it is seen in the write-back layer too."""
        waiting = (writes, *self._waiting)
        self._waiting = (_merged(waiting),) if len(waiting) > _MOST_EPOCHS else waiting
        self.records += len(writes)

    def in_order(self) -> Iterator[tuple[bytes, Entry]]:
        """All that wait, by key: RocksDB takes neighbours faster."""
        waiting = _merged(self._waiting)
        return zip(keys := sorted(waiting), map(waiting.__getitem__, keys), strict=True)

    def stage(self, batch: DatabaseBatch, writes: Sequence[tuple[bytes, Entry]]) -> None:
        """Add some of them to a batch."""
        self._store.stage(batch, writes)

    def stage_restored(self, batch: DatabaseBatch, records: Sequence[InputRecord]) -> None:
        """Add changelog records to a batch; nothing waits meanwhile."""
        self._store.stage_restored(batch, records)

    def written(self) -> None:
        """RocksDB has them all."""
        self._waiting = ()
        self.records = 0

    def take_scanned(self) -> bool:
        """Whether somebody iterated since this was last asked."""
        scanned, self._scanned = self._scanned, False
        return scanned

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
        waiting = {key: epoch[key] for epoch in reversed(epochs) for key in keys if key in epoch}
        missing = [key for key in keys if key not in waiting]
        below = dict(zip(missing, self._store.get_many(missing), strict=True)) if missing else {}
        return [self._seen(waiting[key]) if key in waiting else below[key] for key in keys]

    def scan(self, start: bytes, end: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        self._scanned = True
        # First what waits: written meanwhile, it is seen twice; the other way round it could be missed.
        waiting = _merged(self._waiting)
        below = self._store.scan(start, end, reverse=reverse)
        if not waiting:
            return below
        keys = sorted((key for key in waiting if start <= key and (end is None or key < end)), reverse=reverse)
        return merged(below, [(key, self._seen(waiting[key])) for key in keys], reverse) if keys else below

    def count(self) -> int:
        return max(0, self._store.count() + self._store.count_change(_merged(self._waiting)))

    def count_change(self, uncommitted: Mapping[bytes, Entry]) -> int:
        return self._store.count_change(uncommitted)

    def statistics(self) -> dict[str, int]:
        """RocksDB's figures, and how many keys wait."""
        return {**self._store.statistics(), "backlog_entries": self.entries}

    def _seen(self, entry: Entry) -> Entry:
        """Cells are not changed any more once their epoch is frozen."""
        return ABSENT if entry[0] is None else self._readable((entry[0], entry[1]))


def _merged(epochs: Sequence[Mapping[bytes, Entry]]) -> Mapping[bytes, Entry]:
    """The newest come first, and win."""
    merged_epochs: dict[bytes, Entry] = {}
    for epoch in reversed(epochs):
        merged_epochs.update(epoch)
    return merged_epochs
