"""The shapes of types: what a value has to be, to the type of each part, so that its reader gives back an equal one.

Made with a serde, on the thread that builds a topology; plain data, which ``native.fits`` reads for every record. A
value that fits needs not be read back after it is written, which takes several times as long. A store copies it
instead of reading it once more.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any, TypeAlias

import msgspec
from msgspec import inspect

#: A type: exactly that, and finite if a number. A frozen set of types: one of them. ``(shape,)``: a list of such parts.
#: ``(class, names, shapes)``: an instance with such attributes. ``None``: whatever JSON can say.
Shape: TypeAlias = "type | frozenset[type] | tuple[Shape] | tuple[type, tuple[str, ...], tuple[Shape, ...]] | None"

#: Its reader makes any JSON of what has this shape.
PLAIN: Shape = None
_SCALARS: dict[type[inspect.Type], type] = {
    inspect.IntType: int,
    inspect.FloatType: float,
    inspect.StrType: str,
    inspect.BoolType: bool,
    inspect.NoneType: type(None),
}


class NoShapeError(Exception):
    """A value of the type has to be read back: to have these types is not enough."""


def shape_of(part: inspect.Type) -> Shape:
    """Returns the shape of a type as msgspec describes it. Raises ``NoShapeError`` for constraints, classes that do
    something when they are made, types within themselves, and all that is not named above."""
    return _shape(part, ())


def can_be_copied(shape: Shape) -> bool:
    """Says whether a copy of the parts of a value of that shape is what its reader would make once more: its classes
    do nothing when an instance is made."""
    if not isinstance(shape, tuple):
        return True
    if len(shape) == 1:
        return can_be_copied(shape[0])
    kind, _, parts = shape
    if issubclass(kind, msgspec.Struct):
        return not any(part is PLAIN or isinstance(part, tuple) for part in parts)
    return kind.__new__ is object.__new__ and all(map(can_be_copied, parts))


def _shape(part: inspect.Type, within: tuple[Any, ...]) -> Shape:
    if isinstance(part, inspect.AnyType):
        return PLAIN
    if isinstance(part, inspect.UnionType):
        return frozenset(map(_scalar, part.types))
    if isinstance(part, inspect.ListType) and part.min_length is part.max_length is None:
        return (_shape(part.item_type, within),)
    if isinstance(part, inspect.DataclassType | inspect.StructType):
        return _instance(part, within)
    return _scalar(part)


def _scalar(part: inspect.Type) -> type:
    found = _SCALARS.get(type(part))
    constraints = [getattr(part, name) for name in part.__struct_fields__]
    if found is None or any(each is not None for each in constraints):
        raise NoShapeError
    return found


def _instance(part: inspect.DataclassType | inspect.StructType, within: tuple[Any, ...]) -> Shape:
    kind: Any = part.cls
    known = kind.__dataclass_fields__ if is_dataclass(kind) else getattr(kind, "__struct_fields__", ())
    names = tuple(each.name for each in part.fields)
    if kind in within or hasattr(kind, "__post_init__") or set(names) != set(known):
        raise NoShapeError
    return (kind, names, tuple(_shape(each.type, (*within, kind)) for each in part.fields))
