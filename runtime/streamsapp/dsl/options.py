"""The options of the DSL's operators: names, serdes, materialisation. They are plain immutable data.

Built by user code; read once while a program is built, on the user's thread. All of them take the name first, which may
be left out, and the serdes after it; other options are given by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar, get_args, overload

from streamsapp.dsl.arguments import Option
from streamsapp.dsl.arity import require_arity
from streamsapp.dsl.names import validate_name
from streamsapp.errors import TopologyError
from streamsapp.java_names.lookup import java_names
from streamsapp.plain_text import plain_text
from streamsapp.processor.api import Duration, StreamPartitioner
from streamsapp.processor.timestamps import TimestampExtractor
from streamsapp.serdes.api import Serde

if TYPE_CHECKING:
    from streamsapp.dsl.kstream import KStream

K = TypeVar("K")
V = TypeVar("V")
VO = TypeVar("VO")
KO = TypeVar("KO")

#: When the updates of a table go downstream, where the user says so.
Emit: TypeAlias = Literal["update", "commit"]


@java_names("Named")
@dataclass(frozen=True)
class Named:
    """Names the node of an operator."""

    name: str

    def __post_init__(self) -> None:
        validate_name(self.name)
        object.__setattr__(self, "name", plain_text(self.name))


@java_names("Consumed")
@dataclass(frozen=True)
class Consumed(Option, Generic[K, V]):
    """Says how topics are read: ``Consumed(key_serde, value_serde)``, or ``Consumed("name", key_serde, value_serde)``.

    Serdes that are not given are the configured default ones. ``timestamp_extractor(record, key, value,
    partition_time_ms)`` returns milliseconds since 1970. ``name`` names the source node. ``offset_reset`` says where an
    application begins that has committed nothing: ``"earliest"``, which ``None`` is too, ``"latest"``, ``"none"``,
    which ends it with an error, or ``"by_duration:PT1H"``, so long ago (KIP-1106). ``idle_after``, a ``timedelta`` or
    milliseconds, lets stream time move on with the clock where a partition has been silent for so long: windows close
    without another record (docs/guide.md, "Time without records"). Raises ``TopologyError`` for a serde that is none
    and a name that Kafka refuses, and for an extractor that does not take these arguments.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    timestamp_extractor: TimestampExtractor | None = None
    name: str | None = None
    offset_reset: str | None = None
    idle_after: Duration | None = None

    _POSITIONS: ClassVar[tuple[str, ...]] = ("name", "key_serde", "value_serde", "timestamp_extractor")

    @overload
    def __init__(
        self,
        name: str,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
        *,
        offset_reset: str | None = None,
        idle_after: Duration | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
        *,
        name: str | None = None,
        offset_reset: str | None = None,
        idle_after: Duration | None = None,
    ) -> None: ...
    def __init__(self, *given: Any, **named: Any) -> None:
        self._take(given, named)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.timestamp_extractor is not None:
            arguments = "record", "key", "value", "partition_time_ms"
            require_arity("Consumed's timestamp_extractor", self.timestamp_extractor, *arguments)


