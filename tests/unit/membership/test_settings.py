"""The clients' properties, as the membership's connection takes them."""

from __future__ import annotations

import base64
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from renewed_server import RenewedServer
from streamsapp import StreamsConfig
from streamsapp.brokers.errors import UnreachableError
from streamsapp.brokers.sasl.login import login_of, tokens_of
from streamsapp.brokers.sasl.tokens import Oidc
from streamsapp.brokers.settings import ConnectionSettings, connection_settings
from streamsapp.config import client_properties
from streamsapp.errors import ConfigError
from streamsapp.membership.settings import group_settings
from streamsapp.membership.wire import GroupSettings

#: Seconds for an identity provider, also where its thread stands still for a while.
TIMEOUT = 60.0


def connection(servers: str = "a:1", **kafka: str) -> ConnectionSettings:
    config = StreamsConfig(application_id="app", bootstrap_servers=servers, kafka=_dotted(kafka))
    return connection_settings(client_properties.main_consumer(config), f"{config.client_id}-member")


def group(**kafka: str) -> GroupSettings:
    config = StreamsConfig(application_id="app", bootstrap_servers="a:1", kafka=_dotted(kafka))
    return group_settings(config, client_properties.main_consumer(config))


def _dotted(kafka: dict[str, str]) -> dict[str, str]:
    return {key.replace("_", "."): value for key, value in kafka.items()}


def test_a_killed_instance_is_noticed_after_six_seconds_and_a_rebalance_after_a_tenth() -> None:
    assert group() == GroupSettings(
        "app",
        None,
        session_timeout=6.0,
        heartbeat_interval=0.1,
        rebalance_timeout=300.0,
        resting_interval=0.2,
    )


def test_who_rests_learns_of_a_rebalance_later_but_not_than_the_user_wants() -> None:
    assert group(heartbeat_interval_ms="150").resting_interval == 0.15


@pytest.mark.parametrize("prefix", ["", "consumer.", "main.consumer."])
def test_session_and_heartbeat_are_the_consumers(prefix: str) -> None:
    found = group(**{f"{prefix}session.timeout.ms": "9000", f"{prefix}heartbeat.interval.ms": "1000"})

    assert (found.session_timeout, found.heartbeat_interval) == (9.0, 1.0)


@pytest.mark.parametrize("interval", ["9000", "none", "0"])
def test_a_heartbeat_that_makes_no_sense_is_refused(interval: str) -> None:
    with pytest.raises(ConfigError, match=r"heartbeat\.interval\.ms"):
        group(session_timeout_ms="9000", heartbeat_interval_ms=interval)


def test_servers_are_named_with_and_without_a_protocol() -> None:
    assert connection("SSL://a:1, b.c-d:2").bootstrap == (("a", 1), ("b.c-d", 2))
    assert connection("SASL_SSL://[fe80::1]:1, [::1]:2").bootstrap == (("fe80::1", 1), ("::1", 2))


def test_the_member_is_known_by_a_client_id_of_its_own() -> None:
    assert connection().client_id == "app-member"


def test_a_protocol_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"security\.protocol"):
        connection(security_protocol="TELNET")


