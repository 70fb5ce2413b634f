"""One store of a task with all its layers, and the writes of all of them in one commit interval.

Parts of :class:`~streamsapp.state.task_stores.TaskStores`, on whatever thread calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from streamsapp.serdes.api import AnySerde
from streamsapp.state.api import StoreBuilder, StoreKind
from streamsapp.state.backlog import BackloggedStore
from streamsapp.state.entries import Entry, EntryFormat, PlainFormat, TimestampedFormat
from streamsapp.state.key_value import KeyValueStoreImpl, TimestampedKeyValueStoreImpl
from streamsapp.state.memory import MemoryStore
from streamsapp.state.resources import StateResources
from streamsapp.state.write_back import WriteBack


@dataclass(slots=True, eq=False)
class Slot:
    """One store with all its layers."""

    builder: StoreBuilder
    format: EntryFormat
    layers: WriteBack
    facade: KeyValueStoreImpl
    engine: BackloggedStore | MemoryStore | None = None

    @property
    def family(self) -> str:
        """Named after the kind too: a store whose kind changed starts over instead of misreading its bytes."""
        return f"{self.builder.kind.value}/{self.builder.name}"

    @property
    def logged(self) -> bool:
        """Whether it has a changelog of its own to write; a table's source topic is written by others."""
        return self.builder.logging and self.builder.changelog_topic is None

    def statistics(self) -> dict[str, int]:
        """Figures, counted where it costs nothing per record."""
        layers = self.layers
        figures = {
            "read_misses": layers.misses,
            "scans": layers.scans,
            "cached_entries": layers.cached_entries,
            "uncommitted_entries": layers.uncommitted_entries,
            "written_keys": layers.written_keys,
        }
        if isinstance(self.engine, BackloggedStore):
            figures.update(self.engine.statistics())
        return figures


@dataclass(frozen=True)
class FrozenEpoch:
    """The writes of one commit interval, last value per key."""

    slots: tuple[tuple[Slot, Mapping[bytes, Entry]], ...]

    @property
    def entries(self) -> int:
        return sum(len(writes) for _, writes in self.slots)

    def changelogs(self) -> Iterator[tuple[str, Mapping[bytes, Entry], Callable[[Any], bytes]]]:
        """What to produce before the commit: each logged store, its writes, and what serialises those that are not
        deletions."""
        for slot, writes in self.slots:
            if slot.logged:
                yield slot.builder.name, writes, slot.format.raw

    def changelog_records(self) -> Iterator[tuple[str, bytes, bytes | None, int]]:
        """The same one by one: ``(store, key, value, timestamp)``."""
        for name, writes, raw in self.changelogs():
            for key, (stored, timestamp) in writes.items():
                yield name, key, None if stored is None else raw(stored), timestamp


def make_slot(
    builder: StoreBuilder,
    key_serde: AnySerde,
    value_serde: AnySerde,
    resources: StateResources,
    context_timestamp: Callable[[], int],
) -> Slot:
    """A store that is not open yet."""
    timestamped = builder.kind is StoreKind.TIMESTAMPED_KEY_VALUE
    entries = TimestampedFormat(value_serde) if timestamped else PlainFormat(value_serde)
    layers = WriteBack(entries, resources, keeps_timestamps=timestamped)
    facade = TimestampedKeyValueStoreImpl if timestamped else KeyValueStoreImpl
    return Slot(builder, entries, layers, facade(builder.name, key_serde, entries, layers, context_timestamp))
