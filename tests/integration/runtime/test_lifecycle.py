"""Starting, pausing and closing an instance; restoring, and which listeners are called."""

from __future__ import annotations

import os
import shutil
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from instances import PATIENT, TIMEOUT, Instances, counts_per_key, eventually, last_counts, produce, stored_counts
from kafka_cluster import Kafka
from killable import count_per_key
from streamsapp import (
    ClientState,
    Consumed,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    StreamsRuntime,
    TopicPartition,
    Topology,
)
from streamsapp.config.memory import MINIMUM_BYTES
from streamsapp.dsl.kstream import KStream
from streamsapp.errors import ProcessingError, StreamsError
from streamsapp.local.broker import free_port


def processed(instance: StreamsRuntime) -> float:
    """Records processed since the start, over all tasks."""
    return sum(sample.value for sample in instance.samples() if sample.name.endswith("process_total"))


def counting(kafka: Kafka) -> tuple[str, str, Topology]:
    source, sink = kafka.create_topic("keys", partitions=2), kafka.create_topic("counts")
    return source, sink, count_per_key(source, sink)


def test_a_paused_instance_processes_nothing_and_goes_on_when_resumed(
    kafka: Kafka, instances: Instances, guarantee: str
) -> None:
    source, sink, topology = counting(kafka)
    instance = instances.start(topology, instances.config(processing_guarantee=guarantee, kafka=PATIENT))
    produce(kafka, source, [(b"before", b"", 1000)])
    eventually(lambda: len(kafka.read(sink)) == 1)

    instance.pause()
    # Until then, records that come are given to tasks.
    eventually(lambda: all(task["stores"][0]["mode"] == "paused" for task in instance.tasks()))
    produce(kafka, source, [(b"k%d" % number, b"", 1000) for number in range(100)])
    eventually(lambda: sum(task["inputLag"] or 0 for task in instance.tasks()) == 100)
    assert len(kafka.read(sink)) == 1
    assert instance.state is ClientState.RUNNING

    instance.resume()
    eventually(lambda: len(kafka.read(sink)) == 101)


def test_a_paused_instance_can_be_closed(kafka: Kafka, instances: Instances, guarantee: str) -> None:
    source, sink, topology = counting(kafka)
    config = instances.config(processing_guarantee=guarantee, commit_interval_ms=50_000, kafka=PATIENT)
    instance = instances.start(topology, config)
    produce(kafka, source, [(b"k", b"", 1000)])
    eventually(lambda: processed(instance) == 1)
    instance.pause()

    assert instance.close()
    assert instance.state is ClientState.NOT_RUNNING
    # A commit is answered before the broker has written its markers to every partition.
    eventually(lambda: last_counts(kafka.read(sink)) == {b"k": 1})


def test_closing_commits_what_was_processed(kafka: Kafka, instances: Instances, guarantee: str) -> None:
    source, sink, topology = counting(kafka)
    kafka_properties = PATIENT | {"producer.transaction.timeout.ms": "700000"}
    config = instances.config(processing_guarantee=guarantee, commit_interval_ms=600_000, kafka=kafka_properties)
    produce(kafka, source, [(b"k%d" % (number % 50), b"", 1000) for number in range(5000)])
    instance = instances.start(topology, config)
    eventually(lambda: processed(instance) == 5000)

    assert instance.close()
    assert instance.wait(0) is None
    again = instances.start(topology, config)
    eventually(lambda: again.state is ClientState.RUNNING)
    produce(kafka, source, [(b"k1", b"", 1000)])
    eventually(lambda: processed(again) == 1)
    assert again.close()

    eventually(lambda: len(kafka.read(sink)) >= 5001, "results of the last transaction")
    counts = counts_per_key(kafka.read(sink))
    assert counts.pop(b"k1") == list(range(1, 102))
    assert all(values == list(range(1, 101)) for values in counts.values())


