"""The columns of dataclasses, msgspec structs, typed dicts and pydantic models, and of whatever msgspec describes.

Used on the driver and in Spark's Python workers. A part without one type (a union, ``Any``, a type within itself) is
text: its JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import inspect

from streamsapp.structs import described
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

#: Left as Python has them, since Arrow takes them; all else becomes what JSON can say.
_KEPT = (bytes, bytearray, date, datetime)
_SCALARS: dict[type[inspect.Type], Part] = {
    inspect.BoolType: Scalar(pa.bool_()),
    inspect.IntType: Scalar(pa.int64()),
    inspect.FloatType: Scalar(pa.float64()),
    inspect.StrType: Scalar(pa.string()),
    inspect.BytesType: Scalar(pa.binary()),
    inspect.ByteArrayType: Scalar(pa.binary()),
    inspect.DateType: Scalar(pa.date32()),
    inspect.TimeType: Text(),
    inspect.TimeDeltaType: Text(),
    inspect.UUIDType: Text(),
    inspect.DecimalType: Text(),
}
_RECORDS = (inspect.DataclassType, inspect.StructType, inspect.TypedDictType)
_LISTS = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType, inspect.CollectionType)


def part_of_class(kind: Any) -> Part:
    """Returns the type of a column that has the instances of a class."""
    return _model(kind, ()) if _is_model(kind) else _part(described(kind), ())


def plain_of_instance(value: Any) -> Any:
    """Returns an instance as dicts, lists and scalars, with the names that its JSON has."""
    if _is_model(type(value)):
        value = value.model_dump(by_alias=True)
    return msgspec.to_builtins(value, builtin_types=_KEPT, enc_hook=str)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and hasattr(kind, "model_fields")


def _part(of: inspect.Type, within: tuple[Any, ...]) -> Part:
    if type(of) in _SCALARS:
        return _SCALARS[type(of)]
    match of:
        case inspect.DateTimeType():
            return Scalar(LOCAL_TIME if of.tz is False else INSTANT)
        case inspect.DataclassType() | inspect.StructType() | inspect.TypedDictType():
            return _record(of, within)
        case inspect.DictType() if type(of.key_type) in (inspect.StrType, inspect.IntType):
            return Entries(_part(of.key_type, within), _part(of.value_type, within))
        case inspect.UnionType():
            found = [each for each in of.types if not isinstance(each, inspect.NoneType)]
            return _part(found[0], within) if len(found) == 1 else JsonText()
        case inspect.LiteralType():
            return _of_values(of.values)
        case inspect.EnumType():
            return _of_values(each.value for each in of.cls)
        case inspect.CustomType() if _is_model(of.cls):
            return _model(of.cls, within)
    return Items(_part(of.item_type, within)) if isinstance(of, _LISTS) else JsonText()


def _record(of: Any, within: tuple[Any, ...]) -> Part:
    kind = of.cls
    if kind in within or getattr(of, "array_like", False) or not of.fields:
        return JsonText()
    return Struct(
        tuple((getattr(each, "encode_name", each.name), _part(each.type, (*within, kind))) for each in of.fields)
    )


def _model(kind: Any, within: tuple[Any, ...]) -> Part:
    """Returns the type of a pydantic model, whose fields msgspec describes one by one."""
    if kind in within or not kind.model_fields or "root" in kind.model_fields:
        return JsonText()
    return Struct(
        tuple(
            (field.serialization_alias or field.alias or name, _annotated(field.annotation, (*within, kind)))
            for name, field in kind.model_fields.items()
        )
    )


def _annotated(annotation: Any, within: tuple[Any, ...]) -> Part:
    try:
        return _part(described(annotation), within)
    except TypeError:  # a type that only pydantic knows
        return JsonText()


def _of_values(values: Iterable[Any]) -> Part:
    kinds = {type(each) for each in values}
    if kinds == {str}:
        return Scalar(pa.string())
    return Scalar(pa.int64()) if kinds == {int} else JsonText()