@java_names("Produced")
@dataclass(frozen=True)
class Produced(Option, Generic[K, V]):
    """Says how a topic is written: ``Produced(key_serde, value_serde)``, or ``Produced("name", key_serde,
    value_serde)``.

    Serdes that are not given come from the stream. ``partitioner`` chooses the partition of a record; without
    one the key's bytes decide, as in Kafka. ``name`` names the sink node.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    partitioner: StreamPartitioner | None = None
    name: str | None = None

    _POSITIONS: ClassVar[tuple[str, ...]] = ("name", "key_serde", "value_serde", "partitioner")

    @overload
    def __init__(
        self,
        name: str,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        partitioner: StreamPartitioner | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        partitioner: StreamPartitioner | None = None,
        *,
        name: str | None = None,
    ) -> None: ...
    def __init__(self, *given: Any, **named: Any) -> None:
        self._take(given, named)


@java_names("Grouped")
@dataclass(frozen=True)
class Grouped(Option, Generic[K, V]):
    """Says how grouped records travel through a repartition topic, if one is needed: ``Grouped(key_serde,
    value_serde)``, or ``Grouped("name", key_serde, value_serde)``.

    ``name`` names the node that selects the key and the repartition topic. Serdes that are not given come from the
    stream, except for a key serde where the key was changed.

    ``combine=True`` aggregates on the sending side too: records of one key that meet between two commits are sent as
    one. It serves ``count``, and ``reduce`` with a reducer that is associative, which the user declares by asking for
    it. Results are the same and fewer records travel, but the repartition topic then holds partial aggregates (of a
    count: longs), so that a Kafka Streams application on the JVM cannot take over in the middle. A reducer may return
    ``None``, to delete, where no value can be changed in place. Windows are not combined: an aggregate that waits for
    the commit could come after its window has closed.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    name: str | None = None
    combine: bool = False

    _POSITIONS: ClassVar[tuple[str, ...]] = ("name", "key_serde", "value_serde")

    @overload
    def __init__(
        self,
        name: str,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        *,
        combine: bool = False,
    ) -> None: ...
    @overload
    def __init__(
        self,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        *,
        name: str | None = None,
        combine: bool = False,
    ) -> None: ...
    def __init__(self, *given: Any, **named: Any) -> None:
        self._take(given, named)


