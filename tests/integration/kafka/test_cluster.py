"""The answers of a broker about topics and committed offsets: the same for both clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition as KafkaPartition
from confluent_kafka.admin import NewTopic

from kafka_cluster import Kafka
from streamsapp import TopicPartition
from streamsapp.kafka.cluster import Cluster


@pytest.fixture
def group(kafka: Kafka) -> str:
    return kafka.unique("group")


@pytest.fixture
def cluster(kafka: Kafka, group: str) -> Iterator[Cluster]:
    with closing(Cluster({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})) as made:
        yield made


def test_committed_offsets_have_their_metadata_to_the_byte(kafka: Kafka, cluster: Cluster, group: str) -> None:
    topic = kafka.create_topic(kafka.unique("committed"), 4)
    places = [TopicPartition(topic, number) for number in range(4)]
    cluster.commit({places[0]: (5, "é time"), places[1]: (0, "")})
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[KafkaPartition(topic, 2, 7, metadata="by librdkafka")], asynchronous=False)
    consumer.close()

    assert cluster.committed(places, 30) == {
        places[0]: (5, "é time"),
        places[1]: (0, ""),
        places[2]: (7, "by librdkafka"),
    }


def test_a_name_stands_for_another_topic_once_that_is_made_anew(kafka: Kafka, cluster: Cluster) -> None:
    topic = kafka.create_topic(kafka.unique("anew"), 1)
    [before] = cluster.topics([topic, "there-is-none"], 30).values()
    assert before.topic_id
    assert before.cluster_id
    kafka.admin.delete_topics([topic])[topic].result(30)
    while topic in cluster.topics([topic], 30):
        pass
    assert "not-there" not in cluster.topics(["not-there"], 30)
    kafka.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    while not (found := cluster.topics([topic], 30)):
        pass

    assert found[topic].is_other(before)


def test_no_broker_is_an_error_of_kafkas(kafka: Kafka) -> None:
    with closing(Cluster({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"})) as nowhere:
        with pytest.raises(KafkaException):
            nowhere.topics(["t"], 2)
        with pytest.raises(KafkaException):
            nowhere.committed([TopicPartition("t", 0)], 2)
