"""Requests for records that are written by hand are the same that kafka-python reads and writes."""

from __future__ import annotations

import random
from base64 import b64encode
from uuid import UUID

import pytest
from kafka.protocol.consumer import FetchRequest

from streamsapp import TopicPartition
from streamsapp.config.client_properties import ClientProperties
from streamsapp.kafka.fetching import requests
from streamsapp.kafka.fetching.partition import FetchedPartition
from streamsapp.kafka.fetching.session import FetchSession
from streamsapp.kafka.fetching.settings import fetch_settings
from streamsapp.record import TopicIdentity

TOPICS = ("t", "ü" * 100, "x" * 249)
IDS = {topic: b64encode(bytes([number] * 16)).decode().rstrip("=") for number, topic in enumerate(TOPICS, 1)}
NAMES = {UUID(bytes=bytes([number] * 16)): topic for number, topic in enumerate(TOPICS, 1)}
FIELDS = (
    "partition", "current_leader_epoch", "fetch_offset", "last_fetched_epoch", "log_start_offset", "partition_max_bytes"
)  # fmt: skip


def partition(name: TopicPartition, position: int, epoch: int, leader_epoch: int = -1) -> FetchedPartition:
    made = FetchedPartition(name, position, TopicIdentity(IDS[name.topic]))
    made.epoch = epoch
    made.led_by(1, leader_epoch, 0.0)
    return made


@pytest.mark.seeds(10)
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_requests_say_what_they_are_to(seed: int, isolation: str) -> None:
    rng = random.Random(seed)
    properties: ClientProperties = {
        "client.id": rng.choice(["ü", "x" * 300]),
        "isolation.level": isolation,
        "fetch.min.bytes": 7,
    }
    settings = fetch_settings(properties)

    names = [TopicPartition(rng.choice(TOPICS), rng.randrange(1 << 31)) for _ in range(rng.choice([0, 1, 40, 200]))]
    named = [
        partition(each, rng.randrange(1 << 63), *(rng.randrange(-1, 1 << 31) for _ in "ab"))
        for each in dict.fromkeys(names)
    ]
    forgotten = [
        partition(TopicPartition(rng.choice(TOPICS), number), 0, 0) for number in range(rng.choice([0, 1, 150]))
    ]
    rack = rng.choice(["", "ü", "x" * 300])
    session, number = FetchSession(), rng.randrange(1 << 31)
    session.answered(rng.choice([0, rng.randrange(1, 1 << 31)]))

    encoded = requests.fetch(settings, session, named, forgotten, 0.123, 77_777, rack)(number)

    read = FetchRequest.decode(encoded[4:], version=13, header=True)
    again = FetchRequest.decode(encoded[4:], version=13, header=True)
    again.with_header(correlation_id=number, client_id=settings.client_id)
    assert bytes(again.encode(version=13, header=True, framed=True)) == encoded
    assert (read.header.correlation_id, read.session_id, read.session_epoch) == (number, *session.number)
    assert read.header.client_id == settings.client_id
    assert (read.max_wait_ms, read.min_bytes, read.max_bytes) == (123, 7, settings.answer)
    assert (read.replica_id, read.isolation_level, read.rack_id) == (-1, int(isolation == "read_committed"), rack)
    told = {
        TopicPartition(NAMES[of.topic_id], each.partition): tuple(getattr(each, field) for field in FIELDS)
        for of in read.topics
        for each in of.partitions
    }
    assert told == {
        each.name: (each.name.partition, each.leader_epoch, each.position, each.epoch, -1, 77_777) for each in named
    }
    left = [TopicPartition(NAMES[of.topic_id], each) for of in read.forgotten_topics_data for each in of.partitions]
    assert sorted(left) == sorted(each.name for each in forgotten)


def test_the_last_number_of_a_session_is_followed_by_the_first() -> None:
    session = FetchSession()
    session.answered(5)
    assert session.number == (5, 1)
    session._epoch = 2**31 - 1
    session.answered(5)
    assert session.number == (5, 1)
