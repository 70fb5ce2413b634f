"""Functions that need no code of the user: ``flatMapValues: words``, ``selectKey: {field: user}``, ``reduce: sum``.

Named in declarations, through ``roles``; they run on processing threads, for every record. A value of another type
than the function is for raises, and the exception handler decides, as for a user's function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

_WORD = re.compile(r"\w+")


# ---- of a value ------------------------------------------------------------------------------------------------


def lower(value: str | None) -> str | None:
    return None if value is None else value.lower()


def upper(value: str | None) -> str | None:
    return None if value is None else value.upper()


def strip(value: str | None) -> str | None:
    return None if value is None else value.strip()


def words(value: str | None) -> list[str]:
    """Runs of letters, digits and underscores, as they are written."""
    return [] if value is None else _WORD.findall(value)


def split(separator: str) -> Callable[[str | None], list[str]]:
    return lambda value: [] if value is None else value.split(separator)


def field(name: str) -> Callable[[Any], Any]:
    """A field of a JSON object; ``None`` where it has none of that name."""

    def of_value(value: Any) -> Any:
        return None if value is None else _member(value, name)

    return of_value


def items(name: str) -> Callable[[Any], Iterable[Any]]:
    """The items of a field that is a list; none where there is no such field."""

    def of_value(value: Any) -> Iterable[Any]:
        found = None if value is None else _member(value, name)
        return () if found is None else found

    return of_value


def _member(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return value.get(name)
    raise TypeError(f"field {name!r} of a {type(value).__name__}: expected an object; declare valueSerde: json")


# ---- of key and value ------------------------------------------------------------------------------------------


def value_of(key: Any, value: Any) -> Any:
    return value


def field_of_value(name: str) -> Callable[[Any, Any], Any]:
    of_value = field(name)
    return lambda key, value: of_value(value)


def has_key(key: Any, value: Any) -> bool:
    return key is not None


def has_value(key: Any, value: Any) -> bool:
    return value is not None


def contains(text: str) -> Callable[[Any, Any], bool]:
    return lambda key, value: value is not None and text in value


# ---- of aggregate and value ------------------------------------------------------------------------------------


def add(aggregate: Any, value: Any) -> Any:
    return aggregate + value


def subtract(aggregate: Any, value: Any) -> Any:
    return aggregate - value


def least(aggregate: Any, value: Any) -> Any:
    return min(aggregate, value)


def greatest(aggregate: Any, value: Any) -> Any:
    return max(aggregate, value)


def first(aggregate: Any, value: Any) -> Any:
    return aggregate


def last(aggregate: Any, value: Any) -> Any:
    return value
