"""Requests of a session name what is new, and all records come even if the session is lost (KIP-227)."""

from __future__ import annotations

import random
from typing import Any

import pytest
from confluent_kafka import KafkaError

from fetched_brokers import FetchedBrokers
from fetching_parts import A1, A, B, Read, Reader, Start
from streamsapp import TopicPartition

pytestmark = pytest.mark.parametrize("start", [True], ids=["sessions"], indirect=True)


def quiet(brokers: FetchedBrokers, reader: Reader) -> None:
    """Until three more answers have had no news: the broker may count the last one late, and may have been asked
    once more by now. The third one answers a request that was made after that."""
    answered = brokers.answered
    while brokers.answered < answered + 3:
        reader.nothing_comes()


def settled(brokers: FetchedBrokers, reader: Reader, *ends: tuple[TopicPartition, int]) -> None:
    """Until the fetcher has reported the ends, and a request without new names was answered."""
    reader.until_end(*ends)
    quiet(brokers, reader)


def test_only_partitions_that_have_moved_are_named_again(start: Start, read: Read) -> None:
    brokers = start({"a": 4, "b": 1})
    reader = read(brokers, dict.fromkeys(brokers.partitions, 0))
    settled(brokers, reader, *((each, 0) for each in brokers.partitions))
    assert brokers.sessions.named
    assert not any(brokers.sessions.named)

    brokers.write(A1, 3)
    settled(brokers, reader, (A1, 3))

    assert reader.offsets[A1] == [0, 1, 2]
    assert set().union(*brokers.sessions.named) == {A1}
    assert brokers.sessions.named.count({A1}) == 1


def test_a_partition_that_is_paused_is_forgotten_and_named_again_later(start: Start, read: Read) -> None:
    brokers = start({"a": 2, "b": 1})
    reader = read(brokers, dict.fromkeys(brokers.partitions, 0))
    settled(brokers, reader, *((each, 0) for each in brokers.partitions))
    reader.fetcher.pause([A])
    quiet(brokers, reader)
    brokers.write(A, 2)
    reader.nothing_comes()
    assert {(topic.topic, each.partition) for topic in brokers.asked[-1][1].topics for each in topic.partitions} == {
        *brokers.partitions
    } - {A}

    reader.fetcher.resume([A])
    settled(brokers, reader, (A, 2))
    assert brokers.sessions.named.count({A}) == 2


@pytest.mark.parametrize("position", [0, 3])
def test_who_assigns_a_partition_anew_is_told_its_end_anew(position: int, start: Start, read: Read) -> None:
    brokers = start({"a": 2})
    brokers.write(A, 3)
    reader = read(brokers, {A: position, A1: 0})
    settled(brokers, reader, (A, 3), (A1, 0))
    for _ in range(2):
        reader.ends.clear()
        reader.fetcher.unassign([A])
        reader.fetcher.assign({A: 3})
        reader.until_end((A, 3))
    assert reader.fetcher.watermarks(A) == (0, 3)


@pytest.mark.parametrize("lost", ["forget", "skip"])
def test_a_session_that_the_broker_does_not_know_begins_anew(lost: str, start: Start, read: Read) -> None:
    brokers = start({"a": 2, "b": 1})
    reader = read(brokers, dict.fromkeys(brokers.partitions, 0))
    settled(brokers, reader, *((each, 0) for each in brokers.partitions))
    for count in range(1, 5):
        getattr(brokers.sessions, lost)()
        brokers.write(A, 1)
        brokers.write(B, 1)
        settled(brokers, reader, (A, count), (B, count))

    assert reader.offsets == {A: [0, 1, 2, 3], B: [0, 1, 2, 3]}
    assert brokers.accepted[1] == 1, "it needs no other connection"


def test_a_broker_may_have_no_room_for_the_session_any_more_and_then_again(start: Start, read: Read) -> None:
    brokers = start({"a": 2})
    reader = read(brokers, {A: 0, A1: 0})
    for count in range(1, 7):
        brokers.sessions.forget()
        brokers.sessions.kept = bool(count % 2)
        brokers.write(A, 1)
        settled(brokers, reader, (A, count))

    assert reader.offsets == {A: [*range(6)]}


def test_a_broker_that_refuses_a_session_that_begins_is_asked_over_another_connection(
    start: Start, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = start({"a": 1})
    brokers.write(A, 3)
    taken = brokers.sessions.taken
    refusals = [KafkaError.FETCH_SESSION_ID_NOT_FOUND, KafkaError.INVALID_FETCH_SESSION_EPOCH]

    def refused(broker: int, request: Any) -> tuple[Any, int, int]:
        return (request, 0, int(refusals.pop())) if refusals else taken(broker, request)

    monkeypatch.setattr(brokers.sessions, "taken", refused)
    reader = read(brokers, {A: 0})
    settled(brokers, reader, (A, 3))

    assert reader.offsets[A] == [0, 1, 2]
    assert brokers.accepted[1] == 3


@pytest.mark.seeds(6)
def test_every_record_comes_once_while_sessions_are_lost(seed: int, start: Start, read: Read) -> None:
    rng = random.Random(seed)
    brokers = start({"a": 3, "b": 2}, brokers=2)
    reader = read(brokers, dict.fromkeys(brokers.partitions, 0), max_partition_fetch_bytes=rng.choice([300, 1 << 20]))
    for _ in range(60):
        brokers.write(rng.choice(list(brokers.partitions)), rng.randrange(1, 20))
        match rng.randrange(6):
            case 0:
                brokers.sessions.forget()
            case 1:
                brokers.sessions.skip()
            case 2:
                brokers.sessions.kept = rng.random() < 0.7
            case 3:
                reader.fetcher.pause([rng.choice(list(brokers.partitions))])
            case 4:
                reader.fetcher.resume(brokers.partitions)
        reader.poll(rng.choice([3, 1000]), rng.choice([0.0, 0.005]))
    reader.fetcher.resume(brokers.partitions)
    reader.until_end(*((each, log.end) for each, log in brokers.partitions.items()))

    assert reader.offsets == {each: brokers.offsets(each) for each in brokers.partitions if brokers.offsets(each)}
