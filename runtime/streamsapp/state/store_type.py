"""What a kind of store is: one object that says how its entries are keyed, written, logged, expired, used and queried.

Named by store builders on the thread that builds the topology; each task makes its stores of it on the polling thread.
A new kind is a module with a :class:`StoreType` and the function in ``Stores`` that names it
(docs/decisions/0018-store-types.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from streamsapp.record import InputRecord
from streamsapp.serdes.api import AnySerde
from streamsapp.state.engine import Placed
from streamsapp.state.entries import Cell, Entry, EntryFormat
from streamsapp.state.epoch import Epoch, Range
from streamsapp.state.views import Readers, StoreView
from streamsapp.state.window_view import WindowOf
from streamsapp.state.write_back import WriteBack


class Layers(Protocol):
    """What a facade reads and writes: entries by physical key. ``read`` and ``write`` may be held on to."""

    @property
    def read(self) -> Callable[[bytes], Entry]:
        """The entry of a key, or ``ABSENT``."""
        ...

    @property
    def write(self) -> Callable[[bytes, Any, int], None]:
        """``(key, stored, timestamp)``; to delete, ``stored`` is ``None``."""
        ...

    @property
    def epoch(self) -> int:
        """Number of the running epoch: cells that carry it may be changed in place."""
        ...

    def append(self, key: bytes, entry: Entry) -> None:
        """Write an entry that is never read by its key, only in scans: caches do not have it."""
        ...

    def write_cell(self, key: bytes, stored: object, timestamp: int) -> Cell: ...
    def prefetch(self, keys: Iterable[bytes]) -> None: ...
    def scan(self, start: bytes, end: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]: ...
    def look(self, start: bytes, end: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        """The same for as long as nothing is written: costs no more than what is taken of it."""
        ...

    def count(self) -> int: ...


class Layout(Protocol):
    """The keys of one store of one task: physical ones order its entries, those of the changelog are Kafka Streams'.

    A layout whose entries expire knows the store's stream time: from writes, from restored records, and from
    ``facts``, which are kept with the offsets.
    """

    def placed(self, records: Sequence[InputRecord]) -> list[Placed]:
        """The records of the changelog that restore something, with their physical keys."""
        ...

    def changelog(self, writes: Epoch) -> Iterable[tuple[bytes, Entry]]:
        """Entries by the key that the changelog has for them."""
        ...

    def take_expired(self) -> Sequence[Range]:
        """Ranges of physical keys that are to be deleted, each until its deletion is committed or reverted."""
        ...

    def facts(self) -> bytes | None:
        """What the next instance has to know besides entries; ``None`` if nothing."""
        ...

    def stand_at(self, facts: bytes | None) -> None:
        """Know what was known then, and nothing of what came later."""
        ...

    def statistics(self) -> Mapping[str, int]:
        """Figures for metrics, on any thread."""
        ...


@dataclass(frozen=True, slots=True)
class StoreParts:
    """What a facade is made of."""

    name: str
    key_serde: AnySerde
    value_serde: AnySerde
    format: EntryFormat
    layout: Layout
    layers: Layers
    #: The timestamp of the record in process.
    context_timestamp: Callable[[], int]


class StateStore(Protocol):
    """A store as the task's owner sees it; processors and operators know its kind."""

    @property
    def name(self) -> str: ...

    def open(self) -> None:
        """Writes are taken again, by those who ask for the function anew."""
        ...

    def close(self) -> None:
        """Writes raise from here on; reads do as soon as the layers lose their engine."""
        ...


class StoreType(Protocol):
    """A kind of store, with its parameters. Compared by value; shared by all tasks."""

    @property
    def name(self) -> str:
        """In the names of column families: bytes of one kind are never read as another's."""
        ...

    @property
    def keeps_timestamps(self) -> bool:
        """Whether entries carry the timestamp of the record that wrote them."""
        ...

    @property
    def changelog_settings(self) -> Mapping[str, str]:
        """How the changelog topic differs from a compacted one."""
        ...

    def format(self, value_serde: AnySerde) -> EntryFormat:
        """The three forms of its values."""
        ...

    def layout(self) -> Layout:
        """The keys of a store that knows nothing yet."""
        ...

    def facade(self, parts: StoreParts) -> Any:
        """The :class:`StateStore` that operators and processors get."""
        ...

    def view(self, layers: WriteBack, layout: Layout, format: EntryFormat, readers: Readers) -> StoreView | None:
        """The store for interactive queries; ``None`` if there are none."""
        ...

    @property
    def window_of(self) -> WindowOf | None:
        """Reads windows from physical keys; ``None`` where keys have none."""
        ...


class PlainLayout:
    """Physical keys and the changelog's are the same, and nothing expires."""

    def placed(self, records: Sequence[InputRecord]) -> list[Placed]:
        """Records without key are a table's source topic's; the table skips them too."""
        return [(key, record) for record in records if (key := record.key()) is not None]

    def changelog(self, writes: Epoch) -> Iterable[tuple[bytes, Entry]]:
        return writes.items()

    def take_expired(self) -> Sequence[Range]:
        return ()

    def facts(self) -> bytes | None:
        return None

    def stand_at(self, facts: bytes | None) -> None:
        """There is nothing to know."""

    def statistics(self) -> Mapping[str, int]:
        return {}
