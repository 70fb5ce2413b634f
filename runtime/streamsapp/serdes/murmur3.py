"""The hash by which a foreign-key join knows whether a response belongs to the row as it is now.

128 bits of MurmurHash3 for 64-bit machines, as Kafka Streams seeds and writes them. Pure; called on processing threads.
"""

from __future__ import annotations

from struct import Struct

_SEED = 104729
_MASK = (1 << 64) - 1
_C1 = 0x87C37B91114253D5
_C2 = 0x4CF5AD432745937F
_BLOCK = Struct("<QQ")
_RESULT = Struct(">QQ")


def murmur3_128(data: bytes, seed: int = _SEED) -> bytes:
    """The 16 bytes of the hash: its two numbers, big-endian."""
    # A join hashes every row twice, so its steps are written out. A sum or product that is cut to 64 bits later may be
    # longer until then; only what is shifted right is cut before.
    length = len(data)
    whole = length & ~15
    first = second = seed
    for low, high in _BLOCK.iter_unpack(data[:whole]):
        one = low * _C1 & _MASK
        first ^= (one << 31 | one >> 33) * _C2 & _MASK
        first = ((first << 27 | first >> 37) + second) * 5 + 0x52DCE729 & _MASK
        other = high * _C2 & _MASK
        second ^= (other << 33 | other >> 31) * _C1 & _MASK
        second = ((second << 31 | second >> 33) + first) * 5 + 0x38495AB5 & _MASK
    if whole < length:
        low, high = _BLOCK.unpack(data[whole:].ljust(16, b"\0"))
        other = high * _C2 & _MASK
        second ^= (other << 33 | other >> 31) * _C1 & _MASK
        one = low * _C1 & _MASK
        first ^= (one << 31 | one >> 33) * _C2 & _MASK
    first ^= length
    second ^= length
    first = first + second & _MASK
    second = second + first & _MASK
    first, second = _finished(first), _finished(second)
    first = first + second & _MASK
    return _RESULT.pack(first, second + first & _MASK)


def _finished(word: int) -> int:
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & _MASK
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return word ^ word >> 33
