"""Gives integration tests topics of their own at a broker, and writes and reads records."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from contextlib import closing
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from streamsapp.kafka.admin import Admin
from streamsapp.kafka.cluster import Cluster
from streamsapp.kafka.retry import repeated
from streamsapp.record import TopicPartition as StreamsPartition

#: For the start of a broker, on a machine that may stand still meanwhile.
START_TIMEOUT = 150.0
#: Longer than anything takes that works.
_TIMEOUT = 100.0
_numbers = itertools.count(1)


class ListsTopics(Protocol):
    """An admin client, or another client that can do that."""

    def list_topics(self, topic: str, timeout: float) -> Any: ...


def wait_until_seen(client: ListsTopics, topic: str, partitions: int) -> None:
    """The controller creates a topic; a busy broker may hear of it, and of who leads its partitions, much later."""
    give_up = time.monotonic() + _TIMEOUT
    while True:
        found = client.list_topics(topic, timeout=60).topics[topic]
        leaders = [each.leader for each in found.partitions.values()]
        if found.error is None and len(leaders) == partitions and min(leaders) >= 0:
            return
        assert time.monotonic() < give_up, f"the broker did not hear of {topic} within {_TIMEOUT:g} s"
        time.sleep(0.05)


class Kafka:
    """A broker as a test sees it. Names it gives out are used by no other test of the same run."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.admin = Admin({"bootstrap.servers": bootstrap_servers})

    def unique(self, name: str) -> str:
        """A name for a topic, group or application."""
        return f"{name}-{next(_numbers)}"

    def create_topic(
        self, name: str = "topic", partitions: int = 1, config: dict[str, str] | None = None, replicas: int = 1
    ) -> str:
        """Create a topic of that name made unique; returns its name."""
        topic = self.unique(name)
        # Tests write small timestamps, and a broker deletes what is older than a week.
        settings = {"retention.ms": "-1", **(config or {})}
        new = NewTopic(topic, num_partitions=partitions, replication_factor=replicas, config=settings)
        self.admin.create_topics([new])[topic].result()
        wait_until_seen(self.admin, topic, partitions)
        return topic

    def produce(self, topic: str, records: Iterable[tuple[bytes | None, bytes | None]], partition: int = -1) -> None:
        """Write records and wait until the broker has them; keys choose the partition unless one is given."""
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "partitioner": "murmur2_random",
                "socket.timeout.ms": 100_000,  # records that are not confirmed until then may be written twice
            }
        )
        refused: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                refused.append(error)

        for key, value in records:
            producer.produce(topic, value=value, key=key, partition=partition, on_delivery=delivered)
            producer.poll(0)
        assert producer.flush(_TIMEOUT) == 0
        if refused:
            raise KafkaException(refused[0])

    def read(self, topic: str, timeout: float = _TIMEOUT) -> list[Message]:
        """Every committed record a topic holds now, partition by partition in the order of offsets."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": "reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",  # the first records may have been deleted
                "fetch.wait.max.ms": 10,  # an empty fetch, which waits for half a second, reports the end
                "isolation.level": "read_committed",
            }
        )
        partitions = self.partitions_of(topic)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        found: dict[int, list[Message]] = {partition: [] for partition in partitions}
        unfinished = set(partitions)
        while unfinished:
            message = consumer.poll(timeout)
            assert message is not None, f"{topic} was not read to its end within {timeout} s"
            error, partition = message.error(), message.partition()
            assert partition is not None
            if error is None:
                offset = message.offset()
                assert offset is not None
                before = found[partition][-1].offset() if found[partition] else None
                assert before is None or offset > before, f"the reader went back from {before} to {offset} in {topic}"
                found[partition].append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                unfinished.discard(partition)
            else:
                raise AssertionError(f"reading {topic} failed: {error}")
        consumer.close()
        return [message for partition in partitions for message in found[partition]]

    def committed(self, group: str, topic: str) -> dict[int, tuple[int, str]]:
        """Offset and metadata of every partition for which the group has committed one."""
        asked = [StreamsPartition(topic, each) for each in self.partitions_of(topic)]
        with closing(Cluster({"bootstrap.servers": self.bootstrap_servers, "group.id": group})) as cluster:
            found = repeated(lambda: cluster.committed(asked, 10), "reading committed offsets")
        return {partition.partition: committed for partition, committed in found.items()}

    def members_of(self, group: str) -> list[Any]:
        """The members of a group, as the coordinator names them: a leaving member may be among them for a moment."""
        return list(self.admin.describe_consumer_groups([group])[group].result().members)

    def partitions_of(self, topic: str) -> list[int]:
        """The numbers of a topic's partitions."""
        return sorted(self.admin.list_topics(topic, timeout=60).topics[topic].partitions)

    def consumer_in_group(self, group: str, topic: str) -> Consumer:
        """An ordinary consumer that is a member of the group by now; close it."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap_servers, "group.id": group})
        assigned: list[object] = []
        consumer.subscribe([topic], on_assign=lambda _, partitions: assigned.append(partitions))
        give_up = time.monotonic() + _TIMEOUT
        while not assigned:
            assert time.monotonic() < give_up, f"{group} did not get a member"
            consumer.poll(0.1)
        return consumer
