"""The part of a task's stores that outlives the process: RocksDB, the entries that wait for it, and the offsets that it
stands for.

A part of :class:`~streamsapp.state.task_stores.TaskStores`, on whatever thread calls it. RocksDB gets many commits at
once (docs/decisions/0012-backlog.md). Offsets and facts come with the last slice: so replaying from the offsets that
are there repairs what a crash leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from streamsapp import native
from streamsapp.state.engine.backlog import SLICE_SIZE, BackloggedStore
from streamsapp.state.engine.entries import PhysicalEntry
from streamsapp.state.engine.missing_blocks import MissingBlocks
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.engine.rocksdb import DatabaseBatch, RocksDBStore, TaskDatabase, offset_key, provenance_key
from streamsapp.state.engine.store_engine import StoreEngine
from streamsapp.state.engine.write_stalls import WriteStalls
from streamsapp.state.managed_store import ManagedStore
from streamsapp.state.provenance import Provenance

_TASK_PREFIX = b"task/"
_LAYOUT_PREFIX = b"layout/"
#: Records of a changelog are written at the latest when they are so many: some share of what a memtable holds. Requests
#: to the restoration thread wait meanwhile, for a tenth of a second.
_GATHERED_BYTES = 16 << 20


class Persistence:
    """The open database of one task."""

    def __init__(
        self,
        directory: Path,
        stores: Sequence[ManagedStore],
        resources: StateResources,
        missing: MissingBlocks | None = None,
    ) -> None:
        """Opens or creates the database for these stores. ``missing`` has the blocks that its files lack."""
        self._database = TaskDatabase(directory, [store.family for store in stores], resources, missing)
        self._resources = resources
        self._stores = {store.name: store for store in stores}
        self._engines = {
            store.name: BackloggedStore(
                RocksDBStore(self._database, store.family, store.format), store.format, store.layout.living
            )
            for store in stores
        }
        #: The next changelog offset of each store, and facts about the task: as applied, perhaps not yet written.
        self.offsets: dict[str, int] = {}
        self.metadata: dict[str, bytes] = {}
        #: Of each store, as far as it is known; written with the offsets, and when the database is closed.
        self.provenance: dict[str, Provenance] = {}
        self._provenance_written: dict[str, Provenance] = {}
        #: Says whether RocksDB lacks entries, offsets or metadata that were applied.
        self._behind = False
        #: Writing what waits began and did not end. If RocksDB could not write the entries, as on a full disk, it is
        #: not asked again when it is closed. It would wait for room for ever, and the changelog has them.
        self._unfinished = False
        self._found = self._load()

    @property
    def whole(self) -> bool:
        """Says whether all files of the database are here."""
        return self._database.whole

    @property
    def write_stalls(self) -> WriteStalls:
        """The times in which RocksDB took no writes."""
        return self._database.stalls

    def bring(self, stores: Sequence[str], key: bytes) -> None:
        """Reads the entries of a key, so that the blocks are here that have them."""
        for store in stores:
            self._database.get(self._stores[store].family, key)

    def bring_no_more(self) -> None:
        """The database is about to be closed: reads that wait for blocks end."""
        self._database.bring_no_more()

    def engine(self, store: str) -> StoreEngine:
        return self._engines[store]

    def layout_facts(self, store: str) -> bytes | None:
        """Returns the facts that the store's layout knew when the database was opened."""
        return self._found.get(_LAYOUT_PREFIX + self._stores[store].family.encode())

    def restore(self, store: ManagedStore, restored: Sequence[PhysicalEntry], next_offset: int) -> None:
        """Writes entries in slices. The offset comes after the last, so a crash in between replays records that are
        there already."""
        engine = self._engines[store.name]
        if engine.has_gathered or self._commits_wait:
            self.write_now()
        engine.restore(restored, store.layout.take_expired())
        store.facts = store.layout.facts()
        self.offsets[store.name] = next_offset
        self._database.write(self._put_position(self._database.batch(), store, next_offset))

    def restore_packed(
        self, store: ManagedStore, packed: native.PackedRecords, next_offset: int, *, at_once: bool
    ) -> None:
        """Takes records of a changelog, and writes them when they are many: keys that lie close together take RocksDB
        a fraction of the time."""
        engine = self._engines[store.name]
        if self._commits_wait:
            self.write_now()
        size = engine.gather(packed)
        self.offsets[store.name] = next_offset
        self._behind = True
        if at_once or size >= min(_GATHERED_BYTES, self._resources.backlog_share(1).bytes):
            self.write_now()

    @property
    def _commits_wait(self) -> bool:
        """Says whether there are any of a task that was active here, and is restored now."""
        return any(engine.has_commits for engine in self._engines.values())

    def write_gathered(self) -> None:
        """Writes the records of changelogs that are gathered."""
        if any(engine.has_gathered for engine in self._engines.values()):
            self.write_now()

    def applied(self, changelog_offsets: Mapping[str, int], metadata: Mapping[str, bytes]) -> None:
        """Notes the offsets that the stores stand for, after the engines took an epoch."""
        self._behind = True
        self.offsets |= {name: offset for name, offset in changelog_offsets.items() if name in self._engines}
        self.metadata |= metadata

    @property
    def due(self) -> bool:
        """Says whether as many entries wait as may be replayed after a crash. Also true if they leave no room for as
        many uncommitted writes as there were last, and as many again while these are committed."""
        records, size = 0, self.waiting_bytes
        for name, engine in self._engines.items():
            records += engine.records
            size += 2 * engine.newest * self._stores[name].layers.entry_bytes
        share = self._resources.backlog_share(len(self._engines))
        return records > share.records or size > share.bytes

    @property
    def waiting_bytes(self) -> int:
        """An estimate of the bytes of the entries that wait."""
        total = 0
        for name, engine in self._engines.items():
            if entries := engine.entries:
                total += entries * self._stores[name].layers.entry_bytes
        return total

    def write(self, slice_size: int) -> Iterator[None]:
        """Writes the entries that wait, a bounded batch per step."""
        database = self._database
        self._unfinished = True
        for engine in self._engines.values():
            left = engine.sort_gathered()
            while left:
                batch = database.batch()
                left = engine.stage_gathered(batch, slice_size)
                database.write(batch)
                yield
        batch, room = database.batch(), slice_size
        for engine in self._engines.values():
            waiting = engine.in_order()
            while staged := engine.stage(batch, waiting, room):
                room -= staged
                if room == 0:
                    database.write(batch)
                    yield
                    batch, room = database.batch(), slice_size
        for engine in self._engines.values():
            engine.stage_deleted(batch)
        database.write(self._facts(batch))
        for engine in self._engines.values():
            engine.written()
        self._behind = self._unfinished = False

    def write_now(self) -> None:
        """Writes the entries that wait at one go."""
        if self._behind:
            for _ in self.write(SLICE_SIZE):
                pass

    def flush(self) -> None:
        """Makes everything durable that has been applied and restored."""
        self.write_now()
        self._database.flush()

    def flush_data(self) -> None:
        """Makes most of the written data durable; writers do not wait."""
        self._database.flush_data()

    def checkpoint(self, path: Path) -> None:
        """Makes a flushed copy with the entries that wait, in hard links, at a path that must not exist yet."""
        self.write_now()
        # The copy would flush it too, with the interpreter held meanwhile.
        self._database.flush_data()
        self._database.checkpoint(path)

    def close(self) -> None:
        """Writes the entries that wait and gives the directory back."""
        try:
            if not self._unfinished:
                self._behind = self._behind or self.provenance != self._provenance_written
                self.write_now()
        finally:
            self._database.close()

    def _load(self) -> dict[bytes, bytes]:
        found = self._database.metadata()
        for name, store in self._stores.items():
            offset = found.get(offset_key(store.family))
            if offset is not None:
                self.offsets[name] = int.from_bytes(offset, "big", signed=True)
                if (kept := found.get(provenance_key(store.family))) is not None:
                    self.provenance[name] = Provenance.decode(kept)
        self._provenance_written = dict(self.provenance)
        prefix = len(_TASK_PREFIX)
        self.metadata = {k[prefix:].decode(): v for k, v in found.items() if k.startswith(_TASK_PREFIX)}
        return found

    def _facts(self, batch: DatabaseBatch) -> DatabaseBatch:
        for name, offset in self.offsets.items():
            self._put_position(batch, self._stores[name], offset)
        for key, value in self.metadata.items():
            batch.put_metadata(_TASK_PREFIX + key.encode(), value)
        return batch

    def _put_position(self, batch: DatabaseBatch, store: ManagedStore, offset: int) -> DatabaseBatch:
        batch.put_metadata(offset_key(store.family), offset.to_bytes(8, "big", signed=True))
        if (kept := self.provenance.get(store.name)) is not None:
            batch.put_metadata(provenance_key(store.family), kept.encode())
            self._provenance_written[store.name] = kept
        if store.facts is not None:
            batch.put_metadata(_LAYOUT_PREFIX + store.family.encode(), store.facts)
        return batch
