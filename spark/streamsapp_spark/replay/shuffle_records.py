"""Packs the records of internal topics for their way from one stage to the next: many in a row, and in their reader's
order again.

Used in Spark's Python workers. A row of Spark's costs as much as processing a record does, so one carries many. Each
writer's rows come in its own order, each under the time of its first record: what comes before the next row's is known
to be complete.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

import msgspec
from msgspec import Struct

from streamsapp.record import Headers, TopicPartition

#: Records that a reader brings into order at a time.
_ORDERED = 2_000
_NOWHERE = TopicPartition("", -1)

#: Time, key, value, timestamp, headers. Time is the highest timestamp that its writer had written to the topic so far:
#: a writer's own order must hold, whatever timestamps its records have.
PackedRecord = tuple[int, bytes | None, bytes | None, int, Headers | None]


class StageRecord(Struct, array_like=True, gc=False):
    """An :class:`~streamsapp.record.InputRecord` of an internal topic."""

    time: int
    key_bytes: bytes | None
    value_bytes: bytes | None
    timestamp_ms: int
    header_list: list[tuple[str, bytes | None]] | None
    #: Given by the reader.
    of: TopicPartition = _NOWHERE
    number: int = -1

    def topic(self) -> str:
        return self.of.topic

    def partition(self) -> int:
        return self.of.partition

    def offset(self) -> int:
        return self.number

    def key(self) -> bytes | None:
        return self.key_bytes

    def value(self) -> bytes | None:
        return self.value_bytes

    def timestamp(self) -> tuple[int, int]:
        return 1, self.timestamp_ms

    def headers(self) -> Headers | None:
        return self.header_list

    def __len__(self) -> int:
        return len(self.value_bytes or b"")


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[StageRecord]).decode
_time = attrgetter("time")


def pack(records: list[PackedRecord]) -> bytes:
    """Packs records into a row."""
    return _encode(records)


class Packed(NamedTuple):
    """A row: records of one writer, from this time on."""

    time: int
    writer: int
    records: bytes


def in_order(rows: Iterable[Packed], of: TopicPartition, first: int = 0) -> Iterator[Sequence[StageRecord]]:
    """Yields the records of one partition by time, writer and the writer's own order, with offsets from ``first`` on.
    The rows come by time and writer."""
    waiting: dict[int, list[StageRecord]] = {}
    gathered, offset = 0, first
    for row in rows:
        if gathered >= _ORDERED and (ready := _before(row, waiting)):
            yield _numbered(ready, of, offset)
            offset += len(ready)
            gathered = 0
        records = _decode(row.records)
        gathered += len(records)
        waiting.setdefault(row.writer, []).extend(records)
    if rest := _sorted(waiting[writer] for writer in sorted(waiting)):
        yield _numbered(rest, of, offset)


def _before(row: Packed, waiting: dict[int, list[StageRecord]]) -> list[StageRecord]:
    """Takes the records that come before a row, in order."""
    ready = []
    for writer in sorted(waiting):
        records = waiting[writer]
        if writer == row.writer:
            end = len(records)
        else:  # at the same time the lower number goes first
            end = (bisect_right if writer < row.writer else bisect_left)(records, row.time, key=_time)
        ready.append(records[:end])
        del records[:end]
    return _sorted(ready)


def _sorted(by_writer: Iterable[list[StageRecord]]) -> list[StageRecord]:
    """Returns the writers' records, given by writer, by time; sorting leaves those of one time in their order."""
    records = [record for of_writer in by_writer for record in of_writer]
    records.sort(key=_time)
    return records


def _numbered(records: list[StageRecord], of: TopicPartition, first: int) -> list[StageRecord]:
    for number, record in enumerate(records, first):
        record.of = of
        record.number = number
    return records
