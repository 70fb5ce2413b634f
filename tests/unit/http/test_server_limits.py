"""The HTTP port against malicious clients: it bounds their use of it, and serves the others."""

from __future__ import annotations

import http.client
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest

from streamsapp.query.remote_reader import HttpFetch
from streamsapp.testing import MockClock
from streamsapp.web import HttpServer, connections, server as server_module
from streamsapp.web.allocator import give_back_memory
from streamsapp.web.request_routing import HttpRequest, HttpResponse, Route, json_response
from streamsapp.web.tokens import PEER_SECONDS, peer_proof

#: Longer than a thread stands still on a busy machine, in seconds.
_PATIENCE = 60.0


@pytest.fixture(autouse=True)
def _nobody_is_hung_up_on_for_being_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that ends within the time that a test waits ends for another reason."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 10 * _PATIENCE)


class Seen:
    """Routes that remember what they were asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.headers: dict[str, str] = {}
        self.routes = {
            "/healthz": Route(self.answer, open=True),
            "/status": Route(self.answer),
            "/state/": Route(self.answer),
            "/drain": Route(self.answer, method="POST"),
        }

    def answer(self, request: HttpRequest) -> HttpResponse:
        self.asked.append(f"{request.method} {request.target}")
        return json_response({}, HTTPStatus.OK, **self.headers)


@pytest.fixture
def seen() -> Seen:
    return Seen()


@contextmanager
def serving(seen: Seen, token_file: Path | None = None, clock: MockClock | None = None) -> Iterator[HttpServer]:
    with closing(HttpServer(0, host="127.0.0.1", token_file=token_file, clock=clock or MockClock())) as server:
        server.start(seen.routes, f"127.0.0.1:{server.port}")
        yield server


def say(server: HttpServer, data: bytes) -> bytes:
    """All that comes back until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=_PATIENCE) as connection:
        connection.sendall(data)
        return b"".join(iter(partial(connection.recv, 4096), b""))


def status(server: HttpServer, path: str = "/status", method: str = "GET", **headers: str) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=_PATIENCE)) as connection:
        connection.request(method, path, headers=headers)
        return connection.getresponse().status


# ---- requests ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [b"Content-Length: 34\r\n", b"Transfer-Encoding: chunked\r\n", b"Content-Length: 0\r\nContent-Length: 34\r\n"],
)
def test_the_body_of_a_request_is_not_answered_as_another_one(seen: Seen, body: bytes) -> None:
    smuggled = b"GET /status?smuggled HTTP/1.1\r\n\r\n"
    with serving(seen) as server:
        answer = say(server, b"GET /status HTTP/1.1\r\nHost: localhost\r\n" + body + b"\r\n" + smuggled)
    assert answer.count(b"HTTP/1.1 200") == 1
    assert b"Connection: close" in answer
    assert seen.asked == ["GET /status"]


def test_requests_without_a_body_follow_each_other_on_a_connection(seen: Seen) -> None:
    requests = b"GET /status?1 HTTP/1.1\r\nContent-Length: 0\r\n\r\nGET /status?2 HTTP/1.1\r\nConnection: close\r\n\r\n"
    with serving(seen) as server:
        assert say(server, requests).count(b"HTTP/1.1 200") == 2
    assert seen.asked == ["GET /status?1", "GET /status?2"]


@pytest.mark.parametrize("target", ["/state/\xe4", "/state/a\x00b", "/state/\x7f", "http://elsewhere/status", "*"])
def test_a_path_that_is_not_encoded_is_refused(seen: Seen, target: str) -> None:
    with serving(seen) as server:
        request = f"GET {target} HTTP/1.1\r\nConnection: close\r\n\r\n"
        assert say(server, request.encode("latin-1")).startswith(b"HTTP/1.1 400")
    assert seen.asked == []


