"""The record for which librdkafka's batch was refused is found over its clients, and reported with a remedy."""

from __future__ import annotations

import random
from typing import Any

import pytest
from confluent_kafka import KafkaError

from streamsapp.errors import ProductionError
from streamsapp.kafka.refusals import Refusals, production_error, raw_record
from streamsapp.record import RawRecord

TOO_LARGE = KafkaError.MSG_SIZE_TOO_LARGE
WORDS = "Broker: Invalid timestamp"


def record(size: int, key: bytes = b"", timestamp: int = 5, headers: Any = None) -> Any:
    return ("out", b"v" * size, key, -1, None, None, timestamp, headers)


def batches(records: list[Any], properties: dict[str, Any]) -> list[list[Any]]:
    """As librdkafka puts them together."""
    found: list[list[Any]] = []
    size = 0
    for each in records:
        size += len(each[1]) + 70
        if (
            not found
            or size > properties["batch.size"]
            or len(found[-1]) >= properties.get("batch.num.messages", 10**6)
        ):
            found.append([])
            size = len(each[1]) + 70
        found[-1].append(each)
    return found


def clients(records: list[Any], limit: int) -> tuple[list[Any], int]:
    """The records that are at fault, and how many clients it took to know them."""
    refusals, at_fault = Refusals(), list[Any]()
    for client in range(1, 30):
        properties: dict[str, Any] = dict(refusals.applied({"batch.size": 1_000_000}))
        lost = False
        for batch in batches(records, properties):
            if sum(len(each[1]) + 70 for each in batch) <= limit:
                continue
            for each in batch:
                if refusals.is_of_batch(TOO_LARGE, raw_record(each)):
                    lost = True
                elif each not in at_fault:
                    at_fault.append(each)
        if not lost:
            return at_fault, client
    raise AssertionError("no end")


@pytest.mark.parametrize("seed", range(20))
def test_only_a_record_that_is_too_large_by_itself_is_at_fault(seed: int) -> None:
    rng = random.Random(seed)
    records = [
        record(rng.choice([0, 10, 500, 5_000, 19_000]), b"%d" % number) for number in range(rng.choice([3, 300]))
    ]
    large = [record(rng.choice([20_001, 500_000]), b"large%d" % number) for number in range(rng.randrange(3))]
    for each in large:
        records.insert(rng.randrange(len(records)), each)

    at_fault, count = clients(records, 20_000)

    assert sorted(at_fault) == sorted(large)
    assert count <= 5, "fewer records together are found by fourths"


def test_records_of_which_one_is_not_valid_are_sent_one_by_one() -> None:
    refusals = Refusals()
    assert "batch.num.messages" not in refusals.applied({"batch.size": 500_000})
    assert refusals.is_of_batch(KafkaError.INVALID_TIMESTAMP, raw_record(record(1)))
    assert refusals.is_of_batch(KafkaError._INVALID_DIFFERENT_RECORD, raw_record(record(1)))

    assert refusals.applied({"batch.size": 500_000})["batch.num.messages"] == 1
    assert not refusals.is_of_batch(KafkaError.INVALID_TIMESTAMP, raw_record(record(1)))


def test_properties_are_the_users_as_long_as_nothing_is_refused() -> None:
    assert Refusals().applied({"batch.size": 500, "x": "y"}) == {"batch.size": 500, "x": "y"}


def searching() -> Refusals:
    refusals = Refusals()
    refusals.leave_out(KafkaError(TOO_LARGE), raw_record(record(1)))
    refusals.applied({})
    assert refusals.left_out == {}, "it was not known which record it was"
    return refusals


@pytest.mark.parametrize("headers", [None, [("a", b"1")], {"a": "1"}])
def test_the_next_transaction_leaves_out_the_record_and_no_other(headers: Any) -> None:
    refusals, error = searching(), KafkaError(TOO_LARGE)
    told = RawRecord("out", 3, -1, b"k", b"v" * 9, 5, [("a", b"1")] if headers else None)
    refusals.leave_out(error, told)

    assert refusals.refusal(record(9, b"k", 5, headers)) == (error, told)
    others = [record(9, b"k", 6, headers), record(9, b"l", 5, headers), record(8, b"k", 5, headers)]
    others.append(record(9, b"k", 5, [("a", b"2")]))
    assert [refusals.refusal(each) for each in others] == [None] * 4


def test_a_transaction_that_loses_too_many_records_is_given_up() -> None:
    refusals = searching()
    for number in range(100):
        refusals.leave_out(KafkaError(TOO_LARGE), raw_record(record(1, b"%d" % number)))

    with pytest.raises(ProductionError, match="100 records of this transaction were left out already"):
        refusals.leave_out(KafkaError(TOO_LARGE), raw_record(record(1, b"k")))


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (TOO_LARGE, "raise message.max.bytes"),
        (KafkaError.RECORD_LIST_TOO_LARGE, "raise segment.bytes"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "grant WRITE on the topic"),
        (KafkaError.INVALID_TIMESTAMP, "message.timestamp.after.max.ms"),
        (KafkaError.INVALID_RECORD, "a compacted topic none without a key"),
        (KafkaError.UNSUPPORTED_COMPRESSION_TYPE, "choose another compression.type"),
        (KafkaError.UNKNOWN, "see the broker's log"),
    ],
)
def test_a_record_that_cannot_be_written_is_named_with_a_remedy(code: int, remedy: str) -> None:
    told = RawRecord("out", 3, -1, b"key", b"secret", 1_700_000_000_000, [("h", b"1")])
    error = str(production_error(KafkaError(code, "so it is"), told))

    assert error.startswith("cannot write to topic out: so it is; ")
    assert remedy in error
    assert error.endswith(
        "the record: partition 3, key b'key', time 1700000000000 (2023-11-14T22:13:20.000+00:00), 11 bytes"
    )
    assert "secret" not in error


@pytest.mark.parametrize("timestamp", [2**62, 253_402_300_800_000, -1])
def test_a_time_that_no_calendar_has_is_named_as_well(timestamp: int) -> None:
    error = production_error(KafkaError(TOO_LARGE), RawRecord("out", -1, -1, None, None, timestamp))

    assert (f"time {timestamp}, 0 bytes" if timestamp > 0 else "key None, 0 bytes") in str(error)
