"""The connection between the driver and its workers, where others connect, too."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection

import pytest

from streamsapp_spark.streaming import channel
from streamsapp_spark.streaming.channel import Server, ask


def answer(connection: Connection) -> None:
    while True:
        connection.send(connection.recv())


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server("127.0.0.1", answer)
    yield made
    made.close()


@pytest.mark.timeout(60)
def test_somebody_silent_keeps_no_worker_waiting(server: Server) -> None:
    with (
        socket.create_connection(("127.0.0.1", server.address.port)),
        server.address.connect() as connection,
    ):
        assert ask(connection, "who", 1) == ("who", 1)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_workers_connect_by_both_families(host: str) -> None:
    server = Server("the-driver", answer)
    try:
        if host == "::1" and not socket.has_dualstack_ipv6():
            pytest.skip("this machine has no IPv6")
        with replace(server.address, host=host).connect() as connection:
            assert ask(connection, 1) == (1,)
    finally:
        server.close()


@pytest.mark.timeout(60)
def test_somebody_silent_is_sent_away(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.setattr(channel, "_TO_BE_KNOWN", 1)
    with socket.create_connection(("127.0.0.1", server.address.port), timeout=50) as silent:
        while silent.recv(1000):
            pass


@pytest.mark.timeout(60)
def test_a_worker_may_be_silent_once_it_is_known(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.setattr(channel, "_TO_BE_KNOWN", 10)
    with server.address.connect() as connection:
        assert not connection.poll(12)
        assert ask(connection, 1) == (1,)


@pytest.mark.timeout(60)
def test_who_does_not_know_the_word_is_not_heard(server: Server) -> None:
    with pytest.raises(AuthenticationError):
        replace(server.address, word=b"guessed").connect()
    with server.address.connect() as connection:
        assert ask(connection, 1) == (1,)
