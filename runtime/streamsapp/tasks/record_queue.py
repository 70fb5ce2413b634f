"""The decompressed input buffer of one partition of one task, and how its records are read.

The polling thread appends batches (``add``), the processing thread that holds the task takes records out, in C
(``native/push/input.c``). The buffer in between is a deque: two threads may use its two ends at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from streamsapp import native
from streamsapp.processor.operator import Push
from streamsapp.processor.timestamps import TimestampExtractor, fail_on_invalid_timestamp, whole_number
from streamsapp.record import InputRecord, TopicPartition
from streamsapp.serdes.api import AnySerde, identity
from streamsapp.serdes.windowed import MAX_TIMESTAMP
from streamsapp.tasks.failures import FailureHandling

#: Memory of a record beside its value: the message object and the broker's copy of key and headers.
_RECORD_OVERHEAD_BYTES = 400


class ProcessingControl:
    """One flag that every processing loop looks at before each record: set, they return at once. And how the task ends
    here, if it goes to another instance."""

    __slots__ = ("cut", "handed_over", "stop")

    def __init__(self) -> None:
        self.stop = False
        #: The number of the cut that the last commit carries, set by the polling thread once the task takes no more
        #: records; 0: there is none.
        self.cut = 0
        #: The cut was sent: from then on the task is its heir's, whatever became of the commit.
        self.handed_over = False


class RecordQueue:
    """One partition's buffer, bound to the source node that reads it."""

    def __init__(
        self,
        partition: TopicPartition,
        source: str,
        push: Push,
        key: AnySerde,
        value: AnySerde,
        extractor: TimestampExtractor,
        failures: FailureHandling,
    ) -> None:
        self.partition = partition
        self.source = source
        self._extractor = extractor
        self._failures = failures
        self._buffer: deque[InputRecord] = deque()
        #: The part of it that the loop in C has.
        self.input = native.Input(
            buffer=self._buffer,
            push=push,
            deserialize_key=_reading(key),
            deserialize_value=_reading(value),
            key_by_headers=key.id_header is not None,
            value_by_headers=value.id_header is not None,
            trusts_time=extractor is fail_on_invalid_timestamp,
            extract=self._extract,
            on_error=self._fail,
        )
        self._record_bytes = _RECORD_OVERHEAD_BYTES
        #: The consumer reported the end of the partition and nothing was added since.
        self.at_end = False

    def __len__(self) -> int:
        return len(self._buffer) + self.input.has_head

    @property
    def bytes(self) -> int:
        """Estimated memory of the buffered records."""
        return len(self._buffer) * self._record_bytes

    @property
    def position(self) -> int | None:
        """Offset of the next record to process; ``None`` until one was processed."""
        position = self.input.position
        return None if position < 0 else position

    @position.setter
    def position(self, offset: int | None) -> None:
        self.input.position = -1 if offset is None else offset

    @property
    def partition_time(self) -> int:
        """Highest timestamp processed in this partition; -1 before the first."""
        return self.input.partition_time

    @partition_time.setter
    def partition_time(self, timestamp: int) -> None:
        self.input.partition_time = timestamp

    def add(self, records: Sequence[InputRecord]) -> None:
        """Append a batch in offset order (polling thread)."""
        self.at_end = False
        self._record_bytes = _RECORD_OVERHEAD_BYTES + sum(map(len, records)) // len(records)
        self._buffer.extend(records)

    def clear(self) -> None:
        """Drop the buffered records."""
        self._buffer.clear()
        self.input.drop_head()

    def head_timestamp(self) -> int | None:
        """Timestamp of the next record, ``None`` when there is none. Drops records that can't be read on the way."""
        return self.input.find_head()

    def _fail(self, error: Exception, message: InputRecord) -> None:
        self._failures.deserialization(self.source, message, error)

    def _extract(self, message: InputRecord, key: Any, value: Any, partition_time: int) -> int:
        """Returns the time of a record, in milliseconds since 1970; -1 if it is to be dropped."""
        try:
            timestamp = whole_number(self._extractor(message, key, value, partition_time))
            if timestamp > MAX_TIMESTAMP:
                raise ValueError(f"the timestamp {timestamp} is later than any can be")
        except Exception as error:
            self._failures.extraction(self.source, message, error)
        if timestamp >= 0:
            return timestamp
        self._failures.log_invalid_timestamp(self.source, message, timestamp)
        return -1


def _reading(serde: AnySerde) -> Callable[..., Any] | None:
    """Returns the function that makes a key or value of bytes; it gets the headers, too, where these name the schema.
    Bytes that stay what they are need none."""
    if serde.id_header is not None:
        return serde.read
    return None if serde.deserialize is identity else serde.deserialize
