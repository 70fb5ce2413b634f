"""The Produce request and its answer, written and read by hand: kafka-python's classes were a third of what it costs to
send few records, and that is asked for more often than anything else but Fetch.

Pure; used on the thread of the connection, whose protocol takes a ``ProduceRequest`` of these as one of kafka-python's
own. Versions 3 to 9, as brokers know them; or 12, whose records admit their partitions to the transaction (KIP-890).
Later ones mean something else (KIP-516).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import NamedTuple

from streamsapp.kafka.batches.wire import Name
from streamsapp.kafka.encoding import compact_count

#: The least and the greatest version, for those who admit partitions first, and for records that do so.
_EXPLICIT, _IMPLICIT = (3, 9), (12, 12)
#: From this version on lengths are varints, and whatever may be added later has tags (KIP-482).
_COMPACT = 9
_HEADER, _ACKS = struct.Struct(">hhih"), struct.Struct(">hi")
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
#: Of a partition in an answer: number, error, and offsets and times that nobody asks for.
_ANSWERED, _ANSWERED_BEFORE_5 = struct.Struct(">ihqqq"), struct.Struct(">ihqq")
_ALL_IN_SYNC = -1


class ProduceRequest:
    """Record batches to be written, one per partition at most; answered when all replicas in sync have them. Its
    attributes are those that kafka-python looks at."""

    name, API_KEY = "ProduceRequest", 0

    def __init__(
        self,
        transactional_id: str | None,
        batches: Iterable[tuple[Name, bytes]],
        timeout: float,
        *,
        implicit: bool = False,
    ) -> None:
        """``implicit``: they admit their partitions."""
        self.min_version, self.max_version = _IMPLICIT if implicit else _EXPLICIT
        self._min_version, self._max_version = self.min_version, self.max_version
        self._transactional_id = transactional_id
        self._timeout_ms = round(timeout * 1000)
        self._by_topic: dict[str, list[tuple[int, bytes]]] = {}
        for (topic, partition), data in batches:
            self._by_topic.setdefault(topic, []).append((partition, data))
        #: Set by kafka-python, to what the broker knows.
        self.API_VERSION: int | None = None
        self._client_id = b""
        self.correlation_id = 0

    def expect_response(self) -> bool:
        return True

    def with_header(self, correlation_id: int, client_id: str) -> None:
        self.correlation_id, self._client_id = correlation_id, client_id.encode()

    @property
    def header(self) -> ProduceRequest:
        """The object that kafka-python keeps until the answer comes: the request itself."""
        return self

    @property
    def _version(self) -> int:
        assert self.API_VERSION is not None, "the connection has chosen a version"
        return self.API_VERSION

    def encode(self, framed: bool = True, header: bool = True) -> bytes:
        """The whole request, with its length before it."""
        compact = self._version >= _COMPACT
        tags = b"\0" if compact else b""
        parts = [
            _HEADER.pack(self.API_KEY, self._version, self.correlation_id, len(self._client_id)),
            self._client_id,
            tags,
            _text(self._transactional_id, compact),
            _ACKS.pack(_ALL_IN_SYNC, self._timeout_ms),
            _count(len(self._by_topic), compact),
        ]
        for topic, partitions in self._by_topic.items():
            parts += (_text(topic, compact), _count(len(partitions), compact))
            for number, data in partitions:
                parts += (_INT32.pack(number), _count(len(data), compact), data, tags)
            parts.append(tags)
        parts.append(tags)
        return b"".join((_INT32.pack(sum(map(len, parts))), *parts))

    def get_response_class(self) -> ProduceRequest:
        return self

    def parse_header(self, answer: BytesIO) -> _AnswerHeader:
        return _AnswerHeader(*_INT32.unpack(answer.read(4)))

    def decode(self, answer: BytesIO) -> ProduceAnswer:
        """Raises ``ValueError`` or ``struct.error`` for anything that is no such answer."""
        version, codes = self._version, dict[Name, int]()
        reader = _Reader(answer.read(), compact=version >= _COMPACT)
        reader.skip_tags()  # the header's
        for _ in range(reader.count()):
            topic = reader.text()
            for _ in range(reader.count()):
                number, code, *_ = reader.read(_ANSWERED_BEFORE_5 if version < 5 else _ANSWERED)
                codes[topic, number] = code
                if version >= 8:
                    reader.skip_reasons()
                reader.skip_tags()
            reader.skip_tags()
        (throttled,) = reader.read(_INT32)
        reader.skip_tags()
        return ProduceAnswer(codes, throttled)


class _AnswerHeader(NamedTuple):
    correlation_id: int


class ProduceAnswer(NamedTuple):
    """Each partition's error code, and for how long the broker is to be left alone."""

    codes: Mapping[Name, int]
    throttle_time_ms: int


class _Reader:
    """Reads what a broker sent; raises ``ValueError`` or ``struct.error`` where it ends too soon."""

    def __init__(self, data: bytes, *, compact: bool) -> None:
        self._data = data
        self._at = 0
        self._compact = compact

    def read(self, form: struct.Struct) -> tuple[int, ...]:
        found = form.unpack_from(self._data, self._at)
        self._at += form.size
        return found

    def count(self) -> int:
        """The number of items, of which each takes a byte at least."""
        count = self._varint() - 1 if self._compact else self.read(_INT32)[0]
        if not 0 <= count <= len(self._data) - self._at:
            raise ValueError(f"{count} items in {len(self._data) - self._at} bytes")
        return count

    def text(self) -> str:
        size = self._size()
        if size < 0:
            raise ValueError("a topic without a name")
        found = self._data[self._at : self._at + size].decode()
        self._at += size
        return found

    def skip_reasons(self) -> None:
        """Pass over what a broker says of single records (KIP-467)."""
        for _ in range(self.count()):
            self.read(_INT32)
            self._skip(self._size())
            self.skip_tags()
        self._skip(self._size())

    def skip_tags(self) -> None:
        if not self._compact:
            return
        for _ in range(self._varint()):
            self._varint()
            self._skip(self._varint())

    def _skip(self, size: int) -> None:
        self._at += max(0, size)

    def _size(self) -> int:
        """That of a text; -1: there is none."""
        return self._varint() - 1 if self._compact else self.read(_INT16)[0]

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


def _text(text: str | None, compact: bool) -> bytes:
    encoded = b"" if text is None else text.encode()
    if compact:
        return b"\0" if text is None else compact_count(len(encoded)) + encoded
    return _INT16.pack(-1 if text is None else len(encoded)) + encoded


def _count(items: int, compact: bool) -> bytes:
    return compact_count(items) if compact else _INT32.pack(items)
