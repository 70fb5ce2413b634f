"""The write-back layer of one store: writes since the last commit, and entries that were read or written lately.

Reads and writes run on the processing thread that holds the task, and so does ``freeze``, between two records. The
polling thread drains and drops the frozen epoch while processing goes on. It never touches ``live`` or ``dirty``, and
drops ``frozen`` only after the engine below holds it. So a read that misses it there finds it here. Interactive queries
look in from any thread by ``peek``, which reads ``dirty``, ``frozen`` and the engine alone.

Layers, newest first::

    live      everything written or read lately; only a cache, emptied at will
    dirty     written in the running epoch
    frozen    written in the epoch that is being committed, if one is
    old       the previous generation of live
    committed the engine: RocksDB or memory
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamsapp import native
from streamsapp.errors import StateStoreError
from streamsapp.state.engine.entries import ABSENT, Entry, EntryFormat
from streamsapp.state.engine.epoch import Epoch, Writes, merged
from streamsapp.state.engine.headers import HeadersFormat
from streamsapp.state.engine.store_engine import Reads
from streamsapp.state.layers.cell_epoch import CellEpoch
from streamsapp.state.layers.entry_size import EntrySize
from streamsapp.state.layers.read_cache import ANY_TIME, ReadCache, Unwritten

if TYPE_CHECKING:
    # It imports RocksDB, which the operator does not have: it reads manifests, whose options describe stores.
    from streamsapp.state.engine.resources import StateResources


#: The part of the read cache, in bytes of stored values, whose values may be kept beside them: as objects they take
#: about three times as much.
_KEPT_SHARE = 8
#: The sizes of the first entries that are read are taken, and later that of one in so many.
_FEW_MISSES, _SAMPLED_MISSES = 64, 8


@dataclass(slots=True)
class LayerFigures:
    """The number of things that the layers were asked for since they were made."""

    read_misses: int = 0
    scans: int = 0
    written_keys: int = 0


class WriteBack:
    """Holds the layers above one store's engine. ``read`` and ``write`` may be held on to: they stay valid for its
    life."""

    def __init__(
        self,
        format: EntryFormat,
        resources: StateResources,
        *,
        keeps_timestamps: bool,
        unwritten_from: Callable[[], bytes] = bytes,
        in_cells: bool = False,
        start_at: int = 0,
    ) -> None:
        """Takes ``unwritten_from``, which returns the key from which on nothing was ever written, or ``b""``. Further:
        whether entries are cells, as where all stored values are longs with a timestamp; and how many bytes before the
        end of a key the start of its window stands, 0 if it has none."""
        self._format = format
        self._resources = resources
        self._live = ReadCache(self._load)
        self._unwritten = Unwritten(unwritten_from)
        #: The entries that are cells, instead of the live ones.
        self.cells: native.Cells | None = native.Cells(load=self._load, start_at=start_at) if in_cells else None
        #: The number of the running epoch.
        self.epoch = 0
        #: The number of the last epoch in which the caches forgot entries that may have been written in it, or before.
        self._forgotten = -1
        self._dirty = self._begun()
        self._frozen: Writes | None = None
        self._on_forgotten: Callable[[int], None] = lambda latest: None
        self._committed: Reads | None = None
        self._entry_size = EntrySize(in_cells=in_cells)
        self.figures = LayerFigures()
        self.read: Callable[[bytes], Entry] = self._live.__getitem__ if self.cells is None else self.cells.read
        self.write: Callable[[bytes, object, int], None] = (
            self.cells.write
            if self.cells is not None
            else self._write_timestamped
            if keeps_timestamps
            else self._write_plain
        )

    def attach(self, committed: Reads | None) -> None:
        """Puts the layers on an engine; ``None`` takes it away, and reads that miss raise."""
        self.revert()
        self._give_room()
        self._committed = committed

    @property
    def _cache(self) -> ReadCache | native.Cells:
        return self._live if self.cells is None else self.cells

    def _begun(self) -> Any:
        """Returns the writes of an epoch that begins: an :class:`Epoch`, unless they are cells."""
        return Epoch() if self.cells is None else CellEpoch(self.cells.begin(), self.epoch, self._at_hand)

    def _write_timestamped(self, key: bytes, stored: object, timestamp: int) -> None:
        self._dirty[key] = entry = (stored, timestamp)
        self._live[key] = ABSENT if stored is None else entry

    def _write_plain(self, key: bytes, stored: object, timestamp: int) -> None:
        self._dirty[key] = (stored, timestamp)
        self._live[key] = (stored, -1)

    def append(self, key: bytes, entry: Entry) -> None:
        """Writes an entry that is read in scans and by ``peek`` only, past the cache."""
        self._dirty[key] = entry

    def on_forgotten(self, told: Callable[[int], None]) -> None:
        """Has ``told`` called, on the processing thread, when the cache has forgotten entries. It gets the latest time
        at which the window of one of them begins, ``ANY_TIME`` where that is not known."""
        self._on_forgotten = told

    def running(self, key: bytes) -> Entry | None:
        """Returns the last write of a key in the running epoch, also if that is a deletion."""
        entry: Entry | None = self._dirty.get(key)
        return entry

    def forget(self, key: bytes) -> None:
        """Takes back what :meth:`append` brought into the store in the running epoch. Nothing else hears of it, and
        neither the changelog nor the engine gets a deletion."""
        self._dirty.forget(key)

    def is_dirty(self, key: bytes) -> bool:
        """Says whether a key was written or deleted in the running epoch."""
        return key in self._dirty

    def prefetch(self, keys: Iterable[bytes]) -> None:
        """Brings keys that will be read soon into memory with one call to the engine."""
        cache = self._cache
        wanted = [key for key in dict.fromkeys(keys) if key not in cache]
        if not wanted:
            return
        self.figures.read_misses += len(wanted)
        missing: list[bytes] = []
        for key in wanted:
            entry = self._uncommitted_or_old(key)
            if entry is None:
                missing.append(key)
            else:
                cache.put(key, entry)
        if missing:
            entries = self._engine().get_many(missing)
            for key, entry in zip(missing, entries, strict=True):
                cache.put(key, entry)
            self._entry_size.learn(missing[-1], entries[-1])
        self._evict_if_full()

    def scan(self, start: bytes, end: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        """Iterates over the entries with ``start <= key < end`` in byte order, as they are now whatever is written
        later."""
        self.figures.scans += 1
        # First the uncommitted layers, then the engine's view: an epoch applied in between is then seen in both. The
        # other way round it could be seen in neither.
        frozen, dirty = self._frozen, self._dirty
        # A copy of each: the running epoch goes on, and its cells change, while a caller iterates.
        running = list(self._in_range(dirty, start, end, reverse))
        found = self._below(frozen, start, end, reverse)
        return merged(found, iter(running), reverse) if running else found

    def look(self, start: bytes, end: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        """Scans for as long as nothing is written: it costs no more than the entries that are taken of it."""
        self.figures.scans += 1
        return merged(
            self._below(self._frozen, start, end, reverse), self._in_range(self._dirty, start, end, reverse), reverse
        )

    def peek(self, key: bytes, *, committed: bool) -> Entry:
        """Returns an entry, on any thread, and leaves no trace in the caches. ``committed`` reads the engine alone. Of
        a cell that is being changed, value and timestamp may be those of two records in a row."""
        if not committed:
            # Newest first, as epochs move: an entry that is missed in one layer was then seen in the layer it comes
            # from.
            entry = self._dirty.get(key)
            if entry is None and (frozen := self._frozen) is not None:
                entry = frozen.get(key)
            if entry is not None:
                return self._format.readable((entry[0], entry[1]))
        return self._engine().get(key)

    def peek_range(self, start: bytes, end: bytes | None, *, committed: bool) -> Iterator[tuple[bytes, Entry]]:
        """Iterates over the entries with ``start <= key < end`` in byte order, for a thread that does not hold the
        task."""
        overlay = [] if committed else self._peek_overlay(start, end)
        found = self._engine().scan(start, end, reverse=False)
        return merged(found, iter(overlay), False)

    def _peek_overlay(self, start: bytes, end: bytes | None) -> list[tuple[bytes, Entry]]:
        # Unlike in ``scan``, as the order of the running epoch's keys is the processing thread's to keep. ``list``
        # copies the keys of a dictionary in one go, while a thread writes to it.
        dirty = self._dirty
        epochs = (self._frozen or Epoch(), dirty)
        entries: dict[bytes, Entry] = {}
        for epoch in epochs:
            for key in list(epoch):
                # It may have been taken back meanwhile.
                if start <= key and (end is None or key < end) and (entry := epoch.get(key)) is not None:
                    entries[key] = entry
        readable = self._format.readable
        return [(key, readable((entries[key][0], entries[key][1]))) for key in sorted(entries)]

    def count(self) -> int:
        """Returns the number of entries, estimated or exact as the engine counts."""
        engine = self._engine()
        uncommitted: dict[bytes, Entry] = {}
        for epoch in (self._frozen, self._dirty):
            uncommitted.update(() if epoch is None else epoch.writes())
        return max(0, engine.count() + engine.count_change(uncommitted))

    def freeze(self) -> Writes | None:
        """Closes the running epoch and starts the next."""
        if self._frozen is not None:
            raise StateStoreError("an epoch is still being committed; apply or revert it before freezing the next")
        if not self._dirty:
            return None
        self._entry_size.sample(self._dirty)
        self._give_room()
        self.figures.written_keys += len(self._dirty)
        self.epoch += 1
        self._frozen, self._dirty = self._dirty, self._begun()
        self._evict_if_full()
        return self._frozen

    def drop_frozen(self) -> None:
        """Drops the frozen epoch: the engine holds it now."""
        self._frozen = None

    def revert(self) -> None:
        """Forgets the writes since the last applied epoch, and all caches."""
        self.forget_cached()
        self.epoch += 1
        self._dirty = self._begun()
        self._frozen = None

    def forget_cached(self) -> None:
        """Empties the caches, after a write below this layer."""
        self._forgotten = self.epoch
        self._cache.clear()
        self._unwritten.forget()
        self._on_forgotten(ANY_TIME)

    @property
    def dirty_entries(self) -> int:
        return len(self._dirty)

    @property
    def uncommitted_entries(self) -> int:
        return len(self._dirty) + len(self._frozen or ())

    @property
    def uncommitted_bytes(self) -> int:
        """An estimate of the bytes, from the sizes of the newest writes."""
        return (len(self._dirty) + len(self._frozen or ())) * self._entry_size.of(self._dirty)

    @property
    def entry_bytes(self) -> int:
        """Returns an estimate of the bytes that an entry occupies."""
        return self._entry_size.bytes

    def room(self) -> int:
        """Returns how many entries fit into this store's share of the read cache."""
        return self._resources.read_cache_share // self._entry_size.bytes

    def _give_room(self) -> None:
        """Bounds the values that are kept beside their bytes: the number of stores that share the cache changes."""
        if (kept := self._format.kept) is not None:
            kept.room = self._resources.read_cache_share // _KEPT_SHARE

    @property
    def cached_entries(self) -> int:
        return len(self._cache) + self._cache.older

    def _load(self, key: bytes) -> Entry:
        """Returns an entry that is not in the cache, which remembers it."""
        # The way of every key that comes for the first time: a call that it can do without is not made.
        unwritten, figures = self._unwritten, self.figures
        if unwritten.begin and key >= unwritten.begin:
            return ABSENT
        figures.read_misses += 1
        entry = self._uncommitted_or_old(key)
        if entry is None:
            committed = self._committed
            entry = (self._engine() if committed is None else committed).get(key)
            if figures.read_misses < _FEW_MISSES or not figures.read_misses % _SAMPLED_MISSES:
                self._entry_size.learn(key, entry)
        self._evict_if_full()
        if unwritten.begin is None:
            unwritten.learn()
        return entry

    def _at_hand(self, key: bytes, since: int) -> tuple[Any, bool]:
        """Returns the entry that the cache has of a key, if it has one; and whether it has every cell that was written
        since that epoch began. On any thread."""
        return self._cache.at_hand(key), since > self._forgotten

    def _uncommitted_or_old(self, key: bytes) -> Entry | None:
        in_cells, frozen = self.cells is not None, self._frozen
        # The cache has all cells that were written in the running epoch and the one before, or may have forgotten some.
        if not in_cells or self.epoch - 1 <= self._forgotten:
            entry = self._dirty.as_it_is(key)
            if entry is None and frozen is not None:
                entry = frozen.as_it_is(key)
            if entry is not None:
                return entry if in_cells else self._format.readable(entry)
        return self._cache.at_hand(key)

    def _in_range(self, epoch: Writes, start: bytes, end: bytes | None, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        readable = self._format.readable
        keys = epoch.between(start, end, reverse=reverse)
        return ((key, readable((entry[0], entry[1]))) for key in keys for entry in (epoch[key],))

    def _below(
        self, frozen: Writes | None, start: bytes, end: bytes | None, reverse: bool
    ) -> Iterator[tuple[bytes, Entry]]:
        found = self._engine().scan(start, end, reverse=reverse)
        return found if frozen is None else merged(found, self._in_range(frozen, start, end, reverse), reverse)

    def _engine(self) -> Reads:
        if self._committed is None:
            raise StateStoreError("the state store is closed; stores may be used only while their task is open")
        return self._committed

    def _evict_if_full(self) -> None:
        cache = self._cache
        if len(cache) * self._entry_size.bytes > self._resources.read_cache_share:
            if cache.older:
                # Before it does, as others may ask for a key meanwhile. Cells of the last two epochs stay.
                self._forgotten = max(self._forgotten, self.epoch - 2)
            latest = cache.grow_old()
            self._unwritten.forget()
            self._on_forgotten(latest)


class HeadedWriteBack(WriteBack):
    """The layers above a store that keeps headers: a deletion has those of the record in process."""

    def append(self, key: bytes, entry: Entry) -> None:
        assert isinstance(self._format, HeadersFormat)
        self._dirty[key] = entry if entry[0] is not None else self._format.deletion(entry[1])

    def _write_timestamped(self, key: bytes, stored: object, timestamp: int) -> None:
        self.append(key, (stored, timestamp))
        self._live[key] = self._format.readable((stored, timestamp))

    _write_plain = _write_timestamped
