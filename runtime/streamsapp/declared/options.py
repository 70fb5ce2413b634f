"""The options of operations, as a user writes them: camelCase, flat, all optional. Plain data.

A group of options becomes one object of the DSL: ``keySerde``, ``valueSerde`` and ``name`` of a ``groupBy`` become a
``Grouped``. Two groups may share a field: the serdes of a ``table`` serve reading it and keeping it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from streamsapp.declared.faults import shown
from streamsapp.declared.roles import MAPPER, PARTITIONER, SERDE, TIMESTAMP_EXTRACTOR, reference
from streamsapp.dsl.options import Consumed, Grouped, Materialized, Printed, Produced, Repartitioned
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.key_value import KEY_VALUE, TIMESTAMPED_KEY_VALUE

#: Of nodes, stores and topics; names of stores become parts of topics' names.
Name: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^(?!\.\.?\Z)[a-zA-Z0-9._-]{1,249}\Z", description="a name of ASCII letters, digits, '.', '_' and '-'"
    ),
]
Names: TypeAlias = Annotated[list[Name], Meta(min_length=1)]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]
OffsetReset: TypeAlias = Annotated[
    str,
    Meta(pattern=r"^(earliest|latest|none|by_duration:.+)\Z", description="earliest, latest, none or by_duration:PT1H"),
]
EngineName: TypeAlias = Literal["rocksdb", "memory"]
StoreTypeName: TypeAlias = Literal["keyValue", "timestampedKeyValue"]

_KINDS = {"keyValue": KEY_VALUE, "timestampedKeyValue": TIMESTAMPED_KEY_VALUE}


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
class Group:
    """Options that the DSL takes as one object, under the name ``keyword``."""

    keyword: str
    make: Callable[..., Any]
    #: The type of each field.
    fields: Mapping[str, Any]
    #: Fields that the DSL's object calls otherwise.
    renamed: Mapping[str, str] = field(default_factory=dict)

    def made(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The object as keyword argument; nothing where none of its fields is given."""
        mine = {self.renamed.get(name, name): given[name] for name in self.fields if given.get(name) is not None}
        return {self.keyword: self.make(**mine)} if mine else {}


def store_builder(name: str, type: str = "keyValue", engine: str = "rocksdb", **settings: Any) -> StoreBuilder:
    """The builder of a store that is declared for processors to use."""
    return StoreBuilder(name, _KINDS[type], Engine(engine), **settings)


_SERDES = {"key_serde": reference(SERDE), "value_serde": reference(SERDE)}

NAMED = Group("named", lambda name: name, {"name": Name})
CONSUMED = Group(
    "consumed",
    Consumed,
    {
        **_SERDES,
        "timestamp_extractor": reference(TIMESTAMP_EXTRACTOR),
        "offset_reset": OffsetReset,
        "name": Name,
    },
)
PRODUCED = Group("produced", Produced, {**_SERDES, "partitioner": reference(PARTITIONER), "name": Name})
GROUPED = Group("grouped", Grouped, {**_SERDES, "name": Name, "combine": bool})
REPARTITIONED = Group(
    "repartitioned",
    Repartitioned,
    {**_SERDES, "name": Name, "partitions": Positive, "partitioner": reference(PARTITIONER)},
)
MATERIALIZED = Group(
    "materialized",
    Materialized,
    {
        "store": Name,
        **_SERDES,
        "engine": EngineName,
        "logging": bool,
        "caching": bool,
        "emit": Literal["update", "commit"],
        "log_config": dict[str, str],
    },
    renamed={"store": "store_name", "engine": "store"},
)
PRINTED = Group("printed", Printed, {"label": str, "mapper": reference(MAPPER), "path": str, "name": Name})
STORE = Group(
    "store",
    store_builder,
    {
        "store": Name,
        "type": StoreTypeName,
        **_SERDES,
        "engine": EngineName,
        "logging": bool,
        "caching": bool,
        "log_config": dict[str, str],
    },
    renamed={"store": "name"},
)
