"""The hash by which a foreign-key join knows whether a response belongs to the row as it is now.

128 bits of MurmurHash3 for 64-bit machines, as Kafka Streams seeds and writes them. Pure; called on processing threads.
"""

from __future__ import annotations

from struct import Struct, unpack_from

_SEED = 104729
_MASK = (1 << 64) - 1
_C1 = 0x87C37B91114253D5
_C2 = 0x4CF5AD432745937F
_RESULT = Struct(">QQ")


def murmur3_128(data: bytes, seed: int = _SEED) -> bytes:
    """The 16 bytes of the hash: its two numbers, big-endian."""
    length = len(data)
    blocks = length >> 4
    first = second = seed
    words = unpack_from(f"<{2 * blocks}Q", data)
    for index in range(0, 2 * blocks, 2):
        first ^= _mixed_first(words[index])
        first = ((_rotated(first, 27) + second) * 5 + 0x52DCE729) & _MASK
        second ^= _mixed_second(words[index + 1])
        second = ((_rotated(second, 31) + first) * 5 + 0x38495AB5) & _MASK
    tail = data[16 * blocks :]
    if tail:
        second ^= _mixed_second(int.from_bytes(tail[8:], "little"))
        first ^= _mixed_first(int.from_bytes(tail[:8], "little"))
    first ^= length
    second ^= length
    first = (first + second) & _MASK
    second = (second + first) & _MASK
    first, second = _finished(first), _finished(second)
    first = (first + second) & _MASK
    return _RESULT.pack(first, (second + first) & _MASK)


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 64 - bits) & _MASK


def _mixed_first(word: int) -> int:
    return _rotated(word * _C1 & _MASK, 31) * _C2 & _MASK


def _mixed_second(word: int) -> int:
    return _rotated(word * _C2 & _MASK, 33) * _C1 & _MASK


def _finished(word: int) -> int:
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & _MASK
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return word ^ word >> 33