def test_the_login_is_that_of_the_properties() -> None:
    found = connection(
        security_protocol="sasl_plaintext", sasl_mechanism="scram-sha-256", sasl_username="anna", sasl_password="secret"
    )

    assert found.security.protocol == "SASL_PLAINTEXT"
    assert found.security.login is not None
    assert found.security.login.mechanism == "SCRAM-SHA-256"
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"sasl.mechanism": "PLAIN", "sasl.username": "anna"}, "sasl.password"),
        ({"sasl.mechanism": "GSSAPI"}, "sasl.mechanism: GSSAPI"),
        ({}, "sasl.mechanism: none"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "sasl.oauthbearer.method"),
        ({"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"}, "sasl.oauthbearer.token.endpoint.url"),
        ({"sasl.mechanism": "OAUTHBEARER", "enable.sasl.oauthbearer.unsecure.jwt": "true"}, "sasl.oauthbearer.config"),
    ],
)
def test_credentials_that_cannot_be_used_are_refused_by_name(properties: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        login_of(properties)


def test_tokens_for_development_name_the_principal() -> None:
    provider = tokens_of(
        {
            "sasl.mechanism": "OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": "principal=anna scope=all",
            "sasl.oauthbearer.extensions": "a=1,b=2",
        }
    )

    claims = provider.token(TIMEOUT).split(".")[1]
    assert json.loads(base64.urlsafe_b64decode(claims + "=="))["sub"] == "anna"
    assert provider.extensions == {"a": "1", "b": "2"}


class _Provider(http.server.BaseHTTPRequestHandler):
    asked = 0

    def do_POST(self) -> None:
        type(self).asked += 1
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        assert form == "grant_type=client_credentials&scope=kafka"
        assert self.headers["Authorization"] == "Basic " + base64.b64encode(b"me:secret").decode()
        answer = json.dumps({"access_token": f"token-{self.asked}", "expires_in": 3600}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Tests are quiet."""


@pytest.fixture
def provider() -> Iterator[str]:
    """The address of an identity provider."""
    server = http.server.HTTPServer(("127.0.0.1", 0), _Provider)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/token"
    server.shutdown()
    thread.join()
    server.server_close()


def _oidc(url: str, **more: str) -> Oidc:
    return Oidc(
        _dotted(more)
        | {
            "sasl.oauthbearer.token.endpoint.url": url,
            "sasl.oauthbearer.client.id": "me",
            "sasl.oauthbearer.client.secret": "secret",
            "sasl.oauthbearer.scope": "kafka",
        }
    )


def test_a_token_is_fetched_once_while_it_lives(provider: str) -> None:
    tokens = _oidc(provider)

    assert tokens.token(TIMEOUT) == tokens.token(TIMEOUT)


def test_an_identity_provider_that_is_away_is_named() -> None:
    with pytest.raises(UnreachableError, match=r"no token from http://127\.0\.0\.1:1/token"):
        _oidc("http://127.0.0.1:1/token").token(TIMEOUT)


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[RenewedServer]:
    server = RenewedServer(tmp_path, _Provider)
    yield server
    server.close()


@pytest.mark.parametrize("key", ["https_ca_location", "https_ca_pem"])
def test_an_identity_provider_is_believed_by_the_authorities_that_are_named(secured: RenewedServer, key: str) -> None:
    given = str(secured.authority) if key == "https_ca_location" else secured.authority.read_text("ascii")

    assert _oidc(secured.url, **{key: given}).token(TIMEOUT).startswith("token-")


def test_a_renewed_authority_of_an_identity_provider_is_believed(secured: RenewedServer) -> None:
    tokens = _oidc(secured.url, https_ca_location=str(secured.authority))
    first = tokens.token(TIMEOUT)
    secured.renew()
    tokens._renew_at = 0.0

    assert tokens.token(TIMEOUT) != first


def test_an_identity_provider_of_an_unknown_authority_is_not_asked(secured: RenewedServer) -> None:
    with pytest.raises(UnreachableError, match=r"no token from .*CERTIFICATE_VERIFY_FAILED.*; see https\.ca\.location"):
        _oidc(secured.url).token(TIMEOUT)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"https_ca_location": "/nowhere"}, r"https\.ca\.location: cannot be used: "),
        ({"https_ca_pem": "no certificate"}, r"https\.ca\.pem: cannot be used: "),
        ({"https_ca_pem": "a", "https_ca_location": "b"}, "set one of them"),
    ],
)
def test_authorities_that_cannot_be_read_are_named_at_the_start(given: dict[str, str], fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        _oidc("https://127.0.0.1:1/token", **given)


@pytest.mark.parametrize(
    "properties",
    [
        {"ssl.ca.location": "/nowhere/ca.pem"},
        {"ssl.ca.pem": "no certificate"},
        {"ssl.certificate.location": "/nowhere/me.pem"},
        {"ssl.key.location": "/nowhere/me.key"},
        {"ssl.cipher.suites": "ROT13"},
        {"ssl.keystore.location": "/nowhere/me.p12"},
        {"ssl.engine.id": "dynamic"},
    ],
)
def test_what_cannot_be_used_for_encryption_is_refused_by_name(properties: dict[str, str]) -> None:
    (name,) = properties
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
        connection(**{"security.protocol": "ssl", **properties})


def test_a_certificate_given_as_text_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    with pytest.raises(ConfigError, match=r"ssl\.certificate"):
        connection(**{"security.protocol": "ssl", "ssl.certificate.pem": "no", "ssl.key.pem": "none"})

    assert list(tmp_path.iterdir()) == []
