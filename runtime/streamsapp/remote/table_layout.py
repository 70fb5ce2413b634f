"""Finds the place in a table of RocksDB's where its blocks of entries end, and its indexes and filters begin.

Called on the snapshot threads for files that are about to be published. Reads the footer and the block of names that it
points to, as versions 6 and 7 of the format have them (RocksDB, ``table/format.cc`` and ``table/block_based``). Any
other table has no such place, as far as is known here. Pure, but for reading the file's end.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import Struct

_VERSIONS = (6, 7)
_MAGIC = 0x88E241B785F4CFF7
#: From the footer's end: the checksum's type, an extended magic number, two checksums, the size of the block of names,
#: 24 bytes that are zero, the version, the magic number.
_FOOTER = Struct("<B4sIII24xIQ")
_EXTENDED_MAGIC = b"\x3e\x00\x7a\x00"
#: After each block: how it is compressed, and its checksum.
_TRAILER = 5
_COUNT = Struct("<I")
#: Names a handful of blocks; a larger one is none of ours.
_MOST_NAMES = 1 << 16
_INDEX = b"rocksdb.index"
_LONGEST_NUMBER = 10


def tail_of(table: Path) -> int | None:
    """The offset at which everything begins that RocksDB reads of a table apart from entries; ``None`` if that cannot
    be found. Raises ``OSError``."""
    size = table.stat().st_size
    with table.open("rb") as file:
        if size < _FOOTER.size:
            return None
        file.seek(size - _FOOTER.size)
        _, extended, _, _, length, version, magic = _FOOTER.unpack(file.read(_FOOTER.size))
        begin = size - _FOOTER.size - _TRAILER - length
        if magic != _MAGIC or extended != _EXTENDED_MAGIC or version not in _VERSIONS:
            return None
        if begin < 0 or not _COUNT.size < length <= _MOST_NAMES:
            return None
        file.seek(begin)
        names = file.read(length + 1)
    return None if names[-1] else first_block(names[:-1], begin)


def first_block(names: bytes, end: int) -> int | None:
    """The lowest offset of the blocks in a block of names, all of them before ``end``; ``None`` if it is not one, or
    does not name the index."""
    try:
        found = dict(_named(names))
    except (IndexError, ValueError):
        return None
    if _INDEX not in found or any(offset + size + _TRAILER > end for offset, size in found.values()):
        return None
    return min(offset for offset, size in found.values())


def _named(block: bytes) -> Iterator[tuple[bytes, tuple[int, int]]]:
    """The entries of a block: each key without what it shares with the one before."""
    (restarts,) = _COUNT.unpack_from(block, len(block) - _COUNT.size)
    end = len(block) - _COUNT.size * (1 + restarts)
    at, key = 0, b""
    while at < end:
        shared, at = _number(block, at)
        own, at = _number(block, at)
        length, at = _number(block, at)
        if shared > len(key) or at + own + length > end:
            raise ValueError("an entry goes on behind the block's end")
        key, at = key[:shared] + block[at : at + own], at + own
        offset, after = _number(block, at)
        size, _ = _number(block, after)
        at += length
        yield key, (offset, size)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits per byte, and the place behind it."""
    value = 0
    for shift in range(_LONGEST_NUMBER):
        byte = data[at + shift]
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value, at + shift + 1
    raise ValueError("a number is longer than any")
