"""Looks whether partitions have a record from an offset on: control records at their end do not count.

Used by drivers, readers and commands, on the thread that the consumer belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamsapp.clock import Clock
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.kafka.fetching.fetched import Fetched
from streamsapp.record import TopicPartition

#: Records of one answer, and the time that one answer and all of them may take, in seconds.
_RECORDS, _WAIT, _PATIENCE = 100, 0.1, 10.0


@dataclass
class FirstRecords:
    """The partitions that the broker answered for in time; nothing is known of the others."""

    #: Offset of the first record from the given offset on.
    found: dict[TopicPartition, int] = field(default_factory=dict)
    #: The end of partitions without such a record.
    ends: dict[TopicPartition, int] = field(default_factory=dict)


def first_records(consumer: PartitionConsumer, starts: Mapping[TopicPartition, int], clock: Clock) -> FirstRecords:
    """Look from these offsets on; the consumer has nothing else assigned. A partition whose offset the broker no longer
    has is in neither."""
    waiting, first = set(starts), FirstRecords()
    consumer.assign(starts)
    give_up = clock.monotonic() + _PATIENCE
    while waiting and clock.monotonic() < give_up:
        fetched = consumer.poll(_RECORDS, _WAIT)
        for partition, records in fetched.records:
            first.found.setdefault(partition, records[0].offset())
        first.ends |= {each: end for each, end in ends_without_records(fetched).items() if each not in first.found}
        seen = [*fetched.ends, *fetched.out_of_range, *(partition for partition, _ in fetched.records)]
        consumer.pause(waiting.intersection(seen))  # a partition with much more would keep the others waiting
        waiting.difference_update(seen)
    consumer.unassign(starts)
    return first


def ends_without_records(fetched: Fetched) -> dict[TopicPartition, int]:
    """The partitions that had only control records before their end, with the end. One answer may have records and then
    the end: these are work, and are not passed over."""
    with_records = {partition for partition, _ in fetched.records}
    return {partition: end for partition, end in fetched.ends.items() if partition not in with_records}
