"""Notices that topics were deleted and created again where librdkafka fetches: librdkafka reads on in the new topic, at
the positions in the previous one.

Used by ``librdkafka.LibrdkafkaFetching``, on its thread; each look-up has a thread of its own. A topic is noticed some
seconds late, after records of it perhaps. If a look-up begins after records were delivered, and finds the same topics
as before, all of these records are theirs. A transaction is committed after one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from threading import Thread

from confluent_kafka import KafkaException

from streamsapp.kafka.fetching.fetched import NO_TOPICS, Confirmation, Topics
from streamsapp.record import UNKNOWN_TOPIC, TopicIdentity, TopicPartition

log = logging.getLogger(__name__)

#: Between two look-ups, and how long one may take, in seconds.
PERIOD, TIMEOUT = 2.0, 5.0


#: The topics that names stand for, as ``kafka.cluster`` asks for them.
DescribeTopics = Callable[[Collection[str], float], Topics]


class TopicIdWatch:
    """The topics that assigned partitions belong to."""

    def __init__(self, describe_topics: DescribeTopics) -> None:
        self._describe_topics = describe_topics
        self._of: dict[TopicPartition, TopicIdentity] = {}
        #: Assignments and deliveries so far. The ones below are identified by their numbers, as the beginnings of
        #: look-ups are.
        self._events = 0
        self._assigned: dict[TopicPartition, int] = {}
        #: The last delivery of each topic, and the last look-up that found no other topic of the name.
        self._delivered: dict[str, int] = {}
        self._confirmed: dict[str, int] = {}
        #: Partitions whose names stand for other topics, and those among them that are not reported yet.
        self._others: set[TopicPartition] = set()
        self._untold: list[TopicPartition] = []
        self._look_up: _LookUp | None = None
        self._next = 0.0

    def assign(self, partitions: Iterable[TopicPartition], topics: Topics) -> None:
        """Watch partitions; a partition that comes without a topic belongs to the topic that is found first."""
        self._events += 1
        for each in partitions:
            self._of[each] = topics.get(each.topic, UNKNOWN_TOPIC)
            self._assigned[each] = self._events
            self._others.discard(each)

    def of(self, partition: TopicPartition) -> Topics:
        """The topic that a partition belongs to, by its name."""
        return {partition.topic: self._of.get(partition, UNKNOWN_TOPIC)}

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Watch them no more."""
        for each in partitions:
            self._of.pop(each, None)
            self._assigned.pop(each, None)
            self._others.discard(each)

    def delivered(self, topic: str) -> None:
        """Records of a topic of this name were delivered."""
        self._events += 1
        self._delivered[topic] = self._events

    def doubts(self, topic: str) -> bool:
        """Return whether records were delivered since the topic was found to be the same."""
        return self._confirmed.get(topic, 0) < self._delivered.get(topic, 0)

    def replaced(self) -> list[TopicPartition]:
        """The partitions whose names stand for other topics, as far as it is known by now. They are named once."""
        self._take_answer()
        now = time.monotonic()
        if self._of and now >= self._next and self._look_up is None:
            self._next = now + PERIOD
            self._ask({each.topic for each in self._of})
        told, self._untold = [each for each in self._untold if each in self._others], []
        return told

    def confirm(self) -> Confirmation:
        """Begin to find out whether the records delivered so far are of the topics that the positions belong to.
        Nothing is asked for topics where that is known already."""
        doubted = {topic: at for topic, at in self._delivered.items() if self.doubts(topic)}
        if doubted and self._look_up is None:
            self._ask(set(doubted))
        return lambda: self._replaced_among(doubted)

    def _replaced_among(self, doubted: Mapping[str, int]) -> list[TopicPartition] | None:
        failure = self._take_answer()
        left = {topic for topic, at in doubted.items() if self._confirmed.get(topic, 0) < at}
        others = sorted(each for each in self._others if each.topic in left)
        if others or not left:
            return others
        if failure is not None:
            raise failure
        if self._look_up is None:
            self._ask(left)
        return None

    def _ask(self, topics: set[str]) -> None:
        self._look_up = _LookUp(self._describe_topics, topics, self._events)
        self._look_up.start()

    def _take_answer(self) -> KafkaException | None:
        """Take what a look-up has found; returns why it failed."""
        look_up = self._look_up
        if look_up is None or look_up.is_alive():
            return None
        self._look_up = None
        if look_up.failure is None:
            self._compare(look_up)
        return look_up.failure

    def _compare(self, look_up: _LookUp) -> None:
        same = set(look_up.topics)
        for partition, topic in self._of.items():
            now = look_up.found.get(partition.topic)
            if now is None or self._assigned[partition] > look_up.began:
                continue
            if not topic.topic_id:
                self._of[partition] = now
            elif now.is_other(topic):
                same.discard(partition.topic)
                if partition not in self._others:
                    self._others.add(partition)
                    self._untold.append(partition)
        self._confirmed |= dict.fromkeys(same, look_up.began)


class _LookUp(Thread):
    """Asks which topics names stand for."""

    def __init__(self, describe_topics: DescribeTopics, topics: set[str], began: int) -> None:
        super().__init__(name="topic-ids", daemon=True)
        self._describe_topics = describe_topics
        self.topics = topics
        self.began = began
        self.found: Topics = NO_TOPICS
        self.failure: KafkaException | None = None

    def run(self) -> None:
        try:
            self.found = self._describe_topics(self.topics, TIMEOUT)
        except KafkaException as error:
            log.debug("the ids of %s are not known: %s", ", ".join(sorted(self.topics)), error)
            self.failure = error
