"""Resolves the texts of a declaration to what they stand for: a serde, a predicate, a processor and so on, built in or
in the user's code.

``module:attribute`` names the user's code. A name without a colon is built in: ``string``, ``words``; one that needs a
text is a mapping: ``{split: ","}``. There are no expressions: nothing in a manifest is ever evaluated. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeAlias, get_args

from msgspec import Meta

from streamsapp.declared import functions
from streamsapp.declared.faults import did_you_mean, shown
from streamsapp.processor import timestamps
from streamsapp.processor.handlers import BUILT_IN
from streamsapp.serdes.schema_registry import SchemaRegistry
from streamsapp.serdes.serdes import Serdes

#: ``module:attribute``, both perhaps with dots.
CODE_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")

#: The form in which a declaration names code: a text, or ``{name: text}`` for something built in that needs one.
Reference: TypeAlias = str | dict[str, str]


@dataclass(frozen=True)
class Role:
    """The role of a reference: what it must be good for."""

    what: str
    #: The arguments that the function is called with; ``None`` where other rules apply.
    arguments: tuple[str, ...] | None = None
    built_in: Mapping[str, Any] = field(default_factory=dict)
    #: Built in, but made from a text.
    made_from: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)
    #: Built in, but made of something in the user's code.
    made_of: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)

    def fault(self, given: object) -> str | None:
        """Returns the fault in a reference, as far as it can be told without looking at any code; ``None`` if there is
        none."""
        match given:
            case str() if ":" in given:
                return None if CODE_NAME.fullmatch(given) else f"expected module:attribute, got {given!r}"
            case str() if given in self.built_in:
                return None
            case str() if given in self.made_from:
                return f"{given!r} needs a text: {{{given}: ...}}"
            case str() if given in self.made_of:
                return f"{given!r} needs code: {{{given}: module:attribute}}"
            case str():
                return self._unknown(given)
            case dict() if len(given) == 1:
                ((name, text),) = given.items()
                if name in self.made_of:
                    named = isinstance(text, str) and CODE_NAME.fullmatch(text)
                    return None if named else f"{name!r} needs module:attribute, got {shown(text)}"
                if name in self.built_in:
                    return f"{name!r} is written alone here"
                if name not in self.made_from:
                    return self._unknown(str(name))
                return None if isinstance(text, str) and text else f"{name!r} needs a text, got {shown(text)}"
            case _:
                return f"expected {self._expected}, got {shown(given)}"

    def built(self, reference: Reference) -> Any:
        """Returns what a reference that names no code stands for."""
        if isinstance(reference, str):
            return self.built_in[reference]
        ((name, text),) = reference.items()
        return self.made_from[name](text)

    def _unknown(self, given: str) -> str:
        known = [*self.built_in, *self.made_from, *self.made_of]
        return f"expected {self._expected}, got {given!r}{did_you_mean(given, known, 'built in')}"

    @property
    def _expected(self) -> str:
        return f"{self.what} as module:attribute{' or a name' if self.built_in else ''}"


def names_code(reference: Reference) -> bool:
    """Says whether a reference is to the user's code."""
    return isinstance(reference, str) and ":" in reference


#: The one that the environment names when a task begins.
REGISTRY = SchemaRegistry()

