"""``Stores``: how users name a store before any task makes it. Called on the thread that builds the topology."""

from __future__ import annotations

from dataclasses import dataclass

from streamsapp.errors import TopologyError
from streamsapp.serdes.api import AnySerde
from streamsapp.state.api import Engine, StoreBuilder, StoreKind


@dataclass(frozen=True)
class KeyValueStoreSupplier:
    """A name and where the committed entries live; what ``Stores`` and ``Materialized`` hand around."""

    name: str
    engine: Engine

    def __post_init__(self) -> None:
        if not self.name:
            raise TopologyError("a state store needs a name; give a non-empty string")


class Stores:
    """Suppliers of stores and the builders that add serdes to them.

    Whether entries carry timestamps is decided by the builder, so a plain persistent supplier under a timestamped
    builder keeps timestamps too.
    """

    @staticmethod
    def persistent_key_value_store(name: str) -> KeyValueStoreSupplier:
        return KeyValueStoreSupplier(name, Engine.ROCKSDB)

    @staticmethod
    def persistent_timestamped_key_value_store(name: str) -> KeyValueStoreSupplier:
        return KeyValueStoreSupplier(name, Engine.ROCKSDB)

    @staticmethod
    def in_memory_key_value_store(name: str) -> KeyValueStoreSupplier:
        return KeyValueStoreSupplier(name, Engine.MEMORY)

    @staticmethod
    def key_value_store_builder(
        supplier: KeyValueStoreSupplier, key_serde: AnySerde | None = None, value_serde: AnySerde | None = None
    ) -> StoreBuilder:
        """A store of plain values; ``None`` serdes mean the configured defaults."""
        return StoreBuilder(supplier.name, StoreKind.KEY_VALUE, supplier.engine, key_serde, value_serde)

    @staticmethod
    def timestamped_key_value_store_builder(
        supplier: KeyValueStoreSupplier, key_serde: AnySerde | None = None, value_serde: AnySerde | None = None
    ) -> StoreBuilder:
        """A store of :class:`~streamsapp.state.api.ValueAndTimestamp`."""
        return StoreBuilder(supplier.name, StoreKind.TIMESTAMPED_KEY_VALUE, supplier.engine, key_serde, value_serde)
