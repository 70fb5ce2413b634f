"""Batches that a broker refuses, divided until the records that are at fault are known. Pure; the sender's thread."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from streamsapp import native
from streamsapp.kafka.producing.partitions import RecordBatch
from streamsapp.kafka.producing.wire import Name
from streamsapp.record import InputRecord, RawRecord

#: There is room for all records of a batch.
_ROOM = 2**31 - 1


def records_of(batch: RecordBatch) -> list[InputRecord]:
    """The records of a batch, which is neither compressed nor has a checksum yet."""
    chunk = native.Chunk(
        topic="", partition=0, data=batch.data, position=0, aborted=[], decompress=_compressed, unchecked=True
    )
    return chunk.take(batch.count)


def _compressed(codec: int, data: bytes) -> ValueError:
    return ValueError(f"a batch that waits is compressed ({codec})")


def divided(count: int, named: Collection[int]) -> tuple[list[int], list[list[int]]]:
    """The records of ``count`` that are refused for good, and the parts in which the others are sent again, in order.

    A broker may name the records at fault (KIP-467). Else each half is tried by itself, and a record alone is at fault.
    """
    at_fault = sorted(place for place in set(named) if 0 <= place < count)
    if not at_fault and count == 1:
        at_fault = [0]
    refused = set(at_fault)
    kept = [place for place in range(count) if place not in refused]
    if at_fault:
        return at_fault, [kept] if kept else []
    half = count // 2
    return [], [kept[:half], kept[half:]]


def batch_of(records: Sequence[InputRecord], since: float) -> RecordBatch:
    """Records that were taken out of a batch as one of their own; the first of them waits ``since`` then."""
    outbox = native.Outbox(batch_size=_ROOM, most=_ROOM)
    outbox.add_topic("", 1)
    given = [("", it.value(), it.key(), 0, None, None, it.timestamp()[1], it.headers() or None) for it in records]
    added = outbox.add(records=given, begin=0, room=_ROOM + 1)
    assert added == (len(given), native.Why.TAKEN)
    taken = outbox.take("", 0)
    assert taken is not None
    assert taken.data is not None
    return RecordBatch(taken.data, taken.record_count, since)


def raw(name: Name, record: InputRecord) -> RawRecord:
    """A record of a batch, as messages describe it."""
    return RawRecord(*name, -1, record.key(), record.value(), record.timestamp()[1], record.headers() or None)
