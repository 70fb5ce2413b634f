"""Options of the DSL's operators: names, serdes, materialisation. Plain immutable data.

Built by user code; read once while a program is built, on the user's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from streamsapp.dsl.names import validate_name
from streamsapp.errors import TopologyError
from streamsapp.processor.api import Duration, StreamPartitioner
from streamsapp.processor.timestamps import TimestampExtractor
from streamsapp.serdes.api import Serde

if TYPE_CHECKING:
    from streamsapp.dsl.kstream import KStream

K = TypeVar("K")
V = TypeVar("V")
VO = TypeVar("VO")
KO = TypeVar("KO")


@dataclass(frozen=True)
class Named:
    """Names the node of an operator."""

    name: str

    def __post_init__(self) -> None:
        validate_name(self.name)


class _Option:
    """Checks what all options have in common when one is made."""

    def __post_init__(self) -> None:
        for field_name in ("key_serde", "value_serde", "other_value_serde"):
            serde = getattr(self, field_name, None)
            if serde is not None and not isinstance(serde, Serde):
                raise TopologyError(f"{type(self).__name__}({field_name}={serde!r}): that is no serde; see Serdes")
        for field_name in ("name", "store_name"):
            name = getattr(self, field_name, None)
            if name is not None:
                validate_name(name)


@dataclass(frozen=True)
class Consumed(_Option, Generic[K, V]):
    """How topics are read. ``offset_reset`` is ``"earliest"``, ``"latest"`` or ``None`` for the configured one."""

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    timestamp_extractor: TimestampExtractor | None = None
    name: str | None = None
    offset_reset: str | None = None


@dataclass(frozen=True)
class Produced(_Option, Generic[K, V]):
    """How a topic is written. Serdes that are not given come from the stream."""

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    partitioner: StreamPartitioner | None = None
    name: str | None = None


@dataclass(frozen=True)
class Grouped(_Option, Generic[K, V]):
    """How grouped records travel through a repartition topic, where one is needed.

    ``name`` names the node that selects the key and the repartition topic. Serdes that are not given come from the
    stream, except for a key serde where the key was changed.

    ``combine=True`` aggregates on the sending side too: records of one key that meet between two commits are sent as
    one. It serves ``count``, and ``reduce`` with a reducer that is associative, which the user declares by asking for
    it. Results are the same and fewer records travel, but the repartition topic then holds partial aggregates (of a
    count: longs), so that a Kafka Streams application on the JVM cannot take over in the middle.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    name: str | None = None
    combine: bool = False


@dataclass(frozen=True)
class Repartitioned(_Option, Generic[K, V]):
    """How ``KStream.repartition`` writes its topic."""

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    name: str | None = None
    partitions: int | None = None
    partitioner: StreamPartitioner | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.partitions is not None and self.partitions < 1:
            raise TopologyError(f"Repartitioned(partitions={self.partitions}): a topic has at least one partition")


@dataclass(frozen=True)
class Materialized(_Option, Generic[K, V]):
    """How a table is kept. A table that is given a ``store_name`` can be queried by it.

    ``emit="commit"`` sends the last update of each key downstream when the task commits, instead of every update when
    it happens. ``retention`` is for windowed tables and refused elsewhere. ``versioned`` is how long a table that is
    read from a topic or made of a stream keeps the values that its keys had (KIP-914): updates that come out of order
    do not replace later ones then. ``caching`` changes neither results nor emission, here as in Kafka Streams'
    semantics: reads and writes of a task always meet in memory first.
    """

    store_name: str | None = None
    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    store: Literal["rocksdb", "memory"] = "rocksdb"
    retention: Duration | None = None
    logging: bool = True
    caching: bool = True
    emit: Literal["update", "commit"] = "update"
    log_config: dict[str, str] = field(default_factory=dict)
    versioned: Duration | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.store not in ("rocksdb", "memory"):
            raise TopologyError(f"Materialized(store={self.store!r}): use 'rocksdb' or 'memory'")
        if self.emit not in ("update", "commit"):
            raise TopologyError(f"Materialized(emit={self.emit!r}): use 'update' or 'commit'")


@dataclass(frozen=True)
class Joined(_Option, Generic[K, V, VO]):
    """How a stream is joined with a table: the serdes of a repartition topic where one is needed, and its name.

    ``grace`` holds records of the stream back until stream time has passed them by so much, so that a versioned table
    is joined as of each record's timestamp, late updates of the table included (KIP-923).
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    other_value_serde: Serde[VO] | None = None
    name: str | None = None
    grace: Duration | None = None


@dataclass(frozen=True)
class StreamJoined(_Option, Generic[K, V, VO]):
    """How two streams are joined: serdes, names, and the window stores that keep both sides.

    ``name`` names the join's nodes and repartition topics, ``store_name`` the stores and their changelogs.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    other_value_serde: Serde[VO] | None = None
    name: str | None = None
    store_name: str | None = None
    store: Literal["rocksdb", "memory"] = "rocksdb"
    logging: bool = True
    log_config: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.store not in ("rocksdb", "memory"):
            raise TopologyError(f"StreamJoined(store={self.store!r}): use 'rocksdb' or 'memory'")


@dataclass(frozen=True)
class TableJoined(_Option, Generic[K, KO]):
    """How a table is joined by foreign key: the partitioners of both tables' topics, and a name (KIP-775)."""

    partitioner: StreamPartitioner | None = None
    other_partitioner: StreamPartitioner | None = None
    name: str | None = None


@dataclass(frozen=True)
class Branched(_Option, Generic[K, V]):
    """Names a branch, and says what becomes of it.

    ``function`` maps the branch to the stream that is returned under its name (``None`` keeps it out of the result);
    ``consumer`` takes the branch, nothing is returned for it.
    """

    name: str | None = None
    function: Callable[[KStream[K, V]], KStream[Any, Any] | None] | None = None
    consumer: Callable[[KStream[K, V]], None] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.function is not None and self.consumer is not None:
            raise TopologyError("Branched takes a function or a consumer, not both")


@dataclass(frozen=True)
class Printed(_Option, Generic[K, V]):
    """How ``KStream.print`` writes: ``[label]: key, value`` on standard output, or into ``path``.

    The label is the stream's name unless given; ``mapper(key, value)`` gives the text after it.
    """

    label: str | None = None
    mapper: Callable[[K, V], str] | None = None
    path: str | None = None
    name: str | None = None


def name_of(named: Named | str | None) -> str | None:
    """The name that was asked for; a plain string is checked as ``Named`` is."""
    if isinstance(named, str):
        return Named(named).name
    return None if named is None else named.name


def table_options(
    operation: str,
    positional: tuple[Named | str | Materialized[K, V], ...],
    named: Named | str | None,
    materialized: Materialized[K, V] | None,
) -> tuple[str | None, Materialized[K, V] | None]:
    """Sort an operator's options by type, so that either may be left out, as Kafka Streams' overloads allow."""
    for option in positional:
        if isinstance(option, Materialized) and materialized is None:
            materialized = option
        elif isinstance(option, (Named, str)) and named is None:
            named = option
        else:
            raise TopologyError(f"{operation}: {option!r} is one option too many; it takes a Named and a Materialized")
    return name_of(named), materialized
