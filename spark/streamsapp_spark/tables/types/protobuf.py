"""The columns of Protobuf messages, of their descriptor. Used on the driver and in Spark's Python workers.

A field without presence has its default, one with presence is null where it is not set. Enums are names, ``uint64`` a
decimal, a ``google.protobuf.Timestamp`` a time; a message within itself, and one without fields, is text: JSON.
"""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pyarrow as pa

from streamsapp_spark.tables.types.parts import INSTANT, Entries, Items, JsonText, Part, Scalar, Struct

_TIME = "google.protobuf.Timestamp"
#: Messages whose JSON says more than their fields.
_AS_JSON = frozenset(f"google.protobuf.{each}" for each in ("Any", "Struct", "Value", "ListValue", "Duration"))
_INT32, _INT64 = Scalar(pa.int32()), Scalar(pa.int64())
#: By the numbers of ``FieldDescriptor.type``, which are those of the format itself.
_SCALARS: dict[int, Part] = {
    1: Scalar(pa.float64()),
    2: Scalar(pa.float32()),
    3: _INT64,
    4: Scalar(pa.decimal128(20, 0)),
    5: _INT32,
    6: Scalar(pa.decimal128(20, 0)),
    7: _INT64,
    8: Scalar(pa.bool_()),
    9: Scalar(pa.string()),
    12: Scalar(pa.binary()),
    13: _INT64,
    14: Scalar(pa.string()),
    15: _INT32,
    16: _INT64,
    17: _INT32,
    18: _INT64,
}
_ENUM = 14


def part_of_message(kind: Any) -> Part:
    """Returns the type of a column that has messages of a generated class."""
    return _message(kind.DESCRIPTOR, ())


def plain_of_message(message: Any) -> Any:
    """Returns a message as the parts above take it."""
    return _plain_message(message, message.DESCRIPTOR, ())


def _is_text(of: Any, within: tuple[str, ...]) -> bool:
    return of.full_name in within or of.full_name in _AS_JSON or not of.fields


def _message(of: Any, within: tuple[str, ...]) -> Part:
    if of.full_name == _TIME:
        return Scalar(INSTANT)
    if _is_text(of, within):
        return JsonText()
    return Struct(tuple((each.name, _field(each, (*within, of.full_name))) for each in of.fields))


def _field(field: Any, within: tuple[str, ...]) -> Part:
    if _is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return Entries(_single(key, within), _single(value, within))
    one = _single(field, within)
    return Items(one) if _is_repeated(field) else one


def _single(field: Any, within: tuple[str, ...]) -> Part:
    return _SCALARS[field.type] if field.message_type is None else _message(field.message_type, within)


def _is_repeated(field: Any) -> bool:
    # Protobuf 5 has only the label, which 6 warns of.
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _plain_message(message: Any, of: Any, within: tuple[str, ...]) -> Any:
    if of.full_name == _TIME:
        return message.ToDatetime(tzinfo=UTC)
    if _is_text(of, within):
        from google.protobuf import json_format  # the user's library, as the class is

        return json_format.MessageToDict(message, preserving_proto_field_name=True)
    inner = (*within, of.full_name)
    return {each.name: _plain_field(message, each, inner) for each in of.fields}


def _plain_field(message: Any, field: Any, within: tuple[str, ...]) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    if _is_map(field):
        of = field.message_type.fields_by_name["value"]
        return {key: _plain_single(each, of, within) for key, each in value.items()}
    if _is_repeated(field):
        return [_plain_single(each, field, within) for each in value]
    return _plain_single(value, field, within)


def _plain_single(value: Any, field: Any, within: tuple[str, ...]) -> Any:
    if field.message_type is not None:
        return _plain_message(value, field.message_type, within)
    if field.type == _ENUM:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return value