@pytest.mark.parametrize("value", ["http://host/\r\nSet-Cookie: a=b", "a\nb", "\u2028"])
def test_a_header_that_would_end_too_early_is_not_sent(seen: Seen, value: str) -> None:
    seen.headers = {"Location": value}
    with serving(seen) as server:
        answer = say(server, b"GET /status HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 500")
    assert b"Location" not in answer


# ---- room --------------------------------------------------------------------------------------------------------


def test_no_more_is_read_of_a_request_than_any_has_that_is_meant_well(seen: Seen) -> None:
    with serving(seen) as server:
        begun = b"GET /status HTTP/1.1\r\nX: "
        assert say(server, begun.ljust(connections.HEAD_BYTES + 1, b"x")).startswith(b"HTTP/1.1 431")
        assert say(server, begun.ljust(connections.HEAD_BYTES - 3, b"x") + b"\r\n\r\n").startswith(b"HTTP/1.1 431")
        assert say(server, b"GET /status HTTP/1.1\r\n" + b"X: y\r\n" * 150 + b"\r\n").startswith(b"HTTP/1.1 431")
    assert seen.asked == []


def test_who_takes_too_long_to_ask_is_hung_up_on(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    with serving(seen) as server, socket.create_connection(("127.0.0.1", server.port), timeout=_PATIENCE) as slow:
        stop = threading.Event()

        def drip() -> None:
            with suppress(OSError):  # it may be hung up on before anybody says stop
                while not stop.wait(0.05):
                    slow.send(b"G")

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            assert slow.recv(1) == b""
        except ConnectionResetError:
            pass
        finally:
            stop.set()
            dripping.join()


def test_connections_that_wait_make_room_for_one_that_asks(seen: Seen) -> None:
    with serving(seen) as server, ExitStack() as stack:
        idle = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=_PATIENCE))
            for _ in range(connections.MOST + 10)
        ]
        assert status(server, "/healthz") == 200
        assert idle[0].recv(1) == b""
        idle[-1].sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert idle[-1].recv(12) == b"HTTP/1.1 200"


def test_connections_that_are_being_answered_are_left_alone(seen: Seen) -> None:
    entered, leave = threading.Semaphore(0), threading.Event()

    def wait(request: HttpRequest) -> HttpResponse:
        entered.release()
        leave.wait(_PATIENCE)
        return json_response({})

    seen.routes = {"/status": Route(wait)}
    with serving(seen) as server, ExitStack() as stack:
        made = []
        for _ in range(connections.MOST):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=_PATIENCE))
            one.sendall(b"GET /status HTTP/1.1\r\n\r\n")
            assert entered.acquire(timeout=_PATIENCE)
            made.append(one)
        one_more = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=_PATIENCE))
        assert one_more.recv(1) == b""
        leave.set()
        assert {one.recv(12) for one in made} == {b"HTTP/1.1 200"}


# ---- ports without a token ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", ["http://evil.example", "https://evil.example:8080", "null", "http://localhost:1"])
def test_an_open_port_does_nothing_for_a_page_of_another_site(seen: Seen, origin: str) -> None:
    with serving(seen) as server:
        assert status(server, "/drain", "POST", Origin=origin) == 403
        assert status(server, "/status", Origin=origin) == 403
        own = f"127.0.0.1:{server.port}"
        assert status(server, "/drain", "POST", Origin=f"http://{own}") == 200
    assert seen.asked == ["POST /drain"]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("evil.example", 403),
        ("127.0.0.1.evil.example:80", 403),
        ("localhost.evil.example", 403),
        ("", 200),
        ("localhost:80", 200),
        ("app:8080", 200),
        ("10.0.0.7:8080", 200),
        ("[::1]:8080", 200),
    ],
)
def test_an_open_port_answers_under_names_that_only_its_own_network_gives(seen: Seen, host: str, expected: int) -> None:
    with serving(seen) as server:
        assert status(server, Host=host) == expected
        assert status(server, "/healthz", Host=host) == 200


def test_an_open_port_answers_under_the_name_it_tells_the_others(seen: Seen) -> None:
    with closing(HttpServer(0, host="127.0.0.1")) as server:
        server.start(seen.routes, "streams.example.org:8080")
        assert status(server, Host="streams.example.org") == 200


