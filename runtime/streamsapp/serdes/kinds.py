"""Knows serdes before a record comes: the kinds of values that they read and write, and the forms of their bytes.

Asked while a program is built, on the thread that builds it. Serdes of the user's are unknown, and so is JSON: nothing
is said of them. Pure.
"""

from __future__ import annotations

from streamsapp.serdes.api import AnySerde, is_ours
from streamsapp.serdes.wrapping import WrappingSerde

#: The Python values of serdes, by the name of the serde. A statement about a value's kind is true of every value.
_VALUES = {
    "string": "str",
    "bytes": "bytes",
    "short": "a number",
    "integer": "a number",
    "long": "a number",
    "float": "a number",
    "double": "a number",
    "boolean": "bool",
    "uuid": "UUID",
    "time_windowed": "Windowed",
    "session_windowed": "Windowed",
}
#: Serdes whose bytes are UTF-8: what one writes, another one can read.
_TEXTS = frozenset({"string", "uuid", "json"})


def cannot_write(target: AnySerde | None, given: AnySerde | None) -> bool:
    """Says whether a serde writes none of the values that another one reads. False where one of them is unknown."""
    of_target, of_given = _values(target), _values(given)
    if target is None or given is None or of_target is None or of_given is None:
        return False
    if of_target == of_given:
        inner = _inner(target), _inner(given)
        return inner[0] is not inner[1] and cannot_write(*inner)
    return (of_given, of_target) != ("bool", "a number")


def other_keys(one: AnySerde | None, other: AnySerde | None) -> bool:
    """Says whether two serdes never give a key the same bytes. False where one of them is unknown."""
    if one is None or other is None or _values(one) is None or _values(other) is None:
        return False
    return one.name != other.name or other_keys(_inner(one), _inner(other))


def other_bytes(one: AnySerde | None, other: AnySerde | None) -> bool:
    """Says whether what one serde writes is no value, or another one, to the other. False where one of them is
    unknown, or takes any bytes."""
    forms = _form(one), _form(other)
    if one is None or other is None or None in forms:
        return False
    return forms[0] != forms[1] or other_bytes(_inner(one), _inner(other))


def _values(serde: AnySerde | None) -> str | None:
    return _VALUES.get(serde.name) if serde is not None and _is_ours(serde) else None


def _form(serde: AnySerde | None) -> str | None:
    if serde is None or not _is_ours(serde) or serde.name == "bytes":
        return None
    return "text" if serde.name in _TEXTS else serde.name if serde.name in _VALUES else None


def _inner(serde: AnySerde) -> AnySerde | None:
    return serde.inner if isinstance(serde, WrappingSerde) else None


def _is_ours(serde: AnySerde) -> bool:
    """Users name their serdes as they like."""
    return serde.serialize is str.encode or is_ours(serde.serialize)
