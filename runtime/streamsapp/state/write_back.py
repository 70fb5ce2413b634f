"""The write-back layer of one store: writes since the last commit, and entries that were read or written lately.

Reads and writes run on the processing thread that holds the task, and so does ``freeze``, between two records. The
polling thread drains and drops the frozen epoch while processing goes on: it never touches ``live`` or
``dirty``, and drops ``frozen`` only after the engine below holds it, so a read that misses it there finds it here.
Interactive queries look in from any thread by ``peek``, which reads ``dirty``, ``frozen`` and the engine alone.

Layers, newest first::

    live      everything written or read lately; only a cache, emptied at will
    dirty     written in the running epoch
    frozen    written in the epoch that is being committed, if one is
    old       the previous generation of live
    committed the engine: RocksDB or memory
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Protocol

from streamsapp.errors import StateStoreError
from streamsapp.state.engine import Reads
from streamsapp.state.entries import ABSENT, Cell, Entry, EntryFormat
from streamsapp.state.epoch import Epoch, merged
from streamsapp.state.resources import StateResources

#: The bytes that an entry costs besides its key and value: tuple, timestamp, object headers, its share of the dict.
_ENTRY_OVERHEAD = 250
_FIRST_ESTIMATE = _ENTRY_OVERHEAD + 100
_SAMPLED_ENTRIES = 8


class _ReadCache(dict[bytes, Entry]):
    """A dict that asks for keys it misses, so that a hot read is one lookup in C."""

    __slots__ = ("_complete_from", "_load", "_unwritten_from")

    def __init__(self, load: Callable[[bytes], Entry], unwritten_from: Callable[[], bytes]) -> None:
        super().__init__()
        self._load = load
        self._unwritten_from = unwritten_from
        #: Keys from this one on that are missing do not exist; ``None`` if this is not known since it was cleared.
        self._complete_from: bytes | None = None

    def __missing__(self, key: bytes) -> Entry:
        if self._complete_from is None:
            entry = self._load(key)
            self._complete_from = self._unwritten_from()
            return entry
        if self._complete_from and key >= self._complete_from:
            return ABSENT
        return self._load(key)

    def clear(self) -> None:
        super().clear()
        self._complete_from = None


class Companion(Protocol):
    """A cache that somebody keeps beside that of the layers, of entries that it reads and writes itself."""

    def __len__(self) -> int: ...

    def forget(self) -> None:
        """Begins anew, after somebody wrote or reverted what lies below."""
        ...

    def make_room(self, room: int) -> None:
        """Keeps about ``room`` entries; called between two epochs."""
        ...


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
    ) -> None:
        """Takes ``unwritten_from``, which tells the key from which on nothing was ever written, or ``b""``."""
        self._readable = format.readable
        self._resources = resources
        self._live = _ReadCache(self._load, unwritten_from)
        self._dirty = Epoch()
        #: Number of the running epoch: cells that carry it may be changed in place.
        self.epoch = 0
        self._frozen: Epoch | None = None
        self._old: dict[bytes, Entry] = {}
        self._companion: Companion | None = None
        self._committed: Reads | None = None
        self._entry_bytes = _FIRST_ESTIMATE
        self.misses = 0
        self.scans = 0
        self.written_keys = 0
        self.read: Callable[[bytes], Entry] = self._live.__getitem__
        self.write: Callable[[bytes, object, int], None] = (
            self._write_timestamped if keeps_timestamps else self._write_plain
        )

    def attach(self, committed: Reads | None) -> None:
        """Puts the layers on an engine; ``None`` takes it away, and reads that miss raise."""
        self.revert()
        self._committed = committed

    def _write_timestamped(self, key: bytes, stored: object, timestamp: int) -> None:
        self._dirty[key] = entry = (stored, timestamp)
        self._live[key] = ABSENT if stored is None else entry

    def _write_plain(self, key: bytes, stored: object, timestamp: int) -> None:
        self._dirty[key] = (stored, timestamp)
        self._live[key] = (stored, -1)

    def append(self, key: bytes, entry: Entry) -> None:
        """Writes an entry that is read in scans and by ``peek`` only, past the cache."""
        self._dirty[key] = entry

    def write_cell(self, key: bytes, stored: object, timestamp: int) -> Cell:
        """Writes an entry that may be changed in place while the epoch lasts; for stores that keep timestamps."""
        self._dirty[key] = self._live[key] = cell = Cell.of(stored, timestamp, self.epoch)  # type: ignore[assignment]
        return cell

    @property
    def cache(self) -> dict[bytes, Entry]:
        """The dictionary that ``read`` looks into, the same for the layers' life, for whoever keeps cells there."""
        return self._live

    def accompany(self, companion: Companion) -> None:
        """Takes a cache that shares the memory of this one, and hears when it has to begin anew."""
        self._companion = companion

    def keep_cell(self, key: bytes, cell: Cell) -> None:
        """Writes a cell as :meth:`write_cell` does, for a companion that will find it itself: the cache does not get
        it unless it has entries, of which this may be one."""
        cell.epoch = self.epoch
        self._dirty[key] = cell  # type: ignore[assignment]
        if self._live or self._old:
            self._live[key] = cell  # type: ignore[assignment]

    def read_uncached(self, key: bytes) -> Entry | Cell:
        """Returns an entry for a companion that remembers it: a cell of the running epoch as it is."""
        self.misses += 1
        entry: Entry | Cell | None = self._dirty.get(key)
        if entry is None or isinstance(entry, tuple):
            return self.peek(key, committed=False)
        return entry

    def running(self) -> tuple[Epoch, dict[bytes, Entry] | None]:
        """Returns where :meth:`keep_cell` puts a cell now: the running epoch, and the cache if it gets it."""
        return self._dirty, self._live if self._live or self._old else None

    def forget(self, key: bytes) -> None:
        """Takes back what :meth:`append` brought into the store in the running epoch: nobody else hears of it, and
        neither the changelog nor the engine gets a deletion."""
        self._dirty.forget(key)

    def is_dirty(self, key: bytes) -> bool:
        """Says whether a key was written or deleted in the running epoch."""
        return key in self._dirty

    def prefetch(self, keys: Iterable[bytes]) -> None:
        """Brings keys that will be read soon into memory with one call to the engine."""
        live = self._live
        wanted = [key for key in dict.fromkeys(keys) if key not in live]
        if not wanted:
            return
        self.misses += len(wanted)
        missing: list[bytes] = []
        for key in wanted:
            entry = self._uncommitted_or_old(key)
            if entry is None:
                missing.append(key)
            else:
                live[key] = entry
        if missing:
            entries = self._engine().get_many(missing)
            live.update(zip(missing, entries, strict=True))
            self._learn_size(missing[-1], entries[-1])
        self._evict_if_full()

    def scan(self, start: bytes, end: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        """Iterates over the entries with ``start <= key < end`` in byte order, as they are now whatever is written
        later."""
        self.scans += 1
        # First the uncommitted layers, then the engine's view: an epoch applied in between is then seen in both,
        # the other way round it could be seen in neither.
        frozen, dirty = self._frozen, self._dirty
        # A copy of each: the running epoch goes on, and its cells change, while somebody iterates.
        running = list(self._in_range(dirty, start, end, reverse))
        found = self._below(frozen, start, end, reverse)
        return merged(found, iter(running), reverse) if running else found

    def look(self, start: bytes, end: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        """Scans for as long as nothing is written: it costs no more than the entries that are taken of it."""
        self.scans += 1
        return merged(
            self._below(self._frozen, start, end, reverse), self._in_range(self._dirty, start, end, reverse), reverse
        )

    def peek(self, key: bytes, *, committed: bool) -> Entry:
        """Returns an entry, on any thread, and leaves no trace in the caches. ``committed`` reads the engine alone. Of
        a cell that is being changed, value and timestamp may be those of two records in a row."""
        if not committed:
            # Newest first, as epochs move: what is missed in one layer was then seen in the one it comes from.
            entry = self._dirty.get(key)
            if entry is None and (frozen := self._frozen) is not None:
                entry = frozen.get(key)
            if entry is not None:
                return self._readable((entry[0], entry[1]))
        return self._engine().get(key)

    def peek_range(self, start: bytes, end: bytes | None, *, committed: bool) -> Iterator[tuple[bytes, Entry]]:
        """Iterates over the entries with ``start <= key < end`` in byte order, for a thread that does not hold the
        task."""
        overlay = [] if committed else self._peek_overlay(start, end)
        found = self._engine().scan(start, end, reverse=False)
        return merged(found, iter(overlay), False)

    def _peek_overlay(self, start: bytes, end: bytes | None) -> list[tuple[bytes, Entry]]:
        # Unlike in ``scan``, as the order of the running epoch's keys is the processing thread's to keep. ``list``
        # copies the keys of a dictionary that somebody writes to at one go.
        dirty = self._dirty
        epochs = (self._frozen or Epoch(), dirty)
        entries: dict[bytes, Entry] = {}
        for epoch in epochs:
            for key in list(epoch):
                # It may have been taken back meanwhile.
                if start <= key and (end is None or key < end) and (entry := epoch.get(key)) is not None:
                    entries[key] = entry
        readable = self._readable
        return [(key, readable((entries[key][0], entries[key][1]))) for key in sorted(entries)]

    def count(self) -> int:
        """Returns the number of entries, estimated or exact as the engine counts."""
        engine = self._engine()
        uncommitted = {**(self._frozen or {}), **self._dirty}
        return max(0, engine.count() + engine.count_change(uncommitted))

    def freeze(self) -> Epoch | None:
        """Closes the running epoch and starts the next."""
        if self._frozen is not None:
            raise StateStoreError("an epoch is still being committed; apply or revert it before freezing the next")
        if not self._dirty:
            return None
        self._sample_sizes()
        self.written_keys += len(self._dirty)
        self._frozen, self._dirty = self._dirty, Epoch()
        self.epoch += 1
        self._evict_if_full()
        if self._companion is not None:
            self._companion.make_room(self.room())
        return self._frozen

    def drop_frozen(self) -> None:
        """Drops the frozen epoch: the engine holds it now."""
        self._frozen = None

    def revert(self) -> None:
        """Forgets the writes since the last applied epoch, and all caches."""
        self._dirty = Epoch()
        self.epoch += 1
        self._frozen = None
        self.forget_cached()

    def forget_cached(self) -> None:
        """Empties the caches, after somebody wrote below this layer."""
        self._live.clear()
        self._old = {}
        if self._companion is not None:
            self._companion.forget()

    @property
    def dirty_entries(self) -> int:
        return len(self._dirty)

    @property
    def uncommitted_entries(self) -> int:
        return len(self._dirty) + len(self._frozen or ())

    @property
    def uncommitted_bytes(self) -> int:
        """An estimate of the bytes, from the sizes of the newest writes."""
        if self._dirty:
            self._sample_sizes()
        return (len(self._dirty) + len(self._frozen or ())) * self._entry_bytes

    @property
    def entry_bytes(self) -> int:
        """Returns an estimate of the bytes that an entry occupies."""
        return self._entry_bytes

    def room(self) -> int:
        """Returns how many entries fit into this store's share of the read cache."""
        return self._resources.read_cache_share // self._entry_bytes

    @property
    def cached_entries(self) -> int:
        return len(self._live) + len(self._old) + len(self._companion or ())

    def _load(self, key: bytes) -> Entry:
        self.misses += 1
        entry = self._uncommitted_or_old(key)
        if entry is None:
            entry = self._engine().get(key)
            self._learn_size(key, entry)
        self._live[key] = entry
        self._evict_if_full()
        return entry

    def _uncommitted_or_old(self, key: bytes) -> Entry | None:
        entry = self._dirty.get(key)
        if entry is None and (frozen := self._frozen) is not None:
            entry = frozen.get(key)
        return self._old.get(key) if entry is None else self._readable(entry)

    def _in_range(self, epoch: Epoch, start: bytes, end: bytes | None, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        readable = self._readable
        return ((key, readable((epoch[key][0], epoch[key][1]))) for key in epoch.between(start, end, reverse=reverse))

    def _below(
        self, frozen: Epoch | None, start: bytes, end: bytes | None, reverse: bool
    ) -> Iterator[tuple[bytes, Entry]]:
        found = self._engine().scan(start, end, reverse=reverse)
        return found if frozen is None else merged(found, self._in_range(frozen, start, end, reverse), reverse)

    def _engine(self) -> Reads:
        if self._committed is None:
            raise StateStoreError("the state store is closed; stores may be used only while their task is open")
        return self._committed

    def _evict_if_full(self) -> None:
        live = self._live
        if len(live) * self._entry_bytes > self._resources.read_cache_share:
            # The dict itself stays: its lookup has been handed out.
            self._old = dict(live)
            live.clear()

    def _learn_size(self, key: bytes, entry: Entry) -> None:
        size = _ENTRY_OVERHEAD + len(key) + sys.getsizeof(entry[0])
        self._entry_bytes += (size - self._entry_bytes) // 16

    def _sample_sizes(self) -> None:
        # The polling thread asks too, and the one that processes may write or start an epoch at this moment: then the
        # estimate stays what it was.
        with suppress(RuntimeError):
            size = count = 0
            for key, entry in islice(reversed(self._dirty.items()), _SAMPLED_ENTRIES):
                size += _ENTRY_OVERHEAD + len(key) + sys.getsizeof(entry[0])
                count += 1
            if count:
                self._entry_bytes += (size // count - self._entry_bytes) // 2