def test_states_are_told_in_order_and_an_instance_is_started_once(kafka: Kafka, instances: Instances) -> None:
    _, _, topology = counting(kafka)
    instance = instances.make(topology, instances.config(kafka=PATIENT))
    told: list[tuple[ClientState, ClientState]] = []
    instance.set_state_listener(lambda new, old: told.append((old, new)))

    with instance:
        eventually(lambda: instance.ready()[0])
        with pytest.raises(StreamsError, match="started once"):
            instance.start()

    assert instance.close()
    assert instance.state is ClientState.NOT_RUNNING
    with pytest.raises(StreamsError, match="started once"):
        instance.start()
    path = [ClientState.CREATED, ClientState.REBALANCING, ClientState.RUNNING]
    path += [ClientState.PENDING_SHUTDOWN, ClientState.NOT_RUNNING]
    assert told == list(pairwise(path))


def test_an_instance_that_was_never_started_can_be_closed(kafka: Kafka, instances: Instances) -> None:
    _, _, topology = counting(kafka)
    instance = instances.make(topology, instances.config())

    assert instance.close()
    assert instance.close()
    assert instance.state is ClientState.NOT_RUNNING


class RestoreProtocol:
    """Writes down the calls that it gets."""

    def __init__(self) -> None:
        self.started: dict[TopicPartition, tuple[str, int, int]] = {}
        self.batches: dict[TopicPartition, list[tuple[int, int]]] = {}
        self.ended: dict[TopicPartition, int] = {}

    def on_restore_start(self, topic_partition: TopicPartition, store_name: str, start: int, end: int) -> None:
        self.started[topic_partition] = (store_name, start, end)

    def on_batch_restored(self, topic_partition: TopicPartition, store_name: str, last: int, number: int) -> None:
        self.batches.setdefault(topic_partition, []).append((last, number))

    def on_restore_end(self, topic_partition: TopicPartition, store_name: str, total: int) -> None:
        self.ended[topic_partition] = total

    def on_restore_suspended(self, topic_partition: TopicPartition, store_name: str, total: int) -> None:
        raise AssertionError(f"{topic_partition} was not suspended")


@pytest.mark.parametrize("store", ["rocksdb", "memory"])
def test_a_lost_store_is_restored_from_its_changelog_and_the_listener_told(
    kafka: Kafka, instances: Instances, guarantee: str, store: str
) -> None:
    source, sink = kafka.create_topic("keys", partitions=2), kafka.create_topic("counts")
    topology = count_per_key(source, sink, store=store)
    config = instances.config(processing_guarantee=guarantee, kafka=PATIENT)
    produce(kafka, source, [(b"k%d" % number, b"", 1000) for number in range(3000)])
    first = instances.start(topology, config)
    eventually(lambda: len(kafka.read(sink)) == 3000)
    assert first.close()
    if store == "rocksdb":
        shutil.rmtree(config.state_dir)

    protocol = RestoreProtocol()
    second = instances.make(topology, config)
    second.set_global_state_restore_listener(protocol)
    second.start()
    eventually(lambda: second.state is ClientState.RUNNING)
    produce(kafka, source, [(b"k%d" % number, b"", 1000) for number in range(3000)])
    eventually(lambda: len(kafka.read(sink)) == 6000)

    assert all(values == [1, 2] for values in counts_per_key(kafka.read(sink)).values())
    changelog = f"{config.application_id}-counts-changelog"
    assert set(protocol.started) == {TopicPartition(changelog, 0), TopicPartition(changelog, 1)}
    for partition, (name, start, end) in protocol.started.items():
        assert (name, start) == ("counts", 0)
        assert protocol.batches[partition][-1][0] < end
        assert sum(number for _, number in protocol.batches[partition]) == protocol.ended[partition] <= end
    assert sum(protocol.ended.values()) == 3000


def test_a_kept_store_is_not_restored_again(kafka: Kafka, instances: Instances, guarantee: str) -> None:
    source, sink, topology = counting(kafka)
    config = instances.config(processing_guarantee=guarantee, kafka=PATIENT)
    produce(kafka, source, [(b"k%d" % number, b"", 1000) for number in range(3000)])
    first = instances.start(topology, config)
    eventually(lambda: len(kafka.read(sink)) == 3000)
    assert first.close()

    protocol = RestoreProtocol()
    second = instances.make(topology, config)
    second.set_global_state_restore_listener(protocol)
    second.start()
    eventually(lambda: second.state is ClientState.RUNNING)

    assert sum(protocol.ended.values()) == 0


