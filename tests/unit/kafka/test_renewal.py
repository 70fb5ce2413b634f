"""A client of librdkafka's that heard of no brokers has no address to ask any more; another client has."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from brokerless_server import TOPIC, BrokerlessServer
from instances import TIMEOUT
from streamsapp import TopicPartition
from streamsapp.errors import TopicError
from streamsapp.kafka import topics
from streamsapp.kafka.renewal import Renewal
from streamsapp.kafka.topics import TopicAdmin

#: So often a broker says that there are no brokers until a client believes that; one time in two it does.
TIMES = 30


@pytest.fixture
def server() -> Iterator[BrokerlessServer]:
    with closing(BrokerlessServer()) as server:
        yield server


@contextmanager
def made(kind: Any, server: BrokerlessServer) -> Iterator[Any]:
    group = {"group.id": "g"} if issubclass(kind, Consumer) else {}
    recovery = {"metadata.recovery.strategy": "rebootstrap"}
    client = kind({"bootstrap.servers": server.address, "log_level": 0} | recovery | group)
    yield client
    if issubclass(kind, Consumer):
        client.close()
    else:
        client.__exit__(None, None, None)


def fails(client: Any) -> bool:
    try:
        client.list_topics(timeout=1.0)
    except KafkaException:
        return True
    return False


def loses_brokers(client: Any, server: BrokerlessServer) -> bool:
    """Return whether the client has lost its brokers, so that no request finds one any more."""
    for _ in range(TIMES):
        server.tells_of_none = True
        fails(client)  # it may take the server's word before that is seen here
        server.tells_of_none = False
        if fails(client):
            return True
    return False


@pytest.mark.parametrize("kind", [AdminClient, Consumer, Producer])
def test_librdkafka_loses_all_brokers_whatever_its_strategy_of_recovery(kind: Any, server: BrokerlessServer) -> None:
    with made(kind, server) as client:
        assert loses_brokers(client, server), "librdkafka keeps its brokers by now: no other client is needed any more"
        assert fails(client)
        with made(kind, server) as another:
            assert not fails(another)


def test_the_admin_client_finds_brokers_again(server: BrokerlessServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "TIMEOUT", 1.0)
    with closing(TopicAdmin({"bootstrap.servers": server.address})) as admin:
        assert admin.partition_counts() == {TOPIC: 1}
        assert loses_brokers(admin._admin, server)
        give_up, found = time.monotonic() + TIMEOUT, dict[str, int]()
        while not found:
            assert time.monotonic() < give_up
            with suppress(TopicError):  # its client has lost its brokers
                found = admin.partition_counts()
    assert found == {TOPIC: 1}


@pytest.mark.parametrize("times", [1, 3])
def test_requests_of_an_admin_client_end_also_if_another_one_has_taken_its_place(
    times: int, server: BrokerlessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "TIMEOUT", 2.0)
    with closing(TopicAdmin({"bootstrap.servers": server.address})) as admin:
        asked = list[topics.OffsetRequest]()
        for _ in range(times):
            assert admin.partition_counts() == {TOPIC: 1}
            before = weakref.ref(admin._admin)
            asked.append(admin.request_offsets([TopicPartition(TOPIC, 0)]))
            admin._renewal.failed(failure(KafkaError._TRANSPORT))
            assert admin._admin is not before()

        for each in asked:
            with pytest.raises(KafkaException) as raised:
                each.result()
            assert raised.value.args[0].code() == KafkaError._TIMED_OUT
        time.sleep(2 * 2.0)
        admin._renewal.answered()
        admin._renewal.failed(failure(KafkaError._TRANSPORT))
        assert len([admin._admin, *admin._before]) == 2, "those that nobody can be waiting for are gone"


def failure(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


def test_another_client_is_due_once_for_each_that_was_answered_and_then_was_not() -> None:
    renewal = Renewal({})
    renewal.failed(failure(KafkaError._TRANSPORT))  # none has answered: another client would find none, either
    assert not renewal.due()
    renewal.answered()
    renewal.failed(failure(KafkaError.TOPIC_AUTHORIZATION_FAILED))  # a broker says so
    assert not renewal.due()
    renewal.failed(failure(KafkaError._TIMED_OUT))
    assert renewal.due()
    renewal.failed(failure(KafkaError._TIMED_OUT))
    assert not renewal.due()
