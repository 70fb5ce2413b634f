"""Pods are asked in parallel, and none of them can hold the operator up."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from streamsapp.clock import SystemClock
from streamsapp.web.history import Moment
from streamsapp_operator.model.observed_state import PodReport
from streamsapp_operator.observe.exchange import Address
from streamsapp_operator.observe.pod_status import PodAsker, clock_offset
from streamsapp_operator.steady_clock import SteadyClock
from talking_pod import DATE, answer, pod


@pytest.fixture
def asker() -> Iterator[PodAsker]:
    """Waits for longer than this process may stand still."""
    made = PodAsker(SteadyClock(SystemClock()), timeout=60.0)
    yield made
    made.close()


def ask(asker: PodAsker, address: Address, *tokens: str) -> PodReport | str:
    return asker.ask_all({"app-0": address}, "app", tokens or ("today", "yesterday"))["app-0"]


def test_gets_a_report(asker: PodAsker) -> None:
    with pod(lambda connection, _: connection.sendall(answer())) as address:
        report = ask(asker, address)
    assert isinstance(report, PodReport)
    assert report.generation == 1


def test_sends_the_newest_token_and_the_one_before_only_when_it_is_refused(asker: PodAsker) -> None:
    given: list[bytes] = []

    def talk(connection: socket.socket, asked: bytes) -> None:
        given.append(next(line for line in asked.split(b"\r\n") if line.startswith(b"Authorization")))
        connection.sendall(answer() if b"yesterday" in given[-1] else answer("401 Unauthorized", b"no"))

    with pod(talk) as address:
        assert isinstance(ask(asker, address), PodReport)
    assert given == [b"Authorization: Bearer today", b"Authorization: Bearer yesterday"]


def test_says_so_when_no_token_is_taken(asker: PodAsker) -> None:
    with pod(lambda connection, _: connection.sendall(answer("401 Unauthorized", b"no"))) as address:
        assert ask(asker, address) == "it answered /status with 401: no"


def test_does_not_follow_where_a_pod_sends_it(asker: PodAsker) -> None:
    with pod(lambda connection, _: connection.sendall(answer("302 Found", b"elsewhere"))) as address:
        assert ask(asker, address) == "it answered /status with 302: elsewhere"


def test_an_answer_without_a_date_has_no_age(asker: PodAsker) -> None:
    with pod(lambda connection, _: connection.sendall(answer(date=None))) as address:
        assert ask(asker, address) == "its answer has no Date, so the age of what it says is not known"


def test_a_pod_that_nobody_listens_at_is_told_at_once(asker: PodAsker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    assert "Connection refused" in str(ask(asker, Address("127.0.0.1", port)))


def drip(connection: socket.socket, _: bytes) -> None:
    """Byte by byte, each in time."""
    for byte in answer() * 100:
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


def flood(connection: socket.socket, _: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(b"[" * 65536)


def hang(connection: socket.socket, _: bytes) -> None:
    connection.recv(1)  # the asker has gone


@pytest.mark.parametrize("talk", [drip, hang])
def test_no_pod_takes_more_than_its_time(talk: Callable[[socket.socket, bytes], None]) -> None:
    asker = PodAsker(SteadyClock(SystemClock()), timeout=0.4)
    with pod(talk) as address:
        said = ask(asker, address)
    assert "timed out" in str(said) or "in time" in str(said)
    asker.close()


def test_an_answer_without_end_is_given_up(asker: PodAsker) -> None:
    with pod(flood) as address:
        assert "larger than 4 MiB" in str(ask(asker, address))


@pytest.mark.parametrize("text", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}"])
def test_an_answer_that_is_none_is_told(asker: PodAsker, text: bytes) -> None:
    with pod(lambda connection, _: connection.sendall(text)) as address:
        assert str(ask(asker, address)).startswith("it did not answer at 127.0.0.1:")


def test_an_application_whose_pods_do_not_answer_leaves_threads_to_the_others() -> None:
    asker = PodAsker(SteadyClock(SystemClock()), timeout=3600.0)
    reached, goes_on = threading.Event(), threading.Event()

    def hold(connection: socket.socket, _: bytes) -> None:
        reached.set()
        goes_on.wait(3600)  # and hangs up without a word

    with pod(hold) as slow, pod(lambda connection, _: connection.sendall(answer())) as quick:
        found: list[dict[str, PodReport | str]] = []
        many = {f"app-{number}": slow for number in range(100)}
        thread = threading.Thread(target=lambda: found.append(asker.ask_all(many, "app", ["token"])))
        thread.start()
        assert reached.wait(60)
        assert isinstance(ask(asker, quick), PodReport)  # else pytest ends it
        goes_on.set()
        thread.join(60)
        assert found[0].keys() == many.keys()
    asker.close()


def test_an_application_whose_pods_do_not_answer_is_not_asked_for_ever() -> None:
    asker = PodAsker(SteadyClock(SystemClock()), timeout=0.1)
    with pod(hang) as address:
        found = asker.ask_all({f"app-{number}": address for number in range(1_000)}, "app", ["token"])
    assert len(found) == 1_000
    assert sum("not asked" in str(said) for said in found.values()) > 500
    asker.close()


def test_a_slow_pod_does_not_keep_the_others_waiting(asker: PodAsker) -> None:
    answered, heard = threading.Event(), list[bool]()

    def hold(connection: socket.socket, _: bytes) -> None:
        heard.append(answered.wait(60))  # and hangs up without a word

    def tell(connection: socket.socket, _: bytes) -> None:
        connection.sendall(answer())
        answered.set()

    with pod(hold) as slow, pod(tell) as quick:
        answers = asker.ask_all({"app-0": slow, "app-1": quick}, "app", ("t",))
    assert heard == [True]
    assert isinstance(answers["app-0"], str)
    assert isinstance(answers["app-1"], PodReport)


@pytest.mark.parametrize(
    ("asked_at", "offset"),
    [(1767225610.0, 0.0), (1767225610.9, -0.9), (1767225600.0, 10.0), (1767225670.25, -60.25)],
)
def test_a_pods_clock_is_compared_by_the_date_of_its_answer(asked_at: float, offset: float) -> None:
    assert clock_offset(DATE, asked_at) == pytest.approx(offset, abs=1e-3)


@pytest.mark.parametrize(
    "date", [None, "", "yesterday", "Thu, 99 Jan 2026 00:00:10 GMT", "Thu, 01 Jan 9998 00:00:10 GMT"]
)
def test_a_date_that_is_none_is_not_known(date: str | None) -> None:
    assert clock_offset(date, 0.0) is None


def test_gets_the_last_hour_after_a_time(asker: PodAsker) -> None:
    asked: list[bytes] = []

    def talk(connection: socket.socket, request: bytes) -> None:
        asked.append(request.split(b"\r\n")[0])
        connection.sendall(answer(body=b'{"instances": {"app-0": [[20, 1.5]]}}'))

    with pod(talk) as address:
        found = asker.histories({"app-0": (address, 10)}, ["token"])
    assert asked == [b"GET /console/history?after=10 HTTP/1.1"]
    assert found == {"app-0": {"app-0": (Moment(20, 1.5),)}}


@pytest.mark.parametrize(
    ("code", "body"),
    [("404 Not Found", b"{}"), ("200 OK", b"[1]"), ("200 OK", b"\xff"), ("200 OK", b'{"instances": {"x": [[-1]]}}')],
)
def test_a_pod_without_a_last_hour_that_can_be_read_gives_none(asker: PodAsker, code: str, body: bytes) -> None:
    with pod(lambda connection, _: connection.sendall(answer(code, body))) as address:
        assert asker.histories({"app-0": (address, 0)}, ["token"]) == {"app-0": {}}
