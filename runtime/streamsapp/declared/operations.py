"""Lists every operation that a step can be: the sources it takes, the result it gives and its fields. Each has one
entry.

An operation is a method of ``StreamsBuilder``, ``KStream``, ``KTable`` or a grouped form, under its name in camelCase.
An entry is all it needs to be declared: the structure that its faults are found against, the lookup of the code that it
names, and the call that builds it follow from the entry. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from types import NoneType
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta, Struct

from streamsapp.declared.options import (
    AS_OF,
    CALLS,
    CONSUMED,
    DEDUPLICATION,
    GROUPED,
    JOIN_WINDOWS,
    JOINED,
    LATE,
    MATERIALIZED,
    MATERIALIZED_WINDOWS,
    NAMED,
    PRINTED,
    PRODUCED,
    READ,
    REPARTITIONED,
    STORE,
    STREAM_JOINED,
    STREAM_WINDOWS,
    SUPPRESSED,
    TABLE_JOINED,
    WINDOWS,
    Duration,
    Name,
    Names,
    OptionGroup,
    Pattern,
)
from streamsapp.declared.roles import (
    ADDER,
    AGGREGATOR,
    ASYNC_MAPPER,
    INITIALIZER,
    JOINER,
    KEY_SELECTOR,
    MAPPER,
    MERGER,
    PREDICATE,
    PROCESSOR,
    REDUCER,
    SUBTRACTOR,
    TOPIC_NAME_EXTRACTOR,
    TRANSFORMER,
    VALUE_MAPPER,
    VALUES_MAPPER,
    WINDOW_AGGREGATOR,
    reference,
    role_meta,
    role_of,
)


class Kind(Enum):
    """The kinds of things that an operation works on, and gives."""

    BUILDER = "the topology"
    STREAM = "a stream"
    TABLE = "a table"
    GLOBAL_TABLE = "a global table"
    GROUPED_STREAM = "a grouped stream"
    GROUPED_TABLE = "a grouped table"
    WINDOWED_STREAM = "a windowed stream"
    SESSIONS = "a stream in sessions"
    COUNT_WINDOWS = "a stream in count windows"
    COGROUPED = "a cogrouped stream"
    COGROUPED_WINDOWS = "a windowed cogrouped stream"
    COGROUPED_SESSIONS = "a cogrouped stream in sessions"


@dataclass(frozen=True)
class Operation:
    """One operation. The first of the ``arguments`` may be written alone: ``filter: "app:big"``."""

    gives: Kind | None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    options: tuple[OptionGroup, ...] = ()
    #: Of these arguments exactly one is given; the method has one parameter for all, named here.
    one_of: tuple[str, ...] = ()
    one_of_as: str = ""
    #: With these fields it gives something else.
    gives_with: Mapping[str, Kind] = field(default_factory=dict)
    #: The kinds that the field ``with`` may name.
    others: tuple[Kind, ...] = (Kind.STREAM,)
    #: The operation that takes its place if ``with`` names this kind, or if it has this field.
    for_other: Mapping[Kind, Operation] = field(default_factory=dict)
    for_field: Mapping[str, Operation] = field(default_factory=dict)

    def chosen(self, given: object, other: Kind | None) -> Operation:
        """Returns the operation that these fields are for; ``other`` is the kind that ``with`` names."""
        fields = given if isinstance(given, dict) else {}
        by_field = next((each for name, each in self.for_field.items() if self.written[name] in fields), self)
        return by_field if other is None else by_field.for_other.get(other, by_field)

    def gives_for(self, given: object) -> Kind | None:
        """Returns the kind that the operation gives with these fields."""
        fields = given if isinstance(given, dict) else {}
        return next((kind for name, kind in self.gives_with.items() if self.written[name] in fields), self.gives)

    @cached_property
    def structure(self) -> type[Struct]:
        """Returns the structure that a step's fields are checked against."""
        fields: dict[str, Any] = {name: type_ | None for group in self.options for name, type_ in group.fields.items()}
        fields |= self.arguments
        return msgspec.defstruct(
            "Options",
            [(name, type_, None) if NoneType in get_args(type_) else (name, type_) for name, type_ in fields.items()],
            kw_only=True,
            frozen=True,
            rename="camel",
            forbid_unknown_fields=True,
        )

    @cached_property
    def written(self) -> dict[str, str]:
        """The name of each field in a manifest."""
        return {each.name: each.encode_name for each in msgspec.structs.fields(self.structure)}

    @property
    def first(self) -> str | None:
        """The field that may be written alone, as it is named in a manifest."""
        return next((self.written[name] for name in self.arguments), None)

    @property
    def one_of_names(self) -> list[str]:
        return [self.written[name] for name in self.one_of]

    def is_reference(self, given: Mapping[str, Any]) -> bool:
        """Says whether a mapping holds no fields but is the first field's value: ``flatMapValues: {split: ","}``."""
        role = next((role_of(type_) for type_ in self.arguments.values()), None)
        return role is not None and len(given) == 1 and not role.made_from.keys().isdisjoint(given)


