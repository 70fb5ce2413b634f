"""Buffers of ``suppress``: updates of a table that wait, the one to go on first at the top.

Made with the task; used on the processing thread that holds the task. Kept in memory, as in Kafka Streams; the
changelog has Kafka Streams' bytes. Entries lie under their key, as in every store, so that commit, revert and restore
are those of all stores; the order in which they go on is derived from them, and anew after a restore or a revert.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from struct import Struct, error
from typing import Any, NamedTuple

from streamsapp.errors import StateStoreError
from streamsapp.record import Headers, InputRecord
from streamsapp.serdes.api import AnySerde
from streamsapp.state.engine import Placed
from streamsapp.state.entries import NO_TIMESTAMP, Entry, EntryFormat, identity
from streamsapp.state.facade import Facade
from streamsapp.state.store_type import Layers, Layout, PlainLayout, StoreParts
from streamsapp.state.views import Readers, StoreView
from streamsapp.state.write_back import WriteBack

_LONG = Struct(">q")
_INT = Struct(">i")
_TWO_LONGS = Struct(">qq")
_VERSION = "v"
_HEADERS: Headers = [(_VERSION, b"\x03")]
#: In place of a length: there is no value, or it is the one before.
_NONE, _AS_PRIOR = -1, -2
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

    def size(self, key: bytes) -> int:
        """Bytes in memory, as Kafka Streams counts them: ``max_bytes`` means the same in both."""
        size = _FIXED_BYTES + len(key) + len(self.topic or "") + len(self.prior or b"") + len(self.new or b"")
        if self.old is not None and self.old != self.prior:
            size += len(self.old)
        for name, value in self.headers or ():
            size += len(name) + len(value or b"")
        return size

    def encode(self) -> bytes:
        """The changelog's value."""
        topic = (self.topic or "").encode()
        headers = self.headers or ()
        parts = [_TWO_LONGS.pack(self.timestamp, self.offset), _sized(topic), _INT.pack(self.partition)]
        parts.append(_INT.pack(len(headers)))
        for name, value in headers:
            parts += (_sized(name.encode()), _sized(value))
        as_prior = self.old is not None and self.old == self.prior
        parts += (_sized(self.prior), _INT.pack(_AS_PRIOR) if as_prior else _sized(self.old), _sized(self.new))
        parts.append(_LONG.pack(self.time))
        return b"".join(parts)


def _sized(data: bytes | None) -> bytes:
    return _INT.pack(_NONE) if data is None else _INT.pack(len(data)) + data


def decode(data: bytes) -> Buffered:
    """A changelog's value; ``ValueError`` for what is none."""
    try:
        return _Reader(data).buffered()
    except (error, UnicodeDecodeError) as cause:
        raise ValueError("it ends in the middle, or has bytes that are no text") from cause


class _Reader:
    """Reads a changelog's value from its beginning to its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def buffered(self) -> Buffered:
        timestamp, offset = self._long(), self._long()
        topic = self._bytes() or b""
        partition, count = self._int(), self._int()
        if not -1 <= count <= len(self._data) // 8:
            raise ValueError(f"it says that it has {count} headers")
        headers = [((self._bytes() or b"").decode(), self._bytes()) for _ in range(count)]
        prior = self._bytes()
        length = self._int()
        old = prior if length == _AS_PRIOR else self._take(length)
        new, time = self._bytes(), self._long()
        if self._at != len(self._data):
            raise ValueError(f"{len(self._data) - self._at} bytes follow its end")
        return Buffered(time, prior, old, new, timestamp, topic.decode() or None, partition, offset, headers or None)

    def _long(self) -> int:
        value: int = _LONG.unpack_from(self._data, self._at)[0]
        self._at += 8
        return value

    def _int(self) -> int:
        value: int = _INT.unpack_from(self._data, self._at)[0]
        self._at += 4
        return value

    def _bytes(self) -> bytes | None:
        return self._take(self._int())

    def _take(self, length: int) -> bytes | None:
        if length == _NONE:
            return None
        start, self._at = self._at, self._at + length
        if not start <= self._at <= len(self._data):
            raise ValueError(f"it says that a part of it has {length} bytes")
        return self._data[start : self._at]


class BufferedFormat:
    """Entries are :class:`Buffered`; their values were serialised when they came."""

    has_headers = True

    def __init__(self) -> None:
        self.to_stored: Callable[[Any], Any] = identity
        self.from_stored: Callable[[Any], Any] = identity

    def raw(self, stored: Buffered) -> bytes:
        return stored.encode()

    def physical(self, entry: Entry) -> bytes:
        return self.raw(entry[0])

    def restored(self, record: InputRecord) -> bytes | None:
        raw = record.value()
        if raw is not None and dict(record.headers() or ()).get(_VERSION) != _HEADERS[0][1]:
            raise _unreadable(record, "it has no header v=03, the only form that is read")
        try:
            return raw if raw is None or decode(raw) else None
        except ValueError as cause:
            raise _unreadable(record, str(cause)) from cause

    def headers(self, entry: Entry) -> Headers | None:
        return None if entry[0] is None else _HEADERS

    def entry(self, physical: bytes) -> Entry:
        return decode(physical), NO_TIMESTAMP

    def readable(self, entry: Entry) -> Entry:
        return entry[0], NO_TIMESTAMP


def _unreadable(record: InputRecord, why: str) -> StateStoreError:
    where = f"{record.topic()}-{record.partition()}@{record.offset()}"
    return StateStoreError(
        f"record {where} is no buffered update of suppress: {why}. Let the application that wrote it send all that it "
        "holds, or reset this one"
    )


class BufferOrder(PlainLayout):
    """Who goes on first: entries by buffer time, then by their key's bytes."""

    def __init__(self) -> None:
        #: A heap of ``(buffer time, key)``; ``None`` until it is asked for.
        self.waiting: list[tuple[int, bytes]] | None = None
        #: Bytes of all entries.
        self.size = 0

    def placed(self, records: Sequence[InputRecord]) -> list[Placed]:
        self.waiting = None
        return super().placed(records)

    def stand_at(self, facts: bytes | None) -> None:
        self.waiting = None

    def load(self, layers: Layers) -> list[tuple[int, bytes]]:
        """Derive it from what the store has."""
        entries = [(key, entry[0]) for key, entry in layers.scan(b"", None, reverse=False)]
        self.size = sum(buffered.size(key) for key, buffered in entries)
        self.waiting = [(buffered.time, key) for key, buffered in entries]
        heapify(self.waiting)
        return self.waiting

    def statistics(self) -> Mapping[str, int]:
        waiting = self.waiting
        return (
            {} if waiting is None else {"suppression_buffer_count": len(waiting), "suppression_buffer_size": self.size}
        )


