"""The bytes that a sink sends: the result of a user's serializer, as the client takes it.

Asked when a sink is bound. The functions run on processing threads, for every record of a user's serde. The library's
own serdes give bytes or raise, and need no check.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamsapp.serdes.api import AnySerde, is_ours
from streamsapp.serdes.wrapping import WrappingSerde

#: Serializers of these give bytes, whatever they are given; the serializers of this package are wrapped in its own
#: modules.
_TRUSTED = frozenset({"orjson", "msgspec._core"})


def giving_bytes(serde: AnySerde) -> Callable[[Any], bytes]:
    """Returns the serde's own function if it gives bytes for certain, else a function that checks for it. The client
    raises for anything else, at a point where no handler can be asked any more."""
    serialize = serde.serialize
    if _gives_bytes(serde):
        return serialize

    def checked(value: Any) -> Any:
        data: Any = serialize(value)
        return data if data.__class__ is bytes else _as_bytes(data)

    return checked


def _gives_bytes(serde: AnySerde) -> bool:
    if isinstance(serde, WrappingSerde):
        return _gives_bytes(serde.inner)  # it puts its own bytes before or behind the bytes of the inner one
    module = getattr(serde.serialize, "__module__", None) or ""
    return serde.serialize is str.encode or module in _TRUSTED or is_ours(serde.serialize)


def _as_bytes(data: Any) -> bytes | None:
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, (bytearray, memoryview)):
        return bytes(data)
    raise TypeError(f"its serializer gave {type(data).__name__}, which is not bytes")
