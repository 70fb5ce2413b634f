"""The connection between the driver and its workers: requests and answers, for workers that know the driver's word.

A program that does not know it is not heard (``multiprocessing.connection`` challenges both sides). The server has a
thread for each connection, on which the engine answers.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any

from streamsapp_spark.session.driver_port import listen

log = logging.getLogger(__name__)

#: The time that a driver has to be found, in seconds.
_SECONDS = 5.0
#: The time that a worker has for each of its answers until it is known.
_TO_BE_KNOWN = 30


@dataclass(frozen=True)
class DriverAddress:
    """The driver's host and port, and its word."""

    host: str
    port: int
    word: bytes

    def connect(self) -> Connection:
        """A connection; raises ``OSError`` when the driver is gone or out of reach."""
        connection = Connection(socket.create_connection((self.host, self.port)).detach())
        try:
            answer_challenge(connection, self.word)
            deliver_challenge(connection, self.word)
        except BaseException:
            connection.close()
            raise
        return connection

    def listens(self) -> bool:
        """Says whether the driver is there; a hanging driver also is."""
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
        self._listener = listen(host)
        port: int = self._listener.getsockname()[1]
        self.address = DriverAddress(host, port, self._word)
        self._closed = False
        self._accepting = threading.Thread(target=self._accept, name="channel", daemon=True)
        self._accepting.start()

    def close(self) -> None:
        """No other process connects, from when this returns."""
        self._closed = True
        with suppress(OSError):  # a thread that waits for a client would keep the port
            socket.create_connection(("127.0.0.1", self.address.port), _SECONDS).close()
        # It would take clients that come meanwhile, or clients of the next server, which gets the same descriptor.
        self._accepting.join(_SECONDS)
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection = Connection(self._listener.accept()[0].detach())
            except OSError as error:  # the client went away
                log.debug("a connection was not made: %s", error)
                continue
            if self._closed:
                connection.close()
                return
            threading.Thread(target=self._run, args=(connection,), name="worker", daemon=True).start()

    def _run(self, connection: Connection) -> None:
        with suppress(OSError, EOFError), connection:
            try:
                self._know(connection)
            except Exception as error:  # the client does not know the word, says nothing, or went away
                log.debug("a connection was refused: %s", error)
                return
            if not self._closed:
                self._serve(connection)

    def _know(self, connection: Connection) -> None:
        """Challenges a worker as ``Listener`` would do it, but on the worker's thread: a silent one keeps no other
        waiting."""
        _give_up_reading_after(connection, _TO_BE_KNOWN)
        deliver_challenge(connection, self._word)
        answer_challenge(connection, self._word)
        _give_up_reading_after(connection, 0)


def _give_up_reading_after(connection: Connection, seconds: int) -> None:
    """0: never."""
    with socket.socket(fileno=os.dup(connection.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", seconds, 0))


def ask(connection: Connection, *request: Any) -> Any:
    """The answer to a request."""
    connection.send(request)
    return connection.recv()
