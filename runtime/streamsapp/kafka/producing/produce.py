"""The Produce request and its answer, written and read by hand: it is asked for more often than anything else but
Fetch.

Pure; used on the thread of the connection. Versions 3 to 9, as brokers know them; or 12, whose records admit their
partitions to the transaction (KIP-890). Later ones mean something else (KIP-516).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from streamsapp.brokers.bounds import check_told
from streamsapp.brokers.encoding import INT32, NO_TAGS, Reader, compact_count, encoded_text
from streamsapp.brokers.request_by_hand import RequestByHand
from streamsapp.kafka.producing.wire import Name

#: The least and the greatest version, for producers that admit partitions first, and for records that do so.
_EXPLICIT, _IMPLICIT = (3, 9), (12, 12)
_ACKS = struct.Struct(">hi")
#: Of a partition in an answer: number, error, the offset of the first record, and fields that are not used.
_ANSWERED, _ANSWERED_BEFORE_5 = struct.Struct(">ihqqq"), struct.Struct(">ihqq")
_ALL_IN_SYNC = -1
#: The end of a compact answer for a partition that has no reasons and no tags, as nearly all.
_NO_REASONS = b"\1\0\0"
#: Characters of a reason that are kept.
_WORDS = 500


class ProduceRequest(RequestByHand["ProduceAnswer"]):
    """Record batches to be written, one per partition at most; answered when all replicas in sync have them."""

    name, API_KEY, first_compact = "ProduceRequest", 0, 9

    def __init__(
        self,
        transactional_id: str | None,
        batches: Iterable[tuple[Name, bytes]],
        timeout: float,
        *,
        implicit: bool = False,
    ) -> None:
        """``implicit``: they admit their partitions."""
        super().__init__(_IMPLICIT if implicit else _EXPLICIT)
        self._transactional_id = transactional_id
        self._timeout_ms = round(timeout * 1000)
        self._by_topic: dict[str, list[tuple[int, bytes]]] = {}
        for (topic, partition), data in batches:
            self._by_topic.setdefault(topic, []).append((partition, data))

    def parts(self, version: int, *, compact: bool) -> list[bytes]:
        tags, count = (NO_TAGS, compact_count) if compact else (b"", INT32.pack)
        parts = [
            encoded_text(self._transactional_id, compact=compact),
            _ACKS.pack(_ALL_IN_SYNC, self._timeout_ms),
            count(len(self._by_topic)),
        ]
        for topic, partitions in self._by_topic.items():
            parts += encoded_text(topic, compact=compact), count(len(partitions))
            for number, data in partitions:
                parts += INT32.pack(number), count(len(data)), data, tags
            parts.append(tags)
        return parts

    def read(self, reader: Reader, version: int) -> ProduceAnswer:
        codes, offsets, told = dict[Name, int](), dict[Name, int](), list[Name]()
        reasons = dict[Name, Reasons]()
        for _ in range(reader.count()):
            topic = reader.text()
            for _ in range(reader.count()):
                number, code, offset, *_ = reader.read(_ANSWERED_BEFORE_5 if version < 5 else _ANSWERED)
                codes[topic, number], offsets[topic, number] = code, offset
                told.append((topic, number))
                if version >= 9 and reader.skip(_NO_REASONS):
                    continue
                if version >= 8:
                    found = _reasons(reader)
                    if code:
                        reasons[topic, number] = found
                reader.skip_tags()
            reader.skip_tags()
        (throttled,) = reader.read(INT32)
        reader.skip_tags()
        asked = [(topic, number) for topic, batches in self._by_topic.items() for number, _ in batches]
        check_told("Produce", asked, told)
        return ProduceAnswer(codes, throttled, offsets, reasons)


class Reasons(NamedTuple):
    """The reasons why a broker refuses a batch, in its words: of the batch, and of single records by their place in it
    (KIP-467). Both may be empty."""

    text: str
    records: Mapping[int, str]

    def of(self, place: int) -> str:
        """Of the record at a place."""
        return self.records.get(place) or self.text


NO_REASONS = Reasons("", {})


class ProduceAnswer(NamedTuple):
    """Each partition's error code and the offset of the first record there, which is -1 if the broker does not say.
    Also for how long the broker is to be left alone, and why it refused records."""

    codes: Mapping[Name, int]
    throttle_time_ms: int
    offsets: Mapping[Name, int]
    reasons: Mapping[Name, Reasons]


def _reasons(reader: Reader) -> Reasons:
    """The reasons of single records, and of the batch (KIP-467)."""
    records = {}
    for _ in range(reader.count()):
        (place,) = reader.read(INT32)
        records[place] = _readable(reader.text_or_none("replace"))
        reader.skip_tags()
    return Reasons(_readable(reader.text_or_none("replace")), records)


def _readable(text: str | None) -> str:
    """A broker's words, which are shown to people: not too many, and nothing else than words."""
    words = (text or "")[:_WORDS]
    return words if words.isprintable() else "".join(each if each.isprintable() else " " for each in words)
