"""The metadata of a committed offset, as Kafka Streams reads and writes it, so that time does not run backwards when a
task moves; and after that the topic that the offset belongs to, so that an offset is not used in another one.

The polling thread writes it with every commit and reads it when a task starts. The string is Base64 of
``02 ‖ partition time ‖ [count ‖ (length ‖ key ‖ value)… ‖ [01 ‖ topic id ‖ cluster id]]``; version 1 has the partition
time only. Kafka Streams reads as many entries as are counted, and ignores what follows them. The cut of a hand-over is
an entry, as earlier versions of this program take all that follows the topic's id for the cluster's.
"""

from __future__ import annotations

import base64
import binascii
import logging
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from streamsapp.record import UNKNOWN_TOPIC, TopicIdentity

_log = logging.getLogger(__name__)

UNKNOWN_TIME = -1

_HEAD = struct.Struct(">bq")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_TIME_ONLY, _LATEST = 1, 2
#: Before the topic, whose id has so many bytes.
_TOPIC, _ID_BYTES = b"\1", 16
#: The key of the entry that is the cut.
_CUT = "streamsapp.cut"


@dataclass(frozen=True)
class OffsetMetadata:
    """Highest timestamp seen in the partition (-1: unknown), what processors want kept, the topic, and the number of
    the cut if this is an owner's last commit (``membership.cut``)."""

    partition_time: int = UNKNOWN_TIME
    processor_metadata: Mapping[str, int] = field(default_factory=dict)
    topic: TopicIdentity = UNKNOWN_TOPIC
    cut: int = 0

    def encode(self) -> str:
        """The string to commit."""
        parts = [_HEAD.pack(_LATEST, self.partition_time)]
        entries = {**self.processor_metadata, _CUT: self.cut} if self.cut else self.processor_metadata
        if entries or self.topic.topic_id:
            parts.append(_INT.pack(len(entries)))
        for key, value in entries.items():
            encoded = key.encode()
            parts += (_INT.pack(len(encoded)), encoded, _LONG.pack(value))
        if self.topic.topic_id:
            parts += (_TOPIC, self.topic.id_bytes, self.topic.cluster_id.encode())
        return base64.b64encode(b"".join(parts)).decode()

    @classmethod
    def decode(cls, text: str | None) -> OffsetMetadata:
        """Read a committed string; what cannot be read is unknown, since another program may have committed it."""
        if not text:
            return cls()
        try:
            data = base64.b64decode(text, validate=True)
            version, partition_time = _HEAD.unpack_from(data)
        except (binascii.Error, struct.error, ValueError):
            _log.warning("the committed offset's metadata %.100r was not written by a streams application", text)
            return cls()
        if version == _TIME_ONLY:
            return cls(partition_time)
        if version != _LATEST:
            _log.warning("the committed offset's metadata has version %d, known are 1 and 2", version)
            return cls()
        entries, topic = _after_time(data[_HEAD.size :])
        cut = entries.pop(_CUT, 0)
        return cls(partition_time, entries, topic, cut)


def _after_time(data: bytes) -> tuple[dict[str, int], TopicIdentity]:
    if not data:
        return {}, UNKNOWN_TOPIC
    metadata: dict[str, int] = {}
    at = _INT.size
    try:
        for _ in range(_INT.unpack_from(data)[0]):
            start = at + _INT.size
            size = _INT.unpack_from(data, at)[0]
            if size < 0:
                raise ValueError(f"a key of {size} bytes")
            end = start + size
            metadata[data[start:end].decode()] = _LONG.unpack_from(data, end)[0]
            at = end + _LONG.size
    except (struct.error, ValueError):
        _log.warning("the committed offset's metadata is damaged; only its partition time is used")
        return {}, UNKNOWN_TOPIC
    return metadata, _topic(data[at:])


def _topic(data: bytes) -> TopicIdentity:
    """Other programs may have written anything there."""
    if not data.startswith(_TOPIC) or len(data) <= _ID_BYTES:
        return UNKNOWN_TOPIC
    topic_id, cluster_id = data[1 : 1 + _ID_BYTES], data[1 + _ID_BYTES :]
    return TopicIdentity.of(topic_id, cluster_id.decode(errors="replace"))
