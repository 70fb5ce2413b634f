"""The leaders of partitions, the ids of topics and the addresses of brokers, as the client's own consumer tells them.

Asked on the thread that a consumer belongs to; each look-up has a thread of its own, as it may take its time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from itertools import groupby
from operator import attrgetter
from threading import Thread
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from streamsapp.kafka.fetching.broker import TooOldError
from streamsapp.kafka.fetching.fetched import NO_TOPICS, NOT_ALLOWED, Topics, gone, not_authorised, without
from streamsapp.record import TopicIdentity, TopicPartition

log = logging.getLogger(__name__)

#: How long one request may take, and the pauses between two look-ups of which the first did not tell all, in seconds.
_REQUEST = 2.0
_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
#: A topic that was just made, or got more partitions, may not be known to every broker yet; so long, in seconds, one
#: that is missing is waited for, or a partition of it.
PROPAGATION = 30.0
#: Leaders are looked up again after so many seconds, as ``metadata.max.age.ms`` has it.
AGE = 300.0

#: In place of a partition: all of a topic, and its id.
_WHOLE, _ID = -1, -2

_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})

#: Topic metadata, as ``confluent_kafka.Consumer.list_topics`` gives it for a topic.
ListTopics = Callable[[str, float], Any]
#: The topics that names stand for, as ``kafka.cluster`` asks for them.
DescribeTopics = Callable[[Collection[str], float], Topics]
#: Takes what was told of a topic of which these partitions are wanted.
_Judge = Callable[[str, Iterable[TopicPartition], Any], None]


class Leaders:
    """The leaders that are known."""

    def __init__(self, list_topics: ListTopics, describe_topics: DescribeTopics, notify: Callable[[], None]) -> None:
        """``notify`` is called when there is more to know."""
        self._list_topics = list_topics
        self._describe_topics = describe_topics
        self._topics: Topics = NO_TOPICS
        self._notify = notify
        self._leaders: dict[TopicPartition, int] = {}
        #: Those that were forgotten since the last look-up began, which may tell of them once more.
        self._forgotten: dict[TopicPartition, int] = {}
        self._addresses: dict[int, tuple[str, int]] = {}
        self._thread: Thread | None = None
        self._busy = False
        self._next, self._pause = 0.0, _PAUSE
        self._refresh_at = time.monotonic() + AGE
        #: Since when partitions of topics are missing, topics as a whole, or their ids.
        self._missing: dict[TopicPartition, float] = {}
        #: For which there is nothing to be had of them.
        self._failures: dict[TopicPartition, Exception] = {}
        #: Set when there is more to know; whoever looks resets it.
        self.changed = False

    def of(self, partition: TopicPartition) -> int | None:
        """The leader's number."""
        return self._leaders.get(partition)

    def topic(self, topic: str) -> TopicIdentity:
        """The topic that the name of one with a known leader stands for."""
        return self._topics[topic]

    def address(self, leader: int) -> tuple[str, int]:
        """A leader's host and port."""
        return self._addresses[leader]

    def forget(self, partition: TopicPartition) -> None:
        """It is not its leader, or does not answer."""
        if (leader := self._leaders.pop(partition, None)) is not None:
            self._forgotten[partition] = leader

    def begin(self, partition: TopicPartition, topic: TopicIdentity) -> None:
        """It is wanted from now on, of this topic: nothing that was found before is held against it."""
        if topic.topic_id and topic != self._topics.get(partition.topic):
            self.forget(partition)
        for each in (partition, _whole(partition.topic)):
            self._missing.pop(each, None)
            self._failures.pop(each, None)

    def look_up(self, wanted: Collection[TopicPartition]) -> float:
        """Ask for the leaders of partitions unless somebody does. Returns the seconds until it makes sense to call this
        again. Raises ``TopicError`` for a topic that is gone, or may not be read, and for a partition that it has not.
        """
        for each in wanted:
            if (failure := self._failures.get(each) or self._failures.get(_whole(each.topic))) is not None:
                raise failure
        now = time.monotonic()
        if self._busy:
            return _LONGEST_PAUSE
        if now < self._next:
            return self._next - now
        self._next, self._pause = now + self._pause, min(_LONGEST_PAUSE, 2 * self._pause)
        self._begin(sorted(wanted), self._judge)
        return _LONGEST_PAUSE

    def refresh(self, known: Collection[TopicPartition]) -> None:
        """Ask for the leaders of partitions from time to time though nothing has gone wrong: after an election a broker
        that leads them no more answers as a follower (KIP-392). Missing ones are met where they are looked up."""
        now = time.monotonic()
        if known and now >= self._refresh_at and not self._busy:
            self._refresh_at = now + AGE
            self._begin(sorted(known), _nothing)

    def found_all(self) -> None:
        """Nothing is missing now: the next look-up is made at once."""
        self._pause = _PAUSE

    def close(self) -> bool:
        """Return whether nobody uses the client."""
        if self._thread is not None:
            self._thread.join(_REQUEST + 1)
            return not self._thread.is_alive()
        return True

    def _begin(self, wanted: list[TopicPartition], judge: _Judge) -> None:
        self._busy = True
        self._forgotten.clear()
        self._thread = Thread(target=self._run, args=(wanted, judge), name="leaders", daemon=True)
        self._thread.start()

    def _run(self, wanted: list[TopicPartition], judge: _Judge) -> None:
        # Told all at once, with ``changed``: until it has looked, the consumer asks those of before.
        found: dict[TopicPartition, int] = {}
        topics = self._identified({each.topic for each in wanted})
        for topic, partitions in groupby(wanted, attrgetter("topic")):
            try:
                metadata = self._list_topics(topic, _REQUEST)
                if topic in topics:
                    found |= self._leaders_of(topic, metadata)
                if metadata.topics[topic].error is None and judge is not _nothing:
                    self._refuse_without_id(topic, topics)
                judge(topic, partitions, metadata.topics[topic])
            except KafkaException as error:
                log.debug("the leaders of %s are not known: %s", topic, error)
                break  # the others would be asked for in vain as well
            except Exception as error:
                self._failures[_whole(topic)] = error
        self._topics = {**self._topics, **topics}
        self._leaders |= {name: leader for name, leader in found.items() if self._forgotten.get(name) != leader}
        self._busy = False
        self.changed = True
        self._notify()

    def _refuse_without_id(self, topic: str, topics: Topics) -> None:
        """Brokers that tell leaders, and for long no ids, are taken for brokers that know none."""
        told = topics.get(topic)
        if not told.topic_id if told is not None else self._misses(TopicPartition(topic, _ID)):
            raise TooOldError(f"the brokers tell no id of topic {topic}")

    def _identified(self, topics: set[str]) -> Topics:
        """Asked for before the leaders: a topic that is created anew in between is not fetched by the old id."""
        try:
            found = self._describe_topics(topics, _REQUEST)
        except KafkaException as error:
            log.debug("the ids of %s are not known: %s", ", ".join(sorted(topics)), error)
            return NO_TOPICS
        for topic, identity in found.items():
            self._missing.pop(TopicPartition(topic, _ID), None)
            if identity.topic_id and isinstance(self._failures.get(_whole(topic)), TooOldError):
                del self._failures[_whole(topic)]  # they tell it after all
        return found

    def _leaders_of(self, topic: str, metadata: Any) -> dict[TopicPartition, int]:
        self._addresses.update({number: (each.host, each.port) for number, each in metadata.brokers.items()})
        found = metadata.topics[topic]
        told = found.partitions.items() if found.error is None else ()
        for number in (_WHOLE, *found.partitions) if found.error is None else ():  # also what nobody asked for
            self._missing.pop(TopicPartition(topic, number), None)
        return {TopicPartition(topic, number): each.leader for number, each in told if each.leader in self._addresses}

    def _judge(self, topic: str, wanted: Iterable[TopicPartition], found: Any) -> None:
        """Note which partitions are not there."""
        if found.error is not None:
            self._note(topic, found.error)
            return
        self._missing.pop(_whole(topic), None)
        for name in wanted:
            if name.partition in found.partitions:
                self._missing.pop(name, None)
            elif self._misses(name):
                self._failures[name] = without(name, len(found.partitions))

    def _note(self, topic: str, error: KafkaError) -> None:
        code = error.code()
        if code in NOT_ALLOWED:
            raise not_authorised(topic, error.str())
        if code in _MISSING and self._misses(_whole(topic)):
            raise gone(topic, error.str())

    def _misses(self, what: TopicPartition) -> bool:
        """Note that it is missing; returns whether that has lasted."""
        now = time.monotonic()
        return now - self._missing.setdefault(what, now) >= PROPAGATION


def _whole(topic: str) -> TopicPartition:
    """Stands for all partitions of a topic."""
    return TopicPartition(topic, _WHOLE)


def _nothing(topic: str, wanted: Iterable[TopicPartition], found: Any) -> None:
    """Nothing is missing for which nobody has asked."""
