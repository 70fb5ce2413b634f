"""The columns of Avro values, of the text of their schema. Used on the driver and in Spark's Python workers; pure.

Values are as fastavro reads them: records are dicts, and logical types are Python's times, dates and decimals. Unions
of several types, and types within themselves, are text: JSON.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from streamsapp.errors import ConfigError
from streamsapp_spark.tables.types.parts import (
    INSTANT,
    LOCAL_TIME,
    Entries,
    Items,
    JsonText,
    Part,
    Scalar,
    Struct,
    Text,
)

_SCALARS: dict[str, Part] = {
    "boolean": Scalar(pa.bool_()),
    "int": Scalar(pa.int32()),
    "long": Scalar(pa.int64()),
    "float": Scalar(pa.float32()),
    "double": Scalar(pa.float64()),
    "bytes": Scalar(pa.binary()),
    "fixed": Scalar(pa.binary()),
    "string": Scalar(pa.string()),
    "enum": Scalar(pa.string()),
}
_LOGICAL: dict[tuple[str, str], Part] = {
    ("int", "date"): Scalar(pa.date32()),
    ("int", "time-millis"): Text(),
    ("long", "time-micros"): Text(),
    ("long", "timestamp-millis"): Scalar(INSTANT),
    ("long", "timestamp-micros"): Scalar(INSTANT),
    ("long", "local-timestamp-millis"): Scalar(LOCAL_TIME),
    ("long", "local-timestamp-micros"): Scalar(LOCAL_TIME),
    ("string", "uuid"): Text(),
}
#: The digits that a decimal of Spark's has at most.
_DIGITS = 38


def part_of_schema(text: str) -> Part:
    """Returns the type of a column that has the values of a schema. Raises ``ConfigError`` for what is no schema."""
    try:
        return _Schema().part(msgspec.json.decode(text), "", ())
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"an Avro schema cannot be read: {type(error).__name__}: {error}; it is {text:.200}"
        ) from error


class _Schema:
    """Goes through a schema; names mean what was defined before."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[Any, str]] = {}

    def part(self, schema: Any, space: str, within: tuple[str, ...]) -> Part:
        if isinstance(schema, list):
            found = [each for each in schema if each not in ("null", {"type": "null"})]
            return self.part(found[0], space, within) if len(found) == 1 else self._passed(found, space, within)
        if isinstance(schema, str):
            return self._by_name(schema, space, within)
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.part(kind, space, within)
        if kind in ("record", "error", "enum", "fixed"):
            return self._definition(schema, space, within)
        if kind == "array":
            return Items(self.part(schema["items"], space, within))
        if kind == "map":
            return Entries(Scalar(pa.string()), self.part(schema["values"], space, within))
        return _logical(schema, kind) or self._by_name(kind, space, within)

    def _definition(self, schema: Any, space: str, within: tuple[str, ...]) -> Part:
        name, space = _full(schema["name"], schema.get("namespace", space)), schema.get("namespace", space)
        space = name.rpartition(".")[0] or space
        self._named[name] = schema, space
        if schema["type"] not in ("record", "error"):
            return _logical(schema, schema["type"]) or _SCALARS[schema["type"]]
        if name in within:
            return JsonText()
        inner = (*within, name)
        fields = tuple((each["name"], self.part(each["type"], space, inner)) for each in schema["fields"])
        return Struct(fields) if fields else JsonText()

    def _by_name(self, name: str, space: str, within: tuple[str, ...]) -> Part:
        if name in _SCALARS:
            return _SCALARS[name]
        if name == "null":
            return JsonText()
        full = _full(name, space)
        schema, of = self._named[full if full in self._named else name]
        return JsonText() if _full(schema["name"], of) in within else self._definition(schema, of, within)

    def _passed(self, branches: list[Any], space: str, within: tuple[str, ...]) -> Part:
        """Types that are defined in the branches of a union may be named behind it."""
        for each in branches:
            self.part(each, space, within)
        return JsonText()


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _logical(schema: Any, kind: str) -> Part | None:
    logical = schema.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = schema["precision"], schema.get("scale", 0)
        return Scalar(pa.decimal128(precision, scale)) if 0 < precision <= _DIGITS else Text()
    return _LOGICAL.get((kind, logical))
