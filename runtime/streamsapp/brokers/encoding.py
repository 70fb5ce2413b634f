"""The parts of requests and answers that are written and read by hand, as Kafka's protocol has them.

Pure; called by the modules that do so. Newer requests are compact: lengths are varints of one more, and whatever may be
added later has tags (KIP-482).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

T = TypeVar("T")

#: Ends a structure to which nothing was added, where that is possible.
NO_TAGS = b"\0"
#: Counts that are remembered: few records have the same ones again and again.
_COUNTS = 1024
INT16, INT32 = struct.Struct(">h"), struct.Struct(">i")


@lru_cache(_COUNTS)
def compact_count(items: int) -> bytes:
    """The number of items of an array, or of bytes of a string, that is not none: a varint of one more."""
    return varint(items + 1)


def varint(number: int) -> bytes:
    """A number of at least zero, seven bits to a byte."""
    left, encoded = number, bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)


def encoded_count(items: int, *, compact: bool) -> bytes:
    """The number of items of an array, or of bytes."""
    return compact_count(items) if compact else INT32.pack(items)


def encoded_text(text: str | None, *, compact: bool) -> bytes:
    """A text with its length before it, or none."""
    encoded = b"" if text is None else text.encode()
    if compact:
        return b"\0" if text is None else compact_count(len(encoded)) + encoded
    return INT16.pack(-1 if text is None else len(encoded)) + encoded


class Reader:
    """Reads what a broker sent; raises ``ValueError`` or ``struct.error`` for impossible bytes, before it allocates the
    announced size."""

    __slots__ = ("_compact", "_end", "at", "whole")

    def __init__(self, data: bytes | bytearray, *, compact: bool) -> None:
        #: All of it, and the place of what comes next.
        self.whole = data
        self.at = 0
        self._end = len(data)
        self._compact = compact

    def read(self, form: struct.Struct) -> tuple[Any, ...]:
        """The numbers that come next."""
        found = form.unpack_from(self.whole, self.at)
        self.at += form.size
        return found

    def count(self, least: int = 1) -> int:
        """The number of items, each of at least so many bytes."""
        count = self.count_or_none(least)
        if count is None:
            raise ValueError("an array is None where the schema needs one")
        return count

    def count_or_none(self, least: int = 1) -> int | None:
        """As ``count``; ``None``: there is no array."""
        count = self._length(INT32)
        if 0 <= count * least <= self._end - self.at:
            return count
        if count != -1:
            raise ValueError(f"{count} items in {self._end - self.at} bytes")
        return None

    def text(self) -> str:
        """A text that is not none."""
        found = self._taken(self._length(INT16))
        if found is None:
            raise ValueError("a string is None where the schema needs one")
        return found.decode()

    def text_or_none(self, errors: str = "strict") -> str | None:
        """A text, or none; ``errors``: as ``bytes.decode`` has it."""
        found = self._taken(self._length(INT16))
        return None if found is None else found.decode(errors=errors)

    def data(self) -> bytes:
        """Bytes that are not none."""
        found = self._taken(self._length(INT32))
        if found is None:
            raise ValueError("bytes are None where the schema needs some")
        return bytes(found)

    def data_or_none(self) -> bytes | None:
        """Bytes, or none."""
        found = self._taken(self._length(INT32))
        return None if found is None else bytes(found)

    def skip(self, expected: bytes) -> bool:
        """Pass over these bytes if they come next, and say whether they did."""
        if not self.whole.startswith(expected, self.at):
            return False
        self.at += len(expected)
        return True

    def skip_tags(self) -> None:
        """Pass over fields that were added later, where that is possible."""
        if self._compact and (at := self.at) < self._end and not self.whole[at]:  # most have none
            self.at = at + 1
        else:
            self.tags({})

    def tags(self, known: Mapping[int, Callable[[Reader], T]]) -> dict[int, T]:
        """The ``known`` tagged fields that come next, by number (KIP-482); passes over the others. None where a message
        is not compact."""
        found: dict[int, T] = {}
        for _ in range(self._varint() if self._compact else 0):
            number, size = self._varint(), self._varint()
            start = self.at
            if number in known:
                found[number] = known[number](self)
                if self.at != start + size:
                    raise ValueError(f"tag {number} takes {self.at - start} bytes instead of {size}")
            else:
                self._taken(size)
        return found

    def end(self) -> None:
        """Nothing is left."""
        if self.at != self._end:
            raise ValueError(f"{self._end - self.at} bytes follow")

    def _length(self, form: struct.Struct) -> int:
        if not self._compact:
            return int(self.read(form)[0])
        if self.at < self._end and (byte := self.whole[self.at]) < 0x80:  # most are so small
            self.at += 1
            return byte - 1
        return self._varint() - 1

    def _taken(self, size: int) -> bytes | bytearray | None:
        """So many bytes; -1: none."""
        begin, end = self.at, self.at + size
        if begin <= end <= self._end:
            self.at = end
            return self.whole[begin:end]
        if size == -1:
            return None
        raise ValueError(f"{size} bytes of {self._end - begin}")

    def _varint(self) -> int:
        at, found, shift = self.at, 0, 0
        while shift < 35 and at < self._end:
            byte = self.whole[at]
            at += 1
            if byte < 0x80:
                self.at = at
                return found | byte << shift
            found |= (byte & 0x7F) << shift
            shift += 7
        raise ValueError("a number that does not end")
