"""Answers to requests for records are read as kafka-python writes them, and others are refused."""

from __future__ import annotations

import random
from contextlib import suppress
from types import ModuleType
from typing import Any
from uuid import UUID, uuid4

import pytest
from kafka.protocol.consumer import FetchResponse

from fetched_batches import flipped

TOPIC, PART = FetchResponse.FetchableTopicResponse, FetchResponse.FetchableTopicResponse.PartitionData
OFFSETS = ("high_watermark", "last_stable_offset", "log_start_offset")


def part_of(rng: random.Random) -> Any:
    def number(bits: int) -> int:
        return rng.choice([-1, 0, 7, (1 << bits - 1) - 1])

    told = [PART.AbortedTransaction(producer_id=it, first_offset=number(64)) for it in range(rng.choice([0, 1, 200]))]
    return PART(
        partition_index=number(32),
        error_code=number(16),
        **{name: number(64) for name in OFFSETS},
        diverging_epoch=PART.EpochEndOffset(epoch=4, end_offset=number(64)) if rng.random() < 0.3 else None,
        current_leader=PART.LeaderIdAndEpoch(leader_id=1, leader_epoch=9) if rng.random() < 0.3 else None,
        snapshot_id=PART.SnapshotId(end_offset=5, epoch=9) if rng.random() < 0.3 else None,
        aborted_transactions=rng.choice([None, told]),
        preferred_read_replica=number(32),
        records=rng.choice([None, b"", rng.randbytes(rng.choice([1, 130, 20_000]))]),
    )


def an_answer(rng: random.Random) -> tuple[bytes, Any]:
    responses = [
        TOPIC(topic_id=UUID(bytes=rng.randbytes(16)), partitions=[part_of(rng) for _ in range(rng.choice([0, 1, 3]))])
        for _ in range(rng.choice([0, 1, 3]))
    ]
    response = FetchResponse(
        throttle_time_ms=300,
        error_code=rng.choice([0, 71]),
        session_id=rng.randrange(1 << 31),
        responses=responses,
        version=13,
    )
    response.with_header(correlation_id=rng.randrange(1 << 31))
    return bytes(response.encode(header=True)), response


@pytest.mark.seeds(20)
def test_answers_are_read_as_they_were_given(compiled: ModuleType, seed: int) -> None:
    data, given = an_answer(random.Random(seed))

    found = compiled.answer(bytearray(data))

    assert (found.throttle_ms, found.error, found.session) == (
        given.throttle_time_ms,
        given.error_code,
        given.session_id,
    )
    assert [(*part[:8], data[part.begin : part.end], part.replica) for part in found.parts] == [
        (
            topic.topic_id.bytes,
            part.partition_index,
            part.error_code,
            *(getattr(part, name) for name in OFFSETS),
            part.diverging_epoch is not None and part.diverging_epoch.end_offset >= 0,
            [(it.producer_id, it.first_offset) for it in part.aborted_transactions or []],
            part.records or b"",
            part.preferred_read_replica,
        )
        for topic in given.responses
        for part in topic.partitions
    ]


@pytest.mark.seeds(3)
def test_an_answer_that_breaks_off_is_refused_and_nothing_else_happens(compiled: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    data, _ = an_answer(rng)
    for size in {*range(min(2000, len(data))), *range(max(0, len(data) - 2000), len(data))}:
        with pytest.raises(ValueError, match="breaks off"):
            compiled.answer(data[:size])
    for _ in range(3000):
        other = rng.choice([flipped(data, rng), rng.randbytes(rng.randrange(200))])
        with suppress(ValueError):
            for part in compiled.answer(other).parts:
                assert 0 <= part.begin <= part.end <= len(other)


def test_fields_of_later_versions_are_passed_over(compiled: ModuleType) -> None:
    response = FetchResponse(responses=[TOPIC(topic_id=uuid4(), partitions=[])], version=13)
    response.with_header(correlation_id=1)
    data, later = bytes(response.encode(header=True)), b"\2\7\3abc\x88\1\0"
    assert (data[4], data[-2:]) == (0, b"\0\0")

    assert compiled.answer(data[:4] + later + data[5:-2] + later + later) == compiled.answer(data) == (0, 0, 0, [])
