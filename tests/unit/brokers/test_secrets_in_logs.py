"""No secret gets into the log at any level, of ours or of the libraries that hold it."""

from __future__ import annotations

import logging
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import trustme
from confluent_kafka import Consumer, Producer
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from handshaking_broker import SASL_AUTHENTICATE, SASL_HANDSHAKE, HandshakingBroker, authenticated, handshake
from renewed_server import RenewedServer
from streamsapp.brokers.connection import Connection
from streamsapp.brokers.errors import UnreachableError
from streamsapp.brokers.sasl.login import tokens_of
from streamsapp.brokers.security import Security
from streamsapp.brokers.settings import connection_settings
from streamsapp.clock import SystemClock
from streamsapp.config.remote_state import RemoteStateConfig
from streamsapp.deadline import Deadline
from streamsapp.remote.s3_client import make_client

SECRET = "pa55-of-anna"

#: Each way in which brokers are shown a secret.
LOGINS: dict[str, dict[str, str]] = {
    "plain": {"sasl.mechanism": "PLAIN", "sasl.username": "anna", "sasl.password": SECRET},
    "scram-256": {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "anna", "sasl.password": SECRET},
    "scram-512": {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "anna", "sasl.password": SECRET},
    "oidc": {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
        "sasl.oauthbearer.client.id": "anna",
        "sasl.oauthbearer.client.secret": SECRET,
    },
}
NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_PLAINTEXT"}


@pytest.fixture
def written(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Any:
    """All output so far, at the level at which most is written."""
    caplog.set_level(logging.DEBUG)
    return lambda: "\n".join([caplog.text, *map(str, (each.args for each in caplog.records)), *capfd.readouterr()])


@pytest.mark.parametrize("level", [logging.DEBUG, 1])
@pytest.mark.parametrize("code", [0, 58])
def test_connections_do_not_write_what_they_say(
    written: Any, level: int, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(level)
    shown = list[bytes]()

    def log_in(request: bytes) -> bytes:
        shown.append(request)
        return authenticated(code=code, error="no")

    with HandshakingBroker({SASL_HANDSHAKE: lambda _: handshake("PLAIN"), SASL_AUTHENTICATE: log_in}) as broker:
        at = {"bootstrap.servers": ":".join(map(str, broker.address))}
        connection = Connection(connection_settings({**NOWHERE, **LOGINS["plain"], **at}, "me"))
        connection.start()
        with pytest.raises(UnreachableError) as error:
            connection.run(lambda: connection.learn_brokers(30), 30, Deadline(SystemClock()))
        connection.close(30)

    assert SECRET.encode() in shown[0]
    text = written()
    assert SECRET not in text
    assert SECRET not in str(error.value)
    assert f"{broker.address[0]}:{broker.address[1]}" in text, "nothing was written"


@pytest.mark.parametrize("login", LOGINS)
def test_librdkafkas_own_messages_have_no_secret(login: str, written: Any, tmp_path: Path) -> None:
    issued = trustme.CA().issue_cert("me")
    locked = load_pem_private_key(issued.private_key_pem.bytes(), None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(SECRET.encode())
    )
    (tmp_path / "tls.key").write_bytes(locked)
    issued.cert_chain_pems[0].write_to_path(str(tmp_path / "tls.crt"))
    tls = {"ssl.key.location": "tls.key", "ssl.certificate.location": "tls.crt"}
    properties = {
        **NOWHERE,
        **LOGINS[login],
        "security.protocol": "SASL_SSL",
        "debug": "all",
        "ssl.key.password": SECRET,
        **{key: str(tmp_path / name) for key, name in tls.items()},
    }
    log = logging.getLogger("clients")
    producer = Producer({**properties, "client.id": "p"}, logger=log)
    consumer = Consumer({**properties, "group.id": "g"}, logger=log)
    for _ in range(10):
        producer.poll(0.05)
        consumer.poll(0.05)
    consumer.close()

    text = written()
    assert "rdkafka" in text or "sasl.mechanism" in text, "nothing was written"
    assert SECRET not in text


class Provider(BaseHTTPRequestHandler):
    """Gives every client the same token, and has every object."""

    def do_POST(self) -> None:
        self._answer(b'{"access_token": "%s", "expires_in": 60}' % SECRET.encode())

    def do_HEAD(self) -> None:
        self._answer(b"")

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *_: object) -> None:
        """No test reads it."""


def test_tokens_and_keys_of_the_object_store_are_not_written(
    written: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, SECRET)
    server = RenewedServer(tmp_path, Provider)
    try:
        where = {"sasl.oauthbearer.token.endpoint.url": server.url, "https.ca.location": str(server.authority)}
        tokens = tokens_of(LOGINS["oidc"] | where)
        assert tokens.token(60.0) == SECRET
        config = RemoteStateConfig(url="s3://bucket/prefix", endpoint=server.url, ca_file=server.authority)
        make_client(config, 1).head_object(Bucket="bucket", Key="k")
    finally:
        server.close()

    assert SECRET not in written()
    assert SECRET not in f"{tokens!r}"


@pytest.mark.parametrize("login", LOGINS)
def test_a_login_does_not_show_its_secret(login: str) -> None:
    assert SECRET not in repr(Security.of({**NOWHERE, **LOGINS[login]}))
