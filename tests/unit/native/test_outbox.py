"""Records that wait to be sent become batches that another client's decoder reads."""

from __future__ import annotations

import random
from collections import defaultdict
from types import ModuleType
from typing import Any

import pytest
from kafka.record.memory_records import MemoryRecords

from streamsapp.native import Why
from streamsapp.outgoing import OutputRecord
from streamsapp.serdes.murmur2 import partition_for

EVERYTHING = 1 << 40


def record(key: bytes | None, value: bytes | None = b"v", partition: int = -1, time: int = 1) -> OutputRecord:
    return ("t", value, key, partition, None, None, time, None)


def outbox(path: ModuleType, *, batch_size: int = 1 << 20, most: int = 1 << 20, partitions: int = 4) -> Any:
    made = path.Outbox(batch_size=batch_size, most=most)
    made.add_topic("t", partitions)
    return made


def taken(path: ModuleType, box: Any) -> dict[int, list[list[Any]]]:
    """The batches of each partition, as lists of records, as a decoder that is not ours finds them."""
    found: dict[int, list[list[Any]]] = defaultdict(list)
    for topic, partition in box.take_ready():
        more = True
        while more:
            data, count, _, more = box.take(topic, partition)
            [batch] = MemoryRecords(path.stamped(batch=data, producer=9, epoch=3, sequence=7, attributes=0x10))
            assert batch.validate_crc()
            assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 3, 7)
            assert batch.is_transactional
            records = list(batch)
            assert [it.offset for it in records] == list(range(count))
            assert batch.max_timestamp == max(it.timestamp for it in records)
            found[partition].append([(it.key, it.value, it.timestamp, it.headers) for it in records])
    assert box.bytes == 0
    return found


def test_random_records_are_read_as_they_were_given(compiled: ModuleType) -> None:
    rng = random.Random(8)

    def some() -> bytes | None:
        return rng.choice([None, b"", b"\0", rng.randbytes(rng.choice([1, 63, 64, 200, 9000]))])

    def headers() -> Any:
        return rng.choice(
            [None, [], [(rng.choice(["", "a", "ü", "a\0b", "\0"]), some()) for _ in range(rng.randrange(70))]]
        )

    times = [1, 2**62, 1_700_000_000_000, *range(1, 200, 7)]
    given = [("t", some(), some(), n % 4, None, None, rng.choice(times), headers()) for n in range(3000)]
    box = outbox(compiled, batch_size=60_000)

    assert box.add(records=given, begin=0, room=EVERYTHING) == (3000, Why.TAKEN)
    assert box.added == 3000
    assert {
        partition: [it for batch in batches for it in batch] for partition, batches in taken(compiled, box).items()
    } == {
        number: [(key, value, time, headers or []) for _, value, key, _, _, _, time, headers in given[number::4]]
        for number in range(4)
    }


def test_batches_keep_to_their_size_and_a_larger_record_is_alone(compiled: ModuleType) -> None:
    box = outbox(compiled, batch_size=1000, partitions=1)
    given = [record(b"k", b"v" * size) for size in (100, 100, 5000, 100, 700, 200)]
    box.add(records=given, begin=0, room=EVERYTHING)

    batches = taken(compiled, box)[0]

    assert [[len(value) for _, value, _, _ in batch] for batch in batches] == [[100, 100], [5000], [100, 700], [200]]


def test_keys_choose_the_partition_and_records_without_one_are_spread(compiled: ModuleType) -> None:
    box = outbox(compiled, partitions=5)
    keys = [rng.to_bytes(length, "big") for length in range(9) for rng in (0, 1, 200) if rng < 256**length]
    box.add(records=[record(key) for key in keys], begin=0, room=EVERYTHING)
    for _ in range(50):
        box.add(records=[record(None, b"without")] * 3, begin=0, room=EVERYTHING)

    found = {number: [it for batch in batches for it in batch] for number, batches in taken(compiled, box).items()}

    assert {key: number for number, run in found.items() for key, value, _, _ in run if value == b"v"} == {
        key: partition_for(key, 5) for key in keys
    }
    assert {number for number, run in found.items() if any(value == b"without" for _, value, _, _ in run)} == set(
        range(5)
    )


