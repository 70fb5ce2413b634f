"""The options of joins: serdes, names, and the stores of streams that are joined.

Built by user code; read once while a program is built, on the user's thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar, overload

from streamsapp.dsl.arguments import Option
from streamsapp.errors import TopologyError
from streamsapp.java_names.lookup import java_names
from streamsapp.processor.api import Duration, StreamPartitioner
from streamsapp.serdes.api import Serde
from streamsapp.state.builders import WindowStoreSupplier

K = TypeVar("K")
V = TypeVar("V")
VO = TypeVar("VO")
KO = TypeVar("KO")


@java_names("Joined")
@dataclass(frozen=True)
class Joined(Option, Generic[K, V, VO]):
    """Says how a stream is joined with a table: the serdes of a repartition topic, if one is needed, and its name.

    ``grace`` (a ``timedelta`` or milliseconds) holds records of the stream back until stream time has passed them by so
    much. So a versioned table is joined as of each record's timestamp, late updates of the table included (KIP-923).
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    other_value_serde: Serde[VO] | None = None
    name: str | None = None
    grace: Duration | None = None

    _POSITIONS: ClassVar[tuple[str, ...]] = ("name", "key_serde", "value_serde", "other_value_serde")

    @overload
    def __init__(
        self,
        name: str,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        other_value_serde: Serde[VO] | None = None,
        *,
        grace: Duration | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        other_value_serde: Serde[VO] | None = None,
        *,
        name: str | None = None,
        grace: Duration | None = None,
    ) -> None: ...
    def __init__(self, *given: Any, **named: Any) -> None:
        self._take(given, named)


@java_names("StreamJoined")
@dataclass(frozen=True)
class StreamJoined(Option, Generic[K, V, VO]):
    """Says how two streams are joined: serdes, names, and the window stores that keep both sides (KIP-479).

    ``name`` names the join's nodes and repartition topics, ``store_name`` the stores and their changelogs. A supplier
    names the store of one side alone and says where it is kept; its windows have to be the join's, its retention their
    size and grace, and it has to retain duplicates. As in Kafka Streams such a store is logged, and ``logging``,
    ``log_config`` and ``store`` are those of the others.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    other_value_serde: Serde[VO] | None = None
    name: str | None = None
    store_name: str | None = None
    store: Literal["rocksdb", "memory"] = "rocksdb"
    logging: bool = True
    log_config: dict[str, str] = field(default_factory=dict)
    this_store_supplier: WindowStoreSupplier | None = None
    other_store_supplier: WindowStoreSupplier | None = None

    _POSITIONS: ClassVar[tuple[str, ...]] = ("name", "key_serde", "value_serde", "other_value_serde")

    @overload
    def __init__(
        self,
        name: str,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        other_value_serde: Serde[VO] | None = None,
        *,
        store_name: str | None = None,
        store: Literal["rocksdb", "memory"] = "rocksdb",
        logging: bool = True,
        log_config: dict[str, str] | None = None,
        this_store_supplier: WindowStoreSupplier | None = None,
        other_store_supplier: WindowStoreSupplier | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        other_value_serde: Serde[VO] | None = None,
        *,
        name: str | None = None,
        store_name: str | None = None,
        store: Literal["rocksdb", "memory"] = "rocksdb",
        logging: bool = True,
        log_config: dict[str, str] | None = None,
        this_store_supplier: WindowStoreSupplier | None = None,
        other_store_supplier: WindowStoreSupplier | None = None,
    ) -> None: ...
    def __init__(self, *given: Any, **named: Any) -> None:
        self._take(given, named)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.store not in ("rocksdb", "memory"):
            raise TopologyError(f"StreamJoined(store={self.store!r}): use 'rocksdb' or 'memory'")
        for side in ("this_store_supplier", "other_store_supplier"):
            supplier = getattr(self, side)
            if supplier is not None and not isinstance(supplier, WindowStoreSupplier):
                raise TopologyError(
                    f"StreamJoined({side}={supplier!r}): that supplies no window store; make it with "
                    "Stores.persistent_window_store(...) or Stores.in_memory_window_store(...)"
                )
        this, other = self.this_store_supplier, self.other_store_supplier
        if this is not None and other is not None and this.name == other.name:
            raise TopologyError(
                f"StreamJoined: both suppliers name their store {this.name!r}; give each a name of its own"
            )


@java_names("TableJoined")
@dataclass(frozen=True)
class TableJoined(Option, Generic[K, KO]):
    """Says how a table is joined by foreign key: the partitioners of both tables' topics, and a name (KIP-775).

    A partitioner is given a key and no value, and has to choose one partition, or return ``None`` for the usual one. A
    record for which it chooses several partitions, or an empty collection, fails with a ``ValueError``.
    """

    partitioner: StreamPartitioner | None = None
    other_partitioner: StreamPartitioner | None = None
    name: str | None = None

    _POSITIONS: ClassVar[tuple[str, ...]] = ("name", "partitioner", "other_partitioner")

    @overload
    def __init__(
        self,
        name: str,
        partitioner: StreamPartitioner | None = None,
        other_partitioner: StreamPartitioner | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        partitioner: StreamPartitioner | None = None,
        other_partitioner: StreamPartitioner | None = None,
        *,
        name: str | None = None,
    ) -> None: ...
    def __init__(self, *given: Any, **named: Any) -> None:
        self._take(given, named)
