"""Kafka's default partitioning: which partition of a topic a key belongs to.

Called by the record collector on processing threads for every record it sends, and by queries by key.
"""

from __future__ import annotations

from functools import lru_cache
from struct import unpack_from

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_MASK = 0xFFFFFFFF

#: Keys up to this size are remembered: hashing costs more than a look-up, and topologies see the same keys again.
_REMEMBERED_KEY_SIZE = 64
_REMEMBERED_KEYS = 1 << 15


def murmur2(data: bytes) -> int:
    """The 32-bit hash as Java prints it, with a sign."""
    length = len(data)
    code = _SEED ^ length
    words = length >> 2
    for word in unpack_from(f"<{words}I", data):
        mixed = (word * _FACTOR) & _MASK
        mixed ^= mixed >> 24
        code = ((code * _FACTOR) & _MASK) ^ ((mixed * _FACTOR) & _MASK)
    if tail := data[4 * words :]:
        code = ((code ^ int.from_bytes(tail, "little")) * _FACTOR) & _MASK
    code ^= code >> 13
    code = (code * _FACTOR) & _MASK
    code ^= code >> 15
    return code - (1 << 32) if code >> 31 else code


def partition_for(key: bytes, partitions: int) -> int:
    """The partition of a key among ``partitions``; the same in every client of Kafka."""
    if len(key) <= _REMEMBERED_KEY_SIZE:
        return _remembered(key, partitions)
    return (murmur2(key) & 0x7FFFFFFF) % partitions


@lru_cache(_REMEMBERED_KEYS)
def _remembered(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions
