"""The options of operations, as a user writes them: camelCase, flat, all optional. Plain data.

A group of options becomes one object of the DSL: ``keySerde``, ``valueSerde`` and ``name`` of a ``groupBy`` become a
``Grouped``. Two groups may share a field: the serdes of a ``table`` serve reading it and keeping it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from streamsapp.declared.faults import shown
from streamsapp.declared.roles import CONTEXT_MANAGER, MAPPER, PARTITIONER, SERDE, TIMESTAMP_EXTRACTOR, reference
from streamsapp.dsl.async_mapping import OrderName
from streamsapp.dsl.join_options import Joined, StreamJoined, TableJoined
from streamsapp.dsl.options import Consumed, Grouped, Materialized, Printed, Produced, Repartitioned
from streamsapp.dsl.suppressed import BufferConfig, Suppressed
from streamsapp.dsl.windows import (
    CountWindows,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
)
from streamsapp.errors import TopologyError
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.builders import SessionStoreSupplier, Stores, WindowStoreSupplier, with_headers, with_ttl
from streamsapp.state.kinds.expiring import KEY_VALUE_WITH_TTL, TIMESTAMPED_KEY_VALUE_WITH_TTL
from streamsapp.state.kinds.key_value import KEY_VALUE, TIMESTAMPED_KEY_VALUE
from streamsapp.state.kinds.store_type import StoreType
from streamsapp.state.kinds.versioned import VersionedType

#: Of nodes, stores and topics; names of stores become parts of topics' names.
Name: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^(?!\.\.?\Z)[a-zA-Z0-9._-]{1,249}\Z", description="a name of ASCII letters, digits, '.', '_' and '-'"
    ),
]
Names: TypeAlias = Annotated[list[Name], Meta(min_length=1)]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]
Natural: TypeAlias = Annotated[int, Meta(ge=0)]
OffsetReset: TypeAlias = Annotated[
    str,
    Meta(pattern=r"^(earliest|latest|none|by_duration:.+)\Z", description="earliest, latest, none or by_duration:PT1H"),
]
EngineName: TypeAlias = Literal["rocksdb", "memory"]
_WITH_HEADERS = "WithHeaders"
StoreTypeName: TypeAlias = Literal[
    "keyValue",
    "timestampedKeyValue",
    "timestampedKeyValueWithHeaders",
    "keyValueWithTtl",
    "timestampedKeyValueWithTtl",
    "window",
    "timestampedWindow",
    "timestampedWindowWithHeaders",
    "session",
    "sessionWithHeaders",
    "versioned",
]
#: Milliseconds.
Duration: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]

#: Milliseconds, negative where it lies on the other side.
Offset: TypeAlias = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]

_KEY_VALUES = {"keyValue": KEY_VALUE, "timestampedKeyValue": TIMESTAMPED_KEY_VALUE}
_EXPIRING = {"keyValueWithTtl": KEY_VALUE_WITH_TTL, "timestampedKeyValueWithTtl": TIMESTAMPED_KEY_VALUE_WITH_TTL}


_MAX_PATTERN = 1000


def _pattern_fault(given: object) -> str | None:
    if not isinstance(given, str):
        return f"expected a regular expression, got {shown(given)}"
    if len(given) > _MAX_PATTERN:
        return f"has {len(given)} characters; a regular expression has at most {_MAX_PATTERN} here"
    try:
        re.compile(given)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        return f"{shown(given)} is not a regular expression: {error}"
    return None


#: Of topics whose whole name matches it.
Pattern: TypeAlias = Annotated[str, Meta(extra={"check": _pattern_fault})]


@dataclass(frozen=True)
class OptionGroup:
    """Options that the DSL takes as one object, under the name ``keyword``."""

    keyword: str
    make: Callable[..., Any]
    #: The type of each field.
    fields: Mapping[str, Any]
    #: Fields that the DSL's object calls otherwise.
    renamed: Mapping[str, str] = field(default_factory=dict)
    #: True if the DSL takes the object in any case.
    required: bool = False

    def made(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The object as keyword argument; nothing where none of its fields is given, unless it is required."""
        mine = {self.renamed.get(name, name): given[name] for name in self.fields if given.get(name) is not None}
        return {self.keyword: self.make(**mine)} if mine or self.required else {}


