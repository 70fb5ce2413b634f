"""Proxies that are cut and healed, in front of a server that sends back what it gets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from network import Network, Proxy


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that answers every byte with itself."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_serve, args=(server,), daemon=True).start()
        yield int(server.getsockname()[1])


def _serve(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return  # closed
        threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    with connection:
        try:
            while data := connection.recv(100):
                connection.sendall(data)
        except OSError:
            return  # reset


@pytest.fixture
def proxy(echo: int) -> Iterator[Proxy]:
    with Network() as network:
        yield network.proxy(echo)


def connected(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=60)


def answer(client: socket.socket, data: bytes, timeout: float = 60.0) -> bytes:
    client.settimeout(timeout)
    client.sendall(data)
    return client.recv(100)


def test_bytes_get_through(proxy: Proxy) -> None:
    with connected(proxy) as client:
        assert answer(client, b"one") == b"one"
        assert answer(client, b"two") == b"two"


def test_nothing_gets_through_a_cut_and_nobody_is_told(proxy: Proxy) -> None:
    with connected(proxy) as client:
        assert answer(client, b"one") == b"one"
        proxy.cut()
        with pytest.raises(TimeoutError):
            answer(client, b"two", timeout=0.2)
        with connected(proxy) as newcomer, pytest.raises(TimeoutError):
            answer(newcomer, b"three", timeout=0.2)


def test_connections_of_before_are_reset_when_a_cut_heals(proxy: Proxy) -> None:
    with connected(proxy) as client:
        assert answer(client, b"one") == b"one"
        proxy.cut()
        client.sendall(b"lost")
        proxy.heal()
        with pytest.raises(ConnectionResetError):
            client.recv(100)
    with connected(proxy) as client:
        assert answer(client, b"two") == b"two"


def test_what_was_sent_during_a_cut_arrives_late_if_it_is_held(proxy: Proxy) -> None:
    with connected(proxy) as client:
        assert answer(client, b"one") == b"one"
        proxy.cut()
        client.sendall(b"two")
        proxy.heal(held=True)
        assert client.recv(100) == b"two"


def test_a_cut_concerns_its_own_proxy_only(echo: int) -> None:
    with Network() as network:
        cut, other = network.proxy(echo), network.proxy(echo)
        cut.cut()
        with connected(other) as client:
            assert answer(client, b"one") == b"one"


def test_a_server_that_is_not_there_resets_its_clients() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = int(nobody.getsockname()[1])
        with Network() as network, pytest.raises(ConnectionResetError), connected(network.proxy(port)) as client:
            client.recv(100)


def test_a_client_is_told_when_the_server_closes(echo: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, Network() as network:
        proxy = network.proxy(int(server.getsockname()[1]))
        with connected(proxy) as client:
            connection, _ = server.accept()
            connection.close()
            assert client.recv(100) == b""