# ---- peers -------------------------------------------------------------------------------------------------------


class Eavesdropper:
    """A member's endpoint that keeps what it is sent."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            self.heads.append(connection.recv(65536).decode())
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")

    def close(self) -> None:
        self._thread.join(_PATIENCE)
        self._listener.close()


def test_a_stranger_that_is_asked_like_a_peer_learns_no_token_and_nothing_to_ask_others_with(
    seen: Seen, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("geheimnis")
    fetch = HttpFetch(tmp_path / "token", partial(peer_proof, MockClock()))
    with serving(seen, tmp_path / "token") as server, closing(Eavesdropper()) as stranger:
        assert fetch(stranger.endpoint, "/state/counts/a", timeout=_PATIENCE).status == 200
        (head,) = stranger.heads
        assert "geheimnis" not in head
        (proof,) = [line.partition(": ")[2] for line in head.splitlines() if line.startswith("Authorization")]
        for host in (stranger.endpoint, f"127.0.0.1:{server.port}"):
            assert status(server, "/state/counts/a", Authorization=proof, Host=host) == 401
    assert seen.asked == []


def test_a_peer_proves_that_it_has_the_token_and_is_answered(seen: Seen, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("today\nyesterday\n")
    (tmp_path / "theirs").write_text("yesterday\nthe day before\n")
    fetch = HttpFetch(tmp_path / "mine", partial(peer_proof, MockClock()))
    with serving(seen, tmp_path / "theirs") as server:
        assert fetch(f"127.0.0.1:{server.port}", "/state/counts/a?partition=1", timeout=_PATIENCE).status == 200
        (tmp_path / "theirs").write_text("tomorrow\n")
        assert fetch(f"127.0.0.1:{server.port}", "/state/counts/a?partition=1", timeout=_PATIENCE).status == 401
    assert seen.asked == ["GET /state/counts/a?partition=1"]


def test_a_proof_is_good_for_one_target_and_for_reading_and_for_a_while(seen: Seen, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("geheimnis")
    clock = MockClock()
    with serving(seen, tmp_path / "token", clock) as server:
        endpoint = f"127.0.0.1:{server.port}"
        proof = peer_proof(clock, b"geheimnis", endpoint, "/drain").decode()
        assert status(server, "/status", Authorization=proof) == 401
        assert status(server, "/drain", "POST", Authorization=proof) == 401
        proof = peer_proof(clock, b"geheimnis", endpoint, "/status").decode()
        assert status(server, "/status", Authorization=proof) == 200
        clock.advance(timedelta(seconds=PEER_SECONDS + 1))
        assert status(server, "/status", Authorization=proof) == 401
        for garbage in (
            "StreamsApp-Peer",
            "StreamsApp-Peer :",
            "StreamsApp-Peer 9" + "9" * 5000,
            "StreamsApp-Peer \xb2:",
        ):
            assert status(server, "/status", Authorization=garbage) == 401


# ---- memory ------------------------------------------------------------------------------------------------------


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_what_was_freed_goes_back_to_the_system() -> None:
    made = [bytes(1000) for _ in range(100_000)]
    kept = made[::1000]  # the freed memory between them stays with the allocator
    del made
    before = _resident()

    give_back_memory()

    assert len(kept) == 100
    assert _resident() < before - (50 << 20)


def test_after_a_large_answer_and_no_other_memory_is_given_back(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    given_back = threading.Semaphore(0)
    monkeypatch.setattr(server_module, "give_back_memory", given_back.release)
    large = Route(lambda _: HttpResponse(HTTPStatus.OK, bytes(2 << 20)))
    seen.routes = {**seen.routes, "/large": large}
    with serving(seen) as server:
        assert status(server, "/status") == 200
        assert not given_back.acquire(blocking=False)
        assert say(server, b"GET /large HTTP/1.1\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 200")
        assert given_back.acquire(timeout=_PATIENCE)