def test_an_optimised_table_is_restored_from_its_source_up_to_the_committed_offset(
    kafka: Kafka, instances: Instances, guarantee: str
) -> None:
    source, sink = kafka.create_topic("table", config={"cleanup.policy": "compact"}), kafka.create_topic("out")
    text = Consumed(key_serde=Serdes.string(), value_serde=Serdes.string())
    builder = StreamsBuilder()
    table = builder.table(source, text, Materialized("kept"))
    table.to_stream().map_values(str.upper).to(sink, Produced(Serdes.string(), Serdes.string()))
    topology = builder.build(optimize=True)
    config = instances.config(processing_guarantee=guarantee, topology_optimization="all", kafka=PATIENT)
    produce(kafka, source, [(b"a", b"one", 1000), (b"b", b"two", 1001), (b"a", b"three", 1002)])
    first = instances.start(topology, config)
    eventually(lambda: len(kafka.read(sink)) == 3)
    assert first.close()
    shutil.rmtree(config.state_dir)
    produce(kafka, source, [(b"c", b"later", 1003)])

    protocol = RestoreProtocol()
    second = instances.make(topology, config)
    second.set_global_state_restore_listener(protocol)
    second.start()
    eventually(lambda: len(kafka.read(sink)) == 4)
    assert second.close()

    assert protocol.started == {TopicPartition(source, 0): ("kept", 0, 3)}
    assert protocol.ended == {TopicPartition(source, 0): 3}
    stored = stored_counts(topology, config, "kept")
    assert {key: str(value) for key, value in stored.items()} == {b"a": "three", b"b": "two", b"c": "later"}
    assert not [name for name in kafka.admin.list_topics(timeout=60).topics if name.startswith(config.application_id)]


class Rates(Processor):
    """Fills or reads the store of rates."""

    def init(self, context: ProcessorContext) -> None:
        self.context, self.rates = context, context.get_state_store("rates")


class KeepRate(Rates):
    def process(self, record: Record) -> None:
        self.rates.put(record.key, record.value)


class Rate(Rates):
    def process(self, record: Record) -> None:
        self.context.forward(record.with_value(f"{record.value} at {self.rates.get(record.key)}"))


@pytest.mark.long
def test_a_read_only_store_is_restored_from_its_topic(kafka: Kafka, instances: Instances) -> None:
    rates = kafka.create_topic("rates", config={"cleanup.policy": "compact"})
    orders, sink, text = kafka.create_topic("orders"), kafka.create_topic("out"), Serdes.string()
    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("rates"), text, text)
    topology = Topology()
    serdes: dict[str, Any] = {"key_deserializer": text, "value_deserializer": text}
    topology.add_read_only_state_store(store, "rates-in", rates, "keep", KeepRate, **serdes)
    topology.add_source("orders-in", orders, **serdes).add_processor("rate", Rate, "orders-in")
    topology.connect_processor_and_state_stores("rate", "rates")
    topology.add_sink("out", sink, "rate", key_serializer=text, value_serializer=text)
    config = instances.config(kafka=PATIENT)
    produce(kafka, rates, [(b"eur", b"one", 1000), (b"eur", b"two", 1001)])
    first = instances.start(topology, config)
    eventually(lambda: processed(first) == 2)
    produce(kafka, orders, [(b"eur", b"first", 1002)])
    eventually(lambda: len(kafka.read(sink)) == 1)
    assert first.close()
    shutil.rmtree(config.state_dir)
    produce(kafka, orders, [(b"eur", b"second", 1003)])

    protocol = RestoreProtocol()
    second = instances.make(topology, config)
    second.set_global_state_restore_listener(protocol)
    second.start()
    eventually(lambda: len(kafka.read(sink)) == 2)
    assert second.close()

    assert [message.value() for message in kafka.read(sink)] == [b"first at two", b"second at two"]
    assert protocol.started == {TopicPartition(rates, 0): ("rates", 0, 2)}
    assert not [name for name in kafka.admin.list_topics(timeout=60).topics if name.startswith(config.application_id)]


#: Seconds that an instance has for its end in a pod.
SHUTDOWN = 55.0


class Hangs(Processor):
    """Does not come back until the test is over."""

    released = threading.Event()

    def process(self, record: Record) -> None:
        self.released.wait(2 * TIMEOUT)


