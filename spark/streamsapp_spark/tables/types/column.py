"""The column of a store's keys or values, made of what their serde says. Used on the driver and in Spark's Python
workers; plain data that Spark sends along.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from streamsapp.serdes.api import AnySerde, identity
from streamsapp_spark.tables.types.avro import part_of_schema
from streamsapp_spark.tables.types.classes import part_of_class, plain_of_instance
from streamsapp_spark.tables.types.parts import JsonText, Part, Scalar, Text
from streamsapp_spark.tables.types.protobuf import part_of_message, plain_of_message

#: Of the serdes whose values Spark has a type for.
TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "bytes": pa.binary(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}
#: Serdes of values that may be anything.
_DOCUMENTS = frozenset({"json", "msgpack", "avro", "json_schema"})
#: By form: makes a value what its part takes.
_PLAIN: dict[str, Callable[[Any], Any]] = {
    "plain": identity,
    "instance": plain_of_instance,
    "message": plain_of_message,
}


@dataclass(frozen=True)
class TypedColumn:
    """The type of a column, and the way of a serde's values into it."""

    #: The name of the serde.
    kind: str
    part: Part
    #: One of ``_PLAIN``.
    form: str = "plain"

    @classmethod
    def of(cls, serde: AnySerde) -> TypedColumn:
        """Raises ``ConfigError`` for an Avro schema that cannot be read."""
        fields = None if serde.plain is None else serde.plain.fields
        if fields is None:
            scalar = TYPES.get(serde.name)
            part = JsonText() if serde.name in _DOCUMENTS else Text() if scalar is None else Scalar(scalar)
            return cls(serde.name, part)
        if isinstance(fields, str):
            return cls(serde.name, part_of_schema(fields))
        if hasattr(fields, "DESCRIPTOR"):
            return cls(serde.name, part_of_message(fields), "message")
        return cls(serde.name, part_of_class(fields), "instance")

    @cached_property
    def arrow(self) -> pa.DataType:
        return self.part.arrow

    @property
    def is_simple(self) -> bool:
        """Says whether JSON names its values as the column has them: text, numbers, booleans."""
        return pa.types.is_string(self.arrow) or (self.kind in TYPES and self.kind != "bytes")

    def converted(self, value: Any) -> Any:
        """Returns a value as ``pa.array`` takes it. Raises ``ValueError`` for one of another shape."""
        return None if value is None else self.part.converted(_PLAIN[self.form](value))
