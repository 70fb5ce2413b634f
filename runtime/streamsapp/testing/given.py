"""Checks what a test or a notebook gives to the driver: topics, serdes and records. Called on the test's thread."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Set as AbstractSet
from difflib import get_close_matches
from typing import Any

from streamsapp.errors import SerializationError, StreamsError, UserInputError
from streamsapp.record import Record
from streamsapp.serdes.api import AnySerde, Serde
from streamsapp.serdes.windowed import Windowed

_WINDOWED = "Serdes.time_windowed(…), or give its .key"

#: The serde that a type usually has.
_USUAL: dict[type, str] = {
    bool: "Serdes.boolean()",
    int: "Serdes.long()",
    float: "Serdes.double()",
    str: "Serdes.string()",
    bytes: "Serdes.bytes()",
    dict: "Serdes.json()",
    list: "Serdes.json()",
    uuid.UUID: "Serdes.uuid()",
    Windowed: _WINDOWED,
}
#: The words of a built-in method about itself, which say nothing about the value.
_ABOUT_ITSELF = "descriptor '"


def unknown(name: str, known: Iterable[str]) -> str:
    """Returns the end of a message about a name that is none of ``known``: all of them, and the nearest."""
    names = sorted(known) if isinstance(known, AbstractSet) else list(known)
    close = get_close_matches(name, names, n=1)
    return f"{', '.join(names) or 'none'}" + (f"; did you mean {close[0]!r}?" if close else "")


def require_serdes(topic: str, key: object, value: object) -> None:
    """Raises ``UserInputError`` for a serde that is none."""
    for part, serde in (("key", key), ("value", value)):
        if not isinstance(serde, Serde):
            raise UserInputError(f"topic {topic}: {part}_serde={serde!r} is not a serde; give one of Serdes")


def as_bytes(serde: AnySerde, topic: str, part: str, value: Any) -> bytes | None:
    """Returns the bytes of a key or a value (``part``). Raises ``SerializationError``, which names the topic, the type
    that is given, the serde and the remedy."""
    if value is None:
        return None
    try:
        data = serde.serialize(value)
    except StreamsError:
        raise
    except Exception as error:  # a serde may raise anything
        raise SerializationError(_not_written(serde, topic, part, value, str(error))) from error
    if not isinstance(data, bytes | bytearray | memoryview):
        why = f"its serializer gave {type(data).__name__}, not bytes"
        raise SerializationError(_not_written(serde, topic, part, value, why))
    return bytes(data)


def _not_written(serde: AnySerde, topic: str, part: str, value: Any, why: str) -> str:
    told = "" if why.startswith(_ABOUT_ITSELF) else f": {why}"
    usual = _USUAL.get(type(value), "a serde of that type")
    remedy = f"declare {usual} for the {part}s of the topic, or give what its serde writes"
    if usual == f"Serdes.{serde.name}()":  # the type is right
        remedy = "give a value that it can write"
    return (
        f"topic {topic}: the {part} {value!r:.100} is of type {type(value).__name__}, which its {part} serde "
        f"{serde.name!r} does not write{told}; {remedy}"
    )


def as_record(given: Any, place: str, timestamp_ms: int) -> Record:
    """Returns a record that is given whole, or as a pair of key and value. Raises ``UserInputError``, which names its
    ``place``, for all else."""
    if isinstance(given, Record):
        return given
    if isinstance(given, tuple) and len(given) == 2:
        return Record(*given, timestamp_ms)
    raise UserInputError(f"{place} is {_kind(given)}, not a pair of key and value or a Record{_unpacking(given)}")


def as_pair(given: Any, place: str) -> tuple[Any, Any]:
    """Returns a pair of key and value. Raises ``UserInputError``, which names its ``place``, for all else."""
    if isinstance(given, tuple | list) and len(given) == 2:
        return given[0], given[1]
    raise UserInputError(f"{place} is {_kind(given)}, not a pair of key and value")


def _kind(given: Any) -> str:
    sized = f" of {len(given)}" if isinstance(given, list | tuple) else ""
    return f"a {type(given).__name__}{sized}: {given!r:.100}"


def _unpacking(given: Any) -> str:
    several = isinstance(given, Iterable) and not isinstance(given, str | bytes | tuple)
    return "; the records of a list are given with a star: feed(topic, *records)" if several else ""
