"""A schema registry behind TLS and a password: clients that get in, questions that are asked once, answers that are
known while it is away."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from renewed_server import RenewedServer
from streamsapp import SchemaRegistry
from streamsapp.errors import SchemaRegistryUnavailableError

SCHEMA = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]})
PASSWORD = f"Basic {b64encode(b'jane:secret').decode()}"


class Server(RenewedServer):
    """A registry that knows schema 1 and one password, behind a certificate of a made-up authority."""

    def __init__(self, folder: Path) -> None:
        asked: list[str] = []
        self.asked = asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                admitted = self.headers["Authorization"] == PASSWORD
                body = {"schema": SCHEMA} if admitted else {"error_code": 40101, "message": "who are you?"}
                data = json.dumps(body).encode()
                self.send_response(200 if admitted else 401)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *_: object) -> None:
                """No test reads it."""

        super().__init__(folder, Handler)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path)
    yield running
    running.close()


def order(registry: SchemaRegistry) -> object:
    """The value of bytes whose schema is number 1."""
    return registry.avro().bind("orders", is_key=False).deserialize(b"\0\0\0\0\1\2a")


def test_a_schema_is_asked_for_once_and_known_while_the_registry_is_away(server: Server) -> None:
    properties = {"ssl.ca.location": str(server.authority), "basic.auth.user.info": "jane:secret", "max.retries": 0}
    registry = SchemaRegistry(server.url, properties)
    serde = registry.avro().bind("orders", is_key=False)
    for _ in range(3):
        assert serde.deserialize(b"\0\0\0\0\1\2a") == {"id": "a"}
    assert len(server.asked) == 1
    server.close()
    assert serde.deserialize(b"\0\0\0\0\1\2b") == {"id": "b"}
    with pytest.raises(SchemaRegistryUnavailableError):
        serde.deserialize(b"\0\0\0\0\2\2b")
    registry.close()


def test_a_renewed_authority_is_trusted_without_a_restart(server: Server) -> None:
    properties = {"ssl.ca.location": str(server.authority), "basic.auth.user.info": "jane:secret", "max.retries": 0}
    registry = SchemaRegistry(server.url, properties)
    first, second = (registry.avro().bind(topic, is_key=False) for topic in ("orders", "others"))
    assert first.deserialize(b"\0\0\0\0\1\2a") == {"id": "a"}
    server.renew()

    for serde, number in ((first, b"\2"), (second, b"\3"), (first, b"\4")):
        assert serde.deserialize(b"\0\0\0\0" + number + b"\2b") == {"id": "b"}
    assert len(server.asked) == 4
    registry.close()


def test_a_wrong_password_is_the_registrys_fault_and_not_the_records(server: Server) -> None:
    registry = SchemaRegistry(server.url, {"ssl.ca.location": str(server.authority), "max.retries": 0})
    with pytest.raises(SchemaRegistryUnavailableError, match=r"401.*lets this application in"):
        order(registry)
    registry.close()


def test_a_registry_of_an_unknown_authority_is_not_trusted(server: Server) -> None:
    registry = SchemaRegistry(server.url, {"basic.auth.user.info": "jane:secret", "max.retries": 0})
    with pytest.raises(SchemaRegistryUnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
        order(registry)
    assert server.asked == []
    registry.close()
