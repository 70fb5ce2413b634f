"""Topics that are deleted and created again within seconds, on a real broker: no record of the new one is passed over,
and no position in the one before is used in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from instances import TIMEOUT, Instances, counts_per_key, eventually, last_counts, produce
from kafka_cluster import Kafka, wait_until_seen
from streamsapp import (
    ClientState,
    Consumed,
    Grouped,
    KStream,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    StreamsRuntime,
    Topology,
)
from streamsapp.config.known_properties import CLIENTS
from streamsapp.errors import StoreNotAvailableError, TopicError


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


def await_keys(instance: StreamsRuntime, store: str, keys: set[str]) -> None:
    def found() -> bool:
        try:
            return {key for key, _ in instance.query(store, from_=None, to=None)} == keys
        except StoreNotAvailableError:
            return False

    eventually(found)


def records(count: int) -> list[tuple[bytes, bytes, int]]:
    return [(b"k", b"%d" % number, number) for number in range(count)]


@pytest.mark.parametrize("count", [3, 5, pytest.param(8, marks=pytest.mark.long)])
@pytest.mark.parametrize("client", CLIENTS)
def test_all_records_of_a_source_topic_that_is_created_anew_count_once(
    kafka: Kafka, instances: Instances, client: str, count: int
) -> None:
    source, sink = kafka.create_topic("in"), kafka.create_topic("counts")
    config = instances.config(processing_guarantee="exactly_once", client=client)
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


def test_an_instance_ends_when_the_changelog_of_a_task_that_runs_is_created_anew(
    kafka: Kafka, instances: Instances
) -> None:
    source, sink = kafka.create_topic("in"), kafka.create_topic("counts")
    config = instances.config()
    instance = instances.start(counting(source, sink), config)
    produce(kafka, source, records(5))
    eventually(lambda: last_counts(kafka.read(sink)) == {b"k": 5})

    make_anew(kafka, f"{config.application_id}-counts-changelog")

    error: Any = instance.wait(TIMEOUT)
    assert isinstance(error, TopicError)
    assert "it lacks what store counts has" in str(error)


def test_state_is_not_used_with_a_changelog_that_was_created_anew(
    kafka: Kafka, instances: Instances, caplog: pytest.LogCaptureFixture
) -> None:
    source, sink = kafka.create_topic("in"), kafka.create_topic("counts")
    config = instances.config(processing_guarantee="exactly_once")
    instance = instances.start(counting(source, sink), config)
    produce(kafka, source, records(5))
    eventually(lambda: last_counts(kafka.read(sink)) == {b"k": 5})
    assert instance.close()

    changelog = f"{config.application_id}-counts-changelog"
    make_anew(kafka, changelog)
    produce(kafka, changelog, [(b"k", (70).to_bytes(8, "big"), 0)] * 20)
    for count in (71, 72):
        instance = instances.start(counting(source, sink), config)
        produce(kafka, source, records(1))
        eventually(lambda count=count: last_counts(kafka.read(sink)) == {b"k": count})  # type: ignore[misc]
        assert instance.close()

    assert caplog.text.count(f"store counts was made from topic {changelog}") == 1


def test_state_of_another_cluster_is_not_used(
    kafka: Kafka, instances: Instances, there: Instances, caplog: pytest.LogCaptureFixture
) -> None:
    config = instances.config(processing_guarantee="exactly_once")
    for cluster in (kafka, there.kafka):
        for topic in ("one-in", "one-counts"):
            cluster.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(TIMEOUT)
            wait_until_seen(cluster.admin, topic, 1)
    instance = instances.start(counting("one-in", "one-counts"), config)
    produce(kafka, "one-in", records(5))
    eventually(lambda: last_counts(kafka.read("one-counts")) == {b"k": 5})
    assert instance.close()

    produce(there.kafka, "one-in", records(20))
    elsewhere = there.config(config.application_id, state_dir=config.state_dir, processing_guarantee="exactly_once")
    there.start(counting("one-in", "one-counts"), elsewhere)

    eventually(lambda: counts_per_key(there.kafka.read("one-counts")) == {b"k": list(range(1, 21))})
    assert "or this is another cluster; its local state is wiped" in caplog.text


@pytest.mark.parametrize("table", ["table", "global table"])
def test_what_the_handler_left_out_is_not_restored_from_a_source_topic(
    kafka: Kafka, instances: Instances, table: str
) -> None:
    prices, orders, sink = (kafka.create_topic(name) for name in ("prices", "orders", "out"))
    builder = StreamsBuilder()
    source: Any = (prices, Consumed(Serdes.string(), Serdes.long()), Materialized("prices"))
    stream: KStream[Any, Any] = builder.stream(orders, Consumed(Serdes.string(), Serdes.string()))
    joined = (
        stream.join(builder.table(*source), lambda order, price: f"{order}:{price}")
        if table == "table"
        else stream.join(builder.global_table(*source), lambda key, value: key, lambda order, price: f"{order}:{price}")
    )
    joined.to(sink, Produced(Serdes.string(), Serdes.string()))
    topology = builder.build(optimize=True)
    config = instances.config(deserialization_exception_handler="continue")
    price = (2).to_bytes(8, "big")
    produce(kafka, prices, [(b"tea", price, 0), (b"tea", b"bad", 1), (b"milk", price, 2), (b"pie", b"bad", 3)])
    # The second one has the disk of the first, and the third one none.
    for number, directory in enumerate(("a", "a", "b"), 1):
        instance = instances.start(topology, replace(config, state_dir=instances.directory / directory))
        if table == "table":
            await_keys(instance, "prices", {"tea", "milk"})
        produce(kafka, orders, [(key, b"o", 10 + number) for key in (b"tea", b"milk", b"pie")])
        eventually(lambda count=2 * number: len(kafka.read(sink)) == count)  # type: ignore[misc]
        assert instance.state is ClientState.RUNNING
        assert instance.close()
    assert {message.value() for message in kafka.read(sink)} == {b"o:2"}
