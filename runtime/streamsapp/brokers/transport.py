"""Bytes to and from a broker over a socket, plain or by TLS. Used on one thread at a time: that which opens the
connection, then that of its owner.

Nothing waits here, unless the owner lets reads and writes wait in the system for a moment: ``BlockingIOError`` says
that the socket is to be watched, for room to write where ``wants_room``, and else for something to read.
"""

from __future__ import annotations

import socket
import ssl
import struct
from contextlib import suppress

_TIME = struct.Struct("@qq")


class Transport:
    """A plain connection."""

    #: Set with ``BlockingIOError``.
    wants_room = False

    def __init__(self, made: socket.socket) -> None:
        made.setblocking(False)
        self._socket = made

    def fileno(self) -> int:
        return self._socket.fileno()

    def shake_hands(self) -> None:
        """Begin, or go on with it after ``BlockingIOError``."""

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """The number of bytes that were taken."""
        self.wants_room = True
        return self._socket.send(data)

    def recv_into(self, view: memoryview) -> int:
        """Fills as much of a view as there is to be read by now; 0 at the end."""
        self.wants_room = False
        return self._socket.recv_into(view, 0, socket.MSG_WAITALL)

    @property
    def pending(self) -> int:
        """Bytes to be read at once, though the socket has none."""
        return 0

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

    def __init__(self, made: socket.socket, context: ssl.SSLContext, name: str) -> None:
        """The other side has to prove that it has this name, if the context says so."""
        made.setblocking(False)
        self._secured = context.wrap_socket(made, server_hostname=name, do_handshake_on_connect=False)
        super().__init__(self._secured)

    def shake_hands(self) -> None:
        try:
            self._secured.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            raise self._waits(error) from None

    def send(self, data: bytes | bytearray | memoryview) -> int:
        try:
            return self._secured.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            raise self._waits(error) from None

    def recv_into(self, view: memoryview) -> int:
        read = 0
        try:
            while read < len(view) and (more := self._secured.recv_into(view[read:])):
                read += more
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            if not read:
                raise self._waits(error) from None
        return read

    @property
    def pending(self) -> int:
        return self._secured.pending()

    def wait_in_system(self, read: float, write: float) -> None:
        """Python's TLS does not wait for a moment: its owner watches the socket."""

    def close(self) -> None:
        with suppress(OSError, ValueError):
            self._secured.close()

    def _waits(self, error: ssl.SSLError) -> BlockingIOError:
        self.wants_room = isinstance(error, ssl.SSLWantWriteError)
        return BlockingIOError()
