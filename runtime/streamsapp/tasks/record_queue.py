"""The decompressed input buffer of one partition of one task, and how its records are read.

The polling thread appends batches (``add``), the processing thread that holds the task takes records out, in C
(``native/push/input.c``). The buffer in between is a deque: two threads may use its two ends at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from streamsapp import native
from streamsapp.clock import Clock
from streamsapp.processor.operator import Push
from streamsapp.processor.timestamps import TimestampExtractor, fail_on_invalid_timestamp, whole_number
from streamsapp.record import InputRecord, TopicPartition
from streamsapp.serdes.api import AnySerde, identity
from streamsapp.serdes.windowed import MAX_TIMESTAMP
from streamsapp.tasks.failures import FailureHandling
from streamsapp.tasks.time_markers import TimeMarker, ToldTime, told_by

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

    #: Is called with a time marker when its turn comes; ``None``: there are none.
    _apply: Callable[[native.TimeMarker], object] | None = None

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
        #: Records have the times that the broker has.
        self.trusts_time = extractor is fail_on_invalid_timestamp
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
            trusts_time=self.trusts_time,
            extract=self._extract,
            on_error=self._fail,
            apply=self._apply,
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
        self._append(records)

    def _append(self, records: Sequence[InputRecord]) -> None:
        self._buffer.extend(records)

    def reach_end(self, end: int | None) -> None:
        """The partition has no more records; the next one has this offset, or a later one (polling thread)."""
        self.at_end = True

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


class TimedQueue(RecordQueue):
    """A buffer whose partition's time moves on without records, too: it has time markers among them.

    Markers that were recorded are put where they belong when the records are added again. The polling thread adds
    others where a partition is silent.
    """

    def __init__(self, clock: Clock, apply: Callable[[TimedQueue, TimeMarker | ToldTime, int], None], **queue: Any):
        """``apply`` is called on the processing thread with a marker, or what a record at this offset has told."""
        self._clock = clock
        self._apply = lambda marker: apply(self, *marker.data)
        super().__init__(**queue)
        #: Recorded markers that are still to be applied, in order.
        self.recorded: deque[TimeMarker] = deque()
        #: Says whether records may tell the time, as those of repartition topics do.
        self.is_told = False
        #: The end of the partition as the consumer reported it last: the offset that the next record has, or an earlier
        #: one; and the offset after the records that were added, ``None`` if none was.
        self.end: int | None = None
        self.next_offset: int | None = None
        #: The id of the topic that the position belongs to; empty if it is not known.
        self.topic_id = b""
        #: The offset of the first record that the broker has, as far as it is known.
        self.first_offset = 0
        #: Since when the partition has had no more records, in monotonic seconds; ``None``: it may have.
        self.silent_since: float | None = None
        #: The offset at the last marker of an idle input.
        self.idle_at: int | None = None

    @property
    def at_end(self) -> bool:
        return self.silent_since is not None

    @at_end.setter
    def at_end(self, at_end: bool) -> None:
        if at_end and self.silent_since is None:
            self.silent_since = self._clock.monotonic()
        elif not at_end:
            self.silent_since = None

    @property
    def place(self) -> int:
        """The offset of the next record that is added, or an earlier one that no record has."""
        return self.next_offset if self.next_offset is not None else self.position or 0

    @property
    def is_idle(self) -> bool:
        """True if it has nothing that waits for a later time, and no record came since."""
        return self.idle_at is not None and self.idle_at == (self.position or 0)

    def add(self, records: Sequence[InputRecord]) -> None:
        self.next_offset = records[-1].offset() + 1
        super().add(records)

    def _append(self, records: Sequence[InputRecord]) -> None:
        if not (self.recorded or self.is_told):
            super()._append(records)
            return
        for record in records:
            self._add_recorded(record.offset())
            told = told_by(record) if self.is_told else None
            self._buffer.append(record if told is None else _marked(told, record.offset()))

    def add_marker(self, marker: TimeMarker) -> None:
        """Append a marker behind all records that were added (polling thread)."""
        self._buffer.append(_marked(marker, marker.offset))

    def reach_end(self, end: int | None) -> None:
        super().reach_end(end)
        self.end = end
        self._add_recorded(self.place)  # those that stand behind the last record

    def _add_recorded(self, offset: int) -> None:
        while self.recorded and self.recorded[0].offset <= offset:
            self.add_marker(self.recorded.popleft())


def _marked(what: TimeMarker | ToldTime, offset: int) -> Any:
    return native.TimeMarker(timestamp=max(what.time, 0), data=(what, offset))
