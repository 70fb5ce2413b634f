"""Requests as bytes, and answers as what they say. Pure; used by ``Channel``."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

from streamsapp.brokers.encoding import INT32
from streamsapp.brokers.errors import UnreachableError


def version_of(request: Any, known: Mapping[int, tuple[int, int]], broker: str) -> int:
    """The greatest version that both sides know; raises ``UnreachableError`` if there is none."""
    least, most = request._min_version or 0, request._max_version
    most = request.max_version if most is None else most
    theirs = known.get(request.API_KEY)
    if theirs is None or theirs[1] < least or theirs[0] > most:
        told = "does not know it" if theirs is None else f"knows {theirs[0]} to {theirs[1]}"
        raise UnreachableError(
            f"broker {broker}: {request.name} is needed in a version of {least} to {most}, and the broker {told}: it is"
            " too old, or too new"
        )
    return int(min(most, theirs[1]))


def encoded(request: Any, version: int, number: int, client_id: str) -> bytes:
    """The whole request, with its length before it; ``number`` is its correlation id."""
    request.API_VERSION = version
    request.with_header(number, client_id)
    data: bytes = request.encode(framed=True, header=True)
    return data


def number_of(answer: bytes) -> int:
    """The correlation id of an answer."""
    return int(INT32.unpack_from(answer)[0])


def decoded(request: Any, answer: bytes) -> Any:
    """The answer to a request that was ``encoded``; raises whatever a wrong one makes the decoder raise."""
    form, data = request.header.get_response_class(), BytesIO(answer)
    form.parse_header(data)
    return form.decode(data)
