"""Compression of record batches, by Kafka's codecs. Pure; the sender's thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import cramjam

from streamsapp.kafka.producing.partitions import RecordBatch

#: Bytes of a batch's header, which is not compressed.
_HEADER = 61
#: Of zstd, as Kafka's own producer has it.
_ZSTD_LEVEL = 3


class Codec(NamedTuple):
    """A way to compress."""

    #: In the attributes of a batch.
    number: int
    compress: Callable[[bytes], bytes]

    def applied(self, batch: RecordBatch) -> bytes:
        """The batch's bytes, with its records compressed unless they are not to be."""
        if not self.number:
            return batch.data
        return batch.data[:_HEADER] + self.compress(batch.data[_HEADER:])


def _lz4(data: bytes) -> bytes:
    """A frame as Kafka reads it: each block stands for itself."""
    compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
    compressor.compress(data)
    return bytes(compressor.finish())


#: By the names of ``compression.type``.
CODECS = {
    "none": Codec(0, bytes),
    "gzip": Codec(1, lambda data: bytes(cramjam.gzip.compress(data))),
    "snappy": Codec(2, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "lz4": Codec(3, _lz4),
    "zstd": Codec(4, lambda data: bytes(cramjam.zstd.compress(data, _ZSTD_LEVEL))),
}
