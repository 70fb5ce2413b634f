"""A raw record that did not come from a broker; for tests and tools that feed tasks themselves."""

from __future__ import annotations

from dataclasses import dataclass

from streamsapp.record import Headers

#: Kafka's code for "the producer set the time".
_CREATE_TIME = 1


@dataclass(frozen=True, slots=True)
class RawRecord:
    """An :class:`~streamsapp.record.InputRecord` made from plain values."""

    topic_name: str
    partition_number: int
    record_offset: int
    key_bytes: bytes | None
    value_bytes: bytes | None
    timestamp_ms: int
    header_list: Headers | None = None

    def topic(self) -> str:
        return self.topic_name

    def partition(self) -> int:
        return self.partition_number

    def offset(self) -> int:
        return self.record_offset

    def key(self) -> bytes | None:
        return self.key_bytes

    def value(self) -> bytes | None:
        return self.value_bytes

    def timestamp(self) -> tuple[int, int]:
        return (_CREATE_TIME, self.timestamp_ms)

    def headers(self) -> Headers | None:
        return self.header_list

    def __len__(self) -> int:
        return len(self.value_bytes or b"")
