"""A proxy in front of a real broker, which changes answers as a test wants it. It reads the frames of Kafka's protocol,
and has clients find the broker at its own address. Each connection has two threads."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from types import TracebackType

_HOST = b"127.0.0.1"
_SIZE = struct.Struct(">i")

#: Changes the bytes of an answer, from the number of the request on; gets the request's kind and version.
Tamper = Callable[[int, int, bytes], bytes]


class TamperingProxy:
    """One way to a broker."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._target = int(bootstrap_servers.rpartition(":")[2])
        self.tamper: Tamper = lambda key, version, answer: answer
        self._away = False
        self._listening = socket.create_server((_HOST.decode(), 0), backlog=100)
        self._sockets: list[socket.socket] = []
        self._threads = [Thread(target=self._accept, name="proxy", daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> TamperingProxy:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for each in (self._listening, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(10)

    @property
    def port(self) -> int:
        return int(self._listening.getsockname()[1])

    @property
    def bootstrap_servers(self) -> str:
        return f"{_HOST.decode()}:{self.port}"

    def go_away(self) -> None:
        """Close all connections, and each new one at once, until it is to ``come_back``."""
        self._away = True
        for each in self._sockets:
            _close(each)

    def come_back(self) -> None:
        self._away = False

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client = self._listening.accept()[0]
                if self._away:
                    client.close()
                    continue
                server = socket.create_connection((_HOST.decode(), self._target))
                self._sockets += (client, server)
                asked: dict[int, tuple[int, int]] = {}
                for work in (self._ask, self._answer):
                    self._threads.append(Thread(target=work, args=(client, server, asked), name="proxy", daemon=True))
                    self._threads[-1].start()

    def _ask(self, client: socket.socket, server: socket.socket, asked: dict[int, tuple[int, int]]) -> None:
        with suppress(OSError):
            while (frame := _frame(client)) is not None:
                key, version, number = struct.unpack_from(">hhi", frame)
                asked[number] = key, version
                server.sendall(_SIZE.pack(len(frame)) + frame)
        _close(server)

    def _answer(self, client: socket.socket, server: socket.socket, asked: dict[int, tuple[int, int]]) -> None:
        here, there = (_HOST + _SIZE.pack(port) for port in (self.port, self._target))
        with suppress(OSError):
            while (frame := _frame(server)) is not None:
                changed = self.tamper(*asked.pop(_SIZE.unpack_from(frame)[0]), frame.replace(there, here))
                client.sendall(_SIZE.pack(len(changed)) + changed)
        _close(client)


def _frame(of: socket.socket) -> bytes | None:
    size = of.recv(4, socket.MSG_WAITALL)
    if len(size) < 4:
        return None
    frame = of.recv(_SIZE.unpack(size)[0], socket.MSG_WAITALL)
    return frame if len(frame) == _SIZE.unpack(size)[0] else None


def _close(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
