"""Records as lines of JSON: ``produce`` reads them, ``consume`` writes them. Pure.

A line that ``consume`` writes is one that ``produce`` takes::

    {"topic":"visits","partition":0,"offset":7,"timestamp":1700000000000,"headers":[["trace","a1"]],"key":"jane","value":1}

Bytes that are not what their serde reads, or that JSON cannot say, are base64 in ``keyBase64`` or ``valueBase64``,
beside ``keyError`` or ``valueError`` that says why. A header is text, null, or ``{"base64": ...}``.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from datetime import UTC, datetime
from math import isfinite
from reprlib import repr as short_repr
from typing import Any, NamedTuple

import orjson

from streamsapp.record import Headers, InputRecord
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.json_text import read_json, write_json

_WRITTEN = ("key", "value", "timestamp", "headers", "partition", "keyBase64", "valueBase64")
#: Fields that ``consume`` prints beside: a record's old place says nothing about where it is to go.
_TOLD = ("topic", "offset", "keyError", "valueError")
_LATEST = (1 << 63) - 1


class LineRecord(NamedTuple):
    """A record to be written. The serialised forms are what counts; a partitioner wants the others."""

    key: Any
    value: Any
    key_bytes: bytes | None
    value_bytes: bytes | None
    #: Milliseconds since the epoch; the moment of writing unless given.
    timestamp: int | None
    headers: Headers
    partition: int | None


def read_record(line: bytes, key: AnySerde, value: AnySerde) -> LineRecord:
    """The record of a line; raises ``ValueError``, which begins with the field that is wrong."""
    try:
        document = read_json(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f'expected a record such as {{"key": "a", "value": "b"}}: {error}') from None
    if not isinstance(document, dict):
        raise ValueError(
            f'expected a record such as {{"key": "a", "value": "b"}}, got {line[:60].decode("utf-8", "replace")}'
        )
    for name in document:
        if name not in _WRITTEN and name not in _TOLD:
            raise ValueError(f"{name}: no field of a record; they are {', '.join(_WRITTEN)}")
    if "value" not in document and "valueBase64" not in document:
        raise ValueError("value: is missing; null writes a record that deletes")
    typed_key, key_bytes = _side(document, "key", key)
    typed_value, value_bytes = _side(document, "value", value)
    return LineRecord(
        typed_key,
        typed_value,
        key_bytes,
        value_bytes,
        None if document.get("timestamp") is None else _timestamp(document["timestamp"]),
        _headers(document.get("headers")),
        _partition(document.get("partition")),
    )


def shown_record(record: InputRecord, key: AnySerde, value: AnySerde) -> bytes:
    """The line of a record, without its end."""
    line = {
        "topic": record.topic(),
        "partition": record.partition(),
        "offset": record.offset(),
        "timestamp": record.timestamp()[1],
        "headers": [[name, _shown_header(data)] for name, data in record.headers() or ()],
        **_shown_side("key", key, record.key(), record.headers()),
        **_shown_side("value", value, record.value(), record.headers()),
    }
    return orjson.dumps(line)


def milliseconds(text: str) -> int:
    """An ISO 8601 time in milliseconds since the epoch, UTC where it names no zone; raises ``ValueError``."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{short_repr(text)} is not an ISO 8601 time such as 2026-01-31T00:00:00Z") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _side(document: dict[str, Any], name: str, serde: AnySerde) -> tuple[Any, bytes | None]:
    """Key or value, typed and serialised."""
    raw = document.get(f"{name}Base64")
    try:
        if raw is not None:
            data = _base64(raw)
            return data, data
        plain = document.get(name)
        if plain is None:
            return None, None
        typed = serde.from_plain(plain)
        return typed, serde.serialize(typed)
    except Exception as error:  # a serde may be a user's
        field = name if raw is None else f"{name}Base64"
        raise ValueError(
            f"{field}: {_as_json(document.get(field))} cannot be written as {serde.name}: {_words(error)}"
        ) from error


def _as_json(given: Any) -> str:
    try:
        return write_json(given)[:60].decode("utf-8", "replace")
    except (RecursionError, TypeError):  # it is nested deeper than can be written, although it was read
        return short_repr(given)


def _timestamp(given: Any) -> int:
    if isinstance(given, str):
        try:
            given = milliseconds(given)
        except ValueError as error:
            raise ValueError(f"timestamp: {error}") from None
    if isinstance(given, bool) or not isinstance(given, int) or not 0 < given <= _LATEST:  # 0 is now
        raise ValueError(
            f"timestamp: expected milliseconds since the epoch, from 1 on, or an ISO 8601 time, got {short_repr(given)}"
        )
    return given


def _partition(given: Any) -> int | None:
    if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 0):
        raise ValueError(f"partition: expected a number from 0, got {short_repr(given)}")
    return given


def _headers(given: Any) -> Headers:
    if given is None:
        return []
    if not isinstance(given, list):
        raise ValueError('headers: expected a list of pairs: [["name", "text"]]')
    return [_header(index, each) for index, each in enumerate(given)]


def _header(index: int, given: Any) -> tuple[str, bytes | None]:
    match given:
        case [str(name), None]:
            return name, None
        case [str(name), str(text)]:
            return name, text.encode()
        case [str(name), {"base64": str(text), **rest}] if not rest:
            try:
                return name, _base64(text)
            except ValueError as error:
                raise ValueError(f"headers[{index}]: {error}") from None
    raise ValueError(f'headers[{index}]: expected ["name", "text"], ["name", null] or ["name", {{"base64": "..."}}]')


def _base64(text: Any) -> bytes:
    if not isinstance(text, str):
        raise ValueError(f"expected base64, got {type(text).__name__}")
    return b64decode(text, validate=True)


def _shown_side(name: str, serde: AnySerde, data: bytes | None, headers: Headers | None) -> dict[str, Any]:
    if data is None:
        return {name: None}
    try:
        plain = serde.to_plain(serde.read(data, headers))
        text = write_json(plain)
        if b"null" in text:
            _check_nulls(plain)
        return {name: orjson.Fragment(text)}
    except Exception as error:  # of the bytes, or of a serde, which may be a user's
        told = f"{serde.name}: {_words(error)}"
        return {f"{name}Base64": b64encode(data).decode("ascii"), f"{name}Error": told}


def _check_nulls(plain: Any) -> None:
    """Raises ``ValueError`` where JSON's null stands for something else, which would not be written again."""
    if plain is None:
        raise ValueError("it is null, and null writes a record that deletes")
    waiting = [plain]
    while waiting:
        match waiting.pop():
            case dict() as mapping:
                waiting += mapping.values()
            case list() | tuple() as items:
                waiting += items
            case float() as number if not isfinite(number):
                raise ValueError(f"JSON has no {number}")


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


def _shown_header(data: bytes | None) -> Any:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data or b"").decode("ascii")}
