"""A connection in virtual time, and the brokers at the other ends of its sockets, which do as the test says.

Called by the tests of connections, on their own thread.
"""

from __future__ import annotations

import socket
import struct
from collections import defaultdict, deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from streamsapp.brokers.connection import Connection
from streamsapp.brokers.link import Address
from streamsapp.brokers.opening import OpenConnection
from streamsapp.brokers.settings import connection_settings
from streamsapp.brokers.transport import Transport
from streamsapp.config.client_properties import ClientProperties
from streamsapp.membership.heartbeat import HeartbeatRequest
from streamsapp.membership.wire import GroupSettings, Identity
from virtual_time import VirtualLoop

GROUP = GroupSettings("g", None, 10.0, 1.0, 10.0, 1.0)
#: The requests that all brokers here know.
VERSIONS = {12: (0, 4)}
BOOTSTRAP = ("first", 9092)


def heartbeat() -> HeartbeatRequest:
    return HeartbeatRequest(GROUP, Identity(3, "m"))


def answer(number: int, code: int = 0, throttled_ms: int = 0) -> bytes:
    """To a heartbeat, with its length before it; ``code`` distinguishes the answers."""
    return _framed(struct.pack(">ibihb", number, 0, throttled_ms, code, 0))


def _framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


class Narrow(Transport):
    """A plain connection that takes ``limit`` bytes at a time."""

    limit = 1 << 30

    def send(self, data: bytes | bytearray | memoryview) -> int:
        return super().send(memoryview(data)[: self.limit])


class Peer:
    """A broker's end of one connection."""

    def __init__(self, end: socket.socket, transport: Narrow) -> None:
        end.setblocking(False)
        self.end = end
        self.transport = transport
        self._came = b""

    def requests(self) -> list[int]:
        """The correlation ids of the requests that have come whole since the last call."""
        assert not self.gone
        found = list[int]()
        while len(self._came) >= 4 and len(self._came) >= 4 + (size := struct.unpack(">i", self._came[:4])[0]):
            found.append(struct.unpack_from(">i", self._came, 8)[0])
            self._came = self._came[4 + size :]
        return found

    @property
    def gone(self) -> bool:
        """True if the other end is closed; reads all that it has sent."""
        try:
            while data := self.end.recv(1 << 16):
                self._came += data
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True
        return True


class VirtualBrokers:
    """The connection, its loop, and what opens its sockets."""

    def __init__(self, **properties: str) -> None:
        """``properties`` of the client, with ``_`` in place of dots."""
        self.loop = VirtualLoop()
        #: Each try to open one: when, where, and how long it may take.
        self.tries: list[tuple[float, Address, float]] = []
        #: The outcomes of tries, in turn: an error, or for how long the session lasts; then they succeed, without end.
        self.fates: deque[Exception | float | None] = deque()
        #: With what opens them, if it is not to run at once.
        self.held: list[Callable[[], None]] | None = None
        self.versions = VERSIONS
        self.peers: dict[Address, list[Peer]] = defaultdict(list)
        given: ClientProperties = {name.replace("_", "."): value for name, value in properties.items()}
        settings = connection_settings(given | {"bootstrap.servers": ":".join(map(str, BOOTSTRAP))}, "me")
        self.connection = Connection(settings, self.loop, self._open, self._background)
        self.connection.learn(cluster(BOOTSTRAP))

    def _background(self, call: Callable[[], None]) -> None:
        if self.held is None:
            call()
        else:
            self.held.append(call)

    def _open(self, address: Address, timeout: float) -> OpenConnection:
        self.tries.append((self.loop.now(), address, timeout))
        fate = self.fates.popleft() if self.fates else None
        if isinstance(fate, Exception):
            raise fate
        own, end = socket.socketpair()
        transport = Narrow(own)
        self.peers[address].append(Peer(end, transport))
        now = self.loop.now()
        return OpenConnection(transport, self.versions, *(() if fate is None else (now + fate, now + 0.85 * fate)))

    def peer(self, address: Address = BOOTSTRAP) -> Peer:
        """The last one that was connected to."""
        return self.peers[address][-1]

    def ask(self, timeout: float = 10.0, node: int | str = 0, held: float = 0.0) -> list[Any]:
        """Send the first broker a heartbeat; returns a list that will have the answer's code, or the error."""

        async def asked() -> int:
            return int((await self.connection.send(heartbeat(), node, timeout, held=held)).error_code)

        told = self.loop.begin(asked())
        self.loop.settle()
        return told

    def close(self) -> None:
        self.loop.stop()
        self.connection._serve()
        for peers in self.peers.values():
            for peer in peers:
                peer.end.close()


def cluster(*addresses: Address) -> Any:
    """An answer to Metadata that names brokers 0, 1, … at these addresses."""
    return SimpleNamespace(
        brokers=[SimpleNamespace(node_id=at, host=host, port=port) for at, (host, port) in enumerate(addresses)]
    )
