"""Bytes that are made of parts, each behind its length: headers of entries, and records in buffers, as Kafka Streams
writes both.

Used on every thread that touches a store. What is read is untrusted: each length is checked against what is there.
"""

from __future__ import annotations

from struct import Struct, error as StructError  # noqa: N812

from streamsapp.record import Headers

INT = Struct(">i")
_LONG = Struct(">q")
#: In place of a length: there is no part.
_NONE = -1
#: A header is its name and its value, and each of them has a length.
_HEADER_BYTES = 2 * INT.size


def sized(data: bytes | None) -> bytes:
    """Returns bytes behind their length."""
    return INT.pack(_NONE) if data is None else INT.pack(len(data)) + data


class SizedParts:
    """Reads parts from the beginning on; each method raises ``ValueError`` for bytes that are none."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        #: Where the next part begins.
        self.at = 0

    def read_long(self) -> int:
        return self._number(_LONG)

    def read_int(self) -> int:
        return self._number(INT)

    def read_bytes(self) -> bytes | None:
        return self.take(self.read_int())

    def take(self, length: int) -> bytes | None:
        """Returns the part of a length that was read."""
        if length == _NONE:
            return None
        start, self.at = self.at, self.at + length
        if not start <= self.at <= len(self._data):
            raise ValueError(f"it says that a part of it has {length} bytes")
        return self._data[start : self.at]

    def headers(self, *, fewest: int = 0) -> Headers | None:
        """Returns headers, ``None`` for none. ``fewest`` is -1 where Kafka Streams writes that for none."""
        count = self.read_int()
        if not fewest <= count <= len(self._data) // _HEADER_BYTES:
            raise ValueError(f"it says that it has {count} headers")
        return [(self._text(), self.read_bytes()) for _ in range(count)] or None

    def end(self) -> None:
        """Raises for bytes that follow."""
        if self.at != len(self._data):
            raise ValueError(f"{len(self._data) - self.at} bytes follow its end")

    def _text(self) -> str:
        return (self.read_bytes() or b"").decode()

    def _number(self, struct: Struct) -> int:
        try:
            value: int = struct.unpack_from(self._data, self.at)[0]
        except StructError as error:
            raise ValueError("it ends in the middle") from error
        self.at += struct.size
        return value
