"""librdkafka's consumer, where the configuration says ``client: librdkafka``.

Used by ``PartitionConsumer``, on the thread that it belongs to. librdkafka reads the files of TLS once, and has no
address to ask after a broker has said that there are no brokers (``Renewal``). Then another client goes on where this
one stands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from threading import Thread

from confluent_kafka import Consumer, KafkaError, KafkaException

from streamsapp.config.client_properties import ClientProperties, client_error
from streamsapp.kafka.client_log import client_log
from streamsapp.kafka.fetching.fetched import NO_TOPICS, Confirmation, Fetched, Topics
from streamsapp.kafka.librdkafka.fetching import LibrdkafkaFetching
from streamsapp.kafka.librdkafka.topic_id_watch import DescribeTopics
from streamsapp.kafka.renewal import Renewal
from streamsapp.kafka.wakeup import Wakeup
from streamsapp.record import TopicPartition

log = client_log(__name__)


class LibrdkafkaConsumer:
    """A ``ConsumerClient``."""

    def __init__(self, properties: ClientProperties, describe_topics: DescribeTopics, wakeup: Wakeup | None) -> None:
        self._properties = properties
        self._description = str(properties.get("client.id", "consumer"))
        self._describe_topics = describe_topics
        self._wakeup = wakeup
        self._renewal = Renewal(properties)
        try:
            self._consumer, self._fetching = self._made()
        except KafkaException as error:
            raise client_error(error) or error from error

    def _made(self) -> tuple[Consumer, LibrdkafkaFetching]:
        consumer = Consumer({**self._properties, "error_cb": self._on_error}, logger=log)
        fetching = LibrdkafkaFetching(consumer, self._description, self._describe_topics, self._wakeup, self._renewal)
        return consumer, fetching

    def _on_error(self, error: KafkaError) -> None:
        log.warning("%s: %s", self._description, error.str())

    def _renew(self) -> None:
        """Have another client go on where this one stands, if it is time for one."""
        if not self._renewal.due():
            return
        before, fetching = self._consumer, self._fetching
        try:
            positions, paused = fetching.assigned()
            self._consumer, self._fetching = self._made()
        except KafkaException as error:
            log.warning("%s keeps the client that it has: %s", self._description, error)
            return
        self._fetching.topics = fetching.topics  # it knows what was delivered
        log.info("%s: another client goes on: %s", self._description, self._renewal.reason)
        for each, position in positions.items():
            self._fetching.assign({each: position}, topics=fetching.topics.of(each))
        self._fetching.pause(paused)
        # On a thread: its brokers may be out of reach.
        Thread(target=before.close, name=f"{self._description}-close", daemon=True).start()

    # ---- fetching ----------------------------------------------------------------------------------------------

    def assign(
        self,
        positions: Mapping[TopicPartition, int],
        packed: Collection[TopicPartition] = (),
        topics: Topics = NO_TOPICS,
    ) -> None:
        self._fetching.assign(positions, packed, topics)

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        self._fetching.unassign(partitions)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._fetching.pause(partitions)

    def hold(self, partitions: Iterable[TopicPartition]) -> None:
        self._fetching.pause(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._fetching.resume(partitions)

    def expect_partitions(self, seconds: float) -> None:
        """A partition that is new is asked for at once."""

    def fetch(self, limit: int, timeout: float, *, at_once: bool) -> Fetched:
        self._renew()
        return self._fetching.fetch(limit, 0.0 if at_once else timeout)

    def confirm(self) -> Confirmation:
        return self._fetching.topics.confirm()

    def doubts(self, topic: str) -> bool:
        return self._fetching.topics.doubts(topic)

    def watermarks(self, partition: TopicPartition) -> tuple[int, int] | None:
        return self._fetching.watermarks(partition)

    def close(self) -> None:
        self._consumer.close()
