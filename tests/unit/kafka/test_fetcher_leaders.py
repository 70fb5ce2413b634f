"""A fetcher follows leaders: they are looked up anew, brokers change their addresses, and what is no leader is not
believed. The brokers are scripted, the sockets real."""

from __future__ import annotations

import time
from collections.abc import Collection

import pytest
from confluent_kafka import KafkaError, KafkaException

from fetched_brokers import (
    SILENT,
)
from fetching_parts import (
    A1,
    ENDLESS,
    MOVED,
    A,
    B,
    Read,
    Start,
    once,
)
from streamsapp.errors import StreamsError
from streamsapp.kafka.consumer import BEGINNING
from streamsapp.kafka.described import Described
from streamsapp.kafka.fetching import answers as module, leaders
from streamsapp.kafka.fetching.broker import TooOldError


@pytest.mark.parametrize("position", [0, 10], ids=["epoch", "offset"])
def test_a_broker_that_does_not_have_what_its_leader_has_is_not_believed_before_that_one_is_asked(
    position: int, start: Start, read: Read
) -> None:
    brokers = start({"a": 1})
    brokers.write(A, 5)
    brokers.move(A, 1)
    brokers.write(A, 5)
    reader = read(brokers, {A: position})
    reader.until_end((A, 10))
    log = brokers.partitions[A]
    whole = log.batches

    def find_leader(topic: str) -> int:
        log.batches, log.end = whole, 10
        return 0

    brokers.fate_of_look_ups = find_leader
    looked_up = len(brokers.looked_up)
    log.batches, log.end = whole[:1], 5
    reader.until(lambda: len(brokers.looked_up) > looked_up)
    brokers.write(A, 5)
    reader.until_end((A, 15))

    assert (reader.lost, reader.offsets[A]) == ([], list(range(position, 15)))


