"""The requests that end a transaction equal those of kafka-python, and answers are read as it reads them."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from kafka.protocol.producer import (
    EndTxnRequest as TheirEnd,
    EndTxnResponse,
    TxnOffsetCommitRequest as TheirCommit,
    TxnOffsetCommitResponse,
)

from streamsapp import TopicPartition
from streamsapp.brokers.bounds import WrongAnswerError
from streamsapp.brokers.request_by_hand import RequestByHand, number_of
from streamsapp.kafka.group_member import Member
from streamsapp.kafka.producing.transaction_requests import EndTxnRequest, TxnOffsetCommitRequest
from streamsapp.kafka.producing.wire import Producer

NAMES = ("a", "", "ü" * 70, "x" * 249)
COMMITS, ENDS = range(3, 6), range(6)


def as_sent(request: Any, version: int, number: int) -> bytes:
    if isinstance(request, RequestByHand):
        return request.encoded(version, number, "client")
    request.API_VERSION = version
    request.with_header(correlation_id=number, client_id="client")
    return bytes(request.encode(version=version, header=True, framed=True))


def answered(request: RequestByHand[Any], answer: Any, version: int, cut: int | None = None) -> Any:
    """As the request reads an answer in kafka-python's encoding, or its first bytes."""
    answer.with_header(correlation_id=77)
    data = bytes(answer.encode(header=True))[:cut]
    assert number_of(data) == 77
    return request.decoded(data, version)


def offsets_of(rng: random.Random) -> dict[TopicPartition, tuple[int, str]]:
    return {
        TopicPartition(topic, rng.randrange(1 << 20)): (rng.randrange(1 << 62), rng.choice(NAMES))
        for topic in NAMES
        for _ in range(rng.choice([0, 1, 200]))
    }


def commits(rng: random.Random, *, implicit: bool) -> TxnOffsetCommitRequest:
    member = Member(rng.choice(NAMES), rng.randrange(-1, 1 << 31), rng.choice(NAMES), rng.choice([None, *NAMES]))
    producer = Producer(rng.randrange(1 << 62), rng.randrange(1 << 15))
    return TxnOffsetCommitRequest(rng.choice(NAMES), producer, member, offsets_of(rng), implicit=implicit)


@pytest.mark.parametrize("version", COMMITS)
@pytest.mark.seeds(5)
def test_offsets_are_the_same_bytes(seed: int, version: int) -> None:
    rng = random.Random(seed)
    offsets, number = offsets_of(rng), rng.randrange(1 << 31)
    member = Member(rng.choice(NAMES), rng.randrange(-1, 1 << 31), rng.choice(NAMES), rng.choice([None, *NAMES]))
    topic_of = TheirCommit.TxnOffsetCommitRequestTopic
    partition_of = topic_of.TxnOffsetCommitRequestPartition
    by_topic: dict[str, list[Any]] = {}
    for (topic, partition), (offset, metadata) in offsets.items():
        one = partition_of(
            partition_index=partition, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=metadata
        )
        by_topic.setdefault(topic, []).append(one)
    theirs = TheirCommit(
        transactional_id="t",
        group_id=member.group_id,
        producer_id=1 << 40,
        producer_epoch=12,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        topics=[topic_of(name=topic, partitions=partitions) for topic, partitions in by_topic.items()],
    )

    ours = TxnOffsetCommitRequest("t", Producer(1 << 40, 12), member, offsets, implicit=version == 5)

    assert as_sent(ours, version, number) == as_sent(theirs, version, number)


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("version", ENDS)
def test_ends_are_the_same_bytes(version: int, name: str, committed: bool) -> None:
    theirs = TheirEnd(transactional_id=name, producer_id=1 << 40, producer_epoch=12, committed=committed)
    ours = EndTxnRequest(name, Producer(1 << 40, 12), committed=committed, implicit=version == 5)
    assert as_sent(ours, version, 7) == as_sent(theirs, version, 7)


