"""Avro values of a schema registry without loss of digits, around the client's own serializer and deserializer.

Made when a serde is bound to a topic; the functions run on processing threads, for every record. Only here is the Avro
library of the extra ``registry`` imported.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from confluent_kafka.schema_registry import prefix_schema_id_deserializer
from confluent_kafka.schema_registry.serde import SchemaId
from fastavro import parse_schema, schemaless_reader

from streamsapp.serdes.avro_unions import as_given, ordered_for

#: Bytes of the two forms of a schema's id, by the first one.
_ID_BYTES = {0: 5, 1: 17}
_MOST_SCHEMAS = 1000
#: Every whole number until then is a single-precision number, too.
_EXACT = 1 << 24


class _Schemas(NamedTuple):
    writer: Any
    reader: Any


def exact_reader(deserializer: Any, context: Any) -> Callable[[bytes], Any]:
    """Returns what reads values as ``deserializer`` does, and resolves unions as Java does. The client's rules run as
    ever, for schemas that have some."""
    known: dict[bytes, _Schemas | None] = {}

    def read(data: bytes) -> Any:
        size = _ID_BYTES.get(data[0], 0) if data else 0
        if size == 0 or len(data) < size:
            return deserializer(data, context)
        schema_id = data[:size]
        if schema_id not in known:
            if len(known) >= _MOST_SCHEMAS:
                known.clear()
            known[schema_id] = _schemas(deserializer, data, context)
        schemas = known[schema_id]
        if schemas is None:
            return deserializer(data, context)
        return schemaless_reader(io.BytesIO(data[size:]), schemas.writer, schemas.reader, False)

    return read


def _schemas(deserializer: Any, data: bytes, context: Any) -> _Schemas | None:
    """The schemas to read such bytes with, if they are not the ones that the client takes."""
    reader = deserializer._reader_schema
    if reader is None:
        return None
    schema_id = SchemaId("AVRO")
    prefix_schema_id_deserializer(data, context, schema_id)
    given = deserializer._get_writer_schema(schema_id, None)
    writer = deserializer._get_parsed_schema(given)
    if writer in (reader, "bytes") or given.rule_set is not None:
        return None
    ordered = ordered_for(writer, reader)
    return None if ordered == as_given(reader) else _Schemas(writer, parse_schema(ordered))


def exact_writer(serialize: Callable[[Any], bytes], read: Callable[[bytes], Any]) -> Callable[[Any], bytes]:
    """Returns ``serialize``, which refuses whole numbers that a ``float`` or ``double`` rounds: of a union fastavro
    takes the first branch that a number fits, where Java takes that of its type. Only large ones cost reading."""

    def write(value: Any) -> bytes:
        data = serialize(value)
        if _has_large(value) and (lost := _rounded(value, read(data), "$")) is not None:
            raise ValueError(lost)
        return data

    return write


def _has_large(value: Any) -> bool:
    if isinstance(value, int):
        return not -_EXACT <= value <= _EXACT
    if isinstance(value, dict):
        return any(map(_has_large, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_large, value))


def _rounded(value: Any, back: Any, path: str) -> str | None:
    """The first whole number that is read back as another one."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        value = value[1]  # a branch of a union by its name
    if isinstance(value, int) and isinstance(back, float) and value != back:
        return (
            f"{value} would be written as the floating-point number {back!r} - at `{path}`; put long before double in "
            'the union of the schema, or give ("long", value)'
        )
    pairs: Iterable[tuple[str, Any, Any]] = ()
    if isinstance(value, dict) and isinstance(back, dict):
        pairs = ((f"{path}.{key}", part, back.get(key)) for key, part in value.items())
    elif isinstance(value, list | tuple) and isinstance(back, list):
        both = enumerate(zip(value, back, strict=False))
        pairs = ((f"{path}[{index}]", part, other) for index, (part, other) in both)
    return next((found for each in pairs if (found := _rounded(each[1], each[2], each[0])) is not None), None)
