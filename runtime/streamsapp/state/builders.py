"""``Stores``: describes stores for users, before any task makes them. Called on the thread that builds the topology."""

from __future__ import annotations

from dataclasses import dataclass, replace

from streamsapp.errors import TopologyError
from streamsapp.java_names.lookup import java_names
from streamsapp.processor.api import Duration, duration_ms
from streamsapp.serdes.api import AnySerde
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.kinds.expiring import (
    KEY_VALUE_WITH_TTL,
    TIMESTAMPED_KEY_VALUE_WITH_TTL,
    ExpiringType,
    ttl_in_ms,
)
from streamsapp.state.kinds.key_value import KEY_VALUE, TIMESTAMPED_KEY_VALUE, KeyValueType
from streamsapp.state.kinds.session import SessionType
from streamsapp.state.kinds.store_type import StoreType
from streamsapp.state.kinds.versioned import VersionedType
from streamsapp.state.kinds.window import WindowType


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


def with_headers(builder: StoreBuilder) -> StoreBuilder:
    """Returns the same store with the headers of records in its entries (KIP-1271), as it is if its kind keeps none."""
    kind = builder.type
    return replace(builder, type=kind.with_headers()) if isinstance(kind, _WITH_HEADERS) else builder


def with_ttl(name: str, kind: ExpiringType, ttl: Duration | None) -> ExpiringType:
    """Returns the type of a store whose values have a time to live by default, unless it is ``None``."""
    return kind if ttl is None else replace(kind, ttl_ms=ttl_in_ms(f"store {name}", ttl))


_WITH_HEADERS = KeyValueType | WindowType | SessionType


