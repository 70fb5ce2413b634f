"""All stores of one task, and their way through a commit.

A task's owner calls it: the restoration thread opens and restores, a processing thread reads and writes through
:attr:`TaskStores.stores`, the polling thread freezes (while the task is not processed), applies and closes. Life of a
write::

    operator ──► dirty ── freeze ──► frozen ── changelog_records ──► Kafka, commit
                                       └────── apply, after the commit ──► engine: backlog ──► RocksDB, with the offsets

So an engine never holds what Kafka has not committed, and offsets are never ahead of the data they stand for. RocksDB
gets many commits at once (docs/decisions/0012-backlog.md); closing and copying write what waits first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from threading import Lock

from streamsapp.errors import StateStoreError
from streamsapp.record import InputRecord, TaskId
from streamsapp.serdes.api import AnySerde
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.backlog import BackloggedStore
from streamsapp.state.commit_point import CommitPoint, Inputs, Standing
from streamsapp.state.key_value import KeyValueStoreImpl
from streamsapp.state.memory import MemoryStore
from streamsapp.state.resources import StateResources
from streamsapp.state.rocksdb import DatabaseBatch, RocksDBStore, TaskDatabase, in_key_order, offset_key, remove
from streamsapp.state.slot import FrozenEpoch, Slot, make_slot
from streamsapp.state.views import Readers, StoreView

#: Writes per batch: RocksDB's bindings hold the interpreter while a batch is written.
_SLICE_SIZE = 2000

_TASK_PREFIX = b"task/"

_NO_INPUTS: Inputs = {}


class TaskStores:
    """The stores of one task, in memory and in ``<directory>/rocksdb``."""

    def __init__(
        self,
        task_id: TaskId,
        directory: Path,
        builders: Sequence[StoreBuilder],
        resources: StateResources,
        *,
        default_key_serde: AnySerde,
        default_value_serde: AnySerde,
        context_timestamp: Callable[[], int],
        topics: Mapping[str, str] | None = None,
    ) -> None:
        """``topics`` has the changelog topic of each store, for serdes that depend on it (schema registries)."""
        self._task_id = task_id
        self._directory = directory / "rocksdb"
        self._resources = resources
        self._slots: dict[str, Slot] = {}
        for builder in builders:
            topic = (topics or {}).get(builder.name, builder.name)
            key_serde = (builder.key_serde or default_key_serde).bind(topic, is_key=True)
            value_serde = (builder.value_serde or default_value_serde).bind(topic, is_key=False)
            self._slots[builder.name] = make_slot(builder, key_serde, value_serde, resources, context_timestamp)
        #: The stores as operators and users get them, by name.
        self.stores: Mapping[str, KeyValueStoreImpl] = {name: slot.facade for name, slot in self._slots.items()}
        self._readers = Readers()
        #: The same stores as interactive queries see them, on any thread.
        self.views: Mapping[str, StoreView] = {
            name: StoreView(slot.layers, slot.format, self._readers) for name, slot in self._slots.items()
        }
        self._database: TaskDatabase | None = None
        self._offsets: dict[str, int] = {}
        #: Whether RocksDB lacks entries, offsets or metadata that were applied.
        self._behind = False
        self._metadata: dict[str, bytes] = {}
        self._staged_metadata: dict[str, bytes] = {}
        #: Writing what waits began and did not end. What RocksDB could not take, a full disk for one, it is not asked
        #: to take again when it is closed: it would wait for room for ever, and the changelog has it.
        self._unfinished = False
        self._standing = Standing()
        #: Closing waits for a copy that is being made.
        self._copying = Lock()

    @property
    def families(self) -> dict[str, str]:
        """RocksDB's column family of each persistent store."""
        return {name: slot.family for name, slot in self._slots.items() if slot.builder.engine is Engine.ROCKSDB}

    @property
    def commit_point(self) -> CommitPoint | None:
        """The commit that the stores stand at; ``None`` while they stand at none. Any thread."""
        return self._standing.point

    def open(self) -> None:
        """Open what is on disk, or create it. ``TaskCorruptedError`` asks for :meth:`wipe` before another try."""
        self._behind = self._unfinished = False
        self._offsets, self._metadata = {}, {}  # of a database that may have been wiped since
        persistent = [slot for slot in self._slots.values() if slot.builder.engine is Engine.ROCKSDB]
        if persistent:
            self._database = TaskDatabase(self._directory, [slot.family for slot in persistent], self._resources)
            self._load_metadata(self._database, persistent)
        for slot in self._slots.values():
            slot.engine = self._make_engine(slot)
            slot.layers.attach(slot.engine)
            slot.facade.open()
            self._resources.store_opened()
        self._readers.open()

    def changelog_offset(self, store: str) -> int | None:
        """The offset to restore from, ``None`` if nothing is there. In-memory stores start over when opened."""
        return self._offsets.get(store)

    def restore(self, store: str, records: Sequence[InputRecord], next_offset: int) -> None:
        """Apply raw changelog records, and remember where to go on."""
        slot = self._slots[store]
        with self._standing.restoring():
            if isinstance(slot.engine, MemoryStore):
                slot.engine.write_restored(records)
            else:
                self._restore_persistent(slot, records, next_offset)
            slot.layers.forget_cached()
            self._offsets[store] = next_offset

    def restored(self, changelog_offsets: Mapping[str, int], inputs: Inputs) -> None:
        """All stores are restored: they stand at the commit that these were committed with."""
        self._standing.point = CommitPoint({**changelog_offsets, **self._offsets}, inputs)

    def freeze(self) -> FrozenEpoch | None:
        """Close the running epoch, in constant time; ``None`` if it wrote nothing. One at a time may be frozen."""
        frozen = tuple((slot, epoch) for slot in self._slots.values() if (epoch := slot.layers.freeze()) is not None)
        return FrozenEpoch(frozen) if frozen else None

    def apply(
        self,
        frozen: FrozenEpoch | None,
        changelog_offsets: Mapping[str, int],
        inputs: Inputs = _NO_INPUTS,
        *,
        slice_size: int = _SLICE_SIZE,
    ) -> Iterator[None]:
        """Hand a committed epoch to the engines. What waits for RocksDB is written when it is much, a bounded write per
        step; offsets (the next ones to restore from) and staged metadata come with the last, so replaying from the old
        offsets repairs whatever a crash leaves.

        ``inputs`` are the input offsets that were committed with it. No checkpoint falls between two steps.
        """
        while (left := self._standing.try_to_leave()) is None:
            yield
        try:
            yield from self._move(frozen, changelog_offsets, slice_size)
            self._standing.point = left.moved(changelog_offsets, inputs)
        finally:
            self._standing.rest()
        yield

    def committed(self, inputs: Inputs) -> None:
        """Input offsets were committed, and the stores had not changed."""
        if (point := self._standing.point) is not None:
            self._standing.point = point.moved({}, inputs)

    def _move(
        self, frozen: FrozenEpoch | None, changelog_offsets: Mapping[str, int], slice_size: int
    ) -> Iterator[None]:
        self._behind = True
        for slot, writes in frozen.slots if frozen is not None else ():
            if isinstance(slot.engine, BackloggedStore):
                slot.engine.take_in(writes)
            elif slot.engine is not None:
                items = iter(writes.items())
                while chunk := list(islice(items, slice_size)):
                    slot.engine.write(chunk)
                    yield
            else:
                raise StateStoreError(f"task {self._task_id} was closed while its epoch was being applied")
        for slot in self._slots.values():
            slot.layers.drop_frozen()
        self._take_over(changelog_offsets)
        if self._backlog_due():
            yield from self._write_backlog(slice_size)

    def revert(self) -> None:
        """Forget all that is not applied, staged metadata included: reads see the last commit again."""
        self._staged_metadata.clear()
        for slot in self._slots.values():
            slot.layers.revert()

    def get_metadata(self, key: str) -> bytes | None:
        """A small fact about the task, as of the last commit."""
        return self._metadata.get(key)

    def put_metadata(self, key: str, value: bytes) -> None:
        """Stage a fact; the next :meth:`apply` writes it together with the offsets."""
        self._staged_metadata[key] = value

    @property
    def dirty_entries(self) -> int:
        """Keys written in the running epoch."""
        return sum(slot.layers.dirty_entries for slot in self._slots.values())

    @property
    def uncommitted_bytes(self) -> int:
        """An estimate of what the running and the frozen epoch occupy."""
        return sum(slot.layers.uncommitted_bytes for slot in self._slots.values())

    def flush(self) -> None:
        """Make durable what has been applied and restored."""
        if self._database is not None:
            self._write_backlog_now()
            self._database.flush()

    def checkpoint(self, path: Path) -> CommitPoint | None:
        """A flushed copy of the database in hard links, at a path that must not exist yet; safe while in use.

        Returns the commit that the copy stands at exactly; ``None`` if there is none, and no copy either.
        """
        with self._copying:
            if self._database is None:
                raise StateStoreError(f"task {self._task_id} has no persistent store open to make a checkpoint of")
            # In bulk before, as the stores do not move during the copy: it has only what came in meanwhile to flush.
            self._database.flush_data()
            with self._standing.still() as point:
                if point is not None:
                    self._write_backlog_now()
                    # The copy would flush it too, with the interpreter held meanwhile.
                    self._database.flush_data()
                    self._database.checkpoint(path)
                return point

    def statistics(self) -> dict[str, dict[str, int]]:
        """Figures per store, for the metrics thread. Counted where it costs nothing per record: reads that missed,
        keys per epoch, scans."""
        return {name: slot.statistics() for name, slot in self._slots.items() if slot.engine is not None}

    def close(self) -> None:
        """Flush what was applied and give the directory back; what was not applied is dropped. Queries end first."""
        self._readers.close()
        for slot in self._slots.values():
            slot.facade.close()
            slot.layers.attach(None)
        with self._copying:
            self._standing.point = None
            try:
                if not self._unfinished:
                    self._write_backlog_now()
            finally:
                self._close_engines()

    def wipe(self) -> None:
        """Close, and delete everything on disk."""
        self.close()
        remove(self._directory)

    def _close_engines(self) -> None:
        for slot in self._slots.values():
            if slot.engine is not None:
                self._resources.store_closed()
            slot.engine = None
        if self._database is not None:
            database, self._database = self._database, None
            database.close()

    def _make_engine(self, slot: Slot) -> BackloggedStore | MemoryStore:
        if slot.builder.engine is Engine.MEMORY or self._database is None:
            return MemoryStore(slot.format)
        return BackloggedStore(RocksDBStore(self._database, slot.family, slot.format), slot.format)

    def _load_metadata(self, database: TaskDatabase, persistent: Sequence[Slot]) -> None:
        found = database.metadata()
        for slot in persistent:
            offset = found.get(offset_key(slot.family))
            if offset is not None:
                self._offsets[slot.builder.name] = int.from_bytes(offset, "big", signed=True)
        prefix = len(_TASK_PREFIX)
        self._metadata = {k[prefix:].decode(): v for k, v in found.items() if k.startswith(_TASK_PREFIX)}

    def _restore_persistent(self, slot: Slot, records: Sequence[InputRecord], next_offset: int) -> None:
        """In slices; the offset comes after the last, so a crash in between replays what is there already."""
        self._write_backlog_now()  # of a task that was active here
        engine, database = self._persistent(slot)
        ordered = in_key_order(records)
        for start in range(0, len(ordered), _SLICE_SIZE):
            batch = database.batch()
            engine.stage_restored(batch, ordered[start : start + _SLICE_SIZE])
            database.write(batch)
        batch = database.batch()
        batch.put_metadata(offset_key(slot.family), _offset_value(next_offset))
        database.write(batch)

    def _persistent(self, slot: Slot) -> tuple[BackloggedStore, TaskDatabase]:
        if not isinstance(slot.engine, BackloggedStore) or self._database is None:
            raise StateStoreError(f"state store {slot.builder.name!r} of task {self._task_id} is not open")
        return slot.engine, self._database

    @property
    def _backlogs(self) -> list[BackloggedStore]:
        return [slot.engine for slot in self._slots.values() if isinstance(slot.engine, BackloggedStore)]

    def _take_over(self, changelog_offsets: Mapping[str, int]) -> None:
        """The commit is in the engines: so are its offsets and the staged facts."""
        self._offsets.update(changelog_offsets)
        self._metadata.update(self._staged_metadata)
        self._staged_metadata.clear()

    def _backlog_due(self) -> bool:
        """Whether what waits is as much as may be replayed after a crash, or may be kept in memory, or is in the way of
        those who iterate."""
        bytes_waiting = records = 0
        scanned = False
        for slot in self._slots.values():
            if isinstance(slot.engine, BackloggedStore):
                bytes_waiting += slot.engine.entries * slot.layers.entry_bytes
                records += slot.engine.records
                scanned = slot.engine.take_scanned() or scanned
        share = self._resources.backlog_share(len(self._slots))
        return scanned or records > share.records or bytes_waiting > share.bytes

    def _write_backlog_now(self) -> None:
        if self._behind:
            for _ in self._write_backlog(_SLICE_SIZE):
                pass

    def _write_backlog(self, slice_size: int) -> Iterator[None]:
        database = self._database
        if database is None:
            return
        self._unfinished = True
        batch, room = database.batch(), slice_size
        for engine in self._backlogs:
            waiting = engine.in_order()
            while chunk := list(islice(waiting, room)):
                engine.stage(batch, chunk)
                room -= len(chunk)
                if room == 0:
                    database.write(batch)
                    yield
                    batch, room = database.batch(), slice_size
        database.write(self._facts(batch))
        for engine in self._backlogs:
            engine.written()
        self._behind = self._unfinished = False

    def _facts(self, batch: DatabaseBatch) -> DatabaseBatch:
        for store, offset in self._offsets.items():
            slot = self._slots[store]
            if isinstance(slot.engine, BackloggedStore):
                batch.put_metadata(offset_key(slot.family), _offset_value(offset))
        for key, value in self._metadata.items():
            batch.put_metadata(_TASK_PREFIX + key.encode(), value)
        return batch


def _offset_value(offset: int) -> bytes:
    return offset.to_bytes(8, "big", signed=True)
