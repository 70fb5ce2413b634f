"""Record batches as brokers send them, and what becomes of them on a bad way."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable
from typing import Any

from streamsapp.brokers.encoding import varint
from streamsapp.kafka.producing.compression import CODECS as SENT_WITH

#: The places and the forms of the fields in the header of a record batch.
FIELDS = {
    "base_offset": (0, ">q"),
    "length": (8, ">i"),
    "epoch": (12, ">i"),
    "magic": (16, ">b"),
    "crc": (17, ">I"),
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "base_timestamp": (27, ">q"),
    "max_timestamp": (35, ">q"),
    "producer": (43, ">q"),
    "producer_epoch": (51, ">h"),
    "sequence": (53, ">i"),
    "count": (57, ">i"),
}
HEADER = 61
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 8, 16, 32


def xerial(data: bytes, size: int = 1000) -> bytes:
    """As Java's clients frame what they compress with snappy: in blocks."""
    blocks = [SENT_WITH["snappy"].compress(data[at : at + size]) for at in range(0, len(data), size)]
    framed = b"".join(len(block).to_bytes(4, "big") + block for block in blocks)
    return b"\x82SNAPPY\0" + b"\0\0\0\1" * 2 + framed


#: The ways to compress records, each with its number in a batch.
CODECS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    **{name: (codec.number, codec.compress) for name, codec in SENT_WITH.items()},
    "xerial": (2, xerial),
}


def changed(batch: bytes, **fields: int) -> bytes:
    """A record batch with these fields in its header, and the checksum for them."""
    data = bytearray(batch)
    for name, value in fields.items():
        at, form = FIELDS[name]
        struct.pack_into(form, data, at, value)
    if "crc" not in fields:
        struct.pack_into(">I", data, FIELDS["crc"][0], crc32c(data[FIELDS["attributes"][0] :]))
    return bytes(data)


def field_of(batch: bytes, name: str) -> int:
    """A field in the header of a record batch."""
    at, form = FIELDS[name]
    return int(struct.unpack_from(form, batch, at)[0])


def _remainder(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_REMAINDERS = [_remainder(byte) for byte in range(256)]


def crc32c(data: bytes | bytearray) -> int:
    """As RFC 3720 has it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _REMAINDERS[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def number(value: int) -> bytes:
    """As records have it, with its sign in the last bit."""
    return varint(value << 1 if value >= 0 else ~(value << 1))


def _sized(data: bytes | None) -> bytes:
    return number(-1) if data is None else number(len(data)) + data


def record(offset: int, time: int, key: bytes | None, value: bytes | None, headers: Any) -> bytes:
    """A record; its offset and its time are those after the batch's."""
    told = b"".join(_sized(name.encode()) + _sized(of_it) for name, of_it in headers or ())
    parts = b"\0", number(time), number(offset), _sized(key), _sized(value), number(len(headers or ())), told
    return _sized(b"".join(parts))


def fetched_batch(
    base: int, given: Iterable[tuple[int, int, Any, Any, Any]], codec: str = "none", producer: int = -1, **fields: int
) -> bytes:
    """Records, ``(offset after the base, time, key, value, headers)``, as a broker has them at an offset."""
    records = list(given)
    times, last = [time for _, time, *_ in records], max((offset for offset, *_ in records), default=0)
    first, (of_codec, compress) = next(iter(times), 0), CODECS[codec]
    body = b"".join(record(offset, time - first, *rest) for offset, time, *rest in records)
    data = bytes(HEADER) + (compress(body) if body else b"")
    header = {
        "base_offset": base, "length": len(data) - 12, "magic": 2, "last_offset_delta": last,
        "base_timestamp": first, "max_timestamp": max(times, default=0), "producer": producer, "count": len(records),
    }  # fmt: skip
    return changed(data, **header | fields | {"attributes": fields.get("attributes", 0) | of_codec})


def flipped(data: bytes, rng: random.Random) -> bytes:
    """With one bit changed."""
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def harmed(data: bytes, rng: random.Random) -> bytes:
    """As it is, cut off, changed, or something else."""
    cut = data[: rng.randrange(len(data))]
    return rng.choice([data, cut, flipped(data, rng), flipped(flipped(data, rng), rng), rng.randbytes(len(data))])
