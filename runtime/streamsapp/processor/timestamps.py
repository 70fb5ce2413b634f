"""Timestamp extractors say at which time a record happened (KIP-32, Kafka Streams' ``TimestampExtractor``).

Called on a processing thread when a record becomes the head of its buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any, TypeAlias

from streamsapp.clock import SystemClock
from streamsapp.errors import StreamsError
from streamsapp.record import InputRecord

#: ``(record, key, value, partition_time_ms) -> timestamp_ms``; ``partition_time_ms`` is the highest timestamp seen
#: in the record's partition so far, -1 before the first. A negative result drops the record.
TimestampExtractor: TypeAlias = Callable[[InputRecord, Any, Any, int], int]


def whole_number(timestamp: Any) -> int:
    """Returns a timestamp as an ``int``: whole numbers of other types, as numpy's, are taken too. Raises ``TypeError``
    for all else."""
    try:
        return int(index(timestamp))
    except TypeError:
        given = type(timestamp).__name__
        raise TypeError(f"a timestamp is a whole number of milliseconds, and {given} is not") from None


def fail_on_invalid_timestamp(record: InputRecord, key: Any, value: Any, partition_time_ms: int) -> int:
    """Returns the record's own timestamp, in milliseconds; raises ``StreamsError`` for a negative one. This is the
    default."""
    timestamp = record.timestamp()[1]
    if timestamp < 0:
        raise StreamsError(
            f"record {record.topic()}-{record.partition()}@{record.offset()} has the invalid timestamp {timestamp}; "
            "it was written without one: set another timestamp extractor to skip or guess"
        )
    return timestamp


def log_and_skip_on_invalid_timestamp(record: InputRecord, key: Any, value: Any, partition_time_ms: int) -> int:
    """Returns the record's own timestamp; a record with a negative one is dropped (and counted as dropped)."""
    return record.timestamp()[1]


def use_partition_time_on_invalid_timestamp(record: InputRecord, key: Any, value: Any, partition_time_ms: int) -> int:
    """Returns the record's own timestamp, or the highest one seen in its partition if it is negative."""
    timestamp = record.timestamp()[1]
    if timestamp >= 0:
        return timestamp
    if partition_time_ms < 0:
        raise StreamsError(
            f"record {record.topic()}-{record.partition()}@{record.offset()} has an invalid timestamp "
            "and no earlier record of its partition to take one from"
        )
    return partition_time_ms


def wallclock_timestamp(record: InputRecord, key: Any, value: Any, partition_time_ms: int) -> int:
    """Returns the time at which the record is processed, in milliseconds."""
    return SystemClock().now_ms()