SERDE = Role(
    "a serde",
    built_in={
        "string": Serdes.string(),
        "bytes": Serdes.bytes(),
        "integer": Serdes.integer(),
        "long": Serdes.long(),
        "double": Serdes.double(),
        "float": Serdes.float(),
        "short": Serdes.short(),
        "boolean": Serdes.boolean(),
        "uuid": Serdes.uuid(),
        "json": Serdes.json(),
        "msgpack": Serdes.msgpack(),
        "void": Serdes.void(),
        "avro": REGISTRY.avro(),
        "jsonSchema": REGISTRY.json_schema(),
    },
    made_of={
        "json": Serdes.json,
        "msgpack": Serdes.msgpack,
        "protobuf": Serdes.protobuf,
        "avro": REGISTRY.avro,
        "jsonSchema": REGISTRY.json_schema,
        "protobufSchema": REGISTRY.protobuf,
    },
)
#: Where the schema of manifests has a text only.
SERDE_NAME = replace(SERDE, made_of={})
TIMESTAMP_EXTRACTOR = Role(
    "a timestamp extractor",
    ("record", "key", "value", "partition_time_ms"),
    built_in={
        "failOnInvalidTimestamp": timestamps.fail_on_invalid_timestamp,
        "logAndSkipOnInvalidTimestamp": timestamps.log_and_skip_on_invalid_timestamp,
        "usePartitionTimeOnInvalidTimestamp": timestamps.use_partition_time_on_invalid_timestamp,
        "wallclockTimestamp": timestamps.wallclock_timestamp,
    },
)
EXCEPTION_HANDLER = Role("an exception handler", ("context", "exception"), built_in=BUILT_IN)
PARTITION_GROUPER = Role("a partition grouper", ("sources", "partitions"))
PROCESSOR_WRAPPER = Role("a processor wrapper", ("node_name", "processor"))
PREDICATE = Role(
    "a predicate",
    ("key", "value"),
    built_in={"hasKey": functions.has_key, "hasValue": functions.has_value},
    made_from={"contains": functions.contains},
)
MAPPER = Role("a function", ("key", "value"))
#: Of ``(value)`` or of ``(key, value)``.
VALUE_MAPPER = Role(
    "a function",
    built_in={"lower": functions.lower, "upper": functions.upper, "strip": functions.strip},
    made_from={"field": functions.field},
)
#: A coroutine function of the same arguments, behind the value of ``using`` if there is one.
ASYNC_MAPPER = Role("a coroutine function")
#: Makes an async context manager.
CONTEXT_MANAGER = Role("a function without arguments", ())
#: As the mapper of values, for many values.
VALUES_MAPPER = Role(
    "a function",
    built_in={"words": functions.words},
    made_from={"split": functions.split, "field": functions.items},
)
KEY_SELECTOR = Role(
    "a function",
    ("key", "value"),
    built_in={"value": functions.value_of},
    made_from={"field": functions.field_of_value},
)
REDUCER = Role(
    "a reducer",
    ("aggregate", "value"),
    built_in={
        "sum": functions.add,
        "min": functions.least,
        "max": functions.greatest,
        "first": functions.first,
        "last": functions.last,
    },
)
ADDER = Role("a reducer", ("aggregate", "row"), built_in={"sum": functions.add})
SUBTRACTOR = Role("a reducer", ("aggregate", "row"), built_in={"difference": functions.subtract})
INITIALIZER = Role("a function without arguments", ())
AGGREGATOR = Role("an aggregator", ("key", "value", "aggregate"))
#: Of ``(key, value, aggregate)`` or of ``(key, value, aggregate, window)``.
WINDOW_AGGREGATOR = Role("an aggregator")
MERGER = Role("a merger", ("key", "aggregate", "other"))
#: Of ``(value, row)`` or of ``(key, value, row)``.
JOINER = Role("a joiner")
#: Of ``(topic, key, value, partitions)`` or of ``(topic, key, value, headers, partitions)``.
PARTITIONER = Role("a partitioner")
TOPIC_NAME_EXTRACTOR = Role("a function", ("key", "value", "metadata"))
PROCESSOR = Role("a class of Processor, or a function that makes one,")
TRANSFORMER = Role("a class of transformers, or a function that makes one,", ())


def role_meta(role: Role) -> Meta:
    """Returns the metadata of a field that holds a reference: its faults are the role's, and its code is looked up."""
    return Meta(extra={"check": role.fault, "role": role})


def reference(role: Role) -> Any:
    """The type of a field that holds a reference."""
    return Annotated[Any, role_meta(role)]


def role_of(type_: Any) -> Role | None:
    """The role of such a type, also where the field may be left out or has a meaning beside its type."""
    for meta in getattr(type_, "__metadata__", ()):
        if isinstance(meta, Meta) and meta.extra is not None and "role" in meta.extra:
            role: Role = meta.extra["role"]
            return role
    return next(filter(None, map(role_of, get_args(type_))), None)
