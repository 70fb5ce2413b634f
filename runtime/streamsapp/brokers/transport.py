"""Bytes to and from a broker over a socket, plain or by TLS. Used on one thread at a time: that which opens the
connection, then that of its owner.

Nothing waits here, unless the owner lets reads and writes wait in the system for a moment. ``BlockingIOError`` says
that the socket is to be watched: for room to write if ``wants_room``, and else for something to read.
"""

from __future__ import annotations

import socket
import struct

from streamsapp.brokers.tls import ClientTls

_TIME = struct.Struct("@qq")


class Transport:
    """A plain connection."""

    def __init__(self, made: socket.socket) -> None:
        made.setblocking(False)
        self._socket = made
        self._sends = False

    @property
    def wants_room(self) -> bool:
        """True if the last ``BlockingIOError`` was for want of room to write, and not of something to read."""
        return self._sends

    def fileno(self) -> int:
        return self._socket.fileno()

    def shake_hands(self) -> None:
        """Begin, or go on with it after ``BlockingIOError``."""

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """The number of bytes that were taken."""
        self._sends = True
        return self._socket.send(data)

    def recv_into(self, view: memoryview) -> int:
        """Fills as much of a view as there is to be read by now; 0 at the end."""
        self._sends = False
        return self._socket.recv_into(view, 0, socket.MSG_WAITALL)

    @property
    def pending(self) -> bool:
        """True if more is to be read at once, though the socket may have none."""
        return False

    @property
    def tls(self) -> tuple[str, str] | None:
        """The version and the cipher that both sides have agreed on, as ``TLSv1.3``; ``None``: there is no TLS."""
        return None

    def wait_in_system(self, read: float, write: float) -> None:
        """From now on reads and writes wait for so many seconds, and no other thread of the interpreter meanwhile."""
        self._socket.settimeout(None)
        for option, seconds in ((socket.SO_RCVTIMEO, read), (socket.SO_SNDTIMEO, write)):
            whole = int(seconds)
            self._socket.setsockopt(socket.SOL_SOCKET, option, _TIME.pack(whole, round((seconds - whole) * 1_000_000)))

    def close(self) -> None:
        self._socket.close()


class TlsTransport(Transport):
    """A connection by TLS."""

    def __init__(self, made: socket.socket, tls: ClientTls, name: str) -> None:
        """The other side has to prove that it has this name, unless the client's settings say otherwise."""
        super().__init__(made)
        self._tls = tls.connection(made.fileno(), name)

    def shake_hands(self) -> None:
        self._tls.shake_hands()

    def send(self, data: bytes | bytearray | memoryview) -> int:
        return self._tls.send(data)

    def recv_into(self, view: memoryview) -> int:
        return self._tls.recv_into(view)

    @property
    def wants_room(self) -> bool:
        return self._tls.wants_room

    @property
    def pending(self) -> bool:
        return self._tls.pending

    @property
    def tls(self) -> tuple[str, str] | None:
        return self._tls.version, self._tls.cipher

    def close(self) -> None:
        self._tls.close()
        super().close()
