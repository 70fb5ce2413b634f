"""Kafka's default partitioning: which partition of a topic a key belongs to.

For code that must know where a key lives without sending it there (queries by key, a user's own partitioner). Records
are placed by the producer, which applies the same function; pure, so callable on any thread.
"""

from __future__ import annotations

from struct import unpack_from

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_MASK = 0xFFFFFFFF


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
    return (murmur2(key) & 0x7FFFFFFF) % partitions
