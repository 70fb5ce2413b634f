"""A broker that knows how a connection begins, and nothing else; a test may change each answer, or cut it: faults that
a real broker does not make. Each connection has a thread."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Thread
from typing import TypeAlias

#: Bytes of a request that are read; a real broker hangs up as well.
_MOST = 100 << 20

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36

#: An answer's body to a request's body, or ``None``: the broker hangs up.
Answer: TypeAlias = Callable[[bytes], bytes | None]


def versions(ranges: dict[int, tuple[int, int]]) -> bytes:
    """The body of an answer to ApiVersions."""
    return struct.pack(">hi", 0, len(ranges)) + b"".join(
        struct.pack(">hhh", key, *both) for key, both in ranges.items()
    )


def handshake(*mechanisms: str, code: int = 0) -> bytes:
    """The body of an answer to SaslHandshake."""
    return struct.pack(">hi", code, len(mechanisms)) + b"".join(map(_text, mechanisms))


def authenticated(said: bytes = b"", *, code: int = 0, error: str | None = None, lifetime: int = 0) -> bytes:
    """The body of an answer to SaslAuthenticate; the lifetime in milliseconds."""
    text = struct.pack(">h", -1) if error is None else _text(error)
    return struct.pack(">h", code) + text + struct.pack(">i", len(said)) + said + struct.pack(">q", lifetime)


def said_in(request: bytes) -> bytes:
    """The client's words, of the body of a SaslAuthenticate request."""
    return request[4:]


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


KNOWN = versions({API_VERSIONS: (0, 4), SASL_HANDSHAKE: (0, 1), SASL_AUTHENTICATE: (0, 2)})


class HandshakingBroker:
    """Listens on a port of this machine; with a context, by TLS."""

    def __init__(self, answers: Mapping[int, Answer] | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.answers: dict[int, Answer] = {API_VERSIONS: lambda _: KNOWN, **(answers or {})}
        #: Bytes that are said instead of all answers, after which it hangs up.
        self.instead: bytes | None = None
        #: So many bytes of each whole answer are sent, the rest never.
        self.cut: int | None = None
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def __enter__(self) -> HandshakingBroker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _listen(self) -> None:
        with suppress(OSError):  # closed
            while True:
                Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True).start()

    def _serve(self, made: socket.socket) -> None:
        with made, suppress(OSError, EOFError):
            made.settimeout(60)
            if self._tls is not None:
                with self._tls.wrap_socket(made, server_side=True) as secured:
                    self._converse(secured)
            else:
                self._converse(made)

    def _converse(self, made: socket.socket) -> None:
        while True:
            if self.instead is not None:
                made.recv(1 << 16)
                made.sendall(self.instead)
                return
            (size,) = struct.unpack(">i", _exactly(made, 4))
            if not 0 < size < _MOST:
                return
            request = _exactly(made, size)
            kind, _, number, size = struct.unpack_from(">hhih", request)
            body = self.answers[kind](request[10 + size :])
            if body is None:
                return
            made.sendall((struct.pack(">ii", 4 + len(body), number) + body)[: self.cut])
            if self.cut is not None:
                return


def _exactly(made: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = made.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
