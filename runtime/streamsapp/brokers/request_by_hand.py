"""The shape of a request. Those that are sent again and again are written by hand, and their answers read so; the
others have a type, made from Kafka's schemas (``request``).

Pure; used on the thread of the connection.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable
from io import BytesIO
from typing import Any, NamedTuple

from streamsapp.brokers.encoding import INT32, NO_TAGS, Reader

_HEADER = struct.Struct(">hhih")
#: Its answer's header is never compact, so that a client reads it that does not know yet what the broker knows.
_API_VERSIONS = 18


class RequestByHand(ABC):
    """A request of one kind."""

    #: The kind's name and number.
    name: str
    API_KEY: int
    #: The first version that is compact (KIP-482).
    first_compact: int

    def __init__(self, versions: tuple[int, int]) -> None:
        """``versions``: the least and the greatest that it may be sent as."""
        self.min_version, self.max_version = self._min_version, self._max_version = versions
        #: Set by the connection, to what the broker knows.
        self.API_VERSION: int | None = None
        self._client_id = b""
        self.correlation_id = 0

    @abstractmethod
    def parts(self, version: int, *, compact: bool) -> Iterable[bytes]:
        """The request as this version has it, without its header and without the tags at its end."""

    @abstractmethod
    def read(self, reader: Reader, version: int) -> Any:
        """The answer to this version. Raises ``ValueError`` or ``struct.error`` for anything that is none."""

    def expect_response(self) -> bool:
        return True

    def with_header(self, correlation_id: int, client_id: str) -> None:
        self.correlation_id, self._client_id = correlation_id, client_id.encode()

    @property
    def header(self) -> RequestByHand:
        """The object that a connection keeps until the answer comes: the request itself."""
        return self

    def encode(self, framed: bool = True, header: bool = True) -> bytes:
        """The whole request, with its length before it."""
        version = self._version
        compact = version >= self.first_compact
        tags = NO_TAGS if compact else b""
        parts = [
            _HEADER.pack(self.API_KEY, version, self.correlation_id, len(self._client_id)),
            self._client_id,
            tags,
            *self.parts(version, compact=compact),
            tags,
        ]
        return b"".join((INT32.pack(sum(map(len, parts))), *parts))

    def get_response_class(self) -> RequestByHand:
        return self

    def parse_header(self, answer: BytesIO) -> _AnswerHeader:
        return _AnswerHeader(*INT32.unpack(answer.read(4)))

    def decode(self, answer: BytesIO) -> Any:
        """Raises as ``read`` does."""
        version = self._version
        reader = Reader(answer.read(), compact=version >= self.first_compact)
        if self.API_KEY != _API_VERSIONS:
            reader.skip_tags()  # the header's
        read = self.read(reader, version)
        reader.end()
        return read

    @property
    def _version(self) -> int:
        assert self.API_VERSION is not None, "the connection has chosen a version"
        return self.API_VERSION


class _AnswerHeader(NamedTuple):
    correlation_id: int
