"""A fetcher delivers some partitions packed, beside others, and the same of them. The brokers are scripted."""

from __future__ import annotations

from collections import defaultdict

from fetched_brokers import CORRUPT, CUT
from fetching_parts import A1, A, Read, Start, once
from streamsapp import TopicPartition
from streamsapp.kafka.fetching.fetched import Fetched


def test_packed_partitions_are_fetched_as_others_are(start: Start, read: Read) -> None:
    brokers = start({"a": 2})
    for _ in range(5):
        for each in (A, A1):
            brokers.write(each, 7)
    brokers.fate = lambda broker, partition: fate(partition) if partition == A else 0
    fate = once(CORRUPT, CUT)  # fetched again
    reader = read(brokers, {A1: 0})
    reader.fetcher.assign({A: 3}, {A})
    counts: defaultdict[TopicPartition, int] = defaultdict(int)
    last = 2

    def poll() -> Fetched:
        fetched = reader.poll(limit=4)
        assert fetched.count <= 4
        assert bool(fetched) == bool(fetched.records or fetched.packed or fetched.ends)
        return fetched

    while not {(A, 35), (A1, 35)} <= set(reader.ends):
        fetched = poll()
        assert {partition for partition, _ in fetched.records} <= {A1}
        for partition, packed in fetched.packed:
            assert partition == A
            assert packed.last_offset == last + len(packed)
            last = packed.last_offset
            counts[partition] += len(packed)
    assert counts == {A: 32}
    assert reader.offsets == {A1: list(range(35))}


def test_a_partition_that_is_assigned_anew_may_be_packed_or_not(start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    brokers.write(A, 5)
    reader = read(brokers, {})
    for packed in (True, False, True):
        reader.fetcher.assign({A: 0}, {A} if packed else set())
        fetched = reader.poll()
        while not fetched.count:
            fetched = reader.poll()
        assert (bool(fetched.packed), bool(fetched.records)) == (packed, not packed)
        reader.fetcher.unassign([A])
