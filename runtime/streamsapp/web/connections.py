"""The connections to an HTTP port, bounded: how many there are, how long each may take to ask, and how much.

Used by the server, on its own thread and on those of its connections. Any client that reaches the port may connect, so
no code here asks which client it is.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock

#: Connections at a time. Each has a thread.
MOST = 64
#: Bytes of a request line with its headers.
HEAD_BYTES = 32 << 10
#: The time that a client may take to send them, which is also how long a connection may be idle; seconds.
HEAD_SECONDS = 10.0

_BLOCK = 4096
_END = re.compile(rb"\r?\n\r?\n")


class HeadTooLargeError(Exception):
    """A request line with its headers is longer than any that is meant well."""


class Connections:
    """The open connections of a port. When there are too many, the one that has waited longest for its client makes
    room, so that idle and slow ones keep no client out. A connection whose answer is being made is left alone."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = Lock()
        #: The connections that wait for their clients, the longest first.
        self._waiting: dict[socket.socket, None] = {}
        self._busy: set[socket.socket] = set()

    def admit(self, connection: socket.socket) -> bool:
        """Says whether there is room for one more."""
        with self._lock:
            if len(self._waiting) + len(self._busy) >= self._most:
                if not self._waiting:
                    return False
                oldest = next(iter(self._waiting))
                del self._waiting[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread finds out, and closes it
            self._waiting[connection] = None
        return True

    def leave(self, connection: socket.socket) -> None:
        """Notes that a connection is closed."""
        with self._lock:
            self._waiting.pop(connection, None)

    @contextmanager
    def busy(self, connection: socket.socket) -> Iterator[None]:
        """While an answer is made; the connection goes to the end of the waiting ones."""
        with self._lock:
            known = connection in self._waiting
            self._waiting.pop(connection, None)
            self._busy.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._busy.discard(connection)
                if known:
                    self._waiting[connection] = None


def read_head(connection: socket.socket, received: bytes) -> tuple[bytes, bytes]:
    """The next request line with its headers, and the bytes after them; ``received`` came before. Empty at the end.

    Raises ``HeadTooLargeError``, and ``TimeoutError`` after ``HEAD_SECONDS``.
    """
    give_up = time.monotonic() + HEAD_SECONDS
    data, searched = bytearray(received), 0
    while (end := _END.search(data, searched)) is None and len(data) <= HEAD_BYTES:
        # The end may have begun in the last three bytes.
        searched = max(0, len(data) - 3)
        connection.settimeout(max(give_up - time.monotonic(), 0.001))
        more = connection.recv(_BLOCK)
        if not more:
            return b"", b""
        data += more
    if end is None or end.end() > HEAD_BYTES:
        raise HeadTooLargeError
    connection.settimeout(HEAD_SECONDS)
    return bytes(data[: end.end()]), bytes(data[end.end() :])
