"""The broker's end of the protocol, for made-up brokers: the requests to them, and the bytes of their answers."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from random_messages import kinds
from streamsapp.brokers.codec import Asking, Whole, encoded, read
from streamsapp.brokers.encoding import INT32, NO_TAGS, Reader
from streamsapp.brokers.messages.api_versions import ApiVersionsResponse

_REQUESTS = {kind.API_KEY: kind for kind in kinds() if issubclass(kind, Asking)}
_HEADER = struct.Struct(">hhih")


class Received(NamedTuple):
    """A request with its header."""

    message: Any
    version: int
    number: int
    client_id: str


def received(data: bytes) -> Received:
    """The request of these bytes, after their length. Raises as ``codec.decoded`` does."""
    key, version, number, size = _HEADER.unpack_from(data)
    kind, body = _REQUESTS[key], _HEADER.size + size
    reader = Reader(data[body:], compact=version >= kind.FIRST_COMPACT)
    reader.skip_tags()
    message = read(kind, reader, version)
    reader.end()
    return Received(message, version, number, data[_HEADER.size : body].decode())


def answered(answer: Whole, version: int, number: int) -> bytes:
    """The bytes of an answer, without their length."""
    compact = version >= answer.FIRST_COMPACT and not isinstance(answer, ApiVersionsResponse)
    return b"".join((INT32.pack(number), NO_TAGS if compact else b"", encoded(answer, version)))
