"""Sends one request to a pod, whose time limit holds however the pod answers: not at all, byte by byte, or without end.

Called by ``pod_status`` on its threads. The usual clients limit the wait for each piece, which lets a pod hold a thread
for hours.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPResponse
from typing import cast

#: Of status line and headers.
_HEAD_BYTES = 64 << 10
_CHUNK = 64 << 10


@dataclass(frozen=True, slots=True)
class Address:
    """The address at which a pod is asked."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ExchangeResponse:
    """The response of a pod."""

    code: int
    body: bytes
    date: str | None


def ask(
    address: Address, path: str, token: str, left: Callable[[], float], max_bytes: int, *, method: str = "GET"
) -> ExchangeResponse:
    """Sends a request without a body; raises ``OSError``, ``ValueError`` or ``HTTPException``. ``left`` returns how
    many seconds there are still."""
    lines = [
        f"{method} {path} HTTP/1.1",
        f"Host: {address}",
        f"Authorization: Bearer {token}",
        "Connection: close",
        "Content-Length: 0",
    ]
    with socket.create_connection((address.host, address.port), timeout=_positive(left())) as connection:
        connection.sendall("".join(f"{line}\r\n" for line in [*lines, ""]).encode("ascii"))
        received = bytearray()
        while True:
            connection.settimeout(_positive(left()))
            chunk = connection.recv(_CHUNK)
            if not chunk:
                break
            received += chunk
            if len(received) > max_bytes + _HEAD_BYTES:
                raise ValueError(f"its answer is larger than {max_bytes >> 20} MiB")
    response = HTTPResponse(cast(socket.socket, _Received(bytes(received))))
    response.begin()
    return ExchangeResponse(response.status, response.read(), response.headers.get("Date"))


def _positive(seconds: float) -> float:
    if seconds <= 0:
        raise TimeoutError("no complete answer in time")
    return seconds


class _Received:
    """Gives bytes that were read already to the parser of answers."""

    def __init__(self, received: bytes) -> None:
        self._received = received

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._received)
