"""Connections that open, and connections that do not: each failure names the address and what to look at."""

from __future__ import annotations

import math
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trustme

from handshaking_broker import (
    API_VERSIONS,
    KNOWN,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    HandshakingBroker,
    authenticated,
    handshake,
    said_in,
    versions,
)
from streamsapp.brokers.errors import NotSentError, RefusedError, RefusedTlsError
from streamsapp.brokers.opening import OpenConnection, open_connection
from streamsapp.brokers.security import Security

#: Seconds for what works, also where a thread stands still for a while.
TIMEOUT = 60.0
PLAIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "anna"}
ANNA = PLAIN | {"sasl.password": "pa55"}

Opened = Callable[..., OpenConnection]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Opens connections, which the test leaves open."""
    made: list[OpenConnection] = []

    def opened(
        address: tuple[str, int], properties: Mapping[str, str] | None = None, timeout: float = TIMEOUT
    ) -> OpenConnection:
        made.append(open_connection(address, Security.of({**(properties or {})}), "me", timeout))
        return made[-1]

    yield opened
    for each in made:
        each.transport.close()


def trusting(authority: trustme.CA, **more: str) -> dict[str, str]:
    return {"security.protocol": "SSL", "ssl.ca.pem": authority.cert_pem.bytes().decode(), **more}


def server_of(authority: trustme.CA, name: str = "127.0.0.1", **issued: Any) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name, **issued).configure_cert(context)
    return context


def test_a_plain_connection_knows_what_the_broker_knows(opened: Opened) -> None:
    with HandshakingBroker() as broker:
        made = opened(broker.address)

    assert made.versions == {API_VERSIONS: (0, 4), SASL_HANDSHAKE: (0, 1), SASL_AUTHENTICATE: (0, 2)}
    assert made.expires_at == math.inf


def test_each_address_of_a_name_is_tried(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    with HandshakingBroker() as broker, socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()
        closed.close()
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", each) for each in (nobody, broker.address)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)

        assert opened(("two.example", 9092)).versions


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (("127.0.0.1", 1), "refused"),
        (("no-such-host.invalid", 9092), "no-such-host"),
        (("." * 300, 9092), "no connection"),
        (("127.0.0.1", 99_999), "99999"),
    ],
)
def test_an_address_without_a_broker_is_named(opened: Opened, address: tuple[str, int], said: str) -> None:
    with pytest.raises(NotSentError, match=said):
        opened(address)


# ---- TLS -------------------------------------------------------------------------------------------------------------


def test_a_broker_of_a_known_authority_is_believed(opened: Opened) -> None:
    authority = trustme.CA()
    with HandshakingBroker(tls=server_of(authority)) as broker:
        assert opened(broker.address, trusting(authority)).versions


def test_a_client_shows_its_certificate(opened: Opened, tmp_path: Path) -> None:
    authority = trustme.CA()
    asking = server_of(authority)
    asking.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(asking)
    mine = authority.issue_cert("me")
    mine.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "me.pem"))
    shown = {"ssl.certificate.location": str(tmp_path / "me.pem"), "ssl.key.location": str(tmp_path / "me.pem")}

    with HandshakingBroker(tls=asking) as broker:
        assert opened(broker.address, trusting(authority, **shown)).versions
        with pytest.raises(NotSentError, match=r"ssl\.certificate\.location"):
            opened(broker.address, trusting(authority))


LAST_YEAR: dict[str, Any] = {
    "not_before": datetime(2020, 1, 1, tzinfo=UTC),
    "not_after": datetime(2021, 1, 1, tzinfo=UTC),
}


def test_a_certificate_that_is_not_believed_is_refused_with_the_remedy(opened: Opened) -> None:
    known, other = trustme.CA(), trustme.CA()
    for server, said in (
        (server_of(other), r"not believed.*ssl\.ca\.location"),
        (server_of(known, **LAST_YEAR), "expired.*renew it"),
        (server_of(known, "elsewhere.example"), "bootstrap_servers or the names"),
    ):
        with HandshakingBroker(tls=server) as broker, pytest.raises(RefusedTlsError, match=said) as refused:
            opened(broker.address, trusting(known))
        assert "127.0.0.1:" in str(refused.value)


def test_certificates_are_checked_unless_the_user_says_otherwise(opened: Opened) -> None:
    known, other = trustme.CA(), trustme.CA()
    any_name = {"ssl.endpoint.identification.algorithm": "none"}
    with HandshakingBroker(tls=server_of(known, "elsewhere.example")) as broker:
        assert opened(broker.address, trusting(known, **any_name)).versions
        with pytest.raises(RefusedTlsError, match="not believed"):
            opened(broker.address, trusting(other, **any_name))
        assert opened(broker.address, trusting(other, **{"enable.ssl.certificate.verification": "false"})).versions


def test_tls_to_a_plain_port_names_the_protocol(opened: Opened) -> None:
    with HandshakingBroker() as broker, pytest.raises(NotSentError, match=r"security\.protocol"):
        opened(broker.address, trusting(trustme.CA()))


def test_plain_to_a_port_with_tls_names_the_protocol(opened: Opened) -> None:
    with (
        HandshakingBroker(tls=server_of(trustme.CA())) as broker,
        pytest.raises(NotSentError, match=r"security\.protocol"),
    ):
        opened(broker.address)


def test_http_is_recognised(opened: Opened) -> None:
    with HandshakingBroker() as broker:
        broker.instead = b"HTTP/1.1 400 Bad Request\r\n\r\n"
        with pytest.raises(NotSentError, match="HTTP and is no broker"):
            opened(broker.address)


# ---- SASL ------------------------------------------------------------------------------------------------------------


def test_a_session_that_ends_is_renewed_before(opened: Opened) -> None:
    shown: list[bytes] = []

    def authenticate(request: bytes) -> bytes:
        shown.append(said_in(request))
        return authenticated(lifetime=60_000)

    answers = {SASL_HANDSHAKE: lambda _: handshake("PLAIN"), SASL_AUTHENTICATE: authenticate}
    with HandshakingBroker(answers) as broker:
        before = time.monotonic()
        made = opened(broker.address, ANNA)

    assert shown == [b"\0anna\0pa55"]
    assert before + 60 <= made.expires_at
    assert made.renew_at == pytest.approx(made.expires_at - 9)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({SASL_HANDSHAKE: lambda _: handshake("GSSAPI", "SCRAM-SHA-512", code=33)}, "it has GSSAPI, SCRAM-SHA-512"),
        ({SASL_HANDSHAKE: lambda _: handshake(code=34)}, r"wants no SASL: check security\.protocol"),
        ({SASL_AUTHENTICATE: lambda _: authenticated(code=58, error="Wrong!")}, r"Wrong!.*sasl\.password"),
        ({SASL_AUTHENTICATE: lambda _: authenticated(code=58)}, "error 58"),
    ],
)
def test_credentials_that_are_refused_are_an_error_of_their_own(
    opened: Opened, answers: dict[int, Callable[[bytes], bytes]], said: str
) -> None:
    with (
        HandshakingBroker({SASL_HANDSHAKE: lambda _: handshake("PLAIN"), **answers}) as broker,
        pytest.raises(RefusedError, match=said),
    ):
        opened(broker.address, ANNA)


def test_a_broker_that_does_not_know_the_password_gets_no_request(opened: Opened) -> None:
    scram = ANNA | {"sasl.mechanism": "SCRAM-SHA-512"}
    believing = {SASL_HANDSHAKE: lambda _: handshake(), SASL_AUTHENTICATE: lambda _: authenticated()}
    with HandshakingBroker(believing) as broker, pytest.raises(NotSentError, match="nonce"):
        opened(broker.address, scram)


def test_a_token_that_is_not_to_be_had_is_named(opened: Opened) -> None:
    oidc = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "secret",
    }
    with (
        HandshakingBroker({SASL_HANDSHAKE: lambda _: handshake()}) as broker,
        pytest.raises(NotSentError, match=r"no token from http://127\.0\.0\.1:1/token"),
    ):
        opened(broker.address, oidc)


# ---- no answers ------------------------------------------------------------------------------------------------------


def test_no_part_of_an_answer_passes_for_all_of_it(opened: Opened) -> None:
    with HandshakingBroker() as broker:
        for broker.cut in range(len(KNOWN) + 8):
            with pytest.raises(NotSentError, match="closed by the broker during the first request"):
                opened(broker.address)


def _first(size: int, answer: bytes, _: bytes) -> bytes:
    return answer[:size]


@pytest.mark.parametrize("kind", [API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE])
def test_an_answer_that_is_too_short_is_none(opened: Opened, kind: int) -> None:
    whole = {
        API_VERSIONS: KNOWN,
        SASL_HANDSHAKE: handshake("PLAIN", "OAUTHBEARER"),
        SASL_AUTHENTICATE: authenticated(error="fine", lifetime=1),
    }
    with HandshakingBroker({key: partial(_first, len(answer), answer) for key, answer in whole.items()}) as broker:
        assert opened(broker.address, ANNA).versions
        for size in range(len(whole[kind])):
            broker.answers[kind] = partial(_first, size, whole[kind])
            with pytest.raises(NotSentError):
                opened(broker.address, ANNA)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (struct.pack(">i", 1 << 30), "answer of 1073741824 bytes"),
        (struct.pack(">i", -1), "answer of -1 bytes"),
        (struct.pack(">ii", 10, 77) + b"\0" * 6, "another request"),
        (struct.pack(">iihi", 10, 1, 0, 1 << 30), "cannot be read"),
        (b"", "closed by the broker"),
    ],
)
def test_what_no_broker_says_ends_the_connection(opened: Opened, answer: bytes, said: str) -> None:
    with HandshakingBroker() as broker:
        broker.instead = answer
        with pytest.raises(NotSentError, match=said):
            opened(broker.address)


def test_a_broker_without_sasl_is_named(opened: Opened) -> None:
    with (
        HandshakingBroker({API_VERSIONS: lambda _: versions({API_VERSIONS: (0, 4)})}) as broker,
        pytest.raises(NotSentError, match="does not support SaslHandshake"),
    ):
        opened(broker.address, ANNA)


@pytest.mark.parametrize("properties", [{}, ANNA, {"security.protocol": "SSL"}])
def test_a_peer_that_says_nothing_is_given_up(opened: Opened, properties: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(NotSentError, match=r"took more than 0\.2 s"):
        opened(silent.getsockname(), properties, 0.2)


@pytest.mark.parametrize("kind", [SASL_HANDSHAKE, SASL_AUTHENTICATE])
def test_a_broker_that_closes_in_the_middle_is_named(opened: Opened, kind: int) -> None:
    answers = {SASL_HANDSHAKE: lambda _: handshake("PLAIN"), kind: lambda _: None}
    with (
        HandshakingBroker(answers) as broker,
        pytest.raises(NotSentError, match="closed by the broker during the login by PLAIN"),
    ):
        opened(broker.address, ANNA)
