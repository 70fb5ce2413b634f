"""A leader names a follower that is nearer, and the fetcher asks that one as long as it answers (KIP-392)."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from fetched_brokers import CORRUPT, LOST_REQUEST, SILENT, FetchedBrokers
from fetching_parts import ENDLESS, A, Read, Start
from messages_by_hand.fetch import FetchRequest
from streamsapp.brokers.messages.list_offsets import ListOffsetsRequest
from streamsapp.kafka.consumer import BEGINNING
from streamsapp.kafka.fetching import answers, assignment


def two(start: Start, *, deaf: frozenset[int] = frozenset()) -> FetchedBrokers:
    """The first leads a partition of ten records, and sends clients of rack r to the second."""
    brokers = start({"a": 1}, 2, deaf)
    brokers.followers_answer, brokers.rack, brokers.replicas = True, "r", {A: 2}
    brokers.write(A, 10)
    return brokers


def asked(brokers: FetchedBrokers) -> list[int]:
    """The brokers that were asked for records, one after the other."""
    return [broker for broker, request in brokers.asked if isinstance(request, FetchRequest)]


def test_the_follower_that_the_leader_names_is_asked_and_its_leader_no_more(start: Start, read: Read) -> None:
    brokers = two(start)
    reader = read(brokers, {A: BEGINNING}, client_rack="r")
    reader.until_end((A, 10))
    brokers.write(A, 5)
    reader.until_end((A, 15))

    assert reader.offsets[A] == list(range(15))
    assert asked(brokers)[0] == 1
    assert set(asked(brokers)[1:]) == {2}
    assert {broker for broker, request in brokers.asked if isinstance(request, ListOffsetsRequest)} == {1}


@pytest.mark.parametrize("rack", [{}, {"client_rack": "elsewhere"}])
def test_a_client_without_that_rack_stays_with_the_leader(rack: dict[str, str], start: Start, read: Read) -> None:
    brokers = two(start)
    reader = read(brokers, {A: 0}, **rack)
    reader.until_end((A, 10))

    assert set(asked(brokers)) == {1}


def test_a_follower_that_is_behind_does_not_tell_where_the_partition_ends(start: Start, read: Read) -> None:
    brokers = two(start)
    brokers.write(A, 10)
    brokers.behind = {2: 10}
    reader = read(brokers, {A: 0}, client_rack="r")
    reader.until(lambda: len(reader.offsets[A]) == 10)
    reader.nothing_comes()
    assert reader.ends == []
    brokers.behind = {}
    reader.until_end((A, 20))

    assert reader.offsets[A] == list(range(20))


def test_what_a_follower_has_not_is_asked_of_the_leader(start: Start, read: Read) -> None:
    brokers = two(start)
    brokers.behind = {2: 0}
    reader = read(brokers, {A: 5}, client_rack="r")
    reader.until_end((A, 10))

    assert (reader.lost, reader.offsets[A]) == ([], list(range(5, 10)))
    assert asked(brokers)[:3] == [1, 2, 1]
    assert set(asked(brokers)[3:]) <= {1}


FAULTS = [
    KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.REPLICA_NOT_AVAILABLE, KafkaError.UNKNOWN, LOST_REQUEST, SILENT,
    CORRUPT,
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_follower_that_fails_is_left_for_the_leader_which_names_it_no_more(
    fault: int, start: Start, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "_LATE", 0.02)
    monkeypatch.setattr(answers, "_NO_ANSWER", ENDLESS)
    monkeypatch.setattr(assignment, "STAY", ENDLESS)
    brokers = two(start)
    brokers.fate = lambda broker, partition: fault if broker == 2 else 0
    reader = read(brokers, {A: 0}, client_rack="r")
    reader.until_end((A, 10))
    brokers.write(A, 5)
    reader.until_end((A, 15))

    assert reader.offsets[A] == list(range(15))
    assert asked(brokers).count(2) == 1


def test_a_follower_that_cannot_be_reached_is_left_for_the_leader_and_asked_later(
    start: Start, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assignment, "STAY", 0.05)
    brokers = two(start, deaf=frozenset({2}))
    reader = read(brokers, {A: 0}, client_rack="r")
    reader.until_end((A, 10))
    assert set(asked(brokers)) == {1}
    brokers.listen(2)
    reader.until(lambda: asked(brokers)[-1] == 2)
    brokers.write(A, 5)
    reader.until_end((A, 15))

    assert reader.offsets[A] == list(range(15))


def test_after_an_election_the_new_leader_is_asked_what_it_prefers(start: Start, read: Read) -> None:
    brokers = start({"a": 1}, 3)
    brokers.followers_answer, brokers.rack, brokers.replicas = True, "r", {A: 2}
    brokers.write(A, 10)
    reader = read(brokers, {A: 0}, client_rack="r")
    reader.until_end((A, 10))
    assert asked(brokers)[-1] == 2
    brokers.replicas = {}
    brokers.move(A, 3)
    brokers.write(A, 5)
    reader.until_end((A, 15))

    assert reader.offsets[A] == list(range(15))
    reader.until(lambda: asked(brokers)[-1] == 3)


def test_the_leader_is_asked_again_after_a_while(start: Start, read: Read) -> None:
    brokers = two(start)
    reader = read(brokers, {A: 0}, client_rack="r", metadata_max_age_ms=50)
    reader.until(lambda: asked(brokers).count(1) > 2)
    reader.until_end((A, 10))

    assert reader.offsets[A] == list(range(10))
    assert 2 in asked(brokers)


@pytest.mark.parametrize("named", [1, 77])
def test_a_broker_that_is_not_there_is_not_followed(named: int, start: Start, read: Read) -> None:
    brokers = two(start)
    brokers.replicas = {A: named}
    reader = read(brokers, {A: 0}, client_rack="r")
    reader.until_end((A, 10))

    assert reader.offsets[A] == list(range(10))
    assert set(asked(brokers)) == {1}