def test_the_time_zero_is_the_first_there_is_and_a_record_without_one_has_that_of_the_moment(
    compiled: ModuleType,
) -> None:
    box = outbox(compiled, partitions=1)
    box.add(records=[record(b"k", time=0), record(b"k", time=-1)], begin=0, room=EVERYTHING)

    [(_, _, zero, _), (_, _, now, _)] = taken(compiled, box)[0][0]

    assert zero == 1
    assert now > 1_600_000_000_000


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (record(b"k", partition=4), Why.UNKNOWN_PARTITION),
        (("u", *record(b"k")[1:]), Why.UNKNOWN_TOPIC),
        (record(b"k", b"v" * 3000), Why.TOO_LARGE),
        (record(b"k" * 3000), Why.TOO_LARGE),
        (("t", "text", b"k", 0, None, None, 1, None), Why.NOT_KNOWN),
        (("t", b"v", b"k", 0, None, None, 1, [("h", "text")]), Why.NOT_KNOWN),
        (("t", b"v", b"k", 0, None, None, 1, [("h\udc80", b"")]), Why.NOT_KNOWN),
        (("t", b"v", b"k", -2, None, None, 1, None), Why.NOT_KNOWN),
        (("t", b"v", b"k", 0, None, None, 1.5, None), Why.NOT_KNOWN),
        ((type("Text", (str,), {})("t"), b"v", b"k", 0, None, None, 1, None), Why.NOT_KNOWN),
        (["t"], Why.NOT_KNOWN),
    ],
)
def test_a_record_that_is_not_taken_stops_the_call_and_says_why(compiled: ModuleType, wrong: Any, why: Why) -> None:
    box = outbox(compiled, most=2000)
    good = record(b"k")

    assert box.add(records=[good, wrong, good], begin=0, room=EVERYTHING) == (1, why)
    assert box.add(records=[good, wrong, good], begin=2, room=EVERYTHING) == (3, Why.TAKEN)
    assert [len(batch) for batches in taken(compiled, box).values() for batch in batches] == [2]


def test_what_waits_is_bounded_and_can_be_forgotten(compiled: ModuleType) -> None:
    box = outbox(compiled)
    at, why = box.add(records=[record(b"%d" % number, b"v" * 100) for number in range(1000)], begin=0, room=5000)

    assert why == Why.FULL
    assert 40 < at < 50
    assert 5000 <= box.bytes < 5200

    box.clear()
    assert (box.bytes, box.waits(), box.take("t", 0)) == (0, False, None)
    assert box.added == at


def test_a_partition_is_told_once_for_all_that_waits_in_it(compiled: ModuleType) -> None:
    box = outbox(compiled, partitions=2)
    assert not box.waits()
    for _ in range(3):
        box.add(records=[record(b"k", partition=1)], begin=0, room=EVERYTHING)
    assert box.waits()

    assert box.take_ready() == [("t", 1)]
    assert not box.waits()
    assert box.take("t", 1)[1:2] == (3,)
    box.add(records=[record(b"k", partition=1)], begin=0, room=EVERYTHING)
    assert box.take_ready() == [("t", 1)]


def test_a_topic_may_get_more_partitions_while_records_wait(compiled: ModuleType) -> None:
    box = outbox(compiled, partitions=1)
    box.add(records=[record(b"a", partition=0)], begin=0, room=EVERYTHING)
    box.add_topic("t", 40)
    box.add_topic("t", 7)
    box.add(records=[record(b"b", partition=39)], begin=0, room=EVERYTHING)

    assert sorted(taken(compiled, box)) == [0, 39]


def test_a_batch_that_is_sent_again_says_the_same_but_for_its_sequence(compiled: ModuleType) -> None:
    box = outbox(compiled)
    box.add(records=[record(b"k", partition=0)], begin=0, room=EVERYTHING)
    data = box.take("t", 0)[0]

    for sequence in (0, 5, 2**31 - 1):
        [batch] = MemoryRecords(
            compiled.stamped(batch=data, producer=2**40, epoch=2**15 - 1, sequence=sequence, attributes=0)
        )
        assert batch.validate_crc()
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (2**40, 2**15 - 1, sequence)
        assert not batch.is_transactional
        assert [it.key for it in batch] == [b"k"]
