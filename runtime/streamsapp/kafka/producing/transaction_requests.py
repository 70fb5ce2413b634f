"""The two requests that end a transaction, and their answers, written and read by hand: exactly once each commit asks
for both.

Pure; used on the thread of the connection. The greatest version of each is fixed: a newer one may mean something else.
If records admit their partitions to the transaction (KIP-890), only the versions that say so are used.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from streamsapp.brokers.bounds import WrongAnswerError, check_told
from streamsapp.brokers.encoding import INT16, INT32, NO_TAGS, Reader, encoded_count, encoded_text
from streamsapp.brokers.request_by_hand import RequestByHand
from streamsapp.kafka.group_member import Member
from streamsapp.kafka.producing.wire import Producer
from streamsapp.record import TopicPartition

_PRODUCER, _OFFSET, _ANSWERED = struct.Struct(">qh"), struct.Struct(">iqi"), struct.Struct(">ih")
_UNKNOWN_EPOCH = -1
_IMPLICIT = (5, 5)


class TxnOffsetCommitRequest(RequestByHand["TxnOffsetCommitAnswer"]):
    """A member's offsets become part of a transaction."""

    name, API_KEY, first_compact = "TxnOffsetCommitRequest", 28, 3
    #: Older versions do not name the member: nothing would be fenced (KIP-447).
    _explicit = (3, 4)

    def __init__(
        self,
        transactional_id: str,
        producer: Producer,
        member: Member,
        offsets: Mapping[TopicPartition, tuple[int, str]],
        *,
        implicit: bool,
    ) -> None:
        """``offsets``: each with its metadata. ``implicit``: they admit their group."""
        super().__init__(_IMPLICIT if implicit else self._explicit)
        self._transactional_id = transactional_id
        self._producer = producer
        self._member = member
        self._by_topic: dict[str, list[tuple[int, int, str]]] = {}
        for (topic, partition), (offset, metadata) in offsets.items():
            self._by_topic.setdefault(topic, []).append((partition, offset, metadata))

    def parts(self, version: int, *, compact: bool) -> list[bytes]:
        member = self._member
        parts = [
            encoded_text(self._transactional_id, compact=compact),
            encoded_text(member.group_id, compact=compact),
            _PRODUCER.pack(*self._producer),
            INT32.pack(member.generation),
            encoded_text(member.member_id, compact=compact),
            encoded_text(member.instance_id, compact=compact),
            encoded_count(len(self._by_topic), compact=compact),
        ]
        for topic, partitions in self._by_topic.items():
            parts += encoded_text(topic, compact=compact), encoded_count(len(partitions), compact=compact)
            for number, offset, metadata in partitions:
                parts += _OFFSET.pack(number, offset, _UNKNOWN_EPOCH), encoded_text(metadata, compact=compact), NO_TAGS
            parts.append(NO_TAGS)
        return parts

    def read(self, reader: Reader, version: int) -> TxnOffsetCommitAnswer:
        codes, told = list[int](), list[tuple[str, int]]()
        (throttled,) = reader.read(INT32)
        for _ in range(reader.count()):
            topic = reader.text()
            for _ in range(reader.count()):
                number, code = reader.read(_ANSWERED)
                told.append((topic, number))
                codes.append(code)
                reader.skip_tags()
            reader.skip_tags()
        reader.skip_tags()
        asked = [(topic, number) for topic, partitions in self._by_topic.items() for number, *_ in partitions]
        check_told("TxnOffsetCommit", asked, told)
        return TxnOffsetCommitAnswer(codes, throttled)


class TxnOffsetCommitAnswer(NamedTuple):
    """The error code of each partition, and for how long the broker is to be left alone."""

    codes: list[int]
    throttle_time_ms: int


class EndTxnRequest(RequestByHand["EndTxnAnswer"]):
    """A transaction is committed, or not."""

    name, API_KEY, first_compact = "EndTxnRequest", 26, 3
    _explicit = (0, 4)

    def __init__(self, transactional_id: str, producer: Producer, *, committed: bool, implicit: bool) -> None:
        """``implicit``: the answer has the epoch of the next transaction."""
        super().__init__(_IMPLICIT if implicit else self._explicit)
        self._transactional_id = transactional_id
        self._producer = producer
        self._committed = committed

    def parts(self, version: int, *, compact: bool) -> Iterator[bytes]:
        yield encoded_text(self._transactional_id, compact=compact)
        yield _PRODUCER.pack(*self._producer)
        yield b"\1" if self._committed else b"\0"

    def read(self, reader: Reader, version: int) -> EndTxnAnswer:
        (throttled,), (code,) = reader.read(INT32), reader.read(INT16)
        next_one = Producer(*reader.read(_PRODUCER)) if version >= _IMPLICIT[0] else None
        reader.skip_tags()
        if next_one is not None and not code and min(next_one) < 0:
            raise WrongAnswerError(f"the answer to EndTxn has an impossible producer id: {next_one}")
        return EndTxnAnswer(code, next_one, throttled)


class EndTxnAnswer(NamedTuple):
    """The error code, the producer of the next transaction where that is another one, and for how long the broker is to
    be left alone."""

    error_code: int
    producer: Producer | None
    throttle_time_ms: int
