"""The shape of a request. Frequent requests are written by hand, and their answers are read by hand; the others have a
type, made from Kafka's schemas (``request``).

Pure; used on the thread of the connection.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from streamsapp.brokers.bounds import WrongAnswerError
from streamsapp.brokers.encoding import INT32, NO_TAGS, Reader

A = TypeVar("A")

_HEADER = struct.Struct(">hhih")
#: Its answer's header is never compact, so that a client reads it that does not know yet what the broker knows.
_API_VERSIONS = 18


class RequestByHand(ABC, Generic[A]):
    """A request of one kind, which is answered with an ``A``."""

    #: The kind's name and number.
    name: str
    API_KEY: int
    #: The first version that is compact (KIP-482).
    first_compact: int

    def __init__(self, versions: tuple[int, int]) -> None:
        """``versions``: the least and the greatest that it may be sent as."""
        self.versions = versions

    @abstractmethod
    def parts(self, version: int, *, compact: bool) -> Iterable[bytes]:
        """The request as this version has it, without its header and without the tags at its end."""

    @abstractmethod
    def read(self, reader: Reader, version: int) -> A:
        """The answer to this version. Raises ``ValueError`` or ``struct.error`` for anything that is none."""

    def newest(self, known: Mapping[int, tuple[int, int]]) -> int:
        """The greatest version that both sides know; ``known``: the least and the greatest that the broker does, by
        requests' numbers. Raises ``WrongAnswerError`` if there is none."""
        least, greatest = self.versions
        theirs = known.get(self.API_KEY, (0, -1))
        if theirs[1] < least or theirs[0] > greatest:
            told = f", but in {theirs[0]} to {theirs[1]}" if self.API_KEY in known else ""
            raise WrongAnswerError(
                f"it does not support {self.name} in version {least} to {greatest}{told}: it is too old, or too new"
            )
        return min(greatest, theirs[1])

    def encoded(self, version: int, number: int, client_id: str) -> bytes:
        """The whole request, with its length before it; ``number`` is its correlation id."""
        compact, client = version >= self.first_compact, client_id.encode()
        tags = NO_TAGS if compact else b""
        head = _HEADER.pack(self.API_KEY, version, number, len(client))
        parts = [head, client, tags, *self.parts(version, compact=compact), tags]
        return b"".join((INT32.pack(sum(map(len, parts))), *parts))

    def decoded(self, answer: bytes, version: int) -> A:
        """A whole answer, after its length. Raises as ``read`` does."""
        reader = Reader(answer, compact=version >= self.first_compact)
        reader.read(INT32)
        if self.API_KEY != _API_VERSIONS:
            reader.skip_tags()  # the header's
        read = self.read(reader, version)
        reader.end()
        return read


def number_of(answer: bytes) -> int:
    """The correlation id of a whole answer, after its length."""
    return int(INT32.unpack_from(answer)[0])
