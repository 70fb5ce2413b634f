"""Faults of secured connections, on a real broker: each has its message, and no record is lost or comes twice."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

import pytest

from kafka_cluster import Kafka
from secured_broker import SecuredBroker
from secured_reading import TIMEOUT, WAYS, Begin, Properties, login, write
from streamsapp.brokers.errors import NotSentError, RefusedError, RefusedTlsError
from streamsapp.brokers.opening import open_connection
from streamsapp.brokers.security import Security

#: Seconds for which a certificate is valid, and a moment in which a lost connection is tried again.
VALID, MOMENT = 4.0, 1.0


def opened(properties: Properties) -> None:
    host, _, port = properties["bootstrap.servers"].rpartition(":")
    open_connection((host, int(port)), Security.of({**properties}), "me", TIMEOUT).transport.close()


def lose_connections(port: int) -> None:
    """As if the network had lost all of this process that lead to a port of this machine."""
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError), socket.socket(fileno=os.dup(int(each.name))) as found:
            if found.family == socket.AF_INET and found.getpeername()[1] == port:
                found.shutdown(socket.SHUT_RDWR)


def put_certificate(broker: SecuredBroker, file: Path, not_after: datetime) -> None:
    issued = broker.client_authority.issue_cert("anna", not_after=not_after)
    new = file.with_suffix(".new")
    issued.private_key_and_cert_chain_pem.write_to_path(str(new))
    new.replace(file)


def test_a_certificate_that_expires_while_running_is_named_and_reading_goes_on_once_it_is_renewed(
    kafka: Kafka, broker: SecuredBroker, reading: Begin, tmp_path: Path
) -> None:
    topic = kafka.create_topic()
    write(kafka, topic, 100)
    properties = WAYS["mutual-tls"](broker, tmp_path)
    expires = datetime.now(UTC) + timedelta(seconds=VALID)
    put_certificate(broker, tmp_path / "anna.pem", expires)
    one = reading(topic, properties)
    one.until(100)

    time.sleep(max(0.0, (expires - datetime.now(UTC)).total_seconds()) + 1)
    write(kafka, topic, 100)
    one.until(200)  # a connection that is there stays
    with pytest.raises(RefusedTlsError, match=r"refuses this client.*renew the certificate.*ssl\.certificate"):
        opened(properties)
    lose_connections(broker.mutual_port)
    write(kafka, topic, 100)
    end = time.monotonic() + MOMENT
    while time.monotonic() < end:
        assert one.consumer.poll(1000, 0.1).records == []
    put_certificate(broker, tmp_path / "anna.pem", datetime.now(UTC) + timedelta(days=1))
    one.until(300)

    assert one.offsets == list(range(300))


def test_a_broker_that_has_another_name_is_refused_with_the_remedy(broker: SecuredBroker, tmp_path: Path) -> None:
    for way in ("tls", "scram-512"):
        properties = WAYS[way](broker, tmp_path)
        renamed = {"bootstrap.servers": properties["bootstrap.servers"].replace("127.0.0.1", "localhost")}

        with pytest.raises(RefusedTlsError, match=r"localhost:\d+: .*ostname mismatch.*correct bootstrap_servers"):
            opened({**properties, **renamed})
        opened({**properties, **renamed, "ssl.endpoint.identification.algorithm": "none"})


def test_a_mechanism_that_is_not_there_is_named_with_those_that_are(broker: SecuredBroker, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"has no sasl\.mechanism OAUTHBEARER; it has .*SCRAM-SHA-512"):
        opened(login("OAUTHBEARER", secured=False)(broker, tmp_path))


class CutShort:
    """A way to a port of this machine. Each connection ends after so many bytes of the broker's, until it is mended."""

    def __init__(self, port: int, after: int) -> None:
        self._target, self.after = port, after
        self.mended = False
        self.cuts = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listening]
        self.port = int(self._listening.getsockname()[1])
        self._threads: list[Thread] = []
        self._run(self._accept)

    def _run(self, work: Callable[..., None], *given: object) -> None:
        self._threads.append(Thread(target=work, args=given, name="proxy", daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client = self._listening.accept()[0]
                broker = socket.create_connection(("127.0.0.1", self._target))
                self._sockets += (client, broker)
                self._run(self._pass_on, client, broker, None)
                self._run(self._pass_on, broker, client, None if self.mended else self.after)

    def _pass_on(self, source: socket.socket, target: socket.socket, left: int | None) -> None:
        with suppress(OSError):
            while (left is None or left > 0) and (data := source.recv(65536 if left is None else left)):
                target.sendall(data)
                left = None if left is None else left - len(data)
        self.cuts += left == 0
        _end(source, target)

    def close(self) -> None:
        _end(*self._sockets)
        for thread in self._threads:
            thread.join(10)
        for each in self._sockets:
            each.close()


def _end(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def cut_short(broker: SecuredBroker) -> Iterator[CutShort]:
    proxy = CutShort(broker.sasl_tls_port, 400)
    yield proxy
    proxy.close()


@pytest.mark.parametrize("after", [1, 100, 400])
def test_a_broker_that_closes_in_the_middle_of_a_handshake_is_named(
    broker: SecuredBroker, cut_short: CutShort, tmp_path: Path, after: int
) -> None:
    cut_short.after = after
    properties = WAYS["scram-512"](broker, tmp_path) | {"bootstrap.servers": f"127.0.0.1:{cut_short.port}"}

    with pytest.raises(NotSentError, match=r"closed by the broker during the TLS handshake.*security\.protocol"):
        opened(properties)


def test_a_reader_whose_first_handshakes_are_cut_short_gets_every_record_once(
    kafka: Kafka, broker: SecuredBroker, cut_short: CutShort, reading: Begin, tmp_path: Path
) -> None:
    topic = kafka.create_topic()
    write(kafka, topic, 100)
    properties = WAYS["scram-512"](broker, tmp_path) | {"bootstrap.servers": f"127.0.0.1:{cut_short.port}"}
    one = reading(topic, properties)
    give_up = time.monotonic() + TIMEOUT
    while cut_short.cuts < 2:
        assert time.monotonic() < give_up
        assert one.consumer.poll(1000, 0.1).records == []
    cut_short.mended = True

    one.until(100)

    assert one.offsets == list(range(100))
