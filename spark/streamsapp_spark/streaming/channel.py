"""The connection between the driver and its workers: requests and answers, for who knows the driver's word.

Whoever does not know it is not heard (``multiprocessing.connection`` challenges both sides). The server has a thread
for each connection, on which the engine answers.
"""

from __future__ import annotations

import logging
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

log = logging.getLogger(__name__)

#: The time that a driver has to be found, in seconds.
_SECONDS = 5.0


@dataclass(frozen=True)
class DriverAddress:
    """The driver's host and port, and its word."""

    host: str
    port: int
    word: bytes

    def connect(self) -> Connection:
        """A connection; raises ``OSError`` when the driver is gone or out of reach."""
        return Client((self.host, self.port), authkey=self.word)

    def listens(self) -> bool:
        """Says whether the driver is there; also one that hangs is."""
        try:
            socket.create_connection((self.host, self.port), _SECONDS).close()
        except OSError:
            return False
        return True


class Server:
    """The driver's side."""

    def __init__(self, host: str, serve: Callable[[Connection], None]) -> None:
        """``host`` is this machine's name among the workers; ``serve`` has a connection until it ends."""
        self._serve = serve
        self._word = secrets.token_bytes(32)
        self._listener = Listener(("127.0.0.1" if host == "127.0.0.1" else "", 0), authkey=self._word, backlog=64)
        port: int = self._listener.address[1]
        self.address = DriverAddress(host, port, self._word)
        self._closed = False
        self._accepting = threading.Thread(target=self._accept, name="channel", daemon=True)
        self._accepting.start()

    def close(self) -> None:
        """Nobody else connects, from when this returns."""
        self._closed = True
        with suppress(OSError):  # a thread that waits for somebody would keep the port
            socket.create_connection(("127.0.0.1", self.address.port), _SECONDS).close()
        # It would take whoever comes meanwhile, or those of the next server, which gets the same descriptor.
        self._accepting.join(_SECONDS)
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection = self._listener.accept()
            except Exception as error:  # whoever it was does not know the word, or went away
                if not self._closed:
                    log.debug("a connection was refused: %s", error)
                continue
            threading.Thread(target=self._run, args=(connection,), name="worker", daemon=True).start()

    def _run(self, connection: Connection) -> None:
        with suppress(OSError, EOFError), connection:
            self._serve(connection)


def ask(connection: Connection, *request: Any) -> Any:
    """The answer to a request."""
    connection.send(request)
    return connection.recv()
