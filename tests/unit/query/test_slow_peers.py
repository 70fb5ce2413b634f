"""A member whose answer trickles, or has no end, costs its askers some seconds and some memory, but not their port:
they answer probes while queries wait."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from types import SimpleNamespace
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from query_hosts import PARTITIONS, QueryHost, store_info
from streamsapp.http.state_routes import StateRoute
from streamsapp.membership.api import Peer
from streamsapp.query import remote_reader
from streamsapp.query.remote_reader import HttpFetch, PeerResponse
from streamsapp.record import TaskId
from streamsapp.web import HttpServer
from streamsapp.web.request_routing import AtMost, HttpRequest, HttpResponse, Route, probe

#: Longer than anything takes on a busy machine.
SOON = 60.0
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
WITHOUT_END = b"HTTP/1.1 200 OK\r\n\r\n"


@contextmanager
def peer(say: Callable[[socket.socket], None]) -> Iterator[str]:
    """A member whose answers are what ``say`` writes; yields its endpoint."""

    def talk(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(4096)
            say(connection)

    def listen() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=listen, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def trickle(connection: socket.socket, data: bytes) -> None:
    for each in data:
        connection.sendall(bytes([each]))
        time.sleep(0.02)


def trickles_its_head(connection: socket.socket) -> None:
    trickle(connection, b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 10_000)


def trickles_its_body(connection: socket.socket) -> None:
    connection.sendall(HEAD)
    trickle(connection, b"x" * 1_000_000)


def never_ends(connection: socket.socket) -> None:
    connection.sendall(WITHOUT_END)
    while True:
        connection.sendall(b"x" * 65_536)


@pytest.mark.parametrize("say", [trickles_its_head, trickles_its_body])
def test_an_answer_that_trickles_is_given_up_when_its_time_is_over(say: Callable[[socket.socket], None]) -> None:
    with peer(say) as endpoint:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            HttpFetch()(endpoint, "/state/counts", timeout=0.5)
        assert time.monotonic() - began < 15, "20,000 s if each byte had its time"


def test_an_answer_without_end_is_given_up_at_the_most_that_any_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_reader, "MOST_BYTES", 1 << 20)
    with peer(never_ends) as endpoint, pytest.raises(http.client.HTTPException, match="more than 1048576 bytes"):
        HttpFetch()(endpoint, "/state/counts", timeout=SOON)


class SlowGroup:
    """Another instance has all partitions of a store, and nothing in them; each of its answers takes its time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.now = 0.0
        self.asked = 0
        self.here = QueryHost(store_info(placed=False))
        tasks = frozenset(TaskId(0, partition) for partition in range(PARTITIONS))
        self.here.group = {"other": Peer("other:1", active=tasks)}
        self.other = QueryHost(self.here.info)
        for partition in range(PARTITIONS):
            self.other.add(partition)

    def fetch(self, endpoint: str, path: str, *, method: str = "GET", timeout: float = 0) -> PeerResponse:
        self.asked += 1
        self.now += self.seconds
        response = StateRoute(self.other.queries())(HttpRequest(method, path))
        return PeerResponse(response.status, {}, response.body)


@pytest.mark.parametrize(("seconds", "asked", "status"), [(2.0, PARTITIONS, 404), (6.0, 2, 503)])
def test_a_question_to_many_partitions_has_a_time_of_its_own(
    monkeypatch: pytest.MonkeyPatch, seconds: float, asked: int, status: int
) -> None:
    slow = SlowGroup(seconds)
    monkeypatch.setattr(remote_reader, "time", SimpleNamespace(monotonic=lambda: slow.now))
    route = StateRoute(slow.here.queries(slow.fetch))
    response = route(HttpRequest("GET", "/state/counts/a?proxy=1"))
    assert (response.status, slow.asked) == (status, asked)
    assert (b"it was not asked, as the others took 10 seconds" in response.body) == (status == 503)

    slow.asked = 0
    response = route(HttpRequest("GET", "/state/counts?proxy=1"))
    assert (response.status, slow.asked) == (503 if status == 503 else 200, asked)


def test_probes_are_answered_while_queries_wait_for_other_instances() -> None:
    ended = threading.Event()

    def waits(request: HttpRequest) -> HttpResponse:
        ended.wait(SOON)
        return HttpResponse(HTTPStatus.OK, b"{}")

    server = HttpServer(0, host="127.0.0.1")
    state = Route(AtMost(32, waits))
    server.start({"/healthz": Route(lambda _: probe((True, "fine")), open=True), "/state/": state})
    statuses: list[int] = []

    def ask() -> None:
        try:
            with urlopen(f"http://127.0.0.1:{server.port}/state/counts/key", timeout=SOON) as answer:
                statuses.append(answer.status)
        except HTTPError as error:
            statuses.append(error.code)
            error.close()

    asking = [threading.Thread(target=ask) for _ in range(64)]
    try:
        for thread in asking:
            thread.start()
        give_up = time.monotonic() + SOON
        while len(statuses) < 32 and time.monotonic() < give_up:
            time.sleep(0.01)
        assert statuses == [HTTPStatus.SERVICE_UNAVAILABLE] * 32
        with urlopen(f"http://127.0.0.1:{server.port}/healthz", timeout=SOON) as answer:
            assert answer.status == HTTPStatus.OK
    finally:
        ended.set()
        for thread in asking:
            thread.join(SOON)
        server.close()
    assert sorted(statuses) == [HTTPStatus.OK] * 32 + [HTTPStatus.SERVICE_UNAVAILABLE] * 32
