"""Holds all stores of one task, and takes them through commits.

A task's owner calls it. The restoration thread opens and restores. A processing thread reads and writes through
:attr:`TaskStores.stores`, and freezes the running epoch between two records. The polling thread applies and closes. The
life of a write::

    operator ──► dirty ── freeze ──► frozen ── changelog records ──► Kafka, commit
                                       └────── apply, after the commit ──► engine: backlog ──► RocksDB, with the offsets

So an engine never holds what Kafka has not committed, and offsets are never ahead of the data they stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from streamsapp import native
from streamsapp.errors import StateStoreError
from streamsapp.record import InputRecord, TaskId
from streamsapp.serdes.api import AnySerde, DefaultSerdes, or_configured
from streamsapp.state.api import StoreBuilder
from streamsapp.state.commit_point import CommitPoint, Inputs, Standing
from streamsapp.state.engine.backlog import SLICE_SIZE
from streamsapp.state.engine.memory_engine import MemoryStore
from streamsapp.state.engine.missing_blocks import MissingBlocks
from streamsapp.state.engine.read_ahead import ReadAhead
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.engine.rocksdb import remove
from streamsapp.state.engine.segments import Segments
from streamsapp.state.engine.write_stalls import WriteStalls
from streamsapp.state.kinds.store_type import KEPT_FOR
from streamsapp.state.layers.views import Readers, StoreView
from streamsapp.state.managed_store import FrozenEpoch, ManagedStore, StoreChanges
from streamsapp.state.persistence import Persistence
from streamsapp.state.provenance import Provenance

_NO_INPUTS: Inputs = {}
#: Entries that are looked at together.
_CHUNK = 1_000


class Expiry(NamedTuple):
    """The changelog of a store that expires by stream time."""

    store: str
    #: The topic's setting; the store's type says how many milliseconds it needs when stream time is now.
    setting: str
    kept_ms: int
    stream_time: int


class TaskStores:
    """The stores of one task, in memory and in ``<directory>/rocksdb``."""

    def __init__(
        self,
        task_id: TaskId,
        directory: Path,
        builders: Sequence[StoreBuilder],
        resources: StateResources,
        *,
        default_serdes: tuple[AnySerde, AnySerde],
        context_timestamp: Callable[[], int],
        topics: Mapping[str, str] | None = None,
    ) -> None:
        """Takes the serdes of keys and values for stores that have none of their own. ``topics`` has the changelog
        topic of each store, for serdes that depend on it (schema registries)."""
        self._task_id = task_id
        self._directory = directory / "rocksdb"
        self._resources = resources
        self._readers = Readers()
        self._managed: dict[str, ManagedStore] = {}
        defaults = DefaultSerdes(*default_serdes)
        for builder in builders:
            topic = (topics or {}).get(builder.name, builder.name)
            serdes = (
                (builder.key_serde or defaults.key).bind(topic, is_key=True),
                or_configured(builder.value_serde, defaults).bind(topic, is_key=False),
            )
            self._managed[builder.name] = ManagedStore(builder, serdes, resources, context_timestamp, self._readers)
        #: The stores as operators and users get them, by name.
        self.stores: Mapping[str, Any] = {name: store.facade for name, store in self._managed.items()}
        #: The same stores as interactive queries see them, on any thread.
        self.views: Mapping[str, StoreView] = {
            name: store.view for name, store in self._managed.items() if store.view is not None
        }
        #: Reads what waiting records need, while files of the database are not here.
        self.read_ahead: ReadAhead | None = None
        self._persistence: Persistence | None = None
        #: Of stores in memory, as far as they were restored since they were opened.
        self._offsets: dict[str, int] = {}
        self._metadata: dict[str, bytes] = {}
        self._staged_metadata: dict[str, bytes] = {}
        self._standing = Standing()
        #: Commits that had something of this task, counted by the polling thread.
        self.commits = 0
        #: Closing waits for a copy that is being made.
        self._copying = Lock()

    @property
    def families(self) -> dict[str, str]:
        """The RocksDB column family of each persistent store."""
        return {name: store.family for name, store in self._managed.items() if store.persistent}

    def living(self, store: str, entries: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        """Yields entries of a store, which may be those of another database, without the ones that no caller asks for
        any more at the time where this store stands: whether a database has them yet depends on when it was
        committed."""
        managed, left = self._managed[store], iter(entries)
        while chunk := dict(islice(left, _CHUNK)):
            for key in managed.layout.living(chunk, managed.facts):
                yield key, chunk[key]

    def expiries(self) -> Iterator[Expiry]:
        """Returns the stores whose changelogs expire, as far as anything was written to them, without stores whose
        topics' retention the program sets itself. Any thread may ask."""
        for name, store in self._managed.items():
            layout, builder = store.layout, store.builder
            for setting in KEPT_FOR:
                needed = builder.type.changelog_settings.get(setting)
                if needed is None or setting in builder.log_config or not store.logged:
                    continue
                if isinstance(layout, Segments) and layout.stream_time >= 0:
                    yield Expiry(name, setting, int(needed), layout.stream_time)

    @property
    def commit_point(self) -> CommitPoint | None:
        """The commit that the stores stand at; ``None`` while they stand at none. Any thread may read it."""
        return self._standing.point

    def open(self, missing: MissingBlocks | None = None) -> None:
        """Opens the database on disk, or creates it. ``missing`` has the blocks that its files lack.
        ``TaskCorruptedError`` asks for :meth:`wipe` before another try."""
        self._offsets, self._metadata = {}, {}  # of a database that may have been wiped since
        persistent = [store for store in self._managed.values() if store.persistent]
        if persistent:
            self._persistence = Persistence(self._directory, persistent, self._resources, missing)
            self._offsets.update(self._persistence.offsets)
            self._metadata.update(self._persistence.metadata)
        for store in self._managed.values():
            if self._persistence is not None and store.persistent:
                store.open(self._persistence.engine(store.name), self._persistence.layout_facts(store.name))
            else:
                store.open(MemoryStore(store.format), None)
            self._resources.store_opened()
        self._readers.open()
        if missing is not None and (found := [each.name for each in persistent if each.takes_record_keys]):
            self._begin_read_ahead(missing, found)

    def _begin_read_ahead(self, missing: MissingBlocks, stores: Sequence[str]) -> None:
        """Until all files are here, when nothing more is done per record."""

        def read(key: bytes) -> None:
            with self._readers.reading():
                if (persistence := self._persistence) is not None:
                    persistence.bring(stores, key)

        def end() -> None:
            if self.read_ahead is begun:
                self.read_ahead = None

        self.read_ahead = begun = ReadAhead(read, missing)
        missing.when_whole(end)

    def changelog_offset(self, store: str) -> int | None:
        """Returns the offset to restore from, ``None`` if nothing is there. In-memory stores start over when opened."""
        return self._offsets.get(store)

    def provenance(self, store: str) -> Provenance:
        """Returns the origin of a store's entries, as far as it is known. Stores in memory begin with none."""
        kept = {} if self._persistence is None else self._persistence.provenance
        return kept.get(store, Provenance())

    def note_origin(self, store: str, origin: Provenance) -> None:
        """Notes the origin of a store's entries; it is written with the next offsets, or when the stores are closed."""
        if self._persistence is not None and self._managed[store].persistent:
            self._persistence.provenance[store] = origin

    def note_fresh(self, store: str, at_ms: int) -> None:
        """Notes that a store had all that its changelog had at a time."""
        kept = self.provenance(store)
        if at_ms != kept.fresh_at_ms:  # also an earlier time: a clock that was ahead has been set
            self.note_origin(store, Provenance(kept.topic, at_ms))

    def restore(self, store: str, records: Sequence[InputRecord], next_offset: int) -> None:
        """Applies raw changelog records, and remembers the offset to go on from."""
        managed = self._managed[store]
        with self._standing.restoring():
            restored = managed.layout.restored(records, managed.format, managed.engine)
            if managed.persistent and self._persistence is not None:
                self._persistence.restore(managed, restored, next_offset)
            else:
                managed.engine.restore(restored, managed.layout.take_expired())
                managed.facts = managed.layout.facts()
            managed.layers.forget_cached()
            self._offsets[store] = next_offset

    def takes_packed(self, store: str) -> bool:
        """Says whether :meth:`restore_packed` may be called for a store."""
        return self._managed[store].takes_packed

    def restore_packed(self, store: str, packed: native.PackedRecords, next_offset: int, *, at_once: bool) -> None:
        """Applies records of a changelog as :meth:`restore` does. They are written together with later ones, and read
        when they are written, unless this is to be ``at_once``; :meth:`write_restored` writes the last ones."""
        managed = self._managed[store]
        assert self._persistence is not None, "a store in RocksDB is open"
        with self._standing.restoring():
            self._persistence.restore_packed(managed, packed, next_offset, at_once=at_once)
            managed.layers.forget_cached()
            self._offsets[store] = next_offset

    def write_restored(self) -> None:
        """Writes what :meth:`restore_packed` has left."""
        if self._persistence is not None:
            self._persistence.write_gathered()

    def restored(self, changelog_offsets: Mapping[str, int], inputs: Inputs) -> None:
        """Notes that all stores are restored: they stand at the commit that these offsets were committed with."""
        self._standing.point = CommitPoint({**changelog_offsets, **self._offsets}, inputs)

    def freeze(self) -> FrozenEpoch | None:
        """Closes the running epoch in constant time; returns ``None`` if it wrote nothing. Only one epoch at a time may
        be frozen."""
        frozen = tuple(
            StoreChanges(store, epoch) for store in self._managed.values() if (epoch := store.freeze()) is not None
        )
        return FrozenEpoch(frozen) if frozen else None

    def apply(
        self,
        frozen: FrozenEpoch | None,
        changelog_offsets: Mapping[str, int],
        inputs: Inputs = _NO_INPUTS,
        *,
        slice_size: int = SLICE_SIZE,
    ) -> Iterator[None]:
        """Hands a committed epoch to the engines. Entries that wait for RocksDB are written when they are many, a
        bounded write per step. Offsets (the next ones to restore from) and staged metadata come with the last.

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
        """Notes that input offsets were committed, while the stores had not changed."""
        if (point := self._standing.point) is not None:
            self._standing.point = point.moved({}, inputs)

    def _move(
        self, frozen: FrozenEpoch | None, changelog_offsets: Mapping[str, int], slice_size: int
    ) -> Iterator[None]:
        for changes in frozen.stores if frozen is not None else ():
            yield from changes.store.apply(changes.epoch, slice_size)
        for store in self._managed.values():
            store.layers.drop_frozen()
        self._offsets.update(changelog_offsets)
        self._metadata.update(self._staged_metadata)
        self._staged_metadata.clear()
        if self._persistence is not None:
            self._persistence.applied(changelog_offsets, self._metadata)
            if self._persistence.due:
                yield from self._persistence.write(slice_size)

    def revert(self) -> None:
        """Forgets all writes that are not applied, staged metadata included: reads see the last commit again."""
        self._staged_metadata.clear()
        for store in self._managed.values():
            store.revert()

    def get_metadata(self, key: str) -> bytes | None:
        """Returns a small fact about the task, as of the last commit."""
        return self._metadata.get(key)

    def put_metadata(self, key: str, value: bytes) -> None:
        """Stages a fact; the next :meth:`apply` writes it together with the offsets."""
        self._staged_metadata[key] = value

    @property
    def dirty_entries(self) -> int:
        """The number of keys written in the running epoch."""
        return sum(store.layers.dirty_entries for store in self._managed.values())

    @property
    def uncommitted_bytes(self) -> int:
        """An estimate of the bytes that the running and the frozen epoch occupy."""
        total = 0
        for store in self._managed.values():
            total += store.layers.uncommitted_bytes
        return total

    @property
    def unwritten_bytes(self) -> int:
        """An estimate of the bytes of all writes that are only in memory: uncommitted ones, and committed ones that
        wait for RocksDB."""
        persistence = self._persistence
        return self.uncommitted_bytes + (0 if persistence is None else persistence.waiting_bytes)

    @property
    def is_writing_due(self) -> bool:
        """Says whether committed writes have waited for RocksDB until they are many."""
        return self._persistence is not None and self._persistence.due

    @property
    def write_stalls(self) -> WriteStalls | None:
        """The times in which RocksDB took no writes, since the stores were opened; ``None`` without stores on disk."""
        persistence = self._persistence
        return None if persistence is None else persistence.write_stalls

    def flush(self) -> None:
        """Makes everything durable that has been applied and restored."""
        if self._persistence is not None:
            self._persistence.flush()

    def checkpoint(self, path: Path) -> CommitPoint | None:
        """Copies the flushed database in hard links to a path that must not exist yet; this is safe while it is in use.

        Returns the commit that the copy stands at exactly; returns ``None``, and makes no copy, if there is none, or
        while a part of the database's files is not here.
        """
        with self._copying:
            if self._persistence is None:
                raise StateStoreError(f"task {self._task_id} has no persistent store open to make a checkpoint of")
            if not self._persistence.whole:
                return None
            # In bulk before, as the stores do not move during the copy: it has only what came in meanwhile to flush.
            self._persistence.flush_data()
            with self._standing.still() as point:
                if point is not None:
                    self._persistence.checkpoint(path)
                return point

    def count(self, store: str) -> int:
        """Counts the committed entries of an open store, one by one, on the thread that applies epochs."""
        managed = self._managed[store]
        return sum(1 for _ in managed.engine.scan(b"", managed.layout.behind_entries, reverse=False))

    def statistics(self) -> dict[str, dict[str, int]]:
        """Returns figures per store, for the metrics thread. They cost nothing per record to count: reads that missed,
        keys per epoch, scans."""
        return {name: store.statistics() for name, store in self._managed.items() if store.is_open}

    def close(self) -> None:
        """Flushes the applied writes and gives the directory back; writes that were not applied are dropped. Queries
        end first."""
        self.read_ahead = None
        if self._persistence is not None:
            self._persistence.bring_no_more()
        self._readers.close()
        for store in self._managed.values():
            if store.is_open:
                self._resources.store_closed()
            store.close()
        with self._copying:
            self._standing.point = None
            persistence, self._persistence = self._persistence, None
            if persistence is not None:
                persistence.close()

    def read_only(self, store: str, why: str) -> Any:
        """Returns a store for others to read, on any thread, while this task writes it; ``why`` they cannot write it is
        part of the error's message."""
        return self._managed[store].read_only(why)

    def wipe(self) -> None:
        """Closes the stores, and deletes everything on disk."""
        self.close()
        remove(self._directory)
