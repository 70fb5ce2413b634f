"""Begins and ends of partitions, and offsets by time: a broker answers both clients the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition as KafkaPartition

from instances import TIMEOUT
from kafka_cluster import Kafka
from streamsapp import TopicPartition
from streamsapp.config.client_properties import ClientProperties
from streamsapp.kafka import retry
from streamsapp.kafka.consumer import END, PartitionConsumer

Ask = Callable[[str], PartitionConsumer]


@pytest.fixture(params=["streamsapp", "librdkafka"])
def asking(request: pytest.FixtureRequest, kafka: Kafka) -> Iterator[Ask]:
    """Makes consumers of a level of isolation, which are closed after the test."""
    made: list[PartitionConsumer] = []

    def make(level: str) -> PartitionConsumer:
        properties: ClientProperties = {
            "bootstrap.servers": kafka.bootstrap_servers, "client": request.param, "group.id": "g",
            "isolation.level": level,
        }  # fmt: skip
        made.append(PartitionConsumer(properties))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_partitions_begin_and_end_where_the_broker_says(kafka: Kafka, asking: Ask) -> None:
    topic = kafka.create_topic(partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": kafka.unique("t")})
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    for number in range(5):
        producer.produce(topic, b"committed", partition=0, timestamp=1_000 + number)
    producer.commit_transaction(TIMEOUT)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(topic, b"open", partition=0, timestamp=2_000)
    producer.flush(TIMEOUT)
    kafka.admin.delete_records([KafkaPartition(topic, 0, 2)])[KafkaPartition(topic, 0, 2)].result(TIMEOUT)
    committed, uncommitted = asking("read_committed"), asking("read_uncommitted")

    assert committed.watermarks(first, cached=False) == (2, 6)  # a record of control ends the transaction
    assert uncommitted.watermarks(first, cached=False) == (2, 9)
    assert committed.watermarks(second, cached=False) == (0, 0)
    assert committed.offsets_for_time([first, second], 1_003) == {first: 3, second: END}
    assert committed.offsets_for_time([first], 0) == {first: 2}
    assert committed.offsets_for_time([first], 1 << 42) == {first: END}
    assert committed.offsets_for_time([], 0) == {}
    producer.abort_transaction(TIMEOUT)


def test_a_topic_that_there_is_not_is_an_error_of_kafkas(
    kafka: Kafka, asking: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "GIVE_UP_AFTER", 0.5)
    missing = TopicPartition(kafka.unique("missing"), 0)
    asks: list[Callable[[PartitionConsumer], object]] = [
        lambda it: it.watermarks(missing, cached=False),
        lambda it: it.offsets_for_time([missing], 0),
    ]
    for ask in asks:
        with pytest.raises(KafkaException) as raised:
            ask(asking("read_committed"))
        assert raised.value.args[0].code() in (
            KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION
        )  # fmt: skip