@java_names("Stores")
class Stores:
    """Makes suppliers of stores, and the builders that add serdes to them (Kafka Streams' ``Stores``). Durations are
    ``timedelta`` or whole milliseconds.

    The builder decides whether entries carry timestamps, so a plain persistent supplier under a timestamped builder
    keeps timestamps too.
    """

    @staticmethod
    def persistent_key_value_store(name: str) -> KeyValueStoreSupplier:
        """Supplies a key-value store in RocksDB. Raises ``TopologyError`` for an empty name."""
        return KeyValueStoreSupplier(name, Engine.ROCKSDB)

    @staticmethod
    def persistent_timestamped_key_value_store(name: str) -> KeyValueStoreSupplier:
        """Supplies a key-value store in RocksDB, for a timestamped builder (KIP-258)."""
        return KeyValueStoreSupplier(name, Engine.ROCKSDB)

    @staticmethod
    def in_memory_key_value_store(name: str) -> KeyValueStoreSupplier:
        """Supplies a key-value store in memory, which is restored whole from its changelog at every start."""
        return KeyValueStoreSupplier(name, Engine.MEMORY)

    @staticmethod
    def persistent_window_store(
        name: str, retention: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> WindowStoreSupplier:
        """Supplies a window store in RocksDB, whose entries are kept for ``retention`` after their window's start.

        ``window_size`` is the length of its windows. ``retain_duplicates`` appends to a window instead of replacing its
        value. Raises ``TopologyError`` for a retention below 1 ms or shorter than the windows, and a negative size.
        """
        return WindowStoreSupplier(
            name, Engine.ROCKSDB, duration_ms(retention), duration_ms(window_size), retain_duplicates
        )

    @staticmethod
    def in_memory_window_store(
        name: str, retention: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> WindowStoreSupplier:
        """Supplies a window store in memory, with the arguments of ``persistent_window_store`` (KIP-428)."""
        return WindowStoreSupplier(
            name, Engine.MEMORY, duration_ms(retention), duration_ms(window_size), retain_duplicates
        )

    @staticmethod
    def window_store_builder(
        supplier: WindowStoreSupplier, key_serde: AnySerde | None = None, value_serde: AnySerde | None = None
    ) -> StoreBuilder:
        """Builds a :class:`~streamsapp.state.kinds.windowed_api.WindowStore` of plain values; serdes of ``None`` stand
        for the configured defaults."""
        kind = supplier.type(keeps_timestamps=False)
        return StoreBuilder(supplier.name, kind, supplier.engine, key_serde, value_serde)

    @staticmethod
    def timestamped_window_store_builder(
        supplier: WindowStoreSupplier, key_serde: AnySerde | None = None, value_serde: AnySerde | None = None
    ) -> StoreBuilder:
        """Builds a :class:`~streamsapp.state.kinds.windowed_api.WindowStore` of
        :class:`~streamsapp.state.api.ValueAndTimestamp`; serdes of ``None`` stand for the configured defaults."""
        kind = supplier.type(keeps_timestamps=True)
        return StoreBuilder(supplier.name, kind, supplier.engine, key_serde, value_serde)

    @staticmethod
    def timestamped_window_store_with_headers_builder(
        supplier: WindowStoreSupplier, key_serde: AnySerde | None = None, value_serde: AnySerde | None = None
    ) -> StoreBuilder:
        """Builds a :class:`~streamsapp.state.kinds.windowed_api.WindowStore` of
        :class:`~streamsapp.state.api.ValueTimestampHeaders` (KIP-1271)."""
        return with_headers(Stores.timestamped_window_store_builder(supplier, key_serde, value_serde))

    @staticmethod
    def persistent_timestamped_window_store_with_headers(
        name: str, retention: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> WindowStoreSupplier:
        """Supplies a window store in RocksDB, for a builder with headers (KIP-1271)."""
        return Stores.persistent_window_store(name, retention, window_size, retain_duplicates)

    @staticmethod
    def session_store_with_headers_builder(
        supplier: SessionStoreSupplier, key_serde: AnySerde | None = None, value_serde: AnySerde | None = None
    ) -> StoreBuilder:
        """Builds a :class:`~streamsapp.state.kinds.windowed_api.SessionStore` of
        :class:`~streamsapp.state.api.AggregationWithHeaders` (KIP-1271)."""
        return with_headers(Stores.session_store_builder(supplier, key_serde, value_serde))

    @staticmethod
    def persistent_session_store_with_headers(name: str, retention: Duration) -> SessionStoreSupplier:
        """Supplies a session store in RocksDB, for a builder with headers (KIP-1271)."""
        return Stores.persistent_session_store(name, retention)

    @staticmethod
    def persistent_session_store(name: str, retention: Duration) -> SessionStoreSupplier:
        """Supplies a session store in RocksDB, which keeps a session for ``retention`` after its end. Raises
        ``TopologyError`` for a negative retention."""
        return SessionStoreSupplier(name, Engine.ROCKSDB, duration_ms(retention))

    @staticmethod
    def in_memory_session_store(name: str, retention: Duration) -> SessionStoreSupplier:
        """Supplies a session store in memory, with the arguments of ``persistent_session_store`` (KIP-445)."""
        return SessionStoreSupplier(name, Engine.MEMORY, duration_ms(retention))

    @staticmethod
    def session_store_builder(
        supplier: SessionStoreSupplier, key_serde: AnySerde | None = None, value_serde: AnySerde | None = None
    ) -> StoreBuilder:
        """Builds a :class:`~streamsapp.state.kinds.windowed_api.SessionStore` of plain values; serdes of ``None`` stand
        for the configured defaults."""
        kind = SessionType(supplier.retention_ms, in_memory=supplier.engine is Engine.MEMORY)
        return StoreBuilder(supplier.name, kind, supplier.engine, key_serde, value_serde)

    @staticmethod
    def persistent_versioned_key_value_store(
        name: str, history_retention: Duration, segment_interval: Duration | None = None
    ) -> VersionedStoreSupplier:
        """Supplies a store in RocksDB that keeps the values which its keys had in the last ``history_retention`` of
        stream time (KIP-889).

        ``segment_interval`` is only checked: the layout needs none. Raises ``TopologyError`` for a negative retention,
        and for an interval below 1 ms.
        """
        if segment_interval is not None and duration_ms(segment_interval) < 1:
            raise TopologyError(f"versioned store {name}: the segment interval must be at least 1 ms")
        return VersionedStoreSupplier(name, duration_ms(history_retention))

    @staticmethod
    def versioned_key_value_store_builder(
        supplier: VersionedStoreSupplier, key_serde: AnySerde | None = None, value_serde: AnySerde | None = None
    ) -> StoreBuilder:
        """Builds a :class:`~streamsapp.state.kinds.windowed_api.VersionedKeyValueStore`, whose reads give
        :class:`~streamsapp.state.kinds.versioned.VersionedRecord`."""
        kind = VersionedType(supplier.history_retention_ms)
        return StoreBuilder(supplier.name, kind, supplier.engine, key_serde, value_serde)

    @staticmethod
    def key_value_store_builder(
        supplier: KeyValueStoreSupplier, key_serde: AnySerde | None = None, value_serde: AnySerde | None = None
    ) -> StoreBuilder:
        """Builds a :class:`~streamsapp.state.api.KeyValueStore` of plain values; serdes of ``None`` stand for the
        configured defaults."""
        return StoreBuilder(supplier.name, KEY_VALUE, supplier.engine, key_serde, value_serde)

    @staticmethod
    def timestamped_key_value_store_builder(
        supplier: KeyValueStoreSupplier, key_serde: AnySerde | None = None, value_serde: AnySerde | None = None
    ) -> StoreBuilder:
        """Builds a :class:`~streamsapp.state.api.KeyValueStore` whose values are
        :class:`~streamsapp.state.api.ValueAndTimestamp` (KIP-258)."""
        return StoreBuilder(supplier.name, TIMESTAMPED_KEY_VALUE, supplier.engine, key_serde, value_serde)

    @staticmethod
    def key_value_store_with_ttl_builder(
        supplier: KeyValueStoreSupplier,
        key_serde: AnySerde | None = None,
        value_serde: AnySerde | None = None,
        *,
        ttl: Duration | None = None,
    ) -> StoreBuilder:
        """Builds a :class:`~streamsapp.state.api.KeyValueStore` of plain values that have a time to live.

        A value is over, and is deleted, once the task's stream time is ``ttl`` later than the record that wrote it. A
        put may say another time to live; without any ``ttl``, values that are put without one live until they are
        deleted. Raises ``TopologyError`` for a time below 1 ms and for one that no time can be.
        """
        kind = with_ttl(supplier.name, KEY_VALUE_WITH_TTL, ttl)
        return StoreBuilder(supplier.name, kind, supplier.engine, key_serde, value_serde)

    @staticmethod
    def timestamped_key_value_store_with_ttl_builder(
        supplier: KeyValueStoreSupplier,
        key_serde: AnySerde | None = None,
        value_serde: AnySerde | None = None,
        *,
        ttl: Duration | None = None,
    ) -> StoreBuilder:
        """Builds the same for values that are :class:`~streamsapp.state.api.ValueAndTimestamp`: each lives from its own
        timestamp on."""
        kind = with_ttl(supplier.name, TIMESTAMPED_KEY_VALUE_WITH_TTL, ttl)
        return StoreBuilder(supplier.name, kind, supplier.engine, key_serde, value_serde)

    @staticmethod
    def timestamped_key_value_store_with_headers_builder(
        supplier: KeyValueStoreSupplier, key_serde: AnySerde | None = None, value_serde: AnySerde | None = None
    ) -> StoreBuilder:
        """Builds a :class:`~streamsapp.state.api.KeyValueStore` of
        :class:`~streamsapp.state.api.ValueTimestampHeaders` (KIP-1271). A value that is put without headers of its own,
        and a deletion, have those of the record in process."""
        return with_headers(Stores.timestamped_key_value_store_builder(supplier, key_serde, value_serde))

    @staticmethod
    def persistent_timestamped_key_value_store_with_headers(name: str) -> KeyValueStoreSupplier:
        """Supplies a key-value store in RocksDB, for a builder with headers (KIP-1271)."""
        return KeyValueStoreSupplier(name, Engine.ROCKSDB)
