"""``StoreType``: one object that says how a kind of store keys, writes, logs, expires, uses and queries its entries.

Named by store builders on the thread that builds the topology; each task makes its stores of it on the polling thread.
A new kind is a module with a :class:`StoreType` and the function in ``Stores`` that names it
(docs/decisions/0018-store-types.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from streamsapp import native
from streamsapp.record import InputRecord
from streamsapp.serdes.api import AnySerde
from streamsapp.state.engine.entries import Entry, EntryFormat, PhysicalEntry
from streamsapp.state.engine.epoch import Range, Writes
from streamsapp.state.engine.store_engine import Reads
from streamsapp.state.layers.views import Readers, StoreView
from streamsapp.state.layers.window_view import WindowOf
from streamsapp.state.layers.write_back import WriteBack

#: Settings of changelog topics, in milliseconds, that a type derives from what its stores keep; it has one at most.
KEPT_FOR = ("retention.ms", "min.compaction.lag.ms")
#: So many milliseconds changelogs are kept longer than their stores, as in Kafka Streams
#: (``windowstore.changelog.additional.retention.ms``).
KEPT_LONGER_MS = 24 * 60 * 60 * 1000


class Layers(Protocol):
    """The layers that a facade reads and writes: entries by physical key. ``read`` and ``write`` may be held on to."""

    @property
    def read(self) -> Callable[[bytes], Entry]:
        """Returns the entry of a key, or ``ABSENT``."""
        ...

    @property
    def write(self) -> Callable[[bytes, Any, int], None]:
        """Writes ``(key, stored, timestamp)``; a ``stored`` of ``None`` deletes."""
        ...

    @property
    def cells(self) -> native.Cells | None:
        """The entries, if they are cells: whole numbers that are counted up in place."""
        ...

    @property
    def epoch(self) -> int:
        """The number of the running epoch."""
        ...

    def append(self, key: bytes, entry: Entry) -> None:
        """Writes an entry that is read in scans and by :meth:`peek` only: caches do not have it."""
        ...

    def peek(self, key: bytes, *, committed: bool) -> Entry:
        """Returns an entry past the caches; ``committed`` says to leave out uncommitted entries."""
        ...

    def forget(self, key: bytes) -> None:
        """Takes back what :meth:`append` brought into the store in the running epoch."""
        ...

    def is_dirty(self, key: bytes) -> bool:
        """Says whether a key was written or deleted in the running epoch."""
        ...

    def on_forgotten(self, told: Callable[[int], None]) -> None:
        """Has ``told`` called when the cache has forgotten entries. It gets the latest time at which the window of one
        of them begins, ``ANY_TIME`` where that is not known."""
        ...

    def running(self, key: bytes) -> Entry | None:
        """Returns the last write of a key in the running epoch, also if that is a deletion."""
        ...

    def prefetch(self, keys: Iterable[bytes]) -> None: ...
    def scan(self, start: bytes, end: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]: ...
    def look(self, start: bytes, end: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        """Scans for as long as nothing is written: it costs no more than the entries that are taken of it."""
        ...

    def count(self) -> int: ...

    def room(self) -> int:
        """Returns how many entries fit into the store's share of the read cache."""
        ...


