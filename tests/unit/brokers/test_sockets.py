"""A transport sends at once what the socket takes, and watches it for answers; the other end is a real socket."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from streamsapp.brokers.sockets import WatchingLoop, _TcpTransport

TURNS = 10_000


class Protocol:
    """Keeps what the transport tells it."""

    _sensors = None

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.lost: list[BaseException | None] = []

    def data_received(self, data: bytes) -> None:
        self.received.append(data)

    def connection_lost(self, error: BaseException | None) -> None:
        self.lost.append(error)


class Line:
    """A transport in its loop, and the socket at the other end."""

    def __init__(self) -> None:
        own, self.peer = socket.socketpair()
        own.setblocking(False)
        self.peer.setblocking(False)
        self.loop = WatchingLoop()
        self.protocol = Protocol()
        self.transport = _TcpTransport(self.loop, own)
        self.transport.set_protocol(self.protocol)
        self.transport.resume_reading()
        self.loop._poll_once(0)

    def until(self, reached: Callable[[], bool]) -> None:
        for _ in range(TURNS):
            if reached():
                return
            self.loop._poll_once(0.01)
        raise AssertionError("not reached")

    def has(self, answer: bytes) -> bool:
        """Says whether this was the last to be received."""
        return self.protocol.received[-1:] == [answer]

    @property
    def watched(self) -> int:
        """How many sockets the loop waits for, but for its own."""
        return len(self.loop._selector.get_map()) - 1


@pytest.fixture
def line() -> Iterator[Line]:
    line = Line()
    yield line
    line.transport.abort()
    line.loop.close()
    line.peer.close()


def test_a_request_is_sent_without_a_turn_of_the_loop(line: Line) -> None:
    line.transport.write(b"request")

    assert line.peer.recv(100) == b"request"
    assert not line.loop._ready


def test_the_rest_of_a_request_follows_when_the_socket_takes_it(line: Line) -> None:
    request, arrived = bytes(range(256)) * 20_000, bytearray()
    line.transport.write(request)
    line.transport.write(b"the next")

    def all_there() -> bool:
        try:
            arrived.extend(line.peer.recv(1 << 20))
        except BlockingIOError:
            return False
        return len(arrived) == len(request) + len(b"the next")

    line.until(all_there)
    assert bytes(arrived) == request + b"the next"


def test_answers_are_read_one_after_the_other(line: Line) -> None:
    for answer in (b"one", b"two", b"three"):
        line.peer.send(answer)
        line.until(partial(line.has, answer))

    assert line.watched == 1


def test_a_peer_that_is_gone_ends_the_connection_for_whoever_reads(line: Line) -> None:
    line.peer.close()

    line.until(lambda: bool(line.protocol.lost))

    assert isinstance(line.protocol.lost[0], Exception)
    assert line.watched == 0


def test_a_peer_that_is_gone_ends_the_connection_for_whoever_sends(line: Line) -> None:
    line.transport.pause_reading()
    line.peer.close()
    line.transport.write(b"request")

    line.until(lambda: bool(line.protocol.lost))

    assert isinstance(line.protocol.lost[0], Exception)
    assert line.watched == 0


def test_nothing_is_sent_after_the_end(line: Line) -> None:
    line.transport.abort()

    with pytest.raises(RuntimeError, match="closed"):
        line.transport.write(b"request")
    assert line.watched == 0
