"""TLS in the compiled part, against a server of Python's own: whole records and parts of them, waits, and ends."""

from __future__ import annotations

import random
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
import trustme

from streamsapp import native
from streamsapp.brokers.tls import client_tls

AUTHORITY = trustme.CA()
TRUSTED = {"ssl.ca.pem": AUTHORITY.cert_pem.bytes().decode()}

Serve = Callable[[ssl.SSLSocket], None]


class Peer:
    """A client, and the server at the other end of its socket, on a thread."""

    def __init__(self, serve: Serve, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> None:
        self.here, there = socket.socketpair()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = context.maximum_version = version
        AUTHORITY.issue_cert("localhost").configure_cert(context)
        self._thread = threading.Thread(target=self._run, args=(serve, context, there))
        self._thread.start()
        self.tls = client_tls(TRUSTED).connection(self.here.fileno(), "localhost")
        try:
            self.tls.shake_hands()
        except OSError:
            self.close()
            raise
        self.here.setblocking(False)

    def _run(self, serve: Serve, context: ssl.SSLContext, there: socket.socket) -> None:
        with there, suppress(OSError), context.wrap_socket(there, server_side=True) as secured:
            serve(secured)

    def read(self, size: int) -> bytes:
        """So many bytes, or fewer at the end."""
        data = bytearray(size)
        rest = memoryview(data)
        while rest:
            try:
                more = self.tls.recv_into(rest)
            except BlockingIOError:
                time.sleep(0.001)
                continue
            if not more:
                break
            rest = rest[more:]
        return bytes(data[: size - len(rest)])

    def close(self) -> None:
        self.tls.close()
        self.here.close()
        self._thread.join()


Begin = Callable[..., Peer]


@pytest.fixture
def begin() -> Iterator[Begin]:
    made: list[Peer] = []

    def begin(serve: Serve, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> Peer:
        made.append(Peer(serve, version))
        return made[-1]

    yield begin
    for each in made:
        each.close()


BYTES = random.Random(7).randbytes(300_000)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("piece", [1, 100, 16_384, 16_385, 300_000])
def test_all_bytes_come_in_pieces_of_any_size(begin: Begin, version: ssl.TLSVersion, piece: int) -> None:
    sent = BYTES if piece > 1 else BYTES[:2000]
    peer = begin(lambda secured: secured.sendall(sent), version)

    read = b"".join(iter(lambda: peer.read(piece), b""))

    assert read == sent
    assert peer.tls.version == version.name.replace("_", ".")
    assert peer.tls.cipher.startswith("TLS_" if version is ssl.TLSVersion.TLSv1_3 else "ECDHE-")


def test_many_records_come_in_one_call(begin: Begin) -> None:
    sent = threading.Event()

    def serve(secured: ssl.SSLSocket) -> None:
        for at in range(0, 20_000, 1000):
            secured.sendall(BYTES[at : at + 1000])
        sent.set()
        secured.recv(1)

    peer = begin(serve)
    sent.wait()
    found = bytearray(20_000)

    assert peer.tls.recv_into(found) == 20_000
    assert found == BYTES[:20_000]
    assert not peer.tls.pending


def test_what_is_left_in_the_connection_is_told(begin: Begin) -> None:
    sent = threading.Event()

    def serve(secured: ssl.SSLSocket) -> None:
        secured.sendall(b"12345678")
        sent.set()
        secured.recv(1)

    peer = begin(serve)
    sent.wait()

    assert peer.read(3) == b"123"
    assert peer.tls.pending
    found = bytearray(10)
    assert peer.tls.recv_into(found) == 5
    assert not peer.tls.pending


def test_bytes_of_the_client_arrive(begin: Begin) -> None:
    got = bytearray()

    def serve(secured: ssl.SSLSocket) -> None:
        while len(got) < len(BYTES):
            got.extend(secured.recv(50_000))
        secured.sendall(b"!")

    peer = begin(serve)
    rest = memoryview(BYTES)
    while rest:
        try:
            rest = rest[peer.tls.send(rest) :]
        except BlockingIOError:
            assert peer.tls.wants_room
            time.sleep(0.001)

    assert peer.read(1) == b"!"
    assert got == BYTES


def test_many_records_are_written_in_one_call(begin: Begin) -> None:
    """A part of a request that is left is copied, and waits for the next turn of its thread."""
    got, taken = bytearray(), threading.Event()

    def serve(secured: ssl.SSLSocket) -> None:
        taken.wait()
        while len(got) < 100_000:
            got.extend(secured.recv(50_000))

    peer = begin(serve)

    assert peer.tls.send(BYTES[:100_000]) == 100_000
    taken.set()
    assert peer.read(1) == b""
    assert got == BYTES[:100_000]


def test_nothing_to_read_is_no_end(begin: Begin) -> None:
    peer = begin(lambda secured: secured.recv(1) and None)

    with pytest.raises(BlockingIOError):
        peer.tls.recv_into(bytearray(1))
    assert not peer.tls.wants_room


def test_a_wait_in_the_system_is_as_long_as_it_was_set_to(begin: Begin) -> None:
    peer = begin(lambda secured: secured.recv(1) and None)
    peer.here.settimeout(None)
    peer.here.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@qq", 0, 20_000))

    with pytest.raises(BlockingIOError):
        peer.tls.recv_into(bytearray(1))


@pytest.mark.parametrize("politely", [True, False])
def test_the_end_is_told_after_all_bytes(begin: Begin, politely: bool) -> None:
    def serve(secured: ssl.SSLSocket) -> None:
        secured.sendall(b"last")
        if politely:
            with suppress(OSError):
                secured.unwrap()
        else:
            secured.shutdown(socket.SHUT_RDWR)

    peer = begin(serve)

    assert peer.read(100) == b"last"
    assert peer.tls.recv_into(bytearray(1)) == 0


class Wire:
    """A client whose handshake is done, and the bytes that a server sends to it, which a test may change. A server that
    wants a certificate has refused the client by then, under TLS 1.3, and its alert waits to be read."""

    def __init__(self, *, wants_certificate: bool = False) -> None:
        self.here, self.there = socket.socketpair()
        self.here.setblocking(False)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        AUTHORITY.issue_cert("localhost").configure_cert(context)
        if wants_certificate:
            context.verify_mode = ssl.CERT_REQUIRED
        heard, self._said = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._server = context.wrap_bio(heard, self._said, server_side=True)
        self.tls = client_tls(TRUSTED).connection(self.here.fileno(), "localhost")
        done = False
        while not done:
            with suppress(BlockingIOError):
                self.tls.shake_hands()
            heard.write(self.there.recv(1 << 16))
            try:
                self._server.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:  # that it has no certificate
                done = True
            self.there.sendall(self._said.read())

    def said(self, text: bytes) -> bytearray:
        """The bytes in which the server says something."""
        self._server.write(text)
        return bytearray(self._said.read())

    def close(self) -> None:
        self.tls.close()
        self.here.close()
        self.there.close()


def test_no_part_of_a_record_is_given_out_and_none_that_was_changed() -> None:
    whole = Wire()
    size = len(whole.said(b"x" * 50))
    whole.close()
    for at in range(0, size, 3):
        for change in ("cut", "bent"):
            wire = Wire()
            said = wire.said(b"x" * 50)
            if change == "cut":
                del said[at:]
            else:
                said[at] ^= 1
            wire.there.sendall(said)
            wire.there.shutdown(socket.SHUT_WR)
            found = bytearray(50)
            try:
                outcome: object = wire.tls.recv_into(found)
            except native.TlsError:
                outcome = "failed"
            assert outcome in ((0,) if change == "cut" else (0, "failed"))
            assert found == bytes(50)
            wire.close()


def test_a_record_that_comes_byte_by_byte_is_given_out_at_its_end() -> None:
    wire = Wire()
    *begun, last = wire.said(b"x" * 50)
    found = bytearray(50)
    for each in begun:
        wire.there.sendall(bytes([each]))
        with pytest.raises(BlockingIOError):
            wire.tls.recv_into(found)
    wire.there.sendall(bytes([last]))

    assert wire.tls.recv_into(found) == 50
    assert found == b"x" * 50
    wire.close()


def test_a_refusal_is_the_error_of_a_write_that_comes_too_late() -> None:
    wire = Wire(wants_certificate=True)
    wire.there.close()

    with pytest.raises(native.TlsError, match="certificate required"):
        wire.tls.send(b"?")
    wire.close()


def test_a_write_to_a_peer_that_hung_up_without_a_word_has_the_error_of_the_system() -> None:
    wire = Wire()
    wire.there.sendall(wire.said(b"an answer"))
    wire.there.close()

    with pytest.raises(BrokenPipeError):
        wire.tls.send(b"?")
    wire.close()


def test_two_threads_do_not_use_one_connection_at_a_time(begin: Begin) -> None:
    peer = begin(lambda secured: secured.recv(1) and None)
    peer.here.settimeout(None)
    failures: list[BaseException] = []

    def wait() -> None:
        try:
            peer.tls.recv_into(bytearray(1))
        except OSError as error:
            failures.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while waiting.is_alive():
        try:
            peer.tls.recv_into(bytearray(0))
        except RuntimeError as error:
            failures.append(error)
            break
    peer.tls.close()  # freed when the other comes back
    peer.here.shutdown(socket.SHUT_RDWR)
    waiting.join()

    assert "two threads" in str(failures[0])
    with pytest.raises(OSError, match="closed"):
        peer.tls.recv_into(bytearray(1))


def test_a_closed_connection_says_so(begin: Begin) -> None:
    peer = begin(lambda secured: None)
    peer.tls.close()
    peer.tls.close()

    for use in (peer.tls.shake_hands, lambda: peer.tls.send(b"x"), lambda: peer.tls.recv_into(bytearray(1))):
        with pytest.raises(OSError, match="closed"):
            use()
    assert (peer.tls.version, peer.tls.cipher) == ("", "")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_old_versions_are_refused(version: ssl.TLSVersion) -> None:
    with pytest.raises((native.TlsError, ConnectionError)):
        Peer(lambda secured: None, version)