class Layout(Protocol):
    """Translates the keys of one store of one task: physical keys order its entries, those of the changelog are Kafka
    Streams'.

    A layout whose entries expire knows the store's stream time: from writes, from restored records, and from
    ``facts``, which are kept with the offsets.
    """

    @property
    def takes_cells(self) -> bool:
        """Says whether entries may be cells: each is written and read by its key alone, and nothing is
        appended."""
        ...

    @property
    def start_at(self) -> int:
        """The number of bytes before a key's end where the start of its window stands, in 8 bytes; 0 if keys have no
        window."""
        ...

    @property
    def behind_entries(self) -> bytes | None:
        """The first key behind all entries that have a key of the changelog; ``None`` if there are no others."""
        ...

    def restored(
        self, records: Sequence[InputRecord], format: EntryFormat, committed: Reads
    ) -> Sequence[PhysicalEntry]:
        """Returns the entries that records of the changelog restore in a store that has ``committed``."""
        ...

    def changelog(self, writes: Writes) -> Iterable[tuple[bytes, Entry]]:
        """Yields the entries by the key that the changelog has for them."""
        ...

    def unwritten_from(self) -> bytes:
        """Returns a physical key from which on nothing was ever written; ``b""`` if there is none known."""
        ...

    def take_expired(self) -> Sequence[Range]:
        """Returns ranges of physical keys that are to be deleted, each until its deletion is committed or reverted."""
        ...

    def living(self, keys: Iterable[bytes], facts: bytes | None) -> Iterable[bytes]:
        """Returns the physical keys without the keys whose entries no caller asks for any more once the store stands at
        these facts; on any thread. A keeper of entries may leave the others out."""
        ...

    def facts(self) -> bytes | None:
        """Returns the facts besides entries that the next instance has to know; ``None`` if there are none."""
        ...

    def stand_at(self, facts: bytes | None) -> None:
        """Takes the facts as they were then, and forgets everything that came later."""
        ...

    def statistics(self) -> Mapping[str, int]:
        """Returns figures for metrics, on any thread."""
        ...


@dataclass(frozen=True, slots=True)
class StoreParts:
    """The parts that a facade is made of."""

    name: str
    key_serde: AnySerde
    value_serde: AnySerde
    format: EntryFormat
    layout: Layout
    layers: Layers
    #: The timestamp of the record in process.
    context_timestamp: Callable[[], int]


class StateStore(Protocol):
    """The store that a task's owner sees; processors and operators know its kind."""

    @property
    def name(self) -> str: ...

    def open(self) -> None:
        """Takes writes again, from callers that ask for the function anew."""
        ...

    def close(self) -> None:
        """Makes writes raise from here on; reads raise as soon as the layers lose their engine."""
        ...


class StoreType(Protocol):
    """A kind of store, with its parameters. Types are compared by value and shared by all tasks."""

    @property
    def name(self) -> str:
        """The type's name, which is part of the column families' names: bytes of one kind are never read as
        another's."""
        ...

    @property
    def keeps_timestamps(self) -> bool:
        """Says whether entries carry the timestamp of the record that wrote them."""
        ...

    @property
    def changelog_settings(self) -> Mapping[str, str]:
        """The settings in which the changelog topic differs from a compacted one."""
        ...

    def format(self, value_serde: AnySerde) -> EntryFormat:
        """Returns the format that translates between the three forms of a value."""
        ...

    def layout(self) -> Layout:
        """Returns the layout of a store that knows nothing yet."""
        ...

    def facade(self, parts: StoreParts) -> Any:
        """Returns the :class:`StateStore` that operators and processors get."""
        ...

    def view(self, layers: WriteBack, layout: Layout, format: EntryFormat, readers: Readers) -> StoreView | None:
        """Returns the store for interactive queries; ``None`` if it cannot be queried."""
        ...

    @property
    def window_of(self) -> WindowOf | None:
        """The function that reads windows from physical keys; ``None`` if keys have no window."""
        ...


class PlainLayout:
    """Keeps physical keys equal to the changelog's; nothing expires."""

    takes_cells = True
    start_at = 0
    behind_entries: bytes | None = None

    def restored(
        self, records: Sequence[InputRecord], format: EntryFormat, committed: Reads
    ) -> Sequence[PhysicalEntry]:
        """Returns the entries of records that have a key. Only a table's source topic has records without one, and the
        table skips them too."""
        return [(key, format.restored(record)) for record in records if (key := record.key()) is not None]

    def changelog(self, writes: Writes) -> Iterable[tuple[bytes, Entry]]:
        return writes.writes()

    def unwritten_from(self) -> bytes:
        return b""

    def take_expired(self) -> Sequence[Range]:
        return ()

    def living(self, keys: Iterable[bytes], facts: bytes | None) -> Iterable[bytes]:
        return keys

    def facts(self) -> bytes | None:
        return None

    def stand_at(self, facts: bytes | None) -> None:
        """Does nothing: there are no facts to know."""

    def statistics(self) -> Mapping[str, int]:
        return {}
