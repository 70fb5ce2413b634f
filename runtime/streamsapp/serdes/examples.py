"""An example of a type, made of its fields, as JSON says it: a value to begin with, for people who write one by hand.

Asked by commands, for the records that they print as samples. Pure.
"""

from __future__ import annotations

from typing import Any

from msgspec import NODEFAULT, inspect

#: Deeper parts are left empty: a type may contain itself.
_DEPTH = 5
_PLAIN: dict[type, Any] = {
    inspect.StrType: "text",
    inspect.IntType: 1,
    inspect.FloatType: 1.5,
    inspect.BoolType: True,
    inspect.BytesType: "aGVsbG8=",
    inspect.DateTimeType: "2026-01-31T12:00:00Z",
    inspect.DateType: "2026-01-31",
    inspect.TimeType: "12:00:00",
    inspect.TimeDeltaType: "PT1M",
    inspect.UUIDType: "00000000-0000-0000-0000-000000000001",
    inspect.DecimalType: "1.5",
}


def example_of(part: inspect.Type, depth: int = 0) -> Any:
    """Returns an example; ``None`` of a part that nothing is known of, and of a part that is too deep."""
    if type(part) in _PLAIN:
        return _PLAIN[type(part)]
    if depth > _DEPTH:
        return None
    match part:
        case inspect.StructType() | inspect.DataclassType() | inspect.TypedDictType() | inspect.NamedTupleType():
            return _of_fields(part, depth)
        case inspect.UnionType():
            known = [each for each in part.types if not isinstance(each, inspect.NoneType)]
            return example_of(known[0], depth + 1) if known else None
        case inspect.ListType() | inspect.SetType() | inspect.FrozenSetType() | inspect.VarTupleType():
            return [example_of(part.item_type, depth + 1)]
        case inspect.TupleType():
            return [example_of(each, depth + 1) for each in part.item_types]
        case inspect.DictType():
            return {str(example_of(part.key_type, depth + 1)): example_of(part.value_type, depth + 1)}
        case inspect.LiteralType():
            return part.values[0]
        case inspect.EnumType():
            return next(iter(part.cls)).value
    return None


def _of_fields(part: Any, depth: int) -> Any:
    """All fields that must be given, and those whose default is no better."""
    fields = {
        getattr(each, "encode_name", each.name): example_of(each.type, depth + 1)
        for each in part.fields
        if each.required or each.default is NODEFAULT or each.default is not None
    }
    if isinstance(part, inspect.NamedTupleType) or getattr(part, "array_like", False):
        return list(fields.values())
    tag = {part.tag_field: part.tag} if getattr(part, "tag_field", None) is not None else {}
    return {**tag, **fields}
