"""Decompression of record batches, by Kafka's codecs. Pure; the thread that a consumer belongs to.

A batch says neither how large its records are nor that they are harmless: they may take so much memory and no more.
"""

from __future__ import annotations

from collections.abc import Callable

import cramjam

from streamsapp.errors import OversizedBatchError

#: How Java's clients frame what snappy compressed (xerial): magic, two versions, then blocks with their lengths.
_XERIAL, _XERIAL_HEADER = b"\x82SNAPPY\x00", 16
#: Tried as a result's multiple of what is compressed.
_FIRST, _GROWTH = 4, 8
#: No block of snappy's has more bytes than so many for each of its own: 64 take 3.
_SNAPPY = 32
#: In the error of a caller that has no room for what comes.
_NO_ROOM = "whole buffer"


def decompressed(codec: int, data: bytes, most: int) -> bytes | OversizedBatchError:
    """The records of a batch, or the error for which they are not had: they have more than ``most`` bytes. Raises
    ``ValueError`` if the batch is damaged."""
    if codec not in _CODECS:
        raise ValueError(f"a record batch is compressed by codec {codec}, which is not known")
    try:
        return _CODECS[codec](data, most)
    except OversizedBatchError as error:
        return error.with_traceback(None)
    except cramjam.DecompressionError as error:
        raise ValueError(f"a record batch cannot be decompressed: {error}") from error


def all_decompressed(codec: int, data: bytes, most: int) -> bytes:
    """As ``decompressed``, for callers that need every batch: raises the error."""
    found = decompressed(codec, data, most)
    if isinstance(found, OversizedBatchError):
        raise found
    return found


def _grown(into: Callable[[bytes, bytearray], int]) -> Callable[[bytes, int], bytes]:
    """Decompresses where the size of what comes is not known: into more and more room."""

    def decompress(data: bytes, most: int) -> bytes:
        size = max(1 << 16, _FIRST * len(data))
        while True:
            room = bytearray(min(size, most))
            try:
                return bytes(memoryview(room)[: into(data, room)])
            except cramjam.DecompressionError as error:
                if _NO_ROOM not in str(error):
                    raise  # at once: more room would have to be zeroed, in vain
                if size >= most:
                    raise _too_much(most) from None
                size *= _GROWTH

    return decompress


def _snappy(data: bytes, most: int) -> bytes:
    if not data:
        raise cramjam.DecompressionError("there is nothing")
    if not data.startswith(_XERIAL):
        return _snappy_block(data, most, most)
    if len(data) < _XERIAL_HEADER:
        raise cramjam.DecompressionError("its header is not whole")
    blocks, at, left = [], _XERIAL_HEADER, most
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        if end > len(data):
            raise cramjam.DecompressionError("its last block is not whole")
        blocks.append(_snappy_block(data[at + 4 : end], left, most))
        left -= len(blocks[-1])
        at = end
    return b"".join(blocks)


def _snappy_block(data: bytes, left: int, most: int) -> bytes:
    size = cramjam.snappy.decompress_raw_len(data)
    if size > _SNAPPY * (len(data) + 1):
        raise cramjam.DecompressionError(f"a block of {len(data)} bytes cannot have {size}")
    if size > left:
        raise _too_much(most)
    return bytes(cramjam.snappy.decompress_raw(data))


def _too_much(most: int) -> OversizedBatchError:
    return OversizedBatchError(
        f"has more than {most} bytes when it is decompressed, which is the most; if it is in order, give the consumer a"
        " larger max.partition.fetch.bytes (sixteen times as much is taken), or the instance more memory_bytes"
    )


_CODECS: dict[int, Callable[[bytes, int], bytes]] = {
    1: _grown(cramjam.gzip.decompress_into),
    2: _snappy,
    3: _grown(cramjam.lz4.decompress_into),
    4: _grown(cramjam.zstd.decompress_into),
}
