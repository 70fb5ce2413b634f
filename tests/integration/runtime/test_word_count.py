"""The main job on a real broker: counts are exact, and what is left behind is as Kafka Streams leaves it."""

from __future__ import annotations

import random
from base64 import b64decode
from collections import Counter

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import ConfigResource, ResourceType

from instances import PATIENT, Instances, eventually, last_counts, produce, stored_counts
from kafka_cluster import Kafka
from killable import word_count
from streamsapp import ClientState, Serdes
from streamsapp.serdes.offset_metadata import OffsetMetadata
from streamsapp.testing import TopologyTestDriver

WORDS = [f"word{number}" for number in range(300)]


def lines(number: int) -> list[str]:
    chosen = random.Random(7)
    return [" ".join(chosen.choices(WORDS, k=10)) for _ in range(number)]


def topic_settings(kafka: Kafka, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return {name: entry.value for name, entry in kafka.admin.describe_configs([resource])[resource].result().items()}


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_counts_words_exactly_with_two_threads_and_a_repartition(
    kafka: Kafka, instances: Instances, guarantee: str
) -> None:
    source, sink = kafka.create_topic("lines", partitions=3), kafka.create_topic("counts", partitions=2)
    text = lines(2000)
    produce(kafka, source, [(None, line.encode(), 1000 + at) for at, line in enumerate(text)])
    truth = {word.encode(): count for word, count in Counter(" ".join(text).split()).items()}
    # At least once a record that the broker does not take within the session is given up, and counted again.
    config = instances.config(threads=2, processing_guarantee=guarantee, kafka=PATIENT)
    topology = word_count(source, sink)

    instance = instances.start(topology, config)
    eventually(lambda: last_counts(kafka.read(sink)) == truth)
    eventually(lambda: all(task["inputLag"] == 0 for task in instance.tasks()))
    assert instance.state is ClientState.RUNNING
    assert instance.close()

    updates = kafka.read(sink)
    assert len(updates) == sum(truth.values())
    changelog = kafka.read(f"{config.application_id}-counts-changelog")
    assert last_counts(changelog) == truth
    assert stored_counts(topology, config, "counts") == truth


def test_commits_the_last_read_offset_with_the_partition_time_as_kafka_streams_writes_it(
    kafka: Kafka, instances: Instances, guarantee: str
) -> None:
    source, sink = kafka.create_topic("lines"), kafka.create_topic("counts")
    produce(kafka, source, [(None, b"a b", 5000), (None, b"c", 9000), (None, b"d", 7000)])
    config = instances.config(processing_guarantee=guarantee)

    instance = instances.start(word_count(source, sink), config)
    eventually(lambda: len(kafka.read(sink)) == 4)
    assert instance.close()

    [(offset, text)] = kafka.committed(config.application_id, source).values()
    # Version 2, the time as eight bytes and no entries, so that Kafka Streams can take over; then the topic.
    assert (offset, b64decode(text)[:13]) == (3, b"\2" + (9000).to_bytes(8, "big") + bytes(4))
    [described] = kafka.admin.describe_topics(TopicCollection([source])).values()
    assert OffsetMetadata.decode(text).topic.topic_id == str(described.result().topic_id)
    repartitioned = kafka.committed(config.application_id, f"{config.application_id}-words-repartition")
    assert OffsetMetadata.decode(repartitioned[0][1]).partition_time == 9000


def test_the_test_driver_has_each_key_in_the_partition_that_it_has_on_a_broker(
    kafka: Kafka, instances: Instances
) -> None:
    source, sink = kafka.create_topic("lines", partitions=3), kafka.create_topic("counts", partitions=2)
    produce(kafka, source, [(None, line.encode(), 1000) for line in lines(50)])
    config = instances.config()
    topology, changelog = word_count(source, sink), f"{config.application_id}-counts-changelog"
    instance = instances.start(topology, config)
    eventually(lambda: sum(last_counts(kafka.read(sink)).values()) == 500)
    eventually(lambda: sum(last_counts(kafka.read(changelog)).values()) == 500)
    assert instance.close()

    with TopologyTestDriver(topology, config, partitions={source: 3, sink: 2}) as driver:
        driver.create_input_topic(source, Serdes.string(), Serdes.string()).pipe_values(lines(50))
        for topic, partitions in ((sink, 2), (changelog, 3)):
            for number in range(partitions):
                part = driver.create_output_topic(topic, Serdes.bytes(), Serdes.long(), partition=number)
                there = [record for record in kafka.read(topic) if record.partition() == number]
                assert part.read_key_values_to_map() == last_counts(there) != {}


def test_creates_internal_topics_with_the_settings_of_kafka_streams(kafka: Kafka, instances: Instances) -> None:
    source, sink = kafka.create_topic("lines", partitions=3), kafka.create_topic("counts")
    config = instances.config()

    instance = instances.start(word_count(source, sink), config)
    eventually(lambda: instance.state is ClientState.RUNNING)

    repartition = f"{config.application_id}-words-repartition"
    changelog = f"{config.application_id}-counts-changelog"
    assert len(kafka.partitions_of(repartition)) == len(kafka.partitions_of(changelog)) == 3
    settings = topic_settings(kafka, repartition)
    assert settings["cleanup.policy"] == "delete"
    assert settings["segment.bytes"] == "52428800"
    assert settings["retention.ms"] == "-1"
    assert settings["message.timestamp.type"] == "CreateTime"
    settings = topic_settings(kafka, changelog)
    assert settings["cleanup.policy"] == "compact"
    assert settings["message.timestamp.type"] == "CreateTime"


@pytest.mark.usefixtures("moving")
def test_an_application_that_is_started_again_goes_on_where_it_was(
    kafka: Kafka, instances: Instances, guarantee: str
) -> None:
    source, sink = kafka.create_topic("lines"), kafka.create_topic("counts")
    config = instances.config(processing_guarantee=guarantee)
    produce(kafka, source, [(None, b"a b a", 1000)])
    first = instances.start(word_count(source, sink), config)
    eventually(lambda: len(kafka.read(sink)) == 3)
    assert first.close()

    produce(kafka, source, [(None, b"a c", 2000)])
    instances.start(word_count(source, sink), config)
    eventually(lambda: len(kafka.read(sink)) == 5)

    assert last_counts(kafka.read(sink)) == {b"a": 3, b"b": 1, b"c": 1}
