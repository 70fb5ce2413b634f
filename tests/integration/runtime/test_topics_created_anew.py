"""Topics that are deleted and created again within seconds, on a real broker: no record of the new one is passed over,
and no position in the one before is used in it."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.cimpl import NewTopic

from instances import TIMEOUT, Instances, counts_per_key, eventually, last_counts, produce
from kafka_cluster import Kafka, wait_until_seen
from streamsapp import ClientState, Grouped, KStream, Materialized, Serdes, StreamsBuilder, Topology
from streamsapp.errors import TopicError

#: A property that is left to librdkafka's consumer.
PATHS = {"native": {}, "librdkafka": {"client.rack": "a"}}


def counting(source: str, sink: str, *, repartition: bool = False) -> Topology:
    builder = StreamsBuilder()
    stream: KStream[Any, Any] = builder.stream(source)
    grouped = stream.group_by(lambda key, value: key, Grouped(name="words")) if repartition else stream.group_by_key()
    grouped.count(Materialized("counts", value_serde=Serdes.long())).to_stream().to(sink)
    return builder.build()


def make_anew(kafka: Kafka, topic: str) -> None:
    kafka.admin.delete_topics([topic])[topic].result(TIMEOUT)

    def made() -> bool:
        try:
            kafka.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(TIMEOUT)
        except KafkaException:  # brokers have not forgotten it yet
            return False
        return True

    eventually(made, "the topic")
    wait_until_seen(kafka.admin, topic, 1)


def records(count: int) -> list[tuple[bytes, bytes, int]]:
    return [(b"k", b"%d" % number, number) for number in range(count)]


@pytest.mark.parametrize("count", [3, 5, pytest.param(8, marks=pytest.mark.long)])
@pytest.mark.parametrize("path", PATHS)
def test_all_records_of_a_source_topic_that_is_created_anew_count_once(
    kafka: Kafka, instances: Instances, path: str, count: int
) -> None:
    source, sink = kafka.create_topic("in"), kafka.create_topic("counts")
    config = instances.config(processing_guarantee="exactly_once", kafka=PATHS[path])
    instance = instances.start(counting(source, sink), config)
    produce(kafka, source, records(5))
    eventually(lambda: last_counts(kafka.read(sink)) == {b"k": 5})

    make_anew(kafka, source)
    produce(kafka, source, records(count))
    eventually(lambda: last_counts(kafka.read(sink)) == {b"k": 5 + count})
    assert instance.state is ClientState.RUNNING
    assert instance.close()

    instance = instances.start(counting(source, sink), config)
    produce(kafka, source, records(2))
    eventually(lambda: last_counts(kafka.read(sink)) == {b"k": 7 + count})
    assert counts_per_key(kafka.read(sink)) == {b"k": list(range(1, 8 + count))}


def test_an_instance_ends_when_a_repartition_topic_is_created_anew(kafka: Kafka, instances: Instances) -> None:
    source, sink = kafka.create_topic("in"), kafka.create_topic("counts")
    config = instances.config()
    instance = instances.start(counting(source, sink, repartition=True), config)
    produce(kafka, source, records(5))
    eventually(lambda: last_counts(kafka.read(sink)) == {b"k": 5})

    topic = f"{config.application_id}-words-repartition"
    make_anew(kafka, topic)

    error: Any = instance.wait(TIMEOUT)
    assert isinstance(error, TopicError)
    assert f"repartition topic {topic} was deleted and created again" in str(error)
