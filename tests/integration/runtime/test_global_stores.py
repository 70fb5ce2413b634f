"""The global thread against a real broker: transactions, records that are deleted, topics that are created anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition as KafkaPartition
from confluent_kafka.admin import NewTopic

from instances import TIMEOUT, Instances, eventually
from kafka_cluster import Kafka
from streamsapp import Consumed, Materialized, Serdes, StreamsBuilder, StreamsConfig
from streamsapp.clock import SystemClock
from streamsapp.config import client_properties
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.runtime.global_stores.reading import GlobalReading
from streamsapp.runtime.global_stores.task import GlobalTask
from streamsapp.runtime.global_stores.thread import FlushSchedule, GlobalThread
from streamsapp.runtime.thread_failure import ThreadFailure
from streamsapp.state.engine.resources import StateResources

TEXT: Consumed[str, str] = Consumed(Serdes.string(), Serdes.string())


class Copy:
    """A global table of one topic, kept by threads that come and go."""

    def __init__(self, topic: str, config: StreamsConfig) -> None:
        builder = StreamsBuilder()
        builder.global_table(topic, TEXT, Materialized("table"))
        self._stores = builder.build().global_stores()
        self._config = config
        self.failures: SimpleQueue[ThreadFailure] = SimpleQueue()
        self._thread: GlobalThread | None = None

    def start(self) -> None:
        config, clock = self._config, SystemClock()
        resources = StateResources(8 << 20)
        task = GlobalTask(self._stores, config, clock, resources, config.state_dir / config.application_id)
        consumer = PartitionConsumer(client_properties.restore_consumer(config))
        reading = GlobalReading(task, consumer, TopicAdmin(client_properties.admin(config)), clock)
        flushes = FlushSchedule(config.commit_interval_ms / 1000, clock)
        self._thread = GlobalThread("global", task, reading, flushes, self.failures, lambda: None)
        self._thread.start()
        self._thread.begin()
        assert self._thread.restored.wait(TIMEOUT)

    def stop(self) -> None:
        if self._thread is not None:
            self._thread.stop()
            self._thread.join(TIMEOUT)
            self._thread = None

    @property
    def keys(self) -> list[str]:
        assert self._thread is not None
        return [key for key, _ in self._thread.stores["table"].all()]

    @property
    def lags(self) -> list[int]:
        assert self._thread is not None
        return [each.observed.lag for each in self._thread.reading.partitions.values()]


@pytest.fixture
def copy_of(instances: Instances) -> Iterator[Callable[..., Copy]]:
    made: list[Copy] = []

    def make(topic: str, **settings: Any) -> Copy:
        made.append(Copy(topic, instances.config(**settings)))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def write(kafka: Kafka, topic: str, *keys: str) -> None:
    kafka.produce(topic, [(key.encode(), b"v") for key in keys])


def test_all_partitions_are_restored_and_followed_and_the_lag_is_told(
    kafka: Kafka, copy_of: Callable[..., Copy]
) -> None:
    topic = kafka.create_topic("rates", 3)
    write(kafka, topic, "a", "b", "c", "d")
    copy = copy_of(topic)

    copy.start()
    assert copy.keys == ["a", "b", "c", "d"]
    write(kafka, topic, "e")

    eventually(lambda: copy.keys == ["a", "b", "c", "d", "e"])
    eventually(lambda: copy.lags == [0, 0, 0])


def test_records_of_open_and_aborted_transactions_are_not_restored_and_committed_ones_are_seen(
    kafka: Kafka, copy_of: Callable[..., Copy]
) -> None:
    topic = kafka.create_topic("rates")
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "transactional.id": kafka.unique("writer"),
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions()
    for key in ("aborted", "open"):
        producer.begin_transaction()
        producer.produce(topic, key=key, value=b"v")
        producer.flush()
        if key == "aborted":
            producer.abort_transaction()
    copy = copy_of(topic)

    copy.start()
    assert copy.keys == []
    producer.commit_transaction()

    eventually(lambda: copy.keys == ["open"])
    copy.stop()
    copy.start()  # stands before the marker of the commit
    assert copy.keys == ["open"]


def test_records_that_were_deleted_while_nobody_read_have_the_table_restored_from_what_is_left(
    kafka: Kafka, copy_of: Callable[..., Copy]
) -> None:
    topic = kafka.create_topic("rates")
    write(kafka, topic, "a")
    copy = copy_of(topic)
    copy.start()
    copy.stop()
    write(kafka, topic, "b", "c")
    kafka.admin.delete_records([KafkaPartition(topic, 0, 2)])[KafkaPartition(topic, 0)].result()

    copy.start()

    assert copy.keys == ["c"]


def test_a_topic_created_anew_with_fewer_records_has_the_table_restored(
    kafka: Kafka, copy_of: Callable[..., Copy]
) -> None:
    topic = kafka.create_topic("rates")
    write(kafka, topic, "a", "b")
    copy = copy_of(topic)
    copy.start()
    copy.stop()
    kafka.admin.delete_topics([topic])[topic].result()
    eventually(lambda: topic not in kafka.admin.list_topics().topics)
    kafka.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    write(kafka, topic, "c")

    copy.start()

    assert copy.keys == ["c"]


def test_a_topic_that_is_created_anew_under_a_running_thread_ends_it_and_the_next_one_has_nothing_of_the_old(
    kafka: Kafka, copy_of: Callable[..., Copy]
) -> None:
    topic = kafka.create_topic("rates")
    write(kafka, topic, "a", "b")
    copy = copy_of(topic)
    copy.start()

    kafka.admin.delete_topics([topic])[topic].result()
    kafka.admin.create_topics([NewTopic(topic, 1, 1)])
    failure = copy.failures.get(timeout=TIMEOUT)

    assert topic in str(failure.error), failure.error
    assert copy.keys == ["a", "b"]
    copy.stop()
    eventually(lambda: topic in kafka.admin.list_topics().topics)
    write(kafka, topic, "c", "d", "e")
    copy.start()
    assert copy.keys == ["c", "d", "e"]
