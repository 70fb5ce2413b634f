"""The parts of requests and answers that are written and read by hand, as Kafka's protocol has them.

Pure; called by the modules that do so. Newer requests are compact: lengths are varints of one more, and whatever may be
added later has tags (KIP-482).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

#: Ends a structure to which nothing was added, where that is possible.
NO_TAGS = b"\0"
INT16, INT32 = struct.Struct(">h"), struct.Struct(">i")


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
    """Reads what a broker sent; raises ``ValueError`` or ``struct.error`` for anything that it cannot be, before it
    allocates what is announced."""

    __slots__ = ("_at", "_compact", "_data")

    def __init__(self, data: bytes | bytearray, *, compact: bool) -> None:
        self._data = data
        self._at = 0
        self._compact = compact

    def read(self, form: struct.Struct) -> tuple[Any, ...]:
        """The numbers that come next."""
        found = form.unpack_from(self._data, self._at)
        self._at += form.size
        return found

    def count(self, least: int = 1) -> int:
        """The number of items, of which each takes so many bytes at least."""
        count = self.count_or_none(least)
        if count is None:
            raise ValueError("an array that may not be none is none")
        return count

    def count_or_none(self, least: int = 1) -> int | None:
        """As ``count``; ``None``: there is no array."""
        count: int = self._varint() - 1 if self._compact else self.read(INT32)[0]
        if count == -1:
            return None
        if not 0 <= count * least <= len(self._data) - self._at:
            raise ValueError(f"{count} items in {len(self._data) - self._at} bytes")
        return count

    def data(self) -> bytes:
        """Bytes that are not none."""
        found = self.data_or_none()
        if found is None:
            raise ValueError("bytes that may not be none are none")
        return found

    def text(self) -> str:
        """A text that is not none."""
        found = self.text_or_none()
        if found is None:
            raise ValueError("a text that may not be none is none")
        return found

    def text_or_none(self, errors: str = "strict") -> str | None:
        """A text, or none; ``errors``: as ``bytes.decode`` has it."""
        size = self._varint() - 1 if self._compact else self.read(INT16)[0]
        return None if size == -1 else self._taken(size).decode(errors=errors)

    def data_or_none(self) -> bytes | None:
        """Bytes, or none."""
        size = self._varint() - 1 if self._compact else self.read(INT32)[0]
        return None if size == -1 else bytes(self._taken(size))

    def skip_tags(self) -> None:
        """Pass over what was added later, where that is possible."""
        if self._compact and (at := self._at) < len(self._data) and not self._data[at]:  # most have none
            self._at = at + 1
        else:
            self.tags({})

    def tags(self, known: Mapping[int, Callable[[Reader], T]]) -> dict[int, T]:
        """The ``known`` tagged fields that come next, by number (KIP-482); passes over the others. None where a message
        is not compact."""
        found: dict[int, T] = {}
        for _ in range(self._varint() if self._compact else 0):
            number, size = self._varint(), self._varint()
            start = self._at
            if number in known:
                found[number] = known[number](self)
                if self._at != start + size:
                    raise ValueError(f"tag {number} takes {self._at - start} bytes instead of {size}")
            else:
                self._taken(size)
        return found

    def end(self) -> None:
        """Nothing is left."""
        if self._at != len(self._data):
            raise ValueError(f"{len(self._data) - self._at} bytes follow")

    def _taken(self, size: int) -> bytes | bytearray:
        if not 0 <= size <= len(self._data) - self._at:
            raise ValueError(f"{size} bytes of {len(self._data) - self._at}")
        self._at += size
        return self._data[self._at - size : self._at]

    def _varint(self) -> int:
        if self._at < len(self._data) and (byte := self._data[self._at]) < 0x80:  # most are so small
            self._at += 1
            return byte
        found = shift = 0
        while shift < 35 and self._at < len(self._data):
            byte = self._data[self._at]
            self._at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
            shift += 7
        raise ValueError("a number that does not end")
