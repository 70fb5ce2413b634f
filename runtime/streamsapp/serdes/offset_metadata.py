"""The metadata of a committed offset, as Kafka Streams writes it, so that time does not run backwards when a task
moves.

The polling thread writes it with every commit and reads it when a task starts. The string is Base64 of
``02 ‖ partition time ‖ [count ‖ (length ‖ key ‖ value)…]``; version 1 has the partition time only.
"""

from __future__ import annotations

import base64
import binascii
import logging
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

_log = logging.getLogger(__name__)

UNKNOWN_TIME = -1

_HEAD = struct.Struct(">bq")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_TIME_ONLY, _LATEST = 1, 2


@dataclass(frozen=True)
class OffsetMetadata:
    """Highest timestamp seen in the partition (-1: unknown), and what processors want kept."""

    partition_time: int = UNKNOWN_TIME
    processor_metadata: Mapping[str, int] = field(default_factory=dict)

    def encode(self) -> str:
        """The string to commit."""
        parts = [_HEAD.pack(_LATEST, self.partition_time)]
        if self.processor_metadata:
            parts.append(_INT.pack(len(self.processor_metadata)))
        for key, value in self.processor_metadata.items():
            encoded = key.encode()
            parts += (_INT.pack(len(encoded)), encoded, _LONG.pack(value))
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
        return cls(partition_time, _processor_metadata(data[_HEAD.size :]))


def _processor_metadata(data: bytes) -> dict[str, int]:
    if not data:
        return {}
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
        return {}
    return metadata
