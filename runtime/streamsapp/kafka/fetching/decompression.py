"""Decompression of record batches, by Kafka's codecs. Pure; the thread that a consumer belongs to.

A batch says neither how large its records are nor that they are harmless: they may take so much memory and no more.
"""

from __future__ import annotations

import cramjam

#: The records of one batch may have so many bytes: as many as Kafka's largest message, and more than any sensible one.
MOST = 256 << 20

#: How Java's clients frame what snappy compressed (xerial): magic, two versions, then blocks with their lengths.
_XERIAL, _XERIAL_HEADER = b"\x82SNAPPY\x00", 16
#: Tried as a result's multiple of what is compressed.
_FIRST, _GROWTH = 4, 8


def decompressed(codec: int, data: bytes) -> bytes:
    """The records of a batch; raises ``ValueError`` if they cannot be had."""
    try:
        if codec == 2:
            return _snappy(data)
        return _grown(_CODECS[codec], data)
    except KeyError:
        raise ValueError(f"a record batch is compressed by codec {codec}, which is not known") from None
    except cramjam.DecompressionError as error:
        raise ValueError(f"a record batch cannot be decompressed: {error}") from error


def _grown(module: object, data: bytes) -> bytes:
    size = max(1 << 16, _FIRST * len(data))
    while True:
        room = bytearray(min(size, MOST))
        try:
            return bytes(memoryview(room)[: module.decompress_into(data, room)])  # type: ignore[attr-defined]
        except cramjam.DecompressionError:
            if size >= MOST:
                raise
            size *= _GROWTH


_CODECS = {1: cramjam.gzip, 3: cramjam.lz4, 4: cramjam.zstd}


def _snappy(data: bytes) -> bytes:
    if not data.startswith(_XERIAL):
        return _snappy_block(data, MOST)
    blocks, at, left = [], _XERIAL_HEADER, MOST
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        if end > len(data):
            raise ValueError("a record batch cannot be decompressed: its last block is not whole")
        blocks.append(_snappy_block(data[at + 4 : end], left))
        left -= len(blocks[-1])
        at = end
    return b"".join(blocks)


def _snappy_block(data: bytes, most: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(data) > most:
        raise ValueError(f"a record batch has more than {MOST} bytes of records")
    return bytes(cramjam.snappy.decompress_raw(data))