def test_a_broker_that_had_what_it_did_not_have_before_is_not_believed_at_once_again(start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    brokers.fate = once(*[KafkaError.OFFSET_OUT_OF_RANGE, 0] * 3)
    reader = read(brokers, {A: 0})
    reader.until(lambda: len(brokers.asked) > 6)
    brokers.write(A, 5)
    reader.until_end((A, 5))

    assert reader.lost == []


def test_leaders_are_looked_up_from_time_to_time_as_others_answer_like_them(start: Start, read: Read) -> None:
    brokers = start({"a": 1}, 2)
    brokers.followers_answer = True
    brokers.write(A, 5)
    reader = read(brokers, {A: 0}, metadata_max_age_ms=10)
    reader.until_end((A, 5))
    brokers.move(A, 2)
    reader.until(lambda: brokers.asked[-1][0] == 2)
    brokers.write(A, 5)
    reader.until_end((A, 10))

    assert reader.offsets[A] == list(range(10))


def test_what_such_a_look_up_does_not_find_is_not_told(
    start: Start, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaders, "PROPAGATION", 0.0)
    brokers = start({"a": 1})
    reader = read(brokers, {A: 0}, metadata_max_age_ms=10)
    reader.until_end((A, 0))
    refused = KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART
    brokers.fate_of_look_ups = lambda topic: refused[len(brokers.looked_up) % 2]
    looked_up = len(brokers.looked_up)
    reader.until(lambda: len(brokers.looked_up) > looked_up + 4)
    brokers.fate_of_look_ups = once()
    brokers.move(A, 1)
    brokers.fate = once(*MOVED)
    brokers.write(A, 5)
    reader.until_end((A, 5))


def test_a_broker_that_is_elsewhere_is_asked_there(start: Start, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LATE", 0.02)
    monkeypatch.setattr(module, "_NO_ANSWER", ENDLESS)
    before, now = start({"a": 1}), start({"a": 1})
    now.ids = before.ids
    now.write(A, 5)
    before.fate = lambda *asked: SILENT
    reader = read(before, {A: 0})
    reader.until(lambda: before.asked)
    before.told_addresses = now.addresses()
    reader.until_end((A, 5))

    assert reader.offsets[A] == list(range(5))
    before.wait_until(lambda: before.connections(1) == 0)


@pytest.mark.parametrize("address", [("kafka-0..svc", 9092), ("127.0.0.1", 70_000)])
def test_an_address_that_makes_no_sense_is_left_when_it_has_changed(
    address: tuple[str, int], start: Start, read: Read
) -> None:
    brokers = start({"a": 1})
    brokers.write(A, 5)
    brokers.told_addresses = {1: address}
    reader = read(brokers, {A: 0})
    reader.until(lambda: len(brokers.looked_up) > 2)
    brokers.told_addresses = {}
    reader.until_end((A, 5))


def test_leaders_are_told_together_with_that_there_is_more_to_know(start: Start) -> None:
    """Between the two a consumer would ask the old one, and throw away its answers as those of another."""
    brokers = start({"a": 1, "b": 1}, 2)
    told: list[int | None] = []

    def describe(topics: Collection[str], timeout: float) -> Described:
        told.append(made.of(A))
        return brokers.describe(topics, timeout)

    made = leaders.Leaders(describe, lambda: None, time.monotonic, lambda call: call())
    for leader in (1, 2):
        brokers.move(A, leader)
        made._begin([A, B], judges=False)
        assert (made.changed, made.of(A)) == (True, leader)
    assert told == [None, 1]


@pytest.mark.parametrize("count", [3, 5, 8], ids=["shorter", "as long", "longer"])
def test_nothing_is_read_of_a_topic_that_was_created_anew_at_a_position_in_the_one_before(
    count: int, start: Start, read: Read
) -> None:
    brokers = start({"a": 2, "b": 1})
    for each in (A, A1, B):
        brokers.write(each, 5)
    reader = read(brokers, {A: 0, A1: 0, B: 0})
    reader.until_end((A, 5), (A1, 5), (B, 5))

    brokers.make_anew("a")
    brokers.write(A, count)
    brokers.write(B, 2)
    reader.until(lambda: {A, A1} <= set(reader.replaced))
    reader.until_end((B, 7))
    reader.nothing_comes()
    assert (reader.offsets[A], reader.lost) == (list(range(5)), [])
    assert sorted(reader.replaced) == [A, A1]

    reader.fetcher.unassign([A, A1])
    reader.fetcher.assign({A: 0, A1: 0}, topics={"a": brokers.identity("a")})
    reader.until_end((A, count), (A1, 0))
    assert reader.offsets[A] == [*range(5), *range(count)]
    assert sorted(reader.replaced) == [A, A1]


def test_a_position_in_a_topic_that_is_gone_is_not_used_from_the_beginning(start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    before = {"a": brokers.identity("a")}
    brokers.make_anew("a")
    brokers.write(A, 5)
    reader = read(brokers, {})
    reader.fetcher.assign({A: 2}, topics=before)
    reader.until(lambda: reader.replaced)

    assert (reader.replaced, reader.offsets[A]) == ([A], [])


def test_brokers_that_tell_no_ids_are_an_error_that_names_librdkafka(start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    ids, brokers.ids = brokers.ids, {}
    reader = read(brokers, {A: 0})
    with pytest.raises(TooOldError, match=r"the brokers report no id of topic a.* client: librdkafka"):
        reader.until(lambda: False)
    brokers.ids = ids


def test_a_broker_that_is_behind_and_tells_an_earlier_leader_is_not_believed(start: Start) -> None:
    brokers = start({"a": 1}, 2)
    made = leaders.Leaders(brokers.describe, lambda: None, time.monotonic, lambda call: call())

    def look_up() -> tuple[int | None, int]:
        made._begin([A], judges=True)
        return made.of(A), made.epoch(A)

    brokers.move(A, 2)
    assert look_up() == (2, 1)
    brokers.partitions[A].leader, brokers.partitions[A].epoch = 1, 0
    assert look_up() == (2, 1)
    made.forget(A)
    assert look_up() == (None, -1)
    brokers.make_anew("a")  # its epochs begin anew
    assert look_up() == (1, 0)


def test_a_client_that_is_refused_from_the_start_is_an_error_and_later_goes_on(
    start: Start, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = KafkaException(KafkaError(KafkaError._AUTHENTICATION, "it refuses the credentials"))
    brokers = start({"a": 1})
    describe, tells = brokers.describe, [False]

    def refusing(topics: Collection[str], timeout: float) -> Described:
        if not tells[0]:
            raise refused
        return describe(topics, timeout)

    monkeypatch.setattr(brokers, "describe", refusing)
    reader = read(brokers, {A: 0})
    with pytest.raises(StreamsError, match="it refuses the credentials"):
        reader.until(lambda: False)
    tells[0] = True
    reader = read(brokers, {A: 0})
    reader.until_end((A, 0))
    tells[0] = False
    brokers.fate = once(KafkaError.NOT_LEADER_FOR_PARTITION)
    for _ in range(4):
        reader.poll()
    tells[0] = True
    brokers.write(A, 5)
    reader.until_end((A, 5))


def test_requests_tell_the_epoch_of_the_leader_and_an_old_one_is_looked_up(start: Start, read: Read) -> None:
    brokers = start({"a": 1}, 2)
    brokers.followers_answer = True  # or the broker would refuse by itself
    brokers.write(A, 5)
    reader = read(brokers, {A: BEGINNING})
    reader.until_end((A, 5))
    assert {each.current_leader_epoch for _, _, each in brokers.fetches()} == {0}
    brokers.move(A, 2)
    brokers.write(A, 5)
    reader.until_end((A, 10))

    assert reader.offsets[A] == list(range(10))
    assert [(broker, each.current_leader_epoch) for broker, _, each in brokers.fetches()][-1] == (2, 1)


def test_a_leader_that_is_elected_anew_is_asked_with_its_new_epoch(start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    brokers.write(A, 5)
    reader = read(brokers, {A: 0})
    reader.until_end((A, 5))
    brokers.move(A, 1)
    brokers.write(A, 5)
    reader.until_end((A, 10))

    assert reader.offsets[A] == list(range(10))


def test_a_broker_that_does_not_know_of_an_election_yet_is_asked_until_it_does(start: Start, read: Read) -> None:
    brokers = start({"a": 1})
    brokers.write(A, 5)
    brokers.fate_of_offsets = once(*[KafkaError.UNKNOWN_LEADER_EPOCH] * 3)
    brokers.fate = once(*[KafkaError.UNKNOWN_LEADER_EPOCH] * 3)
    reader = read(brokers, {A: BEGINNING})
    reader.until_end((A, 5))

    assert (reader.lost, reader.offsets[A]) == ([], list(range(5)))
