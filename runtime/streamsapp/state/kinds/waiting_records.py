"""The store of ``map_async``: records that wait for their answers, and answers that wait for an earlier one.

Made with the task; used on the processing thread that holds it. Keys are numbers (8 bytes), in the order in which the
records came; values are arrays of MessagePack. The store is read once, when the task starts: the operator has what it
wrote since. A record that is answered before the next commit leaves no trace in the changelog.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from struct import Struct
from sys import getsizeof
from types import MappingProxyType

import msgspec

from streamsapp.errors import StateStoreError
from streamsapp.record import Headers, InputRecord, RawRecord
from streamsapp.serdes.api import AnySerde, Serde
from streamsapp.state.engine.entries import EntryFormat, PlainFormat, headers_size
from streamsapp.state.kinds.facade import Facade
from streamsapp.state.kinds.store_type import Layout, PlainLayout, StoreParts
from streamsapp.state.layers.views import Readers, StoreView
from streamsapp.state.layers.write_back import WriteBack
from streamsapp.structs import decoder

_NUMBER = Struct(">Q")


class WaitingRecord(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A record that waits, with all that is needed to call for it again, or to give it up."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: list[tuple[str, bytes | None]]
    #: The place of the record that was in process; the topic is ``None`` if none was.
    topic: str | None
    partition: int
    offset: int
    #: Key and value of that record; ``None`` if they are those above.
    source: tuple[bytes | None, bytes | None] | None
    answered: bool = False
    answer: bytes | None = None

    def __sizeof__(self) -> int:
        parts = (self.key, self.value, self.answer, *(self.source or ()))
        return object.__sizeof__(self) + sum(map(getsizeof, parts)) + headers_size(self.headers)

    @property
    def record(self) -> InputRecord | None:
        """The record that was in process when this one came."""
        if self.topic is None:
            return None
        key, value = self.source or (self.key, self.value)
        return RawRecord(self.topic, self.partition, self.offset, key, value, self.timestamp, self.headers or None)

    def with_answer(self, answer: bytes | None) -> WaitingRecord:
        """The same with its answer, as bytes."""
        return msgspec.structs.replace(self, answered=True, answer=answer)


def waiting_record(
    key: bytes | None, value: bytes | None, timestamp: int, headers: Headers | None, record: InputRecord | None
) -> WaitingRecord:
    """Makes one of a record and of the one in process."""
    if record is None:
        return WaitingRecord(key, value, timestamp, headers or [], None, -1, -1, None)
    place = record.topic(), record.partition(), record.offset()
    source = record.key(), record.value()
    return WaitingRecord(key, value, timestamp, headers or [], *place, None if source == (key, value) else source)


_encode = msgspec.msgpack.Encoder().encode
_SERDE: Serde[WaitingRecord] = Serde(_encode, decoder(WaitingRecord, "msgpack"), immutable=True, name="waiting records")


class WaitingRecordsLayout(PlainLayout):
    """Counts the records that wait."""

    takes_cells = False

    def __init__(self) -> None:
        self.waiting = 0

    def stand_at(self, facts: bytes | None) -> None:
        self.waiting = 0

    def statistics(self) -> Mapping[str, int]:
        return {"waiting_records": self.waiting}


class WaitingRecords(Facade):
    """Records by number. Each is added once, may be given its answer, and is removed."""

    def __init__(self, parts: StoreParts, layout: WaitingRecordsLayout) -> None:
        super().__init__(parts)
        self._layout = layout
        self._next = 0
        #: The epoch in which each record was added.
        self._epochs: dict[int, int] = {}

    def load(self) -> Iterator[tuple[int, WaitingRecord]]:
        """Yields the records that wait, in their order; to be taken whole before any is added."""
        try:
            for key, (waiting, _) in self._layers.scan(b"", None, reverse=False):
                number = _NUMBER.unpack(key)[0]
                self._next, self._epochs[number] = number + 1, -1
                self._layout.waiting += 1
                yield number, waiting
        except (msgspec.MsgspecError, ValueError) as error:
            raise StateStoreError(
                f"the state store {self._name!r} has an entry that is not a record which waits for an answer: {error}; "
                "reset the application if another program has written its changelog"
            ) from error

    def add(self, waiting: WaitingRecord) -> int:
        """Adds a record behind all others, and returns its number."""
        number = self._next
        self._next += 1
        self._epochs[number] = self._layers.epoch
        self._layout.waiting += 1
        self._append(number, waiting, waiting.timestamp)
        return number

    def answer(self, number: int, waiting: WaitingRecord) -> None:
        """Puts a record with its answer in the place of the one without."""
        self._append(number, waiting, waiting.timestamp)

    def remove(self, number: int, timestamp: int) -> None:
        """Removes a record: its result goes on, or it was given up."""
        self._layout.waiting -= 1
        if self._epochs.pop(number) == self._layers.epoch:
            self._layers.forget(_NUMBER.pack(number))
        else:
            self._append(number, None, timestamp)

    def _append(self, number: int, waiting: WaitingRecord | None, timestamp: int) -> None:
        # Past the cache: no entry is ever read by its key.
        self._layers.append(_NUMBER.pack(number), (waiting, timestamp))


@dataclass(frozen=True)
class WaitingRecordsType:
    """The type of the store; the changelog is compacted."""

    name = "waiting_records"
    window_of = None
    keeps_timestamps = False
    changelog_settings = MappingProxyType[str, str]({})

    def format(self, value_serde: AnySerde) -> EntryFormat:
        return PlainFormat(_SERDE)

    def layout(self) -> WaitingRecordsLayout:
        return WaitingRecordsLayout()

    def facade(self, parts: StoreParts) -> WaitingRecords:
        assert isinstance(parts.layout, WaitingRecordsLayout)
        return WaitingRecords(parts, parts.layout)

    def view(self, layers: WriteBack, layout: Layout, format: EntryFormat, readers: Readers) -> StoreView | None:
        return None


WAITING_RECORDS = WaitingRecordsType()
