"""The records that wait in the buffers of ``suppress`` and of joins with a grace, in the bytes that Kafka Streams logs.

Made on the processing thread that holds the task; read on whatever thread restores.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from sys import getsizeof
from typing import Any, NamedTuple

from streamsapp import native
from streamsapp.errors import StateStoreError
from streamsapp.record import Headers, InputRecord, RawRecord
from streamsapp.serdes.api import identity
from streamsapp.state.engine.entries import NO_TIMESTAMP, Entry, headers_size
from streamsapp.state.engine.headers import pack_headers
from streamsapp.state.engine.sized_parts import INT, SizedParts, sized

_LONG = Struct(">q")
_TWO_LONGS = Struct(">qq")
#: In place of a length: the value is the previous one.
_AS_PRIOR = -2
#: Of an entry besides its key, values and headers, as Kafka Streams counts: buffer time, timestamp, offset, partition.
_FIXED_BYTES = 28


class Buffered(NamedTuple):
    """An update that waits: values in bytes, and the record that it came with."""

    #: By which it is ordered: the end of its window, or the time of the key's first update that waits.
    time: int
    #: The value before the first update that waits.
    prior: bytes | None
    old: bytes | None
    new: bytes | None
    timestamp: int
    #: ``None`` for an update that came with no record.
    topic: str | None
    partition: int
    offset: int
    headers: Headers | None

    def __sizeof__(self) -> int:
        parts = (self.prior, self.new) if self.old is self.prior else (self.prior, self.old, self.new)
        size = tuple.__sizeof__(self) + sum(getsizeof(part) for part in parts if part is not None)
        return size + headers_size(self.headers)

    def size(self, key: bytes) -> int:
        """Bytes in memory, as Kafka Streams counts them: ``max_bytes`` means the same in both."""
        size = _FIXED_BYTES + len(key) + len(self.topic or "") + len(self.prior or b"") + len(self.new or b"")
        if self.old is not None and self.old != self.prior:
            size += len(self.old)
        for name, value in self.headers or ():
            size += len(name) + len(value or b"")
        return size

    @property
    def record(self) -> RawRecord | None:
        """The record that it came with, as far as it is known."""
        if self.topic is None:
            return None
        return RawRecord(self.topic, self.partition, self.offset, None, None, self.timestamp, self.headers)

    def encode(self) -> bytes:
        """The changelog's value."""
        topic = (self.topic or "").encode()
        parts = [_TWO_LONGS.pack(self.timestamp, self.offset), sized(topic), INT.pack(self.partition)]
        parts.append(pack_headers(self.headers))
        as_prior = self.old is not None and self.old == self.prior
        parts += (sized(self.prior), INT.pack(_AS_PRIOR) if as_prior else sized(self.old), sized(self.new))
        parts.append(_LONG.pack(self.time))
        return b"".join(parts)


def origin(record: InputRecord | None) -> tuple[str | None, int, int]:
    """Topic, partition and offset of the record that an update came with."""
    return (None, -1, -1) if record is None else (record.topic(), record.partition(), record.offset())


def decode(data: bytes) -> Buffered:
    """A changelog's value; ``ValueError`` for bytes that are none."""
    parts = SizedParts(data)
    timestamp, offset = parts.read_long(), parts.read_long()
    topic = (parts.read_bytes() or b"").decode() or None
    partition, headers = parts.read_int(), parts.headers(fewest=-1)
    prior = parts.read_bytes()
    length = parts.read_int()
    old = prior if length == _AS_PRIOR else parts.take(length)
    new, time = parts.read_bytes(), parts.read_long()
    parts.end()
    return Buffered(time, prior, old, new, timestamp, topic, partition, offset, headers)


class BufferedFormat:
    """Entries are :class:`Buffered`; their values were serialised when they came."""

    def __init__(self, operator: str, headers: Headers | None = None) -> None:
        """``headers`` are those of every record of the changelog, and required of what is restored."""
        self.has_headers = headers is not None
        self.keeps_values = False
        self.number_size = 0
        self.to_stored: Callable[[Any], Any] = identity
        self.from_stored: Callable[[Any], Any] = identity
        self.stored_again: Callable[[Any, Any], Any] = lambda value, stored: value
        self.kept: native.KeptValues | None = None
        self._operator = operator
        self._headers = headers

    def raw(self, stored: Buffered) -> bytes:
        return stored.encode()

    def physical(self, entry: Entry) -> bytes:
        return self.raw(entry[0])

    def restored(self, record: InputRecord) -> bytes | None:
        raw = record.value()
        if raw is None:
            return None
        for name, value in self._headers or ():
            if dict(record.headers() or ()).get(name) != value:
                form = f"{name}={(value or b'').hex()}"
                raise self._unreadable(record, f"it has no header {form}, the only form that is read")
        try:
            decode(raw)
        except ValueError as cause:
            raise self._unreadable(record, str(cause)) from cause
        return raw

    def headers(self, entry: Entry) -> Headers | None:
        return None if entry[0] is None else self._headers

    def entry(self, physical: bytes) -> Entry:
        return decode(physical), NO_TIMESTAMP

    def readable(self, entry: Entry) -> Entry:
        return entry[0], NO_TIMESTAMP

    def _unreadable(self, record: InputRecord, why: str) -> StateStoreError:
        where = f"{record.topic()}-{record.partition()}@{record.offset()}"
        return StateStoreError(
            f"record {where} is not an entry of a buffer of {self._operator} holds: {why}. Let the application that "
            "wrote it send all that it holds, or reset this one"
        )
