"""Topics of the benchmarks: made, filled, read back, removed.

Called by ``inputs.py``, ``execution.py`` and ``verify.py``, outside the measured time, and by the program that measures
streamsapp, to learn whether all results are written.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from benchmarks.workloads import Message
from confluent_kafka import Consumer, KafkaError, KafkaException, Message as Received, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 4
#: Names of the topics made here begin so, and internal topics of the applications contain it (Quix puts it in the
#: middle); nothing else on the broker is touched.
PREFIX = "streamsapp-bench-"

_TIMEOUT_SECONDS = 30.0
_PRODUCER_CONFIG = {
    "partitioner": "murmur2_random",
    "linger.ms": 20,
    "batch.size": 262_144,
    "queue.buffering.max.messages": 500_000,
    "log_level": 3,  # it warns a thousand times that new partitions have no leader yet
}
_CONSUMER_CONFIG = {
    "enable.auto.commit": False,
    "fetch.queue.backoff.ms": 20,
    # A partition that ends with a transaction ends with an offset that belongs to no record.
    "enable.partition.eof": True,
}
_TOPIC_CONFIG = {"retention.ms": "-1"}


class Topics:
    """The topics of one broker."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers})

    def create(self, topic: str, partitions: int = PARTITIONS) -> None:
        """Make an empty topic that keeps everything until it is removed."""
        new = NewTopic(topic, partitions, 1, config=_TOPIC_CONFIG)
        self._admin.create_topics([new])[topic].result(_TIMEOUT_SECONDS)

    def ensure(self, topic: str) -> None:
        """Make the topic unless it is there."""
        if topic not in self._listed(topic):
            self.create(topic)

    def remove(self, name: str) -> None:
        """Remove all topics that have ``name`` in theirs, and wait until the broker no longer lists them."""
        if not name.startswith(PREFIX):
            raise ValueError(f"{name!r} does not begin with {PREFIX!r}: the benchmarks remove only topics of their own")
        if doomed := self._listed(name):
            for deleted in self._admin.delete_topics(doomed).values():
                deleted.result(_TIMEOUT_SECONDS)
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while self._listed(name):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the broker still lists topics named *{name}* after {_TIMEOUT_SECONDS:.0f} s")
            time.sleep(0.1)

    def fill(self, topic: str, messages: Iterable[Message], right: str = "") -> int:
        """Write messages, keys partitioned as Java clients do, those of the second topic to ``right``; how many
        arrived."""
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, **_PRODUCER_CONFIG})
        for number, message in enumerate(messages):
            target, timestamp = right if message.right else topic, message.timestamp or 0
            while True:
                try:
                    producer.produce(target, message.value, message.key, timestamp=timestamp)
                    break
                except BufferError:
                    producer.poll(0.05)
            if number % 10_000 == 0:
                producer.poll(0)
        if left := producer.flush(_TIMEOUT_SECONDS):
            raise TimeoutError(f"{left} records could not be written to {topic}")
        names = [topic, right] if right else [topic]
        return sum(end - begin for name in names for begin, end in self.offsets(name).values())

    def read(self, topic: str, begin: dict[int, int] | None = None) -> Iterator[Message]:
        """All committed records of a topic up to its present end, each partition in order, from its ``begin`` on if
        there is one."""
        ranges = {p: ((begin or {}).get(p, first), end) for p, (first, end) in self.offsets(topic).items()}
        left = {partition: end for partition, (begin, end) in ranges.items() if end > begin}
        with self._consumer() as consumer:
            consumer.assign([TopicPartition(topic, partition, ranges[partition][0]) for partition in left])
            while left:
                received = consumer.consume(5_000, _TIMEOUT_SECONDS)
                if not received:
                    raise TimeoutError(f"{topic} gave nothing for {_TIMEOUT_SECONDS:.0f} s, left: {sorted(left)}")
                for message in received:
                    partition, offset, is_end = _position(message)
                    if not is_end:
                        yield Message(message.key(), message.value())
                    elif offset >= left[partition]:
                        del left[partition]

    def unread(self, group: str) -> bool:
        """Returns whether a group that has ended left records unread in its topics between two steps."""
        names = [topic for topic in self._listed(f"{group}-") if topic.endswith(("-repartition", "-topic"))]
        return any(self._is_unread(group, topic) for topic in names)

    def _is_unread(self, group: str, topic: str) -> bool:
        committed = self.committed(group, topic)
        left = {
            partition: (max(begin, committed[partition]), end)
            for partition, (begin, end) in self.offsets(topic).items()
            if max(begin, committed[partition]) < end
        }
        with self._consumer() as consumer:
            consumer.assign([TopicPartition(topic, partition, begin) for partition, (begin, _) in left.items()])
            while left:
                for message in consumer.consume(1, _TIMEOUT_SECONDS):
                    partition, offset, is_end = _position(message)
                    if not is_end:
                        return True
                    if offset >= left[partition][1]:
                        del left[partition]
        return False

    def offsets(self, topic: str) -> dict[int, tuple[int, int]]:
        """Begin and end of each partition, with what open transactions have written."""
        with self._consumer(isolation="read_uncommitted") as consumer:
            partitions = consumer.list_topics(topic, _TIMEOUT_SECONDS).topics[topic].partitions
            return {p: consumer.get_watermark_offsets(TopicPartition(topic, p), _TIMEOUT_SECONDS) for p in partitions}

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Offset that a group has committed for each partition, negative where there is none."""
        partitions = [TopicPartition(topic, partition) for partition in self.offsets(topic)]
        with self._consumer(group) as consumer:
            return {found.partition: found.offset for found in consumer.committed(partitions, _TIMEOUT_SECONDS)}

    def _listed(self, name: str) -> list[str]:
        return [topic for topic in self._admin.list_topics(timeout=_TIMEOUT_SECONDS).topics if name in topic]

    @contextmanager
    def _consumer(self, group: str = f"{PREFIX}reader", isolation: str = "read_committed") -> Iterator[Consumer]:
        own = {"bootstrap.servers": self.bootstrap_servers, "group.id": group, "isolation.level": isolation}
        consumer = Consumer(own | _CONSUMER_CONFIG)
        try:
            yield consumer
        finally:
            consumer.close()


def _position(message: Received) -> tuple[int, int, bool]:
    """Partition, offset, and whether this is no record but the end of the partition."""
    error = message.error()
    is_end = error is not None and error.code() == KafkaError._PARTITION_EOF
    if error is not None and not is_end:
        raise KafkaException(error)
    partition, offset = message.partition(), message.offset()
    if partition is None or offset is None:
        raise ValueError("the consumer gave a record without a position")
    return partition, offset, is_end