class SuppressionBuffer(Facade):
    """Updates that wait, the last one of each key."""

    def __init__(self, parts: StoreParts, order: BufferOrder) -> None:
        super().__init__(parts)
        self._order = order
        self.serialize_key: Callable[[Any], bytes] = parts.key_serde.serialize
        self.deserialize_key: Callable[[bytes], Any] = parts.key_serde.deserialize
        self.serialize: Callable[[Any], bytes] = parts.value_serde.serialize
        self.deserialize: Callable[[bytes], Any] = parts.value_serde.deserialize

    @property
    def count(self) -> int:
        """How many updates wait."""
        return len(self._waiting())

    @property
    def size(self) -> int:
        """Their bytes."""
        self._waiting()
        return self._order.size

    @property
    def first_time(self) -> int | None:
        """The buffer time of the update that goes on first; ``None`` if none waits."""
        waiting = self._waiting()
        return waiting[0][0] if waiting else None

    def get(self, key: bytes) -> Buffered | None:
        """The update of a key that waits."""
        found: Buffered | None = self._layers.read(key)[0]
        return found

    def put(self, key: bytes, update: Buffered) -> None:
        """A newer update of a key takes the place of the one that waits, and keeps its time and prior value."""
        waiting, order = self._waiting(), self._order
        before = self.get(key)
        if before is None:
            update = update._replace(prior=update.old)
            heappush(waiting, (update.time, key))
        else:
            update = update._replace(prior=before.prior, time=before.time)
            order.size -= before.size(key)
        order.size += update.size(key)
        self._write(key, update, NO_TIMESTAMP)

    def first(self) -> tuple[bytes, Buffered]:
        """The update that goes on first; there is one."""
        key = self._waiting()[0][1]
        return key, self._layers.read(key)[0]

    def remove_first(self) -> None:
        """It has gone on."""
        key, update = self.first()
        heappop(self._waiting())
        self._order.size -= update.size(key)
        self._write(key, None, NO_TIMESTAMP)

    def _waiting(self) -> list[tuple[int, bytes]]:
        waiting = self._order.waiting
        return self._order.load(self._layers) if waiting is None else waiting


@dataclass(frozen=True)
class SuppressionType:
    """The buffer of one ``suppress``."""

    name = "suppression"
    window_of = None
    keeps_timestamps = False

    @property
    def changelog_settings(self) -> Mapping[str, str]:
        return {}

    def format(self, value_serde: AnySerde) -> EntryFormat:
        return BufferedFormat()

    def layout(self) -> BufferOrder:
        return BufferOrder()

    def facade(self, parts: StoreParts) -> SuppressionBuffer:
        assert isinstance(parts.layout, BufferOrder)
        return SuppressionBuffer(parts, parts.layout)

    def view(self, layers: WriteBack, layout: Layout, format: EntryFormat, readers: Readers) -> StoreView | None:
        return None


SUPPRESSION = SuppressionType()
