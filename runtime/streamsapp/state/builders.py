"""``Stores``: describes stores for users, before any task makes them. Called on the thread that builds the topology."""

from __future__ import annotations

from dataclasses import dataclass

from streamsapp.errors import TopologyError
from streamsapp.processor.api import Duration, duration_ms
from streamsapp.serdes.api import AnySerde
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.key_value import KEY_VALUE, TIMESTAMPED_KEY_VALUE
from streamsapp.state.session import SessionType
from streamsapp.state.store_type import StoreType
from streamsapp.state.versioned import VersionedType
from streamsapp.state.window import WindowType


@dataclass(frozen=True)
class KeyValueStoreSupplier:
    """Names a key-value store and its engine; ``Stores`` and ``Materialized`` hand it around."""

    name: str
    engine: Engine

    def __post_init__(self) -> None:
        if not self.name:
            raise TopologyError("a state store needs a name; give a non-empty string")


@dataclass(frozen=True)
class WindowStoreSupplier:
    """Names a window store, its engine, and how long entries are kept."""

    name: str
    engine: Engine
    retention_ms: int
    window_size_ms: int
    retain_duplicates: bool = False

    def __post_init__(self) -> None:
        if not self.name:
            raise TopologyError("a state store needs a name; give a non-empty string")
        if self.window_size_ms < 0 or self.retention_ms < 1:
            raise TopologyError(
                f"window store {self.name}: the window size must not be negative, the retention at least 1 ms; "
                f"got {self.window_size_ms} and {self.retention_ms} ms"
            )
        if self.retention_ms < self.window_size_ms:
            raise TopologyError(
                f"window store {self.name}: the retention of {self.retention_ms} ms is shorter than the windows' size "
                f"of {self.window_size_ms} ms; make it at least as long"
            )

    def type(self, *, keeps_timestamps: bool) -> StoreType:
        """The store type with this retention."""
        in_memory = self.engine is Engine.MEMORY
        return WindowType(
            self.retention_ms, self.window_size_ms, self.retain_duplicates, keeps_timestamps, in_memory=in_memory
        )


@dataclass(frozen=True)
class SessionStoreSupplier:
    """Names a session store, its engine, and how long sessions are kept."""

    name: str
    engine: Engine
    retention_ms: int

    def __post_init__(self) -> None:
        if not self.name:
            raise TopologyError("a state store needs a name; give a non-empty string")
        if self.retention_ms < 0:
            raise TopologyError(
                f"session store {self.name}: the retention must not be negative, got {self.retention_ms} ms"
            )


@dataclass(frozen=True)
class VersionedStoreSupplier:
    """Names a versioned store, and how long its history is."""

    name: str
    history_retention_ms: int
    engine: Engine = Engine.ROCKSDB

    def __post_init__(self) -> None:
        if not self.name:
            raise TopologyError("a state store needs a name; give a non-empty string")
        if self.history_retention_ms < 0:
            raise TopologyError(
                f"versioned store {self.name}: the history retention must not be negative, got "
                f"{self.history_retention_ms} ms"
            )


class Stores:
    """Makes suppliers of stores, and the builders that add serdes to them (Kafka Streams' ``Stores``). Durations are
    ``timedelta`` or whole milliseconds.

    The builder decides whether entries carry timestamps, so a plain persistent supplier under a timestamped builder
    keeps timestamps too.
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
    def persistent_window_store(
        name: str, retention: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> WindowStoreSupplier:
        """Supplies a window store in RocksDB; ``retain_duplicates`` appends to a window instead of replacing its
        value."""
        return WindowStoreSupplier(
            name, Engine.ROCKSDB, duration_ms(retention), duration_ms(window_size), retain_duplicates
        )

    @staticmethod
    def in_memory_window_store(
        name: str, retention: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> WindowStoreSupplier:
        return WindowStoreSupplier(
            name, Engine.MEMORY, duration_ms(retention), duration_ms(window_size), retain_duplicates
        )

    @staticmethod
    def window_store_builder(
        supplier: WindowStoreSupplier, key_serde: AnySerde | None = None, value_serde: AnySerde | None = None
    ) -> StoreBuilder:
        """Builds a store of plain values by key and window start."""
        kind = supplier.type(keeps_timestamps=False)
        return StoreBuilder(supplier.name, kind, supplier.engine, key_serde, value_serde)

    @staticmethod
    def timestamped_window_store_builder(
        supplier: WindowStoreSupplier, key_serde: AnySerde | None = None, value_serde: AnySerde | None = None
    ) -> StoreBuilder:
        """Builds a store of :class:`~streamsapp.state.api.ValueAndTimestamp` by key and window start."""
        kind = supplier.type(keeps_timestamps=True)
        return StoreBuilder(supplier.name, kind, supplier.engine, key_serde, value_serde)

    @staticmethod
    def persistent_session_store(name: str, retention: Duration) -> SessionStoreSupplier:
        return SessionStoreSupplier(name, Engine.ROCKSDB, duration_ms(retention))

    @staticmethod
    def in_memory_session_store(name: str, retention: Duration) -> SessionStoreSupplier:
        return SessionStoreSupplier(name, Engine.MEMORY, duration_ms(retention))

    @staticmethod
    def session_store_builder(
        supplier: SessionStoreSupplier, key_serde: AnySerde | None = None, value_serde: AnySerde | None = None
    ) -> StoreBuilder:
        """Builds a store of plain values by key and session."""
        kind = SessionType(supplier.retention_ms, in_memory=supplier.engine is Engine.MEMORY)
        return StoreBuilder(supplier.name, kind, supplier.engine, key_serde, value_serde)

    @staticmethod
    def persistent_versioned_key_value_store(
        name: str, history_retention: Duration, segment_interval: Duration | None = None
    ) -> VersionedStoreSupplier:
        """Supplies a store that keeps the values that its keys had (KIP-889). ``segment_interval`` is only checked:
        versions do not lie in segments here."""
        if segment_interval is not None and duration_ms(segment_interval) < 1:
            raise TopologyError(f"versioned store {name}: the segment interval must be at least 1 ms")
        return VersionedStoreSupplier(name, duration_ms(history_retention))

    @staticmethod
    def versioned_key_value_store_builder(
        supplier: VersionedStoreSupplier, key_serde: AnySerde | None = None, value_serde: AnySerde | None = None
    ) -> StoreBuilder:
        """Builds a store of :class:`~streamsapp.state.versioned.VersionedRecord`."""
        kind = VersionedType(supplier.history_retention_ms)
        return StoreBuilder(supplier.name, kind, supplier.engine, key_serde, value_serde)

    @staticmethod
    def key_value_store_builder(
        supplier: KeyValueStoreSupplier, key_serde: AnySerde | None = None, value_serde: AnySerde | None = None
    ) -> StoreBuilder:
        """Builds a store of plain values; ``None`` serdes stand for the configured defaults."""
        return StoreBuilder(supplier.name, KEY_VALUE, supplier.engine, key_serde, value_serde)

    @staticmethod
    def timestamped_key_value_store_builder(
        supplier: KeyValueStoreSupplier, key_serde: AnySerde | None = None, value_serde: AnySerde | None = None
    ) -> StoreBuilder:
        """Builds a store of :class:`~streamsapp.state.api.ValueAndTimestamp`."""
        return StoreBuilder(supplier.name, TIMESTAMPED_KEY_VALUE, supplier.engine, key_serde, value_serde)
