"""One store of a task with all its layers, and the writes of all of them in one commit interval.

Parts of :class:`~streamsapp.state.task_stores.TaskStores`, on whatever thread calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

from streamsapp.errors import StateStoreError
from streamsapp.outgoing import ChangelogSlice, OutputRecord
from streamsapp.serdes.api import AnySerde
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.engine.entries import LONG_SIZE, PlainFormat, TimestampedFormat
from streamsapp.state.engine.epoch import Writes
from streamsapp.state.engine.headers import HeadersFormat
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.engine.store_engine import StoreEngine
from streamsapp.state.kinds.store_type import PlainLayout, StateStore, StoreParts, StoreType
from streamsapp.state.layers.read_only import ReadOnlyLayers
from streamsapp.state.layers.views import Readers
from streamsapp.state.layers.write_back import HeadedWriteBack, WriteBack

T = TypeVar("T")


class ManagedStore:
    """One store of a task, open or not."""

    def __init__(
        self,
        builder: StoreBuilder,
        serdes: tuple[AnySerde, AnySerde],
        resources: StateResources,
        context_timestamp: Callable[[], int],
        readers: Readers,
    ) -> None:
        """Takes serdes that are bound to the store's changelog."""
        kind, (key_serde, value_serde) = builder.type, serdes
        self.builder = builder
        self.format = kind.format(value_serde)
        self.layout = kind.layout()
        make_layers = HeadedWriteBack if isinstance(self.format, HeadersFormat) else WriteBack
        self.layers = make_layers(
            self.format,
            resources,
            keeps_timestamps=kind.keeps_timestamps,
            unwritten_from=self.layout.unwritten_from,
            in_cells=self._keeps_longs(kind),
            start_at=self.layout.start_at,
        )
        self._parts = StoreParts(
            builder.name, key_serde, value_serde, self.format, self.layout, self.layers, context_timestamp
        )
        #: As operators and users get it.
        self.facade: Any = kind.facade(self._parts)
        #: As interactive queries see it.
        self.view = kind.view(self.layers, self.layout, self.format, readers)
        #: Of the last applied epoch or restored records.
        self.facts: bytes | None = None
        self._read_only: list[ReadOnlyLayers] = []
        self._engine: StoreEngine | None = None

    def _keeps_longs(self, kind: StoreType) -> bool:
        """Says whether entries are longs with a timestamp, each found by its key alone."""
        return kind.keeps_timestamps and self.format.number_size == LONG_SIZE and self.layout.takes_cells

    @property
    def name(self) -> str:
        return self.builder.name

    @property
    def family(self) -> str:
        """The name of RocksDB's column family, which contains the type's name: a store whose type changed starts over
        instead of misreading its bytes."""
        return f"{self.builder.type.name}/{self.builder.name}"

    @property
    def persistent(self) -> bool:
        """Says whether the store is in RocksDB."""
        return self.builder.engine is Engine.ROCKSDB

    @property
    def takes_packed(self) -> bool:
        """Says whether RocksDB gets the key of a changelog record, and its value as it is or behind its timestamp."""
        return self.takes_record_keys and type(self.format) in (PlainFormat, TimestampedFormat)

    @property
    def takes_record_keys(self) -> bool:
        """Says whether an entry in RocksDB may have the key of a record, as it is."""
        return type(self.layout) is PlainLayout and self.persistent

    @property
    def logged(self) -> bool:
        """Says whether the store has a changelog of its own to write; a table's source topic is written by others."""
        return self.builder.logging and self.builder.changelog_topic is None

    @property
    def engine(self) -> StoreEngine:
        """The engine of an open store."""
        if self._engine is None:
            raise StateStoreError(f"state store {self.name!r} is not open; its task was closed meanwhile")
        return self._engine

    @property
    def is_open(self) -> bool:
        return self._engine is not None

    def open(self, engine: StoreEngine, facts: bytes | None) -> None:
        """Puts the store on an engine that stands at these facts."""
        self._attach(engine)
        self.facts = facts
        self.layout.stand_at(facts)
        facade: StateStore = self.facade
        facade.open()

    def close(self) -> None:
        """Makes reads and writes raise from here on; the engine is still to be closed."""
        self.facade.close()
        self._attach(None)

    def read_only(self, why: str) -> Any:
        """Returns the same store for others to read, on any thread and past the write-back layer; ``why`` it cannot be
        written is part of the error's message."""
        layers = ReadOnlyLayers(why)
        self._read_only.append(layers)
        return self.builder.type.facade(replace(self._parts, layers=layers))

    def freeze(self) -> Writes | None:
        """Closes the running epoch and starts the next; returns ``None`` if it wrote nothing."""
        epoch = self.layers.freeze()
        if epoch is not None:
            epoch.deleted = self.layout.take_expired()
            epoch.facts = self.layout.facts()
        return epoch

    def apply(self, epoch: Writes, slice_size: int) -> Iterator[None]:
        """Hands a committed epoch to the engine."""
        yield from self.engine.take_in(epoch, slice_size)
        self.facts = epoch.facts

    def revert(self) -> None:
        """Forgets the writes that are not applied."""
        self.layers.revert()
        self.layout.stand_at(self.facts)

    def statistics(self) -> dict[str, int]:
        """Returns figures that cost nothing per record to count."""
        layers = self.layers
        return {
            "read_misses": layers.figures.read_misses,
            "scans": layers.figures.scans,
            "cached_entries": layers.cached_entries,
            "uncommitted_entries": layers.uncommitted_entries,
            "written_keys": layers.figures.written_keys,
            **self.engine.statistics(),
            **self.layout.statistics(),
        }

    def _attach(self, engine: StoreEngine | None) -> None:
        self._engine = engine
        self.layers.attach(engine)
        for layers in self._read_only:
            layers.attach(engine)


@dataclass(frozen=True, slots=True)
class StoreChanges:
    """The writes of one epoch to a logged store."""

    store: ManagedStore
    epoch: Writes

    def __len__(self) -> int:
        """Returns the number of entries, which is not that of records: a store may keep an entry in several places."""
        return len(self.epoch)

    def slices(self, topic: str, partition: int, limit: int) -> Iterator[ChangelogSlice]:
        """Yields what to produce to the changelog, at most ``limit`` records at a time."""
        entries = self.store.layout.changelog(self.epoch)
        for chunk in _parts(entries, limit) if isinstance(entries, Sequence) else _chunks(iter(entries), limit):
            yield ChangelogSlice(topic, partition, chunk, self.store.format)

    def records(self, topic: str, partition: int, limit: int) -> Iterator[list[OutputRecord]]:
        """Yields the records to produce to the changelog, at most ``limit`` at a time."""
        return (each.records() for each in self.slices(topic, partition, limit))


def _parts(entries: Sequence[T], limit: int) -> Iterator[Sequence[T]]:
    return (entries[at : at + limit] for at in range(0, len(entries), limit))


def _chunks(entries: Iterator[T], limit: int) -> Iterator[list[T]]:
    while chunk := list(islice(entries, limit)):
        yield chunk


@dataclass(frozen=True)
class FrozenEpoch:
    """The writes of one commit interval, the last value of each key."""

    stores: tuple[StoreChanges, ...]

    @property
    def entries(self) -> int:
        return sum(map(len, self.stores))

    def changelogs(self) -> Iterator[tuple[str, StoreChanges]]:
        """Returns each logged store with the records to produce before the commit."""
        return ((changes.store.name, changes) for changes in self.stores if changes.store.logged)
