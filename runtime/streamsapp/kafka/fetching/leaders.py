"""The leaders of partitions and their epochs, the ids of topics and the addresses of brokers, as brokers report them.

Asked on the thread that a consumer belongs to; each look-up has a thread of its own, as it may take its time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TypeAlias

from confluent_kafka import KafkaError, KafkaException

from streamsapp.brokers.link import Background
from streamsapp.errors import StreamsError
from streamsapp.kafka.client_log import client_log
from streamsapp.kafka.described import NONE, Described, Leader, Node, TopicLeaders
from streamsapp.kafka.fetching.broker import TooOldError
from streamsapp.kafka.fetching.fetched import NOT_ALLOWED, gone, not_authorised, without
from streamsapp.record import TopicIdentity, TopicPartition

log = client_log(__name__)

#: How long one request may take, and the pauses between two look-ups if the first did not find everything, in seconds.
_REQUEST = 2.0
_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
#: A topic that was just made, or got more partitions, may not be known to every broker yet. So long, in seconds, the
#: client waits for a missing topic or partition.
PROPAGATION = 30.0

#: In place of a partition: all of a topic.
_WHOLE = -1

#: Topics by their names, as ``kafka.cluster`` asks for them within so many seconds. Raises ``KafkaException``.
Describe: TypeAlias = Callable[[Collection[str], float], Described]


class Leaders:
    """The leaders that are known."""

    def __init__(
        self, describe: Describe, notify: Callable[[], None], now: Callable[[], float], background: Background
    ) -> None:
        """``notify`` is called when there is more to know. ``now``: in monotonic seconds."""
        self._describe = describe
        self._now, self._background = now, background
        self._topics: dict[str, TopicIdentity] = {}
        self._notify = notify
        self._leaders: dict[TopicPartition, Leader] = {}
        #: Partitions that were forgotten since the last look-up began; its answer may name them once more.
        self._forgotten: dict[TopicPartition, Leader] = {}
        self._epochs = _Epochs()
        self._brokers: dict[int, Node] = {}
        self._busy = False
        #: When the next look-up may be made, and the pause after that.
        self._next = 0.0, _PAUSE
        self._refreshed_at = self._now()
        #: Since when partitions of topics are missing, or topics as a whole.
        self._missing: dict[TopicPartition, float] = {}
        #: For which there is nothing to be had of them.
        self._failures: dict[TopicPartition, Exception] = {}
        #: Set when there is more to know; the reader resets it.
        self.changed = False

    def of(self, partition: TopicPartition) -> int | None:
        """The leader's number."""
        leader = self._leaders.get(partition)
        return None if leader is None else leader.node

    def epoch(self, partition: TopicPartition) -> int:
        """The epoch in which its leader was elected; -1: unknown."""
        return self._leaders[partition].epoch if partition in self._leaders else NONE

    def topic(self, topic: str) -> TopicIdentity:
        """The topic that the name of one with a known leader stands for."""
        return self._topics[topic]

    def address(self, leader: int) -> tuple[str, int]:
        """A leader's host and port."""
        return self._brokers[leader][:2]

    def knows(self, broker: int) -> bool:
        """Return whether there is a broker with this number."""
        return broker in self._brokers

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
        """Ask for the leaders of partitions unless another caller is asking. Returns the seconds until it makes sense
        to call this again. Raises ``TopicError`` for a topic that is gone, or may not be read, and for a partition that
        it has not.
        """
        for each in wanted:
            if (failure := self._failures.get(each) or self._failures.get(_whole(each.topic))) is not None:
                raise failure
        now = self._now()
        if self._busy:
            return _LONGEST_PAUSE
        after, pause = self._next
        if now < after:
            return after - now
        self._next = now + pause, min(_LONGEST_PAUSE, 2 * pause)
        self._begin(sorted(wanted), judges=True)
        return _LONGEST_PAUSE

    def refresh(self, known: Collection[TopicPartition], age: float) -> None:
        """Ask for the leaders of partitions each ``age`` seconds though nothing has gone wrong. After an election a
        broker that leads them no more answers as a follower (KIP-392). Missing ones are met where they are looked up.
        """
        now = self._now()
        if known and now >= self._refreshed_at + age and not self._busy:
            self._refreshed_at = now
            self._begin(sorted(known), judges=False)

    def found_all(self) -> None:
        """Nothing is missing now: the next look-up is made at once."""
        self._next = self._next[0], _PAUSE

    def _begin(self, wanted: list[TopicPartition], *, judges: bool) -> None:
        """The look-up notes the partitions that are not there if it ``judges``."""
        self._busy = True
        self._forgotten.clear()
        self._background(partial(self._run, wanted, judges))

    def _run(self, wanted: list[TopicPartition], judges: bool) -> None:
        topics = sorted({each.topic for each in wanted})
        try:
            self._take(self._describe(topics, _REQUEST), wanted, judges)
        except KafkaException as error:
            self._not_told(topics, error.args[0])
        self._busy = False
        self.changed = True
        self._notify()

    def _take(self, told: Described, wanted: list[TopicPartition], judges: bool) -> None:
        leaders: dict[TopicPartition, Leader] = {}
        for topic, found in told.topics.items():
            if not found.error:
                self._found(topic, found)
                anew = found.topic.is_other(self._topics.get(topic))
                leaders |= self._epochs.believed(topic, found.leaders, anew=anew)
            if judges:
                try:
                    self._judge(topic, [each for each in wanted if each.topic == topic], found)
                except StreamsError as error:
                    self._failures[_whole(topic)] = error
        # All at once, just before ``changed``: until it has looked, the consumer asks the previous leaders.
        self._brokers.update(told.brokers)
        self._topics |= {topic: found.topic for topic, found in told.topics.items() if not found.error}
        self._leaders |= {name: leader for name, leader in leaders.items() if self._forgotten.get(name) != leader}

    def _found(self, topic: str, found: TopicLeaders) -> None:
        whole = _whole(topic)
        if found.topic.topic_id and isinstance(self._failures.get(whole), TooOldError):
            del self._failures[whole]  # they report it after all
        for number in (_WHOLE, *found.leaders):  # also partitions that were not asked for
            self._missing.pop(TopicPartition(topic, number), None)

    def _not_told(self, topics: list[str], error: KafkaError) -> None:
        named = ", ".join(topics)
        if error.code() != KafkaError._AUTHENTICATION:
            log.debug("the leaders of %s are not known: %s", named, error.str())
        elif self._brokers:  # they have answered before: credentials may be renewed meanwhile
            log.warning("the leaders of %s are not known: %s (goes on by itself)", named, error.str())
        else:
            self._failures.update({_whole(topic): StreamsError(error.str()) for topic in topics})

    def _judge(self, topic: str, wanted: Iterable[TopicPartition], found: TopicLeaders) -> None:
        """Note which partitions are not there. Raises ``StreamsError`` if none of the topic can be read."""
        if found.error:
            self._note(topic, KafkaError(found.error))
            return
        if not found.topic.topic_id:
            raise TooOldError(f"the brokers report no id of topic {topic}")
        for name in wanted:
            if name.partition not in found.leaders and self._misses(name):
                self._failures[name] = without(name, len(found.leaders))

    def _note(self, topic: str, error: KafkaError) -> None:
        code = error.code()
        if code in NOT_ALLOWED:
            raise not_authorised(topic, error.str())
        if code == KafkaError.UNKNOWN_TOPIC_OR_PART and self._misses(_whole(topic)):
            raise gone(topic, error.str())

    def _misses(self, what: TopicPartition) -> bool:
        """Note that it is missing; returns whether that has lasted."""
        now = self._now()
        return now - self._missing.setdefault(what, now) >= PROPAGATION


class _Epochs:
    """The greatest known epoch of each partition: brokers that are behind report earlier ones (KIP-320)."""

    def __init__(self) -> None:
        self._of: dict[TopicPartition, int] = {}

    def believed(self, topic: str, told: Mapping[int, Leader], *, anew: bool) -> dict[TopicPartition, Leader]:
        """The leaders that are not older than known ones; epochs begin ``anew`` where the topic is another one."""
        if anew:
            self._of = {name: epoch for name, epoch in self._of.items() if name.topic != topic}
        leaders = {TopicPartition(topic, number): leader for number, leader in told.items()}
        leaders = {name: leader for name, leader in leaders.items() if leader.epoch >= self._of.get(name, NONE)}
        self._of |= {name: leader.epoch for name, leader in leaders.items()}
        return {name: leader for name, leader in leaders.items() if leader.node != NONE}


def _whole(topic: str) -> TopicPartition:
    """Stands for all partitions of a topic."""
    return TopicPartition(topic, _WHOLE)
