"""The parts of requests and answers that are written and read by hand, as Kafka's protocol has them.

Pure; called by the modules that do so. Newer requests are compact: lengths are varints of one more, and whatever may be
added later has tags (KIP-482).
"""

from __future__ import annotations

import struct

#: Ends a structure to which nothing was added, where that is possible.
NO_TAGS = b"\0"
INT16, INT32 = struct.Struct(">h"), struct.Struct(">i")


def compact_count(items: int) -> bytes:
    """The number of items of an array, or of bytes of a string, that is not none: a varint of one more."""
    left, encoded = items + 1, bytearray()
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
    """Reads what a broker sent; raises ``ValueError`` or ``struct.error`` where it ends too soon."""

    def __init__(self, data: bytes, *, compact: bool) -> None:
        self._data = data
        self._at = 0
        self._compact = compact

    def read(self, form: struct.Struct) -> tuple[int, ...]:
        """The numbers that come next."""
        found = form.unpack_from(self._data, self._at)
        self._at += form.size
        return found

    def count(self) -> int:
        """The number of items, of which each takes a byte at least."""
        count = self._varint() - 1 if self._compact else self.read(INT32)[0]
        if not 0 <= count <= len(self._data) - self._at:
            raise ValueError(f"{count} items in {len(self._data) - self._at} bytes")
        return count

    def data(self) -> bytes:
        """Bytes that are not none."""
        size = self.count()
        start = self._at
        self._skip(size)
        return self._data[start : self._at]

    def text(self) -> str:
        """A text that is not none."""
        size = self._size()
        if size < 0:
            raise ValueError("a topic without a name")
        start = self._at
        self._skip(size)
        return self._data[start : self._at].decode()

    def text_or_none(self) -> str | None:
        """A text, or none."""
        size = self._size()
        if size < 0:
            return None
        found = self._data[self._at : self._at + size].decode(errors="replace")
        self._at += size
        return found

    def skip_text(self) -> None:
        """Pass over a text, or none."""
        self._skip(self._size())

    def skip_tags(self) -> None:
        """Pass over what was added later, where that is possible."""
        if not self._compact:
            return
        for _ in range(self._varint()):
            self._varint()
            self._skip(self._varint())

    def end(self) -> None:
        """Nothing is left."""
        if self._at != len(self._data):
            raise ValueError(f"{len(self._data) - self._at} bytes follow")

    def _skip(self, size: int) -> None:
        if size > len(self._data) - self._at:
            raise ValueError(f"{size} bytes of {len(self._data) - self._at}")
        self._at += max(0, size)

    def _size(self) -> int:
        """That of a text; -1: there is none."""
        return self._varint() - 1 if self._compact else self.read(INT16)[0]

    def _varint(self) -> int:
        found = shift = 0
        while shift < 35 and self._at < len(self._data):
            byte = self._data[self._at]
            self._at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
            shift += 7
        raise ValueError("a number that does not end")
