"""Keys as text in URLs, and keys and values as JSON. Pure.

====================  =========================================
serde of the key      in a URL
====================  =========================================
string                the text itself
short, integer, long  a number
float, double         a number
boolean               ``true`` or ``false``
uuid                  its 36 characters
json                  JSON
bytes                 base64, of either alphabet, padded or not
any other             only as ``format=bytes``
====================  =========================================

With ``format=bytes`` keys and values are base64 of their serialised form, whatever the serde.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import orjson

from streamsapp.errors import InvalidQueryError
from streamsapp.query.api import Found, StoreInfo
from streamsapp.query.queries import serialize, windowed
from streamsapp.query.remote_reader import decode, encode
from streamsapp.serdes.json_text import read_json, write_json, write_shown
from streamsapp.state.api import AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders
from streamsapp.state.kinds.versions import VersionedRecord

_BOOLEANS = {"true": True, "false": False}

_PARSERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "short": int,
    "integer": int,
    "long": int,
    "float": float,
    "double": float,
    "boolean": _BOOLEANS.__getitem__,
    "uuid": uuid.UUID,
    "json": read_json,
    "bytes": decode,
}


def parse_key(store: StoreInfo, text: str, *, as_bytes: bool) -> bytes:
    """The serialised key that a text stands for."""
    kind = store.key_serde.name
    parser = decode if as_bytes else _PARSERS.get(kind)
    if parser is None:
        raise InvalidQueryError(
            f"keys of store {store.name} ({kind}) have no form in a URL; send base64 of their bytes and format=bytes"
        )
    try:
        key = parser(text)
    except (ValueError, KeyError) as error:
        wanted = "base64" if as_bytes or kind == "bytes" else kind
        raise InvalidQueryError(f"{text!r} is not a key of store {store.name}: expected {wanted}") from error
    return key if as_bytes else serialize(store, key)


def show_key(store: StoreInfo, key: bytes, *, as_bytes: bool) -> Any:
    """A key in JSON."""
    return encode(key) if as_bytes else shown(store.key_serde.deserialize(key))


def show_bound(store: StoreInfo, key: bytes, *, as_bytes: bool) -> Any:
    """A key in JSON as it is to be written in a URL: a key that is JSON itself comes as its text."""
    bound = show_key(store, key, as_bytes=as_bytes)
    return write_json(bound).decode() if store.key_serde.name == "json" and not as_bytes else bound


def show(store: StoreInfo, found: Found, *, as_bytes: bool) -> dict[str, Any]:
    """An entry in JSON; ``timestamp`` is ``None`` where the store keeps none, and ``headers`` are those of a store that
    keeps them: pairs of a name and base64, ``None`` for no value."""
    value, timestamp, more = found.value, None, _headers(found.value)
    if isinstance(value, ValueAndTimestamp):
        value, timestamp = value
    elif isinstance(value, AggregationWithHeaders):
        value = value.aggregation
    elif isinstance(value, VersionedRecord):
        value, timestamp, valid_to = value
        more = {"validTo": valid_to}
    if as_bytes:
        value = None if found.raw is None else encode(found.raw)
    shown_key = {"key": show_key(store, found.key, as_bytes=as_bytes)} if store.window_of is None else None
    return {
        **(shown_key or _show_window(store, found.key, as_bytes=as_bytes)),
        "value": shown(value),
        "timestamp": timestamp,
        **more,
    }


def _headers(value: Any) -> dict[str, Any]:
    if not isinstance(value, ValueTimestampHeaders | AggregationWithHeaders):
        return {}
    return {"headers": [[name, None if data is None else encode(data)] for name, data in value.headers]}


def show_version(store: StoreInfo, found: Found, *, as_bytes: bool) -> dict[str, Any]:
    """Returns a version in JSON; in bytes the key is the entry's, by which pages go on."""
    assert store.key_of is not None
    key = found.key if as_bytes else store.key_of(found.key)
    return show(store, found._replace(key=key), as_bytes=as_bytes)


def _show_window(store: StoreInfo, entry_key: bytes, *, as_bytes: bool) -> dict[str, Any]:
    """A window and its key; in bytes the key is the entry's, which has the window in it."""
    key, start_ms, end_ms = windowed(store, entry_key)
    return {"key": encode(entry_key) if as_bytes else shown(key), "start": start_ms, "end": end_ms}


def shown(value: Any) -> Any:
    """A value in JSON, bytes as base64."""
    try:
        return orjson.Fragment(write_shown(value, _show_other))
    except (TypeError, ValueError) as error:
        raise InvalidQueryError(
            f"a {type(value).__name__} has no form in JSON ({error}); ask with format=bytes"
        ) from error


def _show_other(value: Any) -> Any:
    if isinstance(value, bytes):
        return encode(value)
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not known to JSON")
