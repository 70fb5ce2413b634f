"""Brokers and the records of a producer that another one has fenced: the facts that decision 53 rests on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError

from kafka_cluster import Kafka
from stale_producers import Writer


@pytest.fixture
def asked(kafka: Kafka) -> Iterator[Writer]:
    made = Writer.of(kafka.bootstrap_servers)
    yield made
    made.connection.close(5.0)


def test_a_producer_with_a_transactional_id_may_write_outside_of_transactions(kafka: Kafka, asked: Writer) -> None:
    topic = kafka.create_topic()
    producer = asked.init(kafka.unique("writer"))

    assert [asked.write(producer, sequence, topic) for sequence in range(3)] == [KafkaError.NO_ERROR] * 3
    assert len(kafka.read(topic)) == 3


def test_a_fenced_producer_goes_on_outside_of_transactions_until_the_partition_hears_of_it(
    kafka: Kafka, asked: Writer
) -> None:
    """The coordinator alone knows the newer epoch; markers of a transaction carry it to the partitions, also to those
    that the producer has not written to yet."""
    topic, name = kafka.create_topic(partitions=2), kafka.unique("writer")
    stale = asked.init(name)
    assert asked.write(stale, 0, topic) == KafkaError.NO_ERROR

    heir = asked.init(name)
    assert (heir.id, heir.epoch > stale.epoch) == (stale.id, True)
    assert asked.write(stale, 1, topic) == KafkaError.NO_ERROR  # the hole of decision 9

    asked.mark(name, heir, [(topic, 0), (topic, 1)])
    assert asked.write(stale, 2, topic) == KafkaError.INVALID_PRODUCER_EPOCH
    assert asked.write(stale, 0, topic, partition=1) == KafkaError.INVALID_PRODUCER_EPOCH
    assert len(kafka.read(topic)) == 2
