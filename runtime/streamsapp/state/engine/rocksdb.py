"""Keeps all persistent stores of a task in one RocksDB: a column family per store, and the default one for metadata.

Opened and restored on the restoration thread, read on processing threads, written on the polling thread after a commit.
It writes no log of its own: Kafka's changelog is the log. So writes are durable only once flushed, and they are always
flushed together with the offsets they stand for.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import TypeVar

from rocksdict import Checkpoint, ColumnFamily, DbClosedError, Rdict, RdictIter, Snapshot, WriteBatch, WriteOptions

from streamsapp import native
from streamsapp.errors import StateStoreError, StreamsError, TaskCorruptedError
from streamsapp.state.engine.entries import ABSENT, Entry, EntryFormat, PhysicalEntry, TimestampedFormat
from streamsapp.state.engine.epoch import PhysicalEntries, Range, Staged
from streamsapp.state.engine.missing_blocks import INCOMPLETE, Filling, MissingBlocks, block_of, read_each
from streamsapp.state.engine.resources import MOST_FILES, StateResources
from streamsapp.state.engine.write_stalls import Cause, WriteStalls

T = TypeVar("T")

log = logging.getLogger(__name__)

#: The family that every RocksDB has anyway; a family of its own would cost each task one more memtable.
_METADATA_FAMILY = "default"
#: RocksDB's words for a write that would have to wait, and the time for which it is left alone then. A write that an
#: error keeps waiting is refused with the words of that error.
_STALLED, _ASK_AGAIN_SECONDS = "Write stall", 0.005
#: After so many refusals in a row, ten seconds or more, the log says so.
_MANY_REFUSALS = 2000


class TaskDatabase:
    """The RocksDB of one task."""

    def __init__(
        self,
        directory: Path,
        families: Sequence[str],
        resources: StateResources,
        missing: MissingBlocks | None = None,
    ) -> None:
        """Opens or creates the database. ``missing`` has the blocks that its files lack.

        Families that are not listed belong to stores that the topology no longer has. They are kept, with their
        offsets: a store that returns, as when an upgrade is rolled back, continues from there.
        """
        self._unlogged = WriteOptions()
        self._unlogged.disable_wal = True  # type: ignore[method-assign,assignment]  # a property; the stubs are wrong
        self._asking = WriteOptions()
        self._asking.disable_wal = self._asking.no_slowdown = True  # type: ignore[method-assign,assignment]
        self._write_lock = Lock()
        self.stalls = WriteStalls()
        self._scans: weakref.WeakSet[Generator[tuple[bytes, bytes], None, None]] = weakref.WeakSet()
        self._directory = directory
        self._missing = missing
        #: Says whether all of its files are here.
        self.whole = missing is None
        self._closed = False
        if missing is None and (directory / INCOMPLETE).exists():
            raise TaskCorruptedError(f"the state in {directory} is not whole, and is restored: its process ended early")
        options = resources.options if missing is None else resources.unmerged_options
        with translated_errors(directory):
            directory.mkdir(parents=True, exist_ok=True)
            existing = Rdict.list_cf(str(directory), options) if (directory / "CURRENT").exists() else []
            every = dict.fromkeys({*families, *existing} - {_METADATA_FAMILY}, options)
            self._db = self._read(lambda: Rdict(str(directory), options, column_families=every))
            self._families = {name: self._db.get_column_family(name) for name in families}
        if missing is not None:
            missing.when_whole(partial(self._merge, tuple(every)))
        if left := sorted(every.keys() - set(families)):
            log.info("%s: kept the data of stores that the topology does not have: %s", directory, ", ".join(left))

    def _read(self, action: Callable[[], T]) -> T:
        """The result of a read, for which blocks that are missing are brought."""
        return action() if self._missing is None else Filling(self._missing).read(action)

    def _merge(self, families: Sequence[str]) -> None:
        """All files are whole: RocksDB may merge them from now on. Any thread."""
        with self._write_lock:
            if self._closed:  # the directory may be the next one's
                return
            for opened in (self._db, *map(self._db.get_column_family, families)):
                opened.set_options({"disable_auto_compactions": "false"})
            self.whole = True
            (self._directory / INCOMPLETE).unlink(missing_ok=True)

    def batch(self) -> DatabaseBatch:
        """Returns an empty batch."""
        return DatabaseBatch(self._db)

    def write(self, batch: DatabaseBatch) -> None:
        """Applies a batch as a whole. It holds the interpreter for about 1.5 µs an entry, so batches are kept small."""
        with translated_errors(self._directory), self._write_lock:
            self._wait_until_writable()
            self._db.write(batch.writes, self._unlogged)

    def _wait_until_writable(self) -> None:
        """RocksDB stops writers while its flushes or compactions are behind. A writer that waits there holds the
        interpreter, and waits for ever once a flush has found no room on the disk. A writer that asks again gets an
        error."""
        began = time.monotonic()
        try:
            for refused in count(1):
                try:
                    self._db.write(WriteBatch(raw_mode=True), self._asking)
                    return
                except Exception as error:
                    if _STALLED not in str(error):
                        raise
                if refused == _MANY_REFUSALS:
                    log.warning("%s: RocksDB is behind and takes no writes; the disk is slow or full", self._directory)
                time.sleep(_ASK_AGAIN_SECONDS)
                self.stalls.goes_on(self._behind_with, time.monotonic() - began)
        finally:
            self.stalls.ended()

    @property
    def _behind_with(self) -> Cause:
        """Return the cause of a stall: so many files of a store wait to be merged, or its write buffers are full."""
        counts = (family.property_value("rocksdb.num-files-at-level0") for family in self._families.values())
        return "compaction" if any(int(each or 0) >= MOST_FILES for each in counts) else "flush"

    def get(self, family: str, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._families[family].get(key)
        except Exception as error:  # not translated_errors: entering that costs a third of this call
            if self._missing is not None and block_of(error) is not None:
                return self._get_filling(family, [key])[0]
            raise _translated(self._directory, error) from error
        return value

    def get_many(self, family: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Returns several entries. It is cheaper per key than :meth:`get`, and other threads run meanwhile."""
        try:
            values: list[bytes | None] = self._families[family].get(list(keys))  # type: ignore[assignment]
        except Exception as error:
            if self._missing is not None and block_of(error) is not None:
                return self._get_filling(family, keys)
            raise _translated(self._directory, error) from error
        return values

    def _get_filling(self, family: str, keys: Sequence[bytes]) -> list[bytes | None]:
        assert self._missing is not None
        with translated_errors(self._directory):
            return read_each(self._missing, self._families[family].get, keys)

    def scan(self, family: str, start: bytes, end: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        """Iterates over the entries with ``start <= key < end`` as they are now; the view is taken before this
        returns."""
        opened = self._families[family]
        if not self.whole:
            entries = self._entries_filling(opened, start, end, reverse)
        else:
            with translated_errors(self._directory):
                cursor = _positioned(opened.iter(), start, end, reverse)
            entries = self._entries(cursor, start, end, reverse)
        self._scans.add(entries)
        return entries

    def metadata(self) -> dict[bytes, bytes]:
        """Returns all metadata."""
        if not self.whole:
            return dict(self._entries_filling(self._db, b"", None, False))
        with translated_errors(self._directory):
            cursor = self._db.iter()
            cursor.seek_to_first()
        return dict(self._entries(cursor, b"", None, False))

    def _entries_filling(
        self, opened: Rdict, start: bytes, end: bytes | None, reverse: bool
    ) -> Generator[tuple[bytes, bytes], None, None]:
        """Yields entries as they are now: a cursor that lacks a block cannot go on, and another one of the same view
        does."""
        assert self._missing is not None
        with translated_errors(self._directory):
            view = opened.snapshot()
        return self._entries_of(view, Filling(self._missing), start, end, reverse)

    def _entries_of(
        self, view: Snapshot, filling: Filling, start: bytes, end: bytes | None, reverse: bool
    ) -> Generator[tuple[bytes, bytes], None, None]:
        while True:
            cursor = _positioned(view.iter(), start, end, reverse)
            try:
                for key, value in self._entries(cursor, start, end, reverse):
                    yield key, value
                    start, end = (start, key) if reverse else (key + b"\0", end)
                return
            except TaskCorruptedError as error:
                if not filling.brought(error):
                    raise

    def _entries(
        self, cursor: RdictIter, start: bytes, end: bytes | None, reverse: bool
    ) -> Generator[tuple[bytes, bytes], None, None]:
        """Yields the entries that a cursor meets within the bounds. RocksDB's iterators end at a block that they cannot
        read as they end at the last key. Only their status shows the difference, so ``Rdict.items()``, which does not
        ask for it, is used nowhere."""
        # No iterate bounds: in rocksdict 0.3.29 they point at memory that is already freed.
        key_of, value_of, step = cursor.key, cursor.value, cursor.prev if reverse else cursor.next
        with translated_errors(self._directory):
            key = key_of()
            if reverse and key is not None and key == end:
                step()
                key = key_of()
            while key is not None and (start <= key if reverse else end is None or key < end):
                yield key, value_of()
                step()
                key = key_of()
            if key is None:
                cursor.status()

    def property(self, family: str, name: str) -> int:
        """Returns one of RocksDB's integer properties; 0 if it has none."""
        with translated_errors(self._directory):
            return self._families[family].property_int_value(f"rocksdb.{name}") or 0

    def flush_data(self) -> None:
        """Makes most of the written data durable; writers do not wait."""
        with translated_errors(self._directory):
            for family in self._families.values():
                family.flush()

    def flush(self) -> None:
        """Makes the written data durable. RocksDB flushes one family at a time when asked from outside, so the metadata
        comes last. Only the writes that came in during the bulk are flushed while writers wait."""
        self.flush_data()
        with translated_errors(self._directory), self._write_lock:
            for family in self._families.values():
                family.flush()
            self._db.flush()

    def checkpoint(self, path: Path) -> None:
        """Makes a copy in hard links; RocksDB flushes all families together for it."""
        with translated_errors(self._directory):
            path.parent.mkdir(parents=True, exist_ok=True)
            Checkpoint(self._db).create_checkpoint(str(path))

    def bring_no_more(self) -> None:
        """Blocks that are missing are not brought any more, and reads that wait for one end."""
        if self._missing is not None:
            self._missing.close()
            with self._write_lock:
                self._closed = True

    def close(self) -> None:
        """Flushes and gives the directory back, also if the flush fails; that error is raised at the end."""
        self.bring_no_more()
        for scan in list(self._scans):  # they hold the database open
            scan.close()
        try:
            self.flush()
        except StreamsError:
            # Closing flushes once more, family by family; offsets must not get through where data did not.
            self._db.cancel_all_background(True)
            raise
        finally:
            for opened in (*self._families.values(), self._db):
                with suppress(Exception):
                    opened.close()


def _positioned(cursor: RdictIter, start: bytes, end: bytes | None, reverse: bool) -> RdictIter:
    if not reverse:
        cursor.seek(start)
    elif end is None:
        cursor.seek_to_last()
    else:
        cursor.seek_for_prev(end)
    return cursor


def provenance_key(family: str) -> bytes:
    """Returns the metadata key of the origin of a family's entries."""
    return b"origin/" + family.encode()


def offset_key(family: str) -> bytes:
    """Returns the metadata key of the offset of a family's changelog."""
    return b"offset/" + family.encode()


class DatabaseBatch:
    """Writes that are applied together."""

    def __init__(self, db: Rdict) -> None:
        self.writes = WriteBatch(raw_mode=True)
        self._db = db

    def family(self, name: str) -> ColumnFamily:
        """Returns the handle for :attr:`writes`; it is not to be kept, for it holds the database open."""
        return self._db.get_column_family_handle(name)

    def put_metadata(self, key: bytes, value: bytes) -> None:
        self.writes.put(key, value)


class RocksDBStore:
    """The engine of one persistent store: a column family and the way its entries are written."""

    def __init__(self, database: TaskDatabase, family: str, format: EntryFormat) -> None:
        self._database = database
        self._family = family
        self._format = format
        self._entry = format.entry

    def get(self, key: bytes) -> Entry:
        physical = self._database.get(self._family, key)
        return ABSENT if physical is None else self._entry(physical)

    def get_many(self, keys: Sequence[bytes]) -> list[Entry]:
        entry = self._entry
        found = self._database.get_many(self._family, keys)
        return [ABSENT if physical is None else entry(physical) for physical in found]

    def scan(self, start: bytes, end: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        entry = self._entry
        found = self._database.scan(self._family, start, end, reverse)
        return ((key, entry(physical)) for key, physical in found)

    def count(self) -> int:
        return self._database.property(self._family, "estimate-num-keys")

    def count_change(self, uncommitted: Mapping[bytes, Entry]) -> int:
        """Counts as RocksDB does: a write is a new key, a deletion takes one away."""
        return sum(-1 if stored is None else 1 for stored, _ in uncommitted.values())

    def statistics(self) -> dict[str, int]:
        """Returns figures that RocksDB keeps anyway."""
        names = (
            "estimate-num-keys",
            "cur-size-all-mem-tables",
            "total-sst-files-size",
            "estimate-pending-compaction-bytes",
            "is-write-stopped",
        )
        return {
            **{name.replace("-", "_"): self._database.property(self._family, name) for name in names},
            "write_stall_milliseconds": round(1000 * self._database.stalls.seconds),
            "write_stall_longest_milliseconds": round(1000 * self._database.stalls.longest),
        }

    def stage(self, batch: DatabaseBatch, entries: Staged, limit: int) -> int:
        """Adds up to so many of the entries to a batch; returns how many."""
        return entries.stage(batch.writes.put, batch.writes.delete, batch.family(self._family), limit)

    def stage_deleted(self, batch: DatabaseBatch, ranges: Iterable[Range]) -> None:
        """Add the deletion of whole ranges to a batch, after what it has."""
        family = batch.family(self._family)
        for start, end in ranges:
            batch.writes.delete_range(start, end, family)

    def stage_packed(self, batch: DatabaseBatch, packed: native.PackedRecords, limit: int) -> bool:
        """Adds up to so many of the sorted entries to a batch; returns whether any are left."""
        return packed.stage(
            put=batch.writes.put,
            delete=batch.writes.delete,
            family=batch.family(self._family),
            limit=limit,
            timestamped=isinstance(self._format, TimestampedFormat),
        )

    def restore(self, restored: Sequence[PhysicalEntry], deleted: Sequence[Range], slice_size: int) -> None:
        """Writes entries of changelogs, then deletions; of a key's values the last wins.

        RocksDB takes neighbours much faster than keys here and there, by more than sorting costs; writes of one key
        stay in their order.
        """
        ordered = PhysicalEntries(iter(sorted(restored, key=itemgetter(0))))
        batch = self._database.batch()
        while self.stage(batch, ordered, slice_size):
            self._database.write(batch)
            batch = self._database.batch()
        if deleted:
            batch = self._database.batch()
            self.stage_deleted(batch, deleted)
            self._database.write(batch)


def remove(directory: Path) -> None:
    """Deletes a directory of state and everything below it."""
    with translated_errors(directory):
        if directory.exists():
            shutil.rmtree(directory)


@contextmanager
def translated_errors(directory: Path) -> Iterator[None]:
    """Turns whatever RocksDB or the file system raises into an error that names the directory and the remedy."""
    try:
        yield
    except StreamsError:
        raise
    except Exception as error:
        raise _translated(directory, error) from error


def _translated(directory: Path, error: Exception) -> StreamsError:
    if isinstance(error, DbClosedError):
        return StateStoreError(f"the state in {directory} is closed; its task is no longer open here")
    text = str(error)
    for applies, remedy in _REMEDIES:
        if applies(text):
            return StateStoreError(f"the state in {directory} cannot be used: {text.strip()}; {remedy}")
    if "Corruption" in text or "No such file" in text:
        return TaskCorruptedError(f"the state in {directory} is damaged and will be restored: {text.strip()}")
    return StateStoreError(f"the state in {directory} cannot be used: {text.strip()}")


def _mentions(*fragments: str) -> Callable[[str], bool]:
    return lambda text: any(fragment in text for fragment in fragments)


_REMEDIES: tuple[tuple[Callable[[str], bool], str], ...] = (
    (
        _mentions(os.strerror(errno.ENOSPC), os.strerror(errno.EFBIG), os.strerror(errno.EDQUOT)),
        "free or enlarge the disk of the state directory; nothing that was committed is lost",
    ),
    (
        _mentions(os.strerror(errno.EACCES), os.strerror(errno.EROFS), os.strerror(errno.EPERM)),
        "give this user the right to write there, or set another state directory",
    ),
    (
        _mentions("lock hold by current process", "While lock file"),
        "another instance uses it; give each instance a state directory of its own",
    ),
    (_mentions(os.strerror(errno.EMFILE)), "raise the limit of open files (ulimit -n)"),
)
