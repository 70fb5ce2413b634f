"""Decompression of record batches, by Kafka's codecs. Pure; the thread that a consumer belongs to.

A batch says neither how large its records are nor that they are harmless: they may take so much memory and no more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import cramjam

#: The records of one batch may have so many bytes: as many as Kafka's largest message, and more than any sensible one.
MOST = 256 << 20

#: How Java's clients frame what snappy compressed (xerial): magic, two versions, then blocks with their lengths.
_XERIAL, _XERIAL_HEADER = b"\x82SNAPPY\x00", 16
#: Tried as a result's multiple of what is compressed.
_FIRST, _GROWTH = 4, 8
#: In the error of whoever has no room for what comes.
_NO_ROOM = "whole buffer"


def decompressed(codec: int, data: bytes) -> bytes:
    """The records of a batch; raises ``ValueError`` if they cannot be had."""
    if codec not in _CODECS:
        raise ValueError(f"a record batch is compressed by codec {codec}, which is not known")
    try:
        return _CODECS[codec](data)
    except cramjam.DecompressionError as error:
        raise ValueError(f"a record batch cannot be decompressed: {error}") from error


def _grown(into: Callable[[bytes, bytearray], int], data: bytes) -> bytes:
    size = max(1 << 16, _FIRST * len(data))
    while True:
        room = bytearray(min(size, MOST))
        try:
            return bytes(memoryview(room)[: into(data, room)])
        except cramjam.DecompressionError as error:
            if _NO_ROOM not in str(error):
                raise  # at once: more room would have to be zeroed, in vain
            if size >= MOST:
                raise _too_much() from error
            size *= _GROWTH


def _snappy(data: bytes) -> bytes:
    if not data:
        raise cramjam.DecompressionError("there is nothing")
    if not data.startswith(_XERIAL):
        return _snappy_block(data, MOST)
    if len(data) < _XERIAL_HEADER:
        raise cramjam.DecompressionError("its header is not whole")
    blocks, at, left = [], _XERIAL_HEADER, MOST
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        if end > len(data):
            raise cramjam.DecompressionError("its last block is not whole")
        blocks.append(_snappy_block(data[at + 4 : end], left))
        left -= len(blocks[-1])
        at = end
    return b"".join(blocks)


def _snappy_block(data: bytes, most: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(data) > most:
        raise _too_much()
    return bytes(cramjam.snappy.decompress_raw(data))


def _too_much() -> ValueError:
    return ValueError(f"a record batch has more than {MOST} bytes of records")


_CODECS: dict[int, Callable[[bytes], bytes]] = {
    1: partial(_grown, cramjam.gzip.decompress_into),
    2: _snappy,
    3: partial(_grown, cramjam.lz4.decompress_into),
    4: partial(_grown, cramjam.zstd.decompress_into),
}