@dataclass(frozen=True)
class Step:
    """A step without fault. ``of`` and ``gives`` are the names of what it continues from and of its result."""

    path: str
    name: str
    operation: Operation
    options: Any
    of: str
    gives: str

    @property
    def reads(self) -> bool:
        """Says whether the operation reads a topic."""
        return self.name in OPERATIONS[Kind.BUILDER] and self.name != "addStateStore"

    def branches(self) -> Iterator[tuple[str, DeclaredBranch | DeclaredDefaultBranch]]:
        """The branches of a ``split``, each with its path."""
        for index, branch in enumerate(getattr(self.options, "branches", ())):
            yield f"{self.path}.branches[{index}]", branch
        default = getattr(self.options, "default", None)
        if default is not None:
            yield f"{self.path}.default", default


class DeclaredBranch(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The branch of a ``split`` for the records that no earlier one took and for which the predicate holds."""

    predicate: Annotated[Any, role_meta(PREDICATE)]
    name: Name | None = None
    result: Name | None = msgspec.field(default=None, name="as")


class DeclaredDefaultBranch(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The branch for all other records."""

    name: Name | None = None
    result: Name | None = msgspec.field(default=None, name="as")


#: A field that names what an earlier step gave.
Other = Annotated[str, Meta(min_length=1)]

_MAPPER = {"mapper": reference(MAPPER)}
_VALUE_MAPPER = {"mapper": reference(VALUE_MAPPER)}
_PREDICATE = {"predicate": reference(PREDICATE)}
_TOPIC = {"topic": Name}
_PROCESSOR = {"supplier": reference(PROCESSOR), "stores": list[Name] | None}
Branches = Annotated[list[DeclaredBranch], Meta(min_length=1)]

#: A table may be given a name and be kept in a store.
_KEPT = (NAMED, MATERIALIZED)

_JOIN_WITH = {"with": Other, "joiner": reference(JOINER)}
_JOIN_STREAMS = Operation(Kind.STREAM, {**_JOIN_WITH, "within_ms": Duration}, (JOIN_WINDOWS, STREAM_JOINED, LATE))
_JOIN_AS_OF = Operation(Kind.STREAM, {**_JOIN_WITH, "within_ms": Duration}, (AS_OF, JOINED, LATE))
_JOIN_TABLE = Operation(Kind.STREAM, _JOIN_WITH, (JOINED,), others=(Kind.TABLE,))
_JOIN_GLOBAL_TABLE = Operation(
    Kind.STREAM, {**_JOIN_WITH, "key_selector": reference(KEY_SELECTOR)}, (NAMED,), others=(Kind.GLOBAL_TABLE,)
)
_JOIN = Operation(
    Kind.STREAM,
    {**_JOIN_WITH, "key_selector": reference(KEY_SELECTOR) | None},
    (JOIN_WINDOWS, STREAM_JOINED, LATE),
    others=(Kind.STREAM, Kind.TABLE, Kind.GLOBAL_TABLE),
    for_other={Kind.STREAM: _JOIN_STREAMS, Kind.TABLE: _JOIN_TABLE, Kind.GLOBAL_TABLE: _JOIN_GLOBAL_TABLE},
)
_JOIN_TABLES = Operation(Kind.TABLE, _JOIN_WITH, _KEPT, others=(Kind.TABLE,))
_JOIN_BY_KEY = Operation(
    Kind.TABLE,
    {**_JOIN_WITH, "foreign_key_extractor": reference(VALUE_MAPPER) | None},
    (TABLE_JOINED, MATERIALIZED),
    others=(Kind.TABLE,),
)
_JOIN_TABLES_BY = Operation(
    Kind.TABLE,
    {**_JOIN_WITH, "foreign_key_extractor": reference(VALUE_MAPPER) | None},
    _KEPT,
    others=(Kind.TABLE,),
    for_field={"foreign_key_extractor": _JOIN_BY_KEY},
)
_FILLED_STORE = Operation(None, {"store": Name, "topic": Name, "supplier": reference(PROCESSOR)}, (STORE, READ))
_INITIALIZER = {"initializer": reference(INITIALIZER)}
_AGGREGATE = {**_INITIALIZER, "aggregator": reference(AGGREGATOR)}
_KINDS_OF_WINDOWS = ("size_ms", "difference_ms", "gap_ms", "start_ms")
_KEPT_WINDOWS = (NAMED, MATERIALIZED_WINDOWS)
_OF_WINDOWS = {
    "count": Operation(Kind.TABLE, {}, _KEPT_WINDOWS),
    "reduce": Operation(Kind.TABLE, {"reducer": reference(REDUCER)}, _KEPT_WINDOWS),
}
EmitStrategyName = Literal["onWindowUpdate", "onWindowClose"]

OPERATIONS: dict[Kind, dict[str, Operation]] = {
    Kind.BUILDER: {
        "stream": Operation(
            Kind.STREAM,
            {"topic": Name | None, "topics": Names | None, "pattern": Pattern | None},
            (CONSUMED,),
            one_of=("topic", "topics", "pattern"),
            one_of_as="topics",
        ),
        "table": Operation(Kind.TABLE, _TOPIC, (CONSUMED, MATERIALIZED, LATE)),
        "globalTable": Operation(Kind.GLOBAL_TABLE, _TOPIC, (CONSUMED, MATERIALIZED)),
        "addStateStore": Operation(None, {"store": Name}, (STORE,)),
        "addGlobalStore": _FILLED_STORE,
        "addReadOnlyStateStore": _FILLED_STORE,
    },
    Kind.STREAM: {
        "filter": Operation(Kind.STREAM, _PREDICATE, (NAMED,)),
        "filterNot": Operation(Kind.STREAM, _PREDICATE, (NAMED,)),
        "map": Operation(Kind.STREAM, _MAPPER, (NAMED,)),
        "mapValues": Operation(Kind.STREAM, _VALUE_MAPPER, (NAMED,)),
        "flatMap": Operation(Kind.STREAM, _MAPPER, (NAMED,)),
        "flatMapValues": Operation(Kind.STREAM, {"mapper": reference(VALUES_MAPPER)}, (NAMED,)),
        "mapAsync": Operation(Kind.STREAM, {"function": reference(ASYNC_MAPPER)}, (CALLS, NAMED)),
        "selectKey": Operation(Kind.STREAM, {"selector": reference(KEY_SELECTOR)}, (NAMED,)),
        "peek": Operation(Kind.STREAM, {"action": reference(MAPPER)}, (NAMED,)),
        "merge": Operation(Kind.STREAM, {"with": Other}, (NAMED,)),
        "split": Operation(None, {"branches": Branches, "default": DeclaredDefaultBranch | None}, (NAMED,)),
        "repartition": Operation(Kind.STREAM, {}, (REPARTITIONED,)),
        "process": Operation(Kind.STREAM, _PROCESSOR, (NAMED,)),
        "processValues": Operation(Kind.STREAM, _PROCESSOR, (NAMED,)),
        "join": _JOIN,
        "leftJoin": _JOIN,
        "outerJoin": _JOIN_STREAMS,
        "joinPrior": _JOIN_STREAMS,
        "joinAsOf": _JOIN_AS_OF,
        "leftJoinAsOf": _JOIN_AS_OF,
        "deduplicate": Operation(
            Kind.STREAM, {"by": reference(VALUE_MAPPER) | None, "within_ms": Duration}, (DEDUPLICATION, LATE, NAMED)
        ),
        "toTable": Operation(Kind.TABLE, {}, (*_KEPT, LATE)),
        "groupBy": Operation(Kind.GROUPED_STREAM, {"selector": reference(KEY_SELECTOR)}, (GROUPED,)),
        "groupByKey": Operation(Kind.GROUPED_STREAM, {}, (GROUPED,)),
        "foreach": Operation(None, {"action": reference(MAPPER)}, (NAMED,)),
        "print": Operation(None, {}, (PRINTED,)),
        "to": Operation(
            None,
            {"topic": Name | None, "topic_name_extractor": reference(TOPIC_NAME_EXTRACTOR) | None},
            (PRODUCED,),
            one_of=("topic", "topic_name_extractor"),
            one_of_as="topic",
        ),
    },
    Kind.TABLE: {
        "filter": Operation(Kind.TABLE, _PREDICATE, _KEPT),
        "filterNot": Operation(Kind.TABLE, _PREDICATE, _KEPT),
        "mapValues": Operation(Kind.TABLE, _VALUE_MAPPER, _KEPT),
        "transformValues": Operation(
            Kind.TABLE, {"supplier": reference(TRANSFORMER), "stores": list[Name] | None}, _KEPT
        ),
        "toStream": Operation(Kind.STREAM, {"mapper": reference(KEY_SELECTOR) | None}, (NAMED,)),
        "join": _JOIN_TABLES_BY,
        "leftJoin": _JOIN_TABLES_BY,
        "outerJoin": _JOIN_TABLES,
        "suppress": Operation(Kind.TABLE, {}, (SUPPRESSED,), one_of=("until_window_closes", "until_time_limit_ms")),
        "groupBy": Operation(Kind.GROUPED_TABLE, {"selector": reference(MAPPER)}, (GROUPED,)),
    },
    Kind.GLOBAL_TABLE: {},
    Kind.GROUPED_STREAM: {
        "count": Operation(Kind.TABLE, {}, _KEPT),
        "reduce": Operation(Kind.TABLE, {"reducer": reference(REDUCER)}, _KEPT),
        "aggregate": Operation(Kind.TABLE, _AGGREGATE, _KEPT),
        "cogroup": Operation(Kind.COGROUPED, {"aggregator": reference(AGGREGATOR)}),
        "windowedBy": Operation(
            Kind.WINDOWED_STREAM,
            {"emit_strategy": EmitStrategyName | None},
            (STREAM_WINDOWS, LATE),
            one_of=(*_KINDS_OF_WINDOWS, "records"),
            gives_with={"gap_ms": Kind.SESSIONS, "records": Kind.COUNT_WINDOWS},
        ),
    },
    Kind.COGROUPED: {
        "cogroup": Operation(
            Kind.COGROUPED, {"with": Other, "aggregator": reference(AGGREGATOR)}, others=(Kind.GROUPED_STREAM,)
        ),
        "aggregate": Operation(Kind.TABLE, _INITIALIZER, _KEPT),
        "windowedBy": Operation(
            Kind.COGROUPED_WINDOWS,
            {},
            (WINDOWS, LATE),
            one_of=_KINDS_OF_WINDOWS,
            gives_with={"gap_ms": Kind.COGROUPED_SESSIONS},
        ),
    },
    Kind.COGROUPED_WINDOWS: {"aggregate": Operation(Kind.TABLE, _INITIALIZER, _KEPT_WINDOWS)},
    Kind.COGROUPED_SESSIONS: {
        "aggregate": Operation(Kind.TABLE, {**_INITIALIZER, "merger": reference(MERGER)}, _KEPT_WINDOWS)
    },
    Kind.WINDOWED_STREAM: {
        **_OF_WINDOWS,
        "aggregate": Operation(Kind.TABLE, {**_INITIALIZER, "aggregator": reference(WINDOW_AGGREGATOR)}, _KEPT_WINDOWS),
    },
    Kind.COUNT_WINDOWS: {
        "count": Operation(Kind.STREAM, {}, _KEPT),
        "reduce": Operation(Kind.STREAM, {"reducer": reference(REDUCER)}, _KEPT),
        "aggregate": Operation(Kind.STREAM, _AGGREGATE, _KEPT),
    },
    Kind.SESSIONS: {
        **_OF_WINDOWS,
        "aggregate": Operation(Kind.TABLE, {**_AGGREGATE, "merger": reference(MERGER)}, _KEPT_WINDOWS),
    },
    Kind.GROUPED_TABLE: {
        "count": Operation(Kind.TABLE, {}, _KEPT),
        "reduce": Operation(Kind.TABLE, {"adder": reference(ADDER), "subtractor": reference(SUBTRACTOR)}, _KEPT),
        "aggregate": Operation(
            Kind.TABLE,
            {
                "initializer": reference(INITIALIZER),
                "adder": reference(AGGREGATOR),
                "subtractor": reference(AGGREGATOR),
            },
            _KEPT,
        ),
    },
}

#: The ways to get to the kinds that an operation works on.
WAY_TO = {
    Kind.STREAM: "make it a stream first, with toStream",
    Kind.TABLE: "make it a table first, with toTable",
    Kind.GROUPED_STREAM: "group it first, with groupBy or groupByKey",
    Kind.GROUPED_TABLE: "group it first, with groupBy",
    Kind.WINDOWED_STREAM: "put it into windows first, with windowedBy",
    Kind.SESSIONS: "put it into sessions first, with windowedBy: {gapMs: ...}",
    Kind.COUNT_WINDOWS: "put it into windows first, with windowedBy: {records: ...}",
    Kind.COGROUPED: "cogroup it first, with cogroup",
    Kind.COGROUPED_WINDOWS: "put it into windows first, with windowedBy",
    Kind.COGROUPED_SESSIONS: "put it into sessions first, with windowedBy: {gapMs: ...}",
    Kind.GLOBAL_TABLE: "read it with globalTable",
}


def kinds_of(operation: str) -> list[Kind]:
    """Returns the kinds that have an operation of that name."""
    return [kind for kind, operations in OPERATIONS.items() if operation in operations]
