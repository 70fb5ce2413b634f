"""The OffsetFetch request and its answer, written and read by hand: which offsets a group has committed.

Pure; used on the thread of a connection.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from typing import NamedTuple

from streamsapp.brokers.bounds import check_told
from streamsapp.brokers.encoding import INT16, INT32, NO_TAGS, Reader, encoded_count, encoded_text
from streamsapp.brokers.request_by_hand import RequestByHand
from streamsapp.record import TopicPartition

_FETCHED = struct.Struct(">iq")


class FetchedOffset(NamedTuple):
    """The committed offset of one partition; -1 if the group has none."""

    name: TopicPartition
    offset: int
    metadata: str
    error_code: int


class OffsetFetchAnswer(NamedTuple):
    """The broker's answer."""

    error_code: int
    offsets: list[FetchedOffset]


class OffsetFetchRequest(RequestByHand[OffsetFetchAnswer]):
    """Asks which offsets a group has committed. Metadata may be anything if another program committed it."""

    name, API_KEY, first_compact = "OffsetFetchRequest", 9, 6
    _with_throttle, _with_epoch, _with_stable = 3, 5, 7

    def __init__(self, group: str, partitions: Collection[TopicPartition], *, stable: bool) -> None:
        """``stable``: waits for the offsets of open transactions (KIP-447)."""
        super().__init__((2, 7))
        self._group, self._partitions, self._stable = group, partitions, stable

    def parts(self, version: int, *, compact: bool) -> Iterator[bytes]:
        by_topic: dict[str, list[int]] = {}
        for topic, number in self._partitions:
            by_topic.setdefault(topic, []).append(number)
        yield encoded_text(self._group, compact=compact)
        yield encoded_count(len(by_topic), compact=compact)
        for topic, numbers in by_topic.items():
            yield encoded_text(topic, compact=compact)
            yield encoded_count(len(numbers), compact=compact)
            yield b"".join(map(INT32.pack, numbers))
            yield NO_TAGS if compact else b""
        if version >= self._with_stable:
            yield b"\1" if self._stable else b"\0"

    def read(self, reader: Reader, version: int) -> OffsetFetchAnswer:
        if version >= self._with_throttle:
            reader.read(INT32)
        found: list[FetchedOffset] = []
        for _ in range(reader.count()):
            topic = reader.text()
            for _ in range(reader.count()):
                number, offset = reader.read(_FETCHED)
                if version >= self._with_epoch:
                    reader.read(INT32)
                metadata = reader.text_or_none("replace") or ""
                (code,) = reader.read(INT16)
                reader.skip_tags()
                # librdkafka ends metadata with a zero, as C does.
                found.append(FetchedOffset(TopicPartition(topic, number), offset, metadata.removesuffix("\0"), code))
            reader.skip_tags()
        (code,) = reader.read(INT16)
        reader.skip_tags()
        if not code:
            check_told("OffsetFetch", list(self._partitions), [each.name for each in found])
        return OffsetFetchAnswer(code, found)
