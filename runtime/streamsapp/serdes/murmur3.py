"""The hash by which a foreign-key join knows whether a response belongs to the row as it is now.

128 bits of MurmurHash3 for 64-bit machines, as Kafka Streams seeds and writes them. Pure; called on processing threads.
"""

from __future__ import annotations

from mmh3 import mmh3_x64_128_digest

_SEED = 104729


def murmur3_128(data: bytes, seed: int = _SEED) -> bytes:
    """The 16 bytes of the hash: its two numbers, big-endian."""
    digest = mmh3_x64_128_digest(data, seed)  # has them little-endian
    return digest[7::-1] + digest[:7:-1]