@java_names("Repartitioned")
@dataclass(frozen=True)
class Repartitioned(Option, Generic[K, V]):
    """Says how ``KStream.repartition`` writes its topic (KIP-221).

    ``partitions`` is the number of the topic's partitions, by default that of the stream's source topics. ``name`` is
    part of the topic's name. Raises ``TopologyError`` for a number below 1.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    name: str | None = None
    partitions: int | None = None
    partitioner: StreamPartitioner | None = None

    _POSITIONS: ClassVar[tuple[str, ...]] = ("name", "key_serde", "value_serde")

    @overload
    def __init__(
        self,
        name: str,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        *,
        partitions: int | None = None,
        partitioner: StreamPartitioner | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        *,
        name: str | None = None,
        partitions: int | None = None,
        partitioner: StreamPartitioner | None = None,
    ) -> None: ...
    def __init__(self, *given: Any, **named: Any) -> None:
        self._take(given, named)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.partitions is not None and self.partitions < 1:
            raise TopologyError(f"Repartitioned(partitions={self.partitions}): a topic has at least one partition")


@java_names("Materialized")
@dataclass(frozen=True)
class Materialized(Option, Generic[K, V]):
    """Says how a table is kept: ``Materialized("store-name", key_serde, value_serde)``, the name or the serdes alone. A
    table that is given a ``store_name`` can be queried by it.

    ``store`` is the engine. ``logging=False`` leaves the changelog topic out: the store is then lost with the instance.
    ``log_config`` holds settings of the changelog topic.

    ``emit`` says when updates go downstream. By default each does when it happens; only what goes from one aggregation
    to the next is combined, into one for each row and commit: the changes that a ``group_by`` of the table sends, and
    the updates of an aggregation that nothing but repartition topics of other tables takes. With ``"update"`` these go
    at once, too. With ``"commit"`` the last update of each key goes downstream when the task commits.

    ``retention`` is for windowed tables and refused elsewhere. ``versioned`` is how long a table without windows keeps
    the earlier values of its keys (KIP-914): updates that come out of order do not replace later ones then. ``ttl`` is
    the time to live of the rows of a table without windows: a row is deleted, here and downstream, once the stream time
    of its task is so much later than the row's last update, which a row that is written anew begins again. Durations
    are ``timedelta`` or whole milliseconds. ``caching`` changes neither results nor emission, here as in Kafka Streams'
    semantics: reads and writes of a task always meet in memory first.
    """

    store_name: str | None = None
    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    store: Literal["rocksdb", "memory"] = "rocksdb"
    retention: Duration | None = None
    logging: bool = True
    caching: bool = True
    emit: Emit | None = None
    log_config: dict[str, str] = field(default_factory=dict)
    versioned: Duration | None = None
    ttl: Duration | None = None

    _POSITIONS: ClassVar[tuple[str, ...]] = ("store_name", "key_serde", "value_serde")

    @overload
    def __init__(
        self,
        store_name: str,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        *,
        store: Literal["rocksdb", "memory"] = "rocksdb",
        retention: Duration | None = None,
        logging: bool = True,
        caching: bool = True,
        emit: Emit | None = None,
        log_config: dict[str, str] | None = None,
        versioned: Duration | None = None,
        ttl: Duration | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        *,
        store_name: str | None = None,
        store: Literal["rocksdb", "memory"] = "rocksdb",
        retention: Duration | None = None,
        logging: bool = True,
        caching: bool = True,
        emit: Emit | None = None,
        log_config: dict[str, str] | None = None,
        versioned: Duration | None = None,
        ttl: Duration | None = None,
    ) -> None: ...
    def __init__(self, *given: Any, **named: Any) -> None:
        self._take(given, named)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.store not in ("rocksdb", "memory"):
            raise TopologyError(f"Materialized(store={self.store!r}): use 'rocksdb' or 'memory'")
        if self.emit not in (None, *get_args(Emit)):
            raise TopologyError(f"Materialized(emit={self.emit!r}): use 'update' or 'commit', or leave it out")


@java_names("Branched")
@dataclass(frozen=True)
class Branched(Option, Generic[K, V]):
    """Names a branch, and says what becomes of it (KIP-418).

    ``function`` maps the branch to the stream that is returned under its name (``None`` keeps it out of the result).
    ``consumer`` takes the branch, and nothing is returned for it. Raises ``TopologyError`` if both are given.
    """

    name: str | None = None
    function: Callable[[KStream[K, V]], KStream[Any, Any] | None] | None = None
    consumer: Callable[[KStream[K, V]], None] | None = None

    _POSITIONS: ClassVar[tuple[str, ...]] = ("name", "function")

    @overload
    def __init__(
        self,
        name: str,
        function: Callable[[KStream[K, V]], KStream[Any, Any] | None] | None = None,
        *,
        consumer: Callable[[KStream[K, V]], None] | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        function: Callable[[KStream[K, V]], KStream[Any, Any] | None] | None = None,
        *,
        name: str | None = None,
        consumer: Callable[[KStream[K, V]], None] | None = None,
    ) -> None: ...
    def __init__(self, *given: Any, **named: Any) -> None:
        self._take(given, named)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.function is not None and self.consumer is not None:
            raise TopologyError("Branched takes a function or a consumer, not both")


@java_names("Printed")
@dataclass(frozen=True)
class Printed(Option, Generic[K, V]):
    """Says how ``KStream.print`` writes: ``[label]: key, value`` on standard output, or into the file ``path``.

    Numbers, lists and windows are written as Java prints them: ``1.0E7``, ``true``, ``null``.

    The label is the stream's name unless given; ``mapper(key, value)`` returns the text after it.
    """

    label: str | None = None
    mapper: Callable[[K, V], str] | None = None
    path: str | None = None
    name: str | None = None

    _POSITIONS: ClassVar[tuple[str, ...]] = ("label",)

    @overload
    def __init__(
        self,
        label: str,
        *,
        mapper: Callable[[K, V], str] | None = None,
        path: str | None = None,
        name: str | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        *,
        label: str | None = None,
        mapper: Callable[[K, V], str] | None = None,
        path: str | None = None,
        name: str | None = None,
    ) -> None: ...
    def __init__(self, *given: Any, **named: Any) -> None:
        self._take(given, named)


def name_of(named: Named | str | None) -> str | None:
    """Returns the name that was asked for; a plain string is checked as ``Named`` is."""
    if isinstance(named, str):
        return Named(named).name
    return None if named is None else named.name


def table_options(
    operation: str,
    positional: tuple[Named | str | Materialized[K, V], ...],
    named: Named | str | None,
    materialized: Materialized[K, V] | None,
) -> tuple[str | None, Materialized[K, V] | None]:
    """Sorts an operator's options by type, so that either may be left out, as Kafka Streams' overloads allow."""
    for option in positional:
        if isinstance(option, Materialized) and materialized is None:
            materialized = option
        elif isinstance(option, (Named, str)) and named is None:
            named = option
        else:
            raise TopologyError(f"{operation}: {option!r} is one option too many; it takes a Named and a Materialized")
    return name_of(named), materialized
