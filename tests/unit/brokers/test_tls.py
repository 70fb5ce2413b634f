"""TLS with files that are renewed while the process runs, and what is said of connections that are refused."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme

from streamsapp.brokers.tls import ClientTls, RenewedTls, client_tls, refused_tls
from streamsapp.kafka.tls_renewal import TlsRenewal
from streamsapp.renewed_files import RenewedFiles


def put(folder: Path, authority: trustme.CA) -> None:
    """The files of a Secret, replaced one after the other."""
    issued = authority.issue_cert("localhost")
    texts = {
        "ca.crt": authority.cert_pem.bytes(),
        "tls.crt": b"".join(each.bytes() for each in issued.cert_chain_pems),
        "tls.key": issued.private_key_pem.bytes(),
    }
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / "new").write_bytes(text)
        (folder / "new").replace(folder / name)


def put_as_kubernetes_does(folder: Path, authority: trustme.CA) -> None:
    """All at once: the folder that ``..data`` points to."""
    folder.mkdir(exist_ok=True)
    inside = folder / f"..{len(list(folder.iterdir()))}"
    put(inside, authority)
    (folder / "..new").symlink_to(inside.name)
    (folder / "..new").replace(folder / "..data")
    for name in ("ca.crt", "tls.crt", "tls.key"):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")


Put = Callable[[Path, trustme.CA], None]
both_ways = pytest.mark.parametrize("renew", [put, put_as_kubernetes_does])


def properties(folder: Path) -> dict[str, str]:
    named = {"ssl.ca.location": "ca.crt", "ssl.certificate.location": "tls.crt", "ssl.key.location": "tls.key"}
    return {"security.protocol": "SSL"} | {key: str(folder / name) for key, name in named.items()}


@both_ways
def test_new_connections_have_the_files_as_they_are_now(renew: Put, tmp_path: Path) -> None:
    authority = trustme.CA()
    renew(tmp_path / "tls", authority)
    tls = RenewedTls(properties(tmp_path / "tls"))
    first = tls.current()
    assert tls.current() is first
    assert refusal(server_of(authority), first) is None

    authority = trustme.CA()
    renew(tmp_path / "tls", authority)

    second = tls.current()
    assert tls.current() is second
    assert refusal(server_of(authority), second) is None
    assert "not believed" in (refused_tls(refusal(server_of(authority), first) or OSError()) or "")


def test_files_that_do_not_fit_yet_wait_for_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(tmp_path / "tls", trustme.CA())
    tls = RenewedTls(properties(tmp_path / "tls"))
    first = tls.current()
    put(tmp_path / "next", trustme.CA())

    (tmp_path / "next/tls.crt").replace(tmp_path / "tls/tls.crt")
    assert tls.current() is first
    assert "cannot be used: ssl.certificate.location" in caplog.text
    (tmp_path / "next/tls.key").replace(tmp_path / "tls/tls.key")
    assert tls.current() is not first


@both_ways
def test_clients_that_read_them_once_are_told_once(renew: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamsapp.renewed_files.LOOK", 0.0)
    renew(tmp_path / "tls", trustme.CA())
    renewal = TlsRenewal({**properties(tmp_path / "tls")})
    assert not renewal.due()

    renew(tmp_path / "tls", trustme.CA())

    assert [renewal.due() for _ in range(3)] == [True, False, False]
    (tmp_path / "tls/tls.key").unlink()
    assert not renewal.due(), "no client can be made of what is there"


def test_clients_without_tls_have_no_files(tmp_path: Path) -> None:
    put(tmp_path, trustme.CA())
    renewal = TlsRenewal({**properties(tmp_path), "security.protocol": "SASL_PLAINTEXT"})
    put(tmp_path, trustme.CA())

    assert not renewal.due()


def test_a_folder_of_authorities_changes_with_its_files(tmp_path: Path) -> None:
    (tmp_path / "a.pem").write_text("a")
    files = RenewedFiles([str(tmp_path), str(tmp_path / "missing")])
    assert not files.renewed()

    for changed in ("a.pem", "missing"):
        (tmp_path / changed).write_text("bb")
        assert files.renewed()
        files.read()
        assert not files.renewed()


# ---- refused ---------------------------------------------------------------------------------------------------------


def refusal(server: ssl.SSLContext | None, client: ClientTls, name: str = "localhost") -> BaseException | None:
    """The error of a client that connects, and waits for a first answer; ``None`` if there is no error."""
    here, there = socket.socketpair()

    def serve() -> None:
        with there, suppress(OSError):  # the client gets the error
            if server is None:
                there.recv(1000)
                there.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            else:
                with server.wrap_socket(there, server_side=True) as secured:
                    secured.recv(1)

    thread = threading.Thread(target=serve)
    thread.start()
    with here:
        secured = client.connection(here.fileno(), name)
        try:
            secured.shake_hands()
            secured.send(b"?")
            secured.recv_into(bytearray(1))
        except OSError as error:
            return error
        finally:
            secured.close()
            here.shutdown(socket.SHUT_RDWR)
            thread.join()
    return None


def server_of(authority: trustme.CA, **issued: Any) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", **issued).configure_cert(context)
    return context


def client_of(authority: trustme.CA, shown: trustme.LeafCert | None = None) -> ClientTls:
    given = {"ssl.ca.pem": authority.cert_pem.bytes().decode()}
    if shown is not None:
        chain = "".join(each.bytes().decode() for each in shown.cert_chain_pems)
        given |= {"ssl.certificate.pem": chain, "ssl.key.pem": shown.private_key_pem.bytes().decode()}
    return client_tls(given)


LAST_YEAR = {"not_before": datetime(2020, 1, 1, tzinfo=UTC), "not_after": datetime(2021, 1, 1, tzinfo=UTC)}


def test_a_refused_connection_says_who_refuses_it_why_and_what_to_do() -> None:
    known, other = trustme.CA(), trustme.CA()
    asking = server_of(known)
    asking.verify_mode = ssl.CERT_REQUIRED
    other.configure_trust(asking)
    stranger = client_of(known, known.issue_cert("me"))
    told = {
        "not believed": refusal(server_of(known), client_of(other)),
        "has expired": refusal(server_of(known, **LAST_YEAR), client_of(known)),
        "ostname mismatch": refusal(server_of(known), client_of(known), "elsewhere"),
        "IP address mismatch": refusal(server_of(known), client_of(known), "127.0.0.1"),
        "refuses this client": refusal(asking, client_of(known)),
        "unknown ca": refusal(asking, stranger),
        "TLS failed": refusal(None, client_of(known)),
    }
    names = ["bootstrap_servers", "bootstrap_servers"]
    remedies = ["ssl.ca.location", "renew it", *names, "ssl.certificate.location", "their authority"]

    for (words, error), remedy in zip(told.items(), [*remedies, "security.protocol"], strict=True):
        assert error is not None
        text = refused_tls(error) or ""
        assert words in text, error
        assert remedy in text


def test_a_client_that_is_known_is_let_in() -> None:
    known = trustme.CA()
    asking = server_of(known)
    asking.verify_mode = ssl.CERT_REQUIRED
    known.configure_trust(asking)

    assert refusal(asking, client_of(known, known.issue_cert("me"))) is None


@pytest.mark.parametrize("error", [OSError("reset"), ConnectionError("closed"), TimeoutError()])
def test_a_connection_that_breaks_is_not_refused(error: Exception) -> None:
    assert refused_tls(error) is None
