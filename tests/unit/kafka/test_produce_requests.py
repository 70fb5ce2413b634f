"""Produce requests written by hand equal those of kafka-python, and answers are read as it reads them."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from kafka.protocol.producer import ProduceRequest as Theirs, ProduceResponse

from streamsapp.brokers.bounds import WrongAnswerError
from streamsapp.brokers.request_by_hand import number_of
from streamsapp.kafka.producing.produce import ProduceRequest
from streamsapp.kafka.producing.wire import Name

VERSIONS = [*range(3, 10), 12]
TOPICS = ("t", "ü" * 100, "x" * 249)


def batches(rng: random.Random) -> dict[Name, bytes]:
    names = [(rng.choice(TOPICS), rng.randrange(1 << 31)) for _ in range(rng.choice([0, 1, 5, 200]))]
    return {name: rng.randbytes(rng.choice([0, 1, 126, 127, 128, 20_000])) for name in names}


def theirs(transactional_id: str | None, given: dict[Name, bytes], timeout_ms: int) -> Theirs:
    topic_of = Theirs.TopicProduceData
    by_topic: dict[str, list[Any]] = {}
    for (topic, number), records in given.items():
        by_topic.setdefault(topic, []).append(topic_of.PartitionProduceData(index=number, records=records))
    topics = [topic_of(name=topic, partition_data=partitions) for topic, partitions in by_topic.items()]
    return Theirs(transactional_id=transactional_id, acks=-1, timeout_ms=timeout_ms, topic_data=topics)


def asked(given: dict[Name, bytes] | None = None) -> ProduceRequest:
    return ProduceRequest("app", (given or {("t", 0): b"records"}).items(), 12.345)


def answer(
    version: int,
    codes: dict[Name, int] | list[tuple[Name, int]],
    number: int = 5,
    throttled: int = 0,
    reasons: bool = False,
) -> bytes:
    """In kafka-python's encoding, without its length."""
    topic_of = ProduceResponse.TopicProduceResponse
    part_of = topic_of.PartitionProduceResponse
    by_topic: dict[str, list[Any]] = {}
    for (topic, index), code in codes.items() if isinstance(codes, dict) else codes:
        one = part_of(index=index, error_code=code, base_offset=7, log_append_time_ms=-1, log_start_offset=0)
        if reasons:
            reason = part_of.BatchIndexAndErrorMessage
            one.record_errors = [reason(batch_index=1, batch_index_error_message=it) for it in ("no", None)]
            one.error_message = "ü"
        by_topic.setdefault(topic, []).append(one)
    responses = [topic_of(name=topic, partition_responses=partitions) for topic, partitions in by_topic.items()]
    made = ProduceResponse(responses=responses, throttle_time_ms=throttled, version=version)
    made.with_header(correlation_id=number)
    return bytes(made.encode(header=True))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.seeds(5)
def test_requests_are_the_same_bytes(seed: int, version: int) -> None:
    rng = random.Random(seed)
    given, number, timeout = batches(rng), rng.randrange(1 << 31), rng.randrange(1 << 20)
    transactional_id, client_id = rng.choice([None, "", "ü" * 70]), rng.choice(["c", "ü" * 90])
    expected = theirs(transactional_id, given, timeout)
    expected.API_VERSION = version
    expected.with_header(correlation_id=number, client_id=client_id)

    request = ProduceRequest(transactional_id, given.items(), timeout / 1000)

    assert request.encoded(version, number, client_id) == bytes(
        expected.encode(version=version, header=True, framed=True)
    )


@pytest.mark.parametrize("reasons", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_answers_are_read(version: int, reasons: bool) -> None:
    codes = {("t", 0): 0, ("ü" * 100, 3): -1, ("t", 1 << 30): 45, **{("many", number): number for number in range(200)}}
    data = answer(version, codes, 77, 123, reasons and version >= 8)
    assert number_of(data) == 77
    found = asked(dict.fromkeys(codes, b"records")).decoded(data, version)
    assert (found.codes, found.throttle_time_ms) == (codes, 123)
    assert found.offsets == dict.fromkeys(codes, 7)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_that_is_cut_off_or_harmed_is_refused_or_read_and_nothing_else_happens(version: int) -> None:
    rng, whole = random.Random(version), answer(version, {("t", 0): 0, ("u", 1): 2}, reasons=version >= 8)
    read(version, whole)
    for wrong in (*(whole[:size] for size in range(len(whole))), whole + b"\0"):
        with pytest.raises((ValueError, struct.error)):
            read(version, wrong)
    refused = 0
    for _ in range(3000):
        harmed = bytearray(whole)
        harmed[rng.randrange(len(harmed))] = rng.randrange(256)
        try:
            read(version, bytes(harmed))
        except (ValueError, struct.error):
            refused += 1
    assert refused


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("told", "how"),
    [
        ([("t", 0)], "leaves out u-1"),
        ([], "leaves out t-0, u-1"),
        ([("t", 0), ("u", 1), ("u", 2)], "was not asked for: u-2"),
        ([("t", 0), ("u", 1), ("t", 0)], "more than once of t-0"),
        ([("t", 0), ("t", 0)], "leaves out u-1"),
    ],
)
def test_an_answer_tells_once_of_each_partition_and_of_no_other(version: int, told: list[Name], how: str) -> None:
    with pytest.raises(WrongAnswerError, match=how):
        read(version, answer(version, [(name, 0) for name in told]))


def read(version: int, data: bytes) -> None:
    asked({("t", 0): b"records", ("u", 1): b"records"}).decoded(data, version)


@pytest.mark.parametrize(("least", "most", "chosen"), [(0, 12, 9), (0, 9, 9), (3, 8, 8), (0, 3, 3), (7, 7, 7)])
def test_the_greatest_version_is_used_that_a_broker_knows(least: int, most: int, chosen: int) -> None:
    assert asked().newest({0: (least, most)}) == chosen


@pytest.mark.parametrize("known", [(0, 2), (10, 12)])
def test_a_broker_that_knows_none_of_them_is_told(known: tuple[int, int]) -> None:
    with pytest.raises(WrongAnswerError, match="ProduceRequest"):
        asked().newest({0: known})


def test_records_that_admit_their_partitions_are_sent_in_no_other_version_than_that_which_says_so() -> None:
    request = ProduceRequest("app", [(("t", 0), b"records")], 1.0, implicit=True)
    assert request.newest({0: (0, 13)}) == 12
    for known in ((0, 11), (13, 14)):
        with pytest.raises(WrongAnswerError, match="ProduceRequest"):
            request.newest({0: known})