def their_answer(version: int, codes: dict[str, list[int]]) -> TxnOffsetCommitResponse:
    topic_of = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
    partition_of = topic_of.TxnOffsetCommitResponsePartition
    topics = [
        topic_of(
            name=topic,
            partitions=[partition_of(partition_index=number, error_code=code) for number, code in enumerate(of_topic)],
        )
        for topic, of_topic in codes.items()
    ]
    return TxnOffsetCommitResponse(throttle_time_ms=123, topics=topics, version=version)


@pytest.mark.parametrize("version", COMMITS)
def test_errors_of_offsets_are_read(version: int) -> None:
    codes = {"a": [0, 25, -1], "": [], "ü" * 70: [51] * 200}
    request = committing({topic: len(of_topic) for topic, of_topic in codes.items()}, version)
    answer = answered(request, their_answer(version, codes), version)
    assert answer == ([0, 25, -1, *[51] * 200], 123)


def committing(counts: dict[str, int], version: int) -> TxnOffsetCommitRequest:
    offsets = {TopicPartition(topic, number): (5, "") for topic, count in counts.items() for number in range(count)}
    return TxnOffsetCommitRequest("t", Producer(3, 1), Member("g", 1, "m", None), offsets, implicit=version == 5)


@pytest.mark.parametrize("version", COMMITS)
@pytest.mark.parametrize(
    ("told", "how"),
    [({"a": [0]}, "leaves out a-1"), ({}, "leaves out a-0, a-1"), ({"a": [0] * 3}, "not asked for: a-2"),
     ({"b": [0], "a": [0, 0]}, "not asked for: b-0")],
)  # fmt: skip
def test_offsets_that_an_answer_leaves_out_are_not_committed(
    version: int, told: dict[str, list[int]], how: str
) -> None:
    with pytest.raises(WrongAnswerError, match=how):
        answered(committing({"a": 2}, version), their_answer(version, told), version)


def test_an_end_without_a_next_producer_is_no_answer() -> None:
    request = EndTxnRequest("t", Producer(3, 1), committed=True, implicit=True)
    with pytest.raises(WrongAnswerError, match="impossible producer id"):
        answered(request, EndTxnResponse(throttle_time_ms=9, error_code=0, version=5), 5)


@pytest.mark.parametrize("code", [0, 51, -1])
@pytest.mark.parametrize("version", ENDS)
def test_an_end_is_answered_with_the_next_producer_where_there_is_one(version: int, code: int) -> None:
    request = EndTxnRequest("t", Producer(3, 1), committed=True, implicit=version == 5)
    theirs = EndTxnResponse(throttle_time_ms=9, error_code=code, version=version)
    if version == 5:
        theirs.producer_id, theirs.producer_epoch = 1 << 40, 12
    expected = Producer(1 << 40, 12) if version == 5 else None
    assert answered(request, theirs, version) == (code, expected, 9)


@pytest.mark.parametrize("version", COMMITS)
def test_an_answer_that_is_cut_off_is_refused(version: int) -> None:
    request = committing({"a": 2}, version)
    end = EndTxnRequest("t", Producer(3, 1), committed=True, implicit=version == 5)
    pairs: list[tuple[RequestByHand[Any], Any]] = [
        (request, their_answer(version, {"a": [0, 25]})),
        (end, EndTxnResponse(throttle_time_ms=9, error_code=0, version=version)),
    ]
    for each, answer in pairs:
        answer.with_header(correlation_id=77)
        for size in range(4, len(bytes(answer.encode(header=True)))):
            with pytest.raises((ValueError, struct.error)):
                answered(each, answer, version, size)


@pytest.mark.parametrize("implicit", [False, True])
def test_only_versions_are_sent_that_mean_what_was_asked_for(implicit: bool) -> None:
    offsets = commits(random.Random(1), implicit=implicit)
    end = EndTxnRequest("t", Producer(3, 1), committed=True, implicit=implicit)
    assert offsets.versions == ((5, 5) if implicit else (3, 4))
    assert end.versions == ((5, 5) if implicit else (0, 4))
    for each in (offsets, end):
        assert each.newest({28: (0, 9), 26: (0, 9)}) == each.versions[1]