@dataclass(frozen=True)
class PlainOptions(OptionGroup):
    """Options that the DSL takes as they are, each under its own name."""

    def made(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {self.renamed.get(name, name): given[name] for name in self.fields if given.get(name) is not None}


def store_builder(
    name: str,
    type: str = "keyValue",
    engine: str = "rocksdb",
    retention_ms: int | None = None,
    window_size_ms: int | None = None,
    ttl_ms: int | None = None,
    **settings: Any,
) -> StoreBuilder:
    """The builder of a store that is declared for processors to use."""
    if ttl_ms is not None and type not in _EXPIRING:
        raise TopologyError(f"store {name}: ttlMs is for a store of type {' or '.join(_EXPIRING)}; leave it out")
    if type in _EXPIRING:
        if retention_ms is not None or window_size_ms is not None:
            raise TopologyError(f"store {name}: a {type} store has a ttlMs; leave retentionMs and windowSizeMs out")
        return StoreBuilder(name, with_ttl(name, _EXPIRING[type], ttl_ms), Engine(engine), **settings)
    kind = _store_type(name, type, engine, retention_ms, window_size_ms)
    builder = StoreBuilder(name, kind, Engine(engine), **settings)
    return with_headers(builder) if type.endswith(_WITH_HEADERS) else builder


def _store_type(name: str, type: str, engine: str, retention_ms: int | None, window_size_ms: int | None) -> StoreType:
    base = type.removesuffix(_WITH_HEADERS)
    if base in _KEY_VALUES:
        if retention_ms is not None or window_size_ms is not None:
            raise TopologyError(f"store {name}: a {type} store keeps every key; leave retentionMs and windowSizeMs out")
        return _KEY_VALUES[base]
    has_windows = base in ("window", "timestampedWindow")
    if retention_ms is None or (window_size_ms is not None) != has_windows:
        needed = "retentionMs and windowSizeMs" if has_windows else "retentionMs, and no windowSizeMs"
        raise TopologyError(f"store {name}: a {type} store needs {needed}")
    if base == "versioned":
        if engine == "memory":
            raise TopologyError(f"store {name}: a versioned store is kept in RocksDB; leave engine out")
        return VersionedType(retention_ms)
    if window_size_ms is None:
        return Stores.session_store_builder(SessionStoreSupplier(name, Engine(engine), retention_ms)).type
    supplier = WindowStoreSupplier(name, Engine(engine), retention_ms, window_size_ms)
    return supplier.type(keeps_timestamps=base == "timestampedWindow")


def windows_of(
    size_ms: int | None = None,
    advance_ms: int | None = None,
    difference_ms: int | None = None,
    gap_ms: int | None = None,
    start_ms: int | None = None,
    grace_ms: int = 0,
) -> TimeWindows | SlidingWindows | SessionWindows | UnlimitedWindows:
    """The windows of an aggregation by time; one of size, difference, gap and start gives its kind."""
    if advance_ms is not None and size_ms is None:
        raise TopologyError("advanceMs: only windows of a size (sizeMs) have an advance")
    if difference_ms is not None:
        return SlidingWindows.of(difference_ms, grace_ms)
    if gap_ms is not None:
        return SessionWindows.of(gap_ms, grace_ms)
    if size_ms is None:
        if grace_ms:
            raise TopologyError("graceMs: unlimited windows (startMs) never close, so they need no grace")
        return UnlimitedWindows.of().start_on(start_ms or 0)
    made = TimeWindows.of(size_ms, grace_ms)
    return made if advance_ms is None else made.advance_by(advance_ms)


def stream_windows_of(
    records: int | None = None, advance_records: int | None = None, grace_ms: int = 0, **by_time: int
) -> TimeWindows | SlidingWindows | SessionWindows | UnlimitedWindows | CountWindows:
    """The windows of an aggregation of one stream, which may also hold a number of records."""
    if records is None:
        if advance_records is not None:
            raise TopologyError("advanceRecords: only windows of a number of records (records) have it")
        return windows_of(**by_time, grace_ms=grace_ms)
    if grace_ms or by_time:
        raise TopologyError("records: windows of a number of records have no times; leave graceMs and advanceMs out")
    made = CountWindows.of(records)
    return made if advance_records is None else made.advance_by(advance_records)


def join_windows_of(
    within_ms: int, before_ms: int | None = None, after_ms: int | None = None, grace_ms: int = 0
) -> JoinWindows:
    """Returns how far the timestamps of two records that join may be apart."""
    made = JoinWindows.of(within_ms, grace_ms)
    made = made if before_ms is None else made.before(before_ms)
    return made if after_ms is None else made.after(after_ms)


class DeclaredJoinStore(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The store of one side of a join of two streams. Its windows are the join's."""

    store: Name
    engine: EngineName = "rocksdb"


def stream_joined_of(
    within_ms: int,
    before_ms: int | None = None,
    after_ms: int | None = None,
    grace_ms: int = 0,
    this_store: DeclaredJoinStore | None = None,
    other_store: DeclaredJoinStore | None = None,
    **options: Any,
) -> StreamJoined[Any, Any, Any]:
    """Returns how two streams are joined; the stores of single sides keep what the join's windows need."""
    size_ms = join_windows_of(within_ms, before_ms, after_ms, grace_ms).size_ms

    def supplier(store: DeclaredJoinStore | None) -> WindowStoreSupplier | None:
        if store is None:
            return None
        return WindowStoreSupplier(store.store, Engine(store.engine), size_ms + grace_ms, size_ms, True)

    return StreamJoined(**options, this_store_supplier=supplier(this_store), other_store_supplier=supplier(other_store))


def suppressed_of(
    until_window_closes: bool = False,
    until_time_limit_ms: int | None = None,
    max_records: int | None = None,
    max_bytes: int | None = None,
    emit_early_when_full: bool = False,
    logging: bool = True,
    log_config: dict[str, str] | None = None,
    name: str | None = None,
) -> Suppressed:
    """Returns when a table's updates go on, and how many may wait."""
    config = BufferConfig.unbounded()
    config = config if max_records is None else config.with_max_records(max_records)
    config = config if max_bytes is None else config.with_max_bytes(max_bytes)
    config = config.emit_early_when_full() if emit_early_when_full else config
    config = config.with_logging_enabled(log_config) if logging else config.with_logging_disabled()
    if until_time_limit_ms is not None:
        made = Suppressed.until_time_limit(until_time_limit_ms, config)
    elif until_window_closes:
        made = Suppressed.until_window_closes(config)
    else:
        raise TopologyError("untilWindowCloses: say true, or leave it out and say untilTimeLimitMs")
    return made if name is None else made.with_name(name)


_SERDES = {"key_serde": reference(SERDE), "value_serde": reference(SERDE)}

NAMED = OptionGroup("named", lambda name: name, {"name": Name})
CALLS = PlainOptions(
    "",
    dict,
    {
        "concurrency": Positive,
        "order": OrderName,
        "timeout_ms": Positive,
        "retries": Natural,
        "using": reference(CONTEXT_MANAGER),
        **_SERDES,
        "result_serde": reference(SERDE),
    },
    renamed={"timeout_ms": "timeout"},
)
DEDUPLICATION = PlainOptions(
    "",
    dict,
    {"within_ms": Duration, "grace_ms": Duration, "same_key": bool, "by_serde": reference(SERDE)},
    renamed={"within_ms": "within", "grace_ms": "grace"},
)
AS_OF = PlainOptions("", dict, {"within_ms": Duration}, renamed={"within_ms": "within"})
CONSUMED = OptionGroup(
    "consumed",
    Consumed,
    {
        **_SERDES,
        "timestamp_extractor": reference(TIMESTAMP_EXTRACTOR),
        "offset_reset": OffsetReset,
        "idle_after_ms": Duration,
        "name": Name,
    },
    renamed={"idle_after_ms": "idle_after"},
)
#: Of what is always read, if only with the configured serdes.
READ = replace(CONSUMED, required=True)
PRODUCED = OptionGroup("produced", Produced, {**_SERDES, "partitioner": reference(PARTITIONER), "name": Name})
GROUPED = OptionGroup("grouped", Grouped, {**_SERDES, "name": Name, "combine": bool})
REPARTITIONED = OptionGroup(
    "repartitioned",
    Repartitioned,
    {**_SERDES, "name": Name, "partitions": Positive, "partitioner": reference(PARTITIONER)},
)
_KEPT = {
    "store": Name,
    **_SERDES,
    "engine": EngineName,
    "logging": bool,
    "caching": bool,
    "emit": Literal["update", "commit"],
    "log_config": dict[str, str],
}
MATERIALIZED = OptionGroup(
    "materialized",
    Materialized,
    {**_KEPT, "versioned_ms": Duration, "ttl_ms": Positive},
    renamed={"store": "store_name", "engine": "store", "versioned_ms": "versioned", "ttl_ms": "ttl"},
)
MATERIALIZED_WINDOWS = OptionGroup(
    "materialized",
    Materialized,
    {**_KEPT, "retention_ms": Duration},
    renamed={"store": "store_name", "engine": "store", "retention_ms": "retention"},
)
WINDOWS = OptionGroup(
    "windows",
    windows_of,
    dict.fromkeys(("size_ms", "advance_ms", "difference_ms", "gap_ms", "start_ms", "grace_ms"), Duration),
)
STREAM_WINDOWS = replace(
    WINDOWS,
    make=stream_windows_of,
    fields={**WINDOWS.fields, "records": Positive, "advance_records": Positive},
)
SUPPRESSED = OptionGroup(
    "suppressed",
    suppressed_of,
    {
        "until_window_closes": bool,
        "until_time_limit_ms": Duration,
        "max_records": Positive,
        "max_bytes": Positive,
        "emit_early_when_full": bool,
        "logging": bool,
        "log_config": dict[str, str],
        "name": Name,
    },
)
_JOINED = {**_SERDES, "other_value_serde": reference(SERDE), "name": Name}
JOINED = OptionGroup("joined", Joined, {**_JOINED, "grace_ms": Duration}, renamed={"grace_ms": "grace"})
_JOIN_WINDOWS = {"within_ms": Duration, "before_ms": Offset, "after_ms": Offset, "grace_ms": Duration}
JOIN_WINDOWS = OptionGroup("windows", join_windows_of, _JOIN_WINDOWS)
STREAM_JOINED = OptionGroup(
    "stream_joined",
    stream_joined_of,
    {
        **_JOIN_WINDOWS,
        **_JOINED,
        "store": Name,
        "this_store": DeclaredJoinStore,
        "other_store": DeclaredJoinStore,
        "engine": EngineName,
        "logging": bool,
        "log_config": dict[str, str],
    },
    renamed={"store": "store_name", "engine": "store"},
)
TABLE_JOINED = OptionGroup(
    "table_joined",
    TableJoined,
    {"partitioner": reference(PARTITIONER), "other_partitioner": reference(PARTITIONER), "name": Name},
)
#: Where records go that come too late: to a topic, or to the steps that continue from a name.
LATE = PlainOptions("", dict, {"late": Name, "late_as": Annotated[str, Meta(min_length=1)]})
PRINTED = OptionGroup("printed", Printed, {"label": str, "mapper": reference(MAPPER), "path": str, "name": Name})
STORE = OptionGroup(
    "store",
    store_builder,
    {
        "store": Name,
        "type": StoreTypeName,
        "retention_ms": Duration,
        "window_size_ms": Duration,
        "ttl_ms": Positive,
        **_SERDES,
        "engine": EngineName,
        "logging": bool,
        "caching": bool,
        "log_config": dict[str, str],
    },
    renamed={"store": "name"},
)
