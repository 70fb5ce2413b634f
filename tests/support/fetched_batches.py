"""Record batches as brokers send them, and what becomes of them on a bad way."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable
from typing import Any

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

from streamsapp.kafka.producing.compression import CODECS as SENT_WITH

#: Where the header of a record batch has its fields, and in which form.
FIELDS = {
    "base_offset": (0, ">q"),
    "length": (8, ">i"),
    "epoch": (12, ">i"),
    "magic": (16, ">b"),
    "crc": (17, ">I"),
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "max_timestamp": (35, ">q"),
    "count": (57, ">i"),
}
HEADER = 61
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 8, 16, 32


def xerial(data: bytes, size: int = 1000) -> bytes:
    """As Java's clients frame what they compress with snappy: in blocks."""
    blocks = [SENT_WITH["snappy"].compress(data[at : at + size]) for at in range(0, len(data), size)]
    framed = b"".join(len(block).to_bytes(4, "big") + block for block in blocks)
    return b"\x82SNAPPY\0" + b"\0\0\0\1" * 2 + framed


#: The ways to compress records, each with its number in a batch; kafka-python has most of them only with more packages.
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
        struct.pack_into(">I", data, FIELDS["crc"][0], calc_crc32c(memoryview(data)[FIELDS["attributes"][0] :]))
    return bytes(data)


def fetched_batch(
    base: int, given: Iterable[tuple[int, int, Any, Any, Any]], codec: str = "none", producer: int = -1, **fields: int
) -> bytes:
    """Records, ``(offset after the base, time, key, value, headers)``, in kafka-python's encoding, as a broker has them
    at an offset."""
    builder = DefaultRecordBatchBuilder(2, 0, False, producer, 0, 0, 1 << 30)
    for offset, time, key, value, headers in given:
        builder.append(offset, time, key, value, headers or [])
    built = bytes(builder.build())
    number, compress = CODECS[codec]
    data = built[:HEADER] + (compress(built[HEADER:]) if built[HEADER:] else b"")
    attributes = fields.pop("attributes", 0) | number
    return changed(data, base_offset=base, length=len(data) - 12, attributes=attributes, **fields)


def flipped(data: bytes, rng: random.Random) -> bytes:
    """With one bit changed."""
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def harmed(data: bytes, rng: random.Random) -> bytes:
    """As it is, cut off, changed, or something else."""
    cut = data[: rng.randrange(len(data))]
    return rng.choice([data, cut, flipped(data, rng), flipped(flipped(data, rng), rng), rng.randbytes(len(data))])
