"""The admin client never has leaders looked up where the client library may crash: see ``streamsapp.kafka.admin``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from kafka_cluster import START_TIMEOUT, Kafka
from streamsapp.config import StreamsConfig, client_properties
from streamsapp.kafka.admin import Admin
from streamsapp.kafka.retry import repeated
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.local.broker import EmbeddedBroker

#: The client library writes this when it looks leaders up for a request.
LOOKUP = "query partition leaders"
latest: Callable[[], OffsetSpec] = OffsetSpec.latest
Request: TypeAlias = Callable[[AdminClient, str], None]


@pytest.fixture
def lookups(kafka: Kafka, caplog: pytest.LogCaptureFixture) -> Callable[[type[AdminClient], Request, str], list[str]]:
    """Gives the lines that a new client logs of lookups while it makes a request about a topic."""

    def count(kind: type[AdminClient], request: Request, topic: str) -> list[str]:
        caplog.clear()
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": kafka.bootstrap_servers,
            "debug": "metadata",
        }
        client = kind(settings, logger=logging.getLogger("client"))
        request(client, topic)
        while client.poll(0.1):
            pass
        return [message for message in caplog.messages if LOOKUP in message]

    caplog.set_level(logging.DEBUG, "client")
    return count


def list_offsets(client: AdminClient, topic: str) -> None:
    partitions = [TopicPartition(topic, number) for number in range(2)]

    def ask() -> list[int]:
        answers = client.list_offsets(dict.fromkeys(partitions, latest()), request_timeout=5)
        return [answer.result(30).offset for answer in answers.values()]

    assert repeated(ask, "a topic that was just created has no leaders for a moment") == [0, 0]


def delete_records(client: AdminClient, topic: str) -> None:
    def ask() -> list[int]:
        answers = client.delete_records([TopicPartition(topic, 0, 0)])
        return [answer.result(30).low_watermark for answer in answers.values()]

    assert repeated(ask, "a topic that was just created has no leaders for a moment") == [0]


@pytest.mark.parametrize("request_of", [list_offsets, delete_records])
def test_leaders_are_known_before_a_request(
    kafka: Kafka, lookups: Callable[[type[AdminClient], Request, str], list[str]], request_of: Request
) -> None:
    topic = kafka.create_topic(partitions=2)

    assert lookups(Admin, request_of, topic) == []
    assert lookups(AdminClient, request_of, topic), "lookups are not called that any more: see what they say now"


def test_offsets_of_a_topic_that_is_missing_are_an_error_of_their_future(kafka: Kafka) -> None:
    asked = TopicPartition(kafka.unique("nowhere"), 0)

    with pytest.raises(KafkaException) as raised:
        kafka.admin.list_offsets({asked: latest()})[asked].result(30)

    assert raised.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_leaders_are_learned_anew_when_a_broker_has_come_back(own_broker: EmbeddedBroker) -> None:
    kafka = Kafka(own_broker.bootstrap_servers)
    topic = kafka.create_topic(partitions=2)
    list_offsets(kafka.admin, topic)
    asked = TopicPartition(topic, 0)

    own_broker.stop()
    with pytest.raises(KafkaException):
        kafka.admin.list_offsets({asked: latest()}, request_timeout=1)[asked].result(30)
    own_broker.start()

    list_offsets(kafka.admin, topic)


def test_asking_for_a_topic_does_not_create_it(tmp_path: Path) -> None:
    creating = {"auto.create.topics.enable": "true"}
    with EmbeddedBroker(tmp_path / "kafka", properties=creating, start_timeout=START_TIMEOUT) as broker:
        config = StreamsConfig(application_id="app", bootstrap_servers=broker.bootstrap_servers)
        admin = TopicAdmin(client_properties.admin(config))

        assert "does not exist" in admin.why_missing("misspelt")
        assert admin.partition_counts() == {}
        admin.close()
