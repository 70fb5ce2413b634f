"""Clients that were told that there are no brokers find one again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from brokerless_server import BrokerlessServer
from streamsapp.kafka import rebootstrap
from streamsapp.kafka.rebootstrap import (
    RebootstrappingAdminClient,
    RebootstrappingConsumer,
    RebootstrappingProducer,
)

#: So often a client is told of no brokers until it believes that; one time in two it does.
TIMES = 30
CLIENTS = [RebootstrappingAdminClient, RebootstrappingConsumer, RebootstrappingProducer]


@pytest.fixture
def server() -> Iterator[BrokerlessServer]:
    with closing(BrokerlessServer()) as server:
        yield server


@contextmanager
def made(kind: Any, server: BrokerlessServer) -> Iterator[Any]:
    group = {"group.id": "g"} if issubclass(kind, Consumer) else {}
    client = kind({"bootstrap.servers": server.address, "log_level": 0} | group)
    yield client
    if issubclass(kind, Consumer):
        client.close()
    else:
        client.__exit__(None, None, None)


def lose_brokers(client: Any, server: BrokerlessServer) -> bool:
    """Return whether the client has lost its brokers, so that no request of its own class finds one any more."""
    base = next(each for each in (AdminClient, Consumer, Producer) if isinstance(client, each))
    for _ in range(TIMES):
        server.tells_of_none = True
        try:
            base.list_topics(client, timeout=1.0)
        except KafkaException:
            """It took the server's word before that was told here."""
        server.tells_of_none = False
        try:
            base.list_topics(client, timeout=1.0)
        except KafkaException:
            return True
    return False


def brokers(client: Any) -> list[int]:
    """Told by the client, sooner or later."""
    give_up = time.monotonic() + 60
    while True:
        try:
            return list(client.list_topics(timeout=1.0).brokers)
        except KafkaException:
            if time.monotonic() > give_up:
                raise


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_client_that_has_lost_its_brokers_finds_them_again(kind: Any, server: BrokerlessServer) -> None:
    with made(kind, server) as client:
        assert brokers(client) == [1]

        assert lose_brokers(client, server), "librdkafka keeps its brokers by now: rebootstrap is not needed any more"

        assert brokers(client) == [1]


def test_the_bootstrap_servers_are_told_when_no_broker_answered_a_request(
    server: BrokerlessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    monkeypatch.setattr(rebootstrap, "_add_brokers", lambda handle, servers: told.append(servers))
    with made(RebootstrappingConsumer, server) as client:
        assert client.asked(lambda: "answer") == "answer"
        assert told == []
        with pytest.raises(KafkaException):
            client.list_topics("nowhere", timeout=0.0)
        assert told == [server.address.encode()]
        with pytest.raises(KafkaException):
            client.asked(refused)
        assert len(told) == 1


def refused() -> None:
    """By the broker, which is there."""
    raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
