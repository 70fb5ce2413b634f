"""Notices that topics were deleted and created again where librdkafka fetches: that reads on in the new topic, at the
positions in the one before.

Used by ``librdkafka.LibrdkafkaFetching``, on its thread; each look-up has a thread of its own. A topic is noticed some
seconds late, after records of it perhaps: ``confirm`` says whether all that was delivered so far is of the topics that
the positions belong to.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from threading import Thread

from confluent_kafka import KafkaException

from streamsapp.kafka.fetching.fetched import Topics
from streamsapp.kafka.fetching.leaders import DescribeTopics
from streamsapp.record import UNKNOWN_TOPIC, TopicIdentity, TopicPartition

log = logging.getLogger(__name__)

#: Between two look-ups, and how long one may take, in seconds.
PERIOD, TIMEOUT = 2.0, 5.0


class TopicIdWatch:
    """The topics that assigned partitions belong to."""

    def __init__(self, describe_topics: DescribeTopics) -> None:
        self._describe_topics = describe_topics
        self._of: dict[TopicPartition, TopicIdentity] = {}
        self._found: Topics | None = None
        self._thread: Thread | None = None
        self._next = 0.0

    def assign(self, partitions: Iterable[TopicPartition], topics: Topics) -> None:
        """Watch partitions; those that come without a topic are of the one that is found first."""
        self._of |= {each: topics.get(each.topic, UNKNOWN_TOPIC) for each in partitions}

    def of(self, partition: TopicPartition) -> Topics:
        """The topic that a partition belongs to, by its name."""
        return {partition.topic: self._of.get(partition, UNKNOWN_TOPIC)}

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Watch them no more."""
        for each in partitions:
            self._of.pop(each, None)

    def replaced(self) -> list[TopicPartition]:
        """The partitions whose names stand for other topics, as far as it is known by now. They are named once."""
        found, self._found = self._found, None
        now = time.monotonic()
        if self._of and now >= self._next and not self._busy:
            self._next = now + PERIOD
            self._thread = Thread(target=self._look_up, args=(self._topics,), name="topic-ids", daemon=True)
            self._thread.start()
        return [] if found is None else self._compare(found)

    def confirm(self) -> list[TopicPartition]:
        """As ``replaced``, asked now. Raises ``KafkaException`` when the brokers do not answer."""
        return self._compare(self._describe_topics(self._topics, TIMEOUT))

    def close(self) -> bool:
        """Return whether nobody uses the client, which may take a moment."""
        if self._thread is not None:
            self._thread.join(TIMEOUT + 1)
        return not self._busy

    @property
    def _busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def _topics(self) -> set[str]:
        return {each.topic for each in self._of}

    def _look_up(self, topics: set[str]) -> None:
        try:
            self._found = self._describe_topics(topics, TIMEOUT)
        except KafkaException as error:
            log.debug("the ids of %s are not known: %s", ", ".join(sorted(topics)), error)

    def _compare(self, found: Mapping[str, TopicIdentity]) -> list[TopicPartition]:
        others = []
        for partition, topic in self._of.items():
            now = found.get(partition.topic)
            if now is None:
                continue
            if not topic.topic_id:
                self._of[partition] = now
            elif now.is_other(topic):
                others.append(partition)
        self.unassign(others)
        return others
