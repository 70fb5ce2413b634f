"""Gives JSON values the types of a schema that the user names. Pure; used in Spark's Python workers.

Nothing is converted: a value that is not of its field's type is a fault, as the user would lose a number.
"""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
from pyarrow import types

from streamsapp.errors import ConfigError

#: The digits, in bits, that a number with a point has: larger whole numbers would be rounded.
_EXACT_BITS = {16: 11, 32: 24, 64: 53}
#: The largest number of each size; a larger number would become infinite.
_LARGEST = {16: 65504.0, 32: 3.4028234663852886e38, 64: math.inf}


def refuse_types(kind: pa.DataType, path: str = "value") -> None:
    """Raises ``ConfigError`` for a type that no JSON value has, naming its field."""
    if types.is_struct(kind):
        for field in kind:
            refuse_types(field.type, f"{path}.{field.name}")
    elif types.is_list(kind):
        refuse_types(kind.value_type, f"{path}[]")
    elif types.is_map(kind):
        if not types.is_string(kind.key_type):
            raise ConfigError(f"option 'schema': {path} is a map whose keys are {kind.key_type}; JSON's are strings")
        refuse_types(kind.item_type, f"{path}{{}}")
    elif not (types.is_string(kind) or types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)):
        raise ConfigError(
            f"option 'schema': {path} is {kind}, and JSON has no such values; read it as a string (or a number), and "
            "convert the column"
        )


def fault_in(value: Any, kind: pa.DataType, path: str = "value") -> str | None:
    """Returns the reason why a JSON value does not fit a type; ``None`` if it does. A field that is not there is
    null."""
    if value is None:
        return None
    inner = _inner(value, kind, path)
    if inner is not None:
        return next((fault for each in inner if (fault := fault_in(*each)) is not None), None)
    return None if _fits(value, kind) else f"{path} is {_shown(value)}, and the schema says {kind}"


def _inner(value: Any, kind: pa.DataType, path: str) -> list[tuple[Any, pa.DataType, str]] | None:
    """Returns the parts of a value; ``None`` if it has none, or is not what the type says."""
    if types.is_struct(kind) and isinstance(value, dict):
        return [(value.get(field.name), field.type, f"{path}.{field.name}") for field in kind]
    if types.is_map(kind) and isinstance(value, dict):
        return [(each, kind.item_type, f"{path}.{key}") for key, each in value.items()]
    if types.is_list(kind) and isinstance(value, list):
        return [(each, kind.value_type, f"{path}[{number}]") for number, each in enumerate(value)]
    return None


def _fits(value: Any, kind: pa.DataType) -> bool:
    if types.is_string(kind):
        return isinstance(value, str)
    if types.is_boolean(kind):
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if types.is_floating(kind):
        whole = isinstance(value, int)
        return abs(value) <= (1 << _EXACT_BITS[kind.bit_width] if whole else _LARGEST[kind.bit_width])
    half = 1 << (kind.bit_width - 1) if types.is_integer(kind) else 0
    return isinstance(value, int) and -half <= value < half


def _shown(value: Any) -> str:
    return f"{value!r:.60}"