def test_a_processor_that_hangs_is_reported_with_its_record(
    kafka: Kafka, instances: Instances, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamsapp.runtime.instance_tasks.LET_GO", 0.5)
    monkeypatch.setattr("streamsapp.runtime.components._JOIN", 0.5)
    Hangs.released.clear()
    source = kafka.create_topic("in")
    topology = Topology()
    topology.add_source("source", source)
    topology.add_processor("sleepy", Hangs, "source")
    produce(kafka, source, [(b"k", b"v", 1000)])
    # Not less: a polling thread that stands still for longer leaves the group, and then no error names the record.
    instance = instances.start(topology, instances.config(max_poll_interval_ms=35_000, kafka=PATIENT))

    error = instance.wait(TIMEOUT)
    Hangs.released.set()

    assert isinstance(error, ProcessingError)
    assert f"{source}-0@0" in str(error)
    assert "max_poll_interval_ms" in str(error)
    assert not instance.healthy()[0]
    assert instance.state is ClientState.ERROR


@pytest.mark.long
def test_an_instance_that_hangs_is_not_ready_and_ends_at_once_when_it_is_told_to(
    kafka: Kafka, instances: Instances, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tasks go on elsewhere once it is gone; it has most of a minute and would wait for its last commit."""
    monkeypatch.setattr("streamsapp.runtime.components._JOIN", 0.5)
    Hangs.released.clear()
    source = kafka.create_topic("in")
    topology = Topology()
    topology.add_source("source", source)
    topology.add_processor("sleepy", Hangs, "source")
    produce(kafka, source, [(b"k", b"v", 1000)])
    instance = instances.start(topology, instances.config(max_poll_interval_ms=35_000, kafka=PATIENT))
    eventually(lambda: instance.status()["hanging"])
    (hang,) = instance.status()["hanging"]
    assert hang["task"] == "0_0"
    assert f"{source}-0@0" in hang["message"]
    ready, why = instance.ready()
    assert not ready
    assert hang["task"] in why

    began = time.monotonic()
    instance.close(SHUTDOWN)
    took = time.monotonic() - began
    Hangs.released.set()
    assert took < SHUTDOWN / 2


def test_an_instance_that_starts_while_kafka_is_away_says_so(kafka: Kafka, instances: Instances) -> None:
    _, _, topology = counting(kafka)
    address = f"127.0.0.1:{free_port()}"
    instance = instances.start(topology, instances.config(bootstrap_servers=address))

    # The client's own words come later than that there is no answer.
    eventually(lambda: any("Connection refused" in each["message"] for each in instance.status()["outages"]))

    (outage,) = instance.status()["outages"]
    assert (outage["name"], outage["address"]) == ("kafka", address)
    instance.close()


#: Of 20 kB: five times as much as the small disk takes.
RECORDS = 3000


def test_a_full_disk_ends_the_instance_and_nothing_is_lost(
    kafka: Kafka, instances: Instances, small_disk: Path, guarantee: str
) -> None:
    source, sink = kafka.create_topic("keys"), kafka.create_topic("counts")
    builder = StreamsBuilder()
    stream: KStream[bytes, bytes] = builder.stream(source)
    joined = stream.group_by_key().reduce(lambda old, new: new, Materialized("last"))
    joined.to_stream().map_values(lambda value: b"%d" % len(value)).to(sink)
    topology = builder.build()
    config = instances.config(processing_guarantee=guarantee, state_dir=small_disk, memory_bytes=MINIMUM_BYTES)
    produce(kafka, source, [(b"k%d" % number, os.urandom(20_000), 1000) for number in range(RECORDS)])

    instance = instances.start(topology, config)
    # It fails at the latest when it closes, and writes what is left.
    eventually(lambda: processed(instance) == RECORDS or instance.state is ClientState.ERROR)
    instance.close()
    error = instance.wait(0)
    assert instance.state is ClientState.ERROR
    for part in (str(small_disk), "space"):
        assert part in str(error)

    roomy = instances.config(config.application_id, processing_guarantee=guarantee)
    instances.start(topology, roomy)
    eventually(lambda: len({message.key() for message in kafka.read(sink)}) == RECORDS)
    changelog = f"{config.application_id}-last-changelog"  # written at the commit, later than the sink
    eventually(lambda: len({message.key() for message in kafka.read(changelog)}) == RECORDS)
    if guarantee == "exactly_once":
        assert len(kafka.read(sink)) == RECORDS
