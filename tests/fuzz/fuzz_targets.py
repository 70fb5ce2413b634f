"""The targets that are fed with arbitrary bytes: each parses them as if a broker had sent them, and holds what comes
out to what it has to be.

``tools/fuzz.py`` runs one of them in a process of its own, with sanitizers, under libFuzzer; ``tests/unit/native``
gives all of them the kept inputs. A target returns for bytes that are refused as they should be, and raises otherwise.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import trustme

#: The file of a compiled part that is used in place of the usual one.
INSTRUMENTED = "STREAMSAPP_FUZZED"


def _load_instrumented(path: str) -> None:
    name = "streamsapp.native.compiled"
    spec = spec_from_file_location(name, path, loader=ExtensionFileLoader(name, path))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module  # where streamsapp.native looks for it


if INSTRUMENTED in os.environ:
    _load_instrumented(os.environ[INSTRUMENTED])

from streamsapp import native  # noqa: E402 - after the line that says which one
from streamsapp.kafka.fetching.decompression import decompressed  # noqa: E402

#: Bytes of records that a batch may have when it is decompressed.
MOST = 1 << 20
#: The exceptions by which bytes are refused.
REFUSED = (ValueError, NotImplementedError)
#: Of a chunk: position, limit, bounds and aborted transactions.
_HOW = struct.Struct(">BBBBBBB")
#: Of a batch: the first offset, sizes and places of fields that are right, whatever the records are.
_BEFORE_ATTRIBUTES = struct.Struct(">qiibI")
_HEADER = struct.Struct(">hiqqqhii")


def answer(data: bytes) -> None:
    """An answer to Fetch, and the records of its partitions."""
    with suppress(ValueError):
        for part in native.answer(data).parts:
            assert 0 <= part.begin <= part.end <= len(data)
            with suppress(*REFUSED):
                _taken(
                    native.Chunk(
                        topic="t",
                        partition=0,
                        data=memoryview(data)[part.begin : part.end],
                        position=0,
                        aborted=part.aborted,
                        decompress=_plain,
                        unchecked=True,
                    ),
                    100,
                )


def chunk(data: bytes) -> None:
    """Record batches, with the position, the bounds and the aborted transactions that the first bytes say."""
    if len(data) < _HOW.size:
        return
    position, limit, most, *aborted = _HOW.unpack_from(data)
    transactions = [(aborted[0] % 4, aborted[1]), (aborted[2] % 4, aborted[3])]
    rest = data[_HOW.size :]
    with suppress(*REFUSED):
        made = native.Chunk(
            topic="t",
            partition=0,
            data=rest,
            position=position,
            aborted=transactions,
            decompress=_plain,
            unchecked=True,
            log_end=1 << 62,
            most=most << 6,
        )
        _taken(made, limit + 1)


def batch(data: bytes) -> None:
    """One batch whose header is right, of records that are arbitrary: as a list and packed they are the same."""
    if len(data) < 2:
        return
    whole = _batch_of(data[2:], count=data[0], codec=data[1] % 8)
    listed: list[Any] = []
    packed = native.Chunk(topic="t", partition=0, data=whole, position=0, aborted=[], decompress=_plain, unchecked=True)
    try:
        listed = _taken(
            native.Chunk(topic="t", partition=0, data=whole, position=0, aborted=[], decompress=_plain, unchecked=True),
            7,
        )
    except REFUSED:
        with suppress(*REFUSED):
            packed.take_packed(1000)
        return
    if any(isinstance(record, Exception) for record in listed):
        return
    staged = _staged(packed)
    assert staged == _last_of_each_key(listed), (staged, listed)


def decompression(data: bytes) -> None:
    """Decompression needs no more memory than its bound."""
    if len(data) < 2:
        return
    most = 1 << data[1] % 17
    with suppress(ValueError):
        found = decompressed(data[0] % 8, data[2:], most)
        assert isinstance(found, Exception) or len(found) <= most


def tls(data: bytes) -> None:
    """Bytes of a server in place of a handshake, or behind one if the first is odd: they are no records of TLS, and
    nothing comes out but by chance: the connection ends, waits, or fails."""
    if not data:
        return
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        there.setblocking(False)
        secured = _tls_context().connection(descriptor=here.fileno(), name="localhost", checked=False)
        if data[0] % 2:
            _shaken_hands(secured, there)
        there.sendall(data[1:])
        if data[0] % 4 > 1:
            there.close()
        view = bytearray(64)
        with suppress(native.TlsError, OSError):
            secured.shake_hands()
            for _ in range(len(data)):
                if not secured.recv_into(view):
                    break
        # Before the handshake has ended OpenSSL names the version of whatever record has come.
        assert not data[0] % 2 or secured.version in ("TLSv1.2", "TLSv1.3"), secured.version
        secured.close()
        assert not secured.version


@cache
def _tls_context() -> native.TlsContext:
    return native.TlsContext(verified=False)


@cache
def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(context)
    return context


def _shaken_hands(secured: native.Tls, there: socket.socket) -> None:
    """Both sides in turn: a socket has room for all of it."""
    taken, given = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = _server_context().wrap_bio(taken, given, server_side=True)
    for _ in range(3):
        with suppress(BlockingIOError):
            secured.shake_hands()
        with suppress(BlockingIOError):
            taken.write(there.recv(1 << 16))
        with suppress(ssl.SSLWantReadError):
            server.do_handshake()
        there.sendall(given.read())


def _plain(codec: int, data: bytes) -> bytes | Exception:
    return decompressed(codec, data, MOST)


def _batch_of(records: bytes, count: int, codec: int) -> bytes:
    rest = _HEADER.pack(codec, max(count - 1, 0), 0, 0, -1, -1, -1, count) + records
    return _BEFORE_ATTRIBUTES.pack(0, len(rest) + 9, 0, 2, 0) + rest


def _taken(chunk: native.Chunk, limit: int) -> list[Any]:
    """All records, whose offsets grow; in place of a record that cannot be had, the error that says why."""
    found: list[Any] = []
    last = -1
    while records := chunk.take(limit):
        assert len(records) <= limit
        for record in records:
            assert record.offset() > last
            last = record.offset()
            try:
                record.headers()
            except REFUSED as error:
                found.append(error)
            else:
                found.append(record)
    assert chunk.position == chunk.end_position > last
    return found


def _staged(chunk: native.Chunk) -> list[tuple[bytes, bytes | None]]:
    packed = chunk.take_packed(1000)
    packed.sort()
    staged: list[tuple[bytes, bytes | None]] = []
    while packed.stage(
        put=lambda key, value, family: staged.append((key, value)),
        delete=lambda key, family: staged.append((key, None)),
        family=None,
        limit=5,
        timestamped=False,
    ):
        pass
    return staged


def _last_of_each_key(records: list[Any]) -> list[tuple[bytes, bytes | None]]:
    return sorted({record.key(): record.value() for record in records if record.key() is not None}.items())


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target for target in (answer, chunk, batch, decompression, tls)
}


def main() -> None:
    """Fuzz the target that the first argument names; the others are libFuzzer's."""
    import atheris  # late: it is there only where a fuzzer runs

    target = TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, partial(_called, target))
    atheris.Fuzz()


def _called(target: Callable[[bytes], None], data: bytes) -> None:
    target(data)


if __name__ == "__main__":
    main()
