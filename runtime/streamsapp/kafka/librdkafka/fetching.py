"""Fetches with librdkafka's consumer, where the configuration says ``client: librdkafka``.

Used by ``LibrdkafkaConsumer``, on its thread.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from operator import methodcaller

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition as KafkaPartition

from streamsapp.errors import StreamsError, TopicGoneError
from streamsapp.kafka.client_log import client_log
from streamsapp.kafka.fetching.fetched import NO_TOPICS, NOT_ALLOWED, Fetched, Topics, gone, not_authorised
from streamsapp.kafka.librdkafka.topic_id_watch import DescribeTopics, TopicIdWatch
from streamsapp.kafka.renewal import Renewal
from streamsapp.kafka.wakeup import Wakeup
from streamsapp.record import InputRecord, TopicPartition

log = client_log(__name__)

#: How long to wait for the leaders of a topic, in seconds; the client finds them by itself, a little later.
_LEADERS_TIMEOUT = 0.2
#: They are looked for once more when no record has come for so long, in seconds: a client that has lost all brokers
#: says nothing.
_QUIET = 30.0
#: How often records beyond the end of the log are fetched.
_TRIES = 5
#: How long one wait for records may last that notifications are to end, in seconds.
_LOOK = 0.02

_error: Callable[[Message], KafkaError | None] = methodcaller("error")
_topic: Callable[[Message], str] = methodcaller("topic")
_partition: Callable[[Message], int] = methodcaller("partition")

_GONE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
_OUT_OF_RANGE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})


class LibrdkafkaFetching:
    """Fetches from explicitly assigned partitions."""

    def __init__(
        self,
        consumer: Consumer,
        description: str,
        describe_topics: DescribeTopics,
        wakeup: Wakeup | None,
        renewal: Renewal,
    ) -> None:
        """A ``wakeup`` ends the wait for records when other threads notify it. The ``renewal`` learns whether brokers
        answer."""
        self._renewal = renewal
        self._consumer = consumer
        self._description = description
        self._wakeup = wakeup
        #: Topics whose leaders the client has looked up.
        self._known: set[str] = set()
        #: For each assigned partition, the offset at which fetching began.
        self._began: dict[TopicPartition, int] = {}
        self.topics = TopicIdWatch(describe_topics)
        #: The offset after the records that were delivered.
        self._next: dict[TopicPartition, int] = {}
        #: How often, one after the other, what came lay beyond where the log ends.
        self._beyond: Counter[TopicPartition] = Counter()
        self._paused: set[TopicPartition] = set()
        self._quiet_at = 0.0
        #: A topic that was deleted: reported once the records that came with that news are delivered.
        self._gone: TopicGoneError | None = None

    # ---- assignment --------------------------------------------------------------------------------------------

    def assign(
        self,
        positions: Mapping[TopicPartition, int],
        packed: Collection[TopicPartition] = (),
        topics: Topics = NO_TOPICS,
    ) -> None:
        """Start fetching these partitions at these offsets, beside those assigned already; none is packed."""
        if positions:
            self.topics.assign(positions, topics)
            self._find_leaders({each.topic for each in positions} - self._known)
            self._began.update(positions)
            self._consumer.incremental_assign([KafkaPartition(*each, offset) for each, offset in positions.items()])

    def _find_leaders(self, topics: Iterable[str]) -> None:
        """Look for the leaders of new topics; the client does so by itself only once a second."""
        for topic in sorted(topics):
            try:
                self._consumer.list_topics(topic, _LEADERS_TIMEOUT)
            except KafkaException as error:
                log.debug("%s: the leaders of %s are not known yet: %s", self._description, topic, error)
                self._renewal.failed(error)
                return
            self._renewal.answered()
            self._known.add(topic)

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching; nothing of these partitions is delivered any more."""
        partitions = list(partitions)
        if partitions:
            given_up = [KafkaPartition(*each) for each in partitions]
            # The client remembers that a partition was paused, also for the next time it is assigned.
            self._consumer.resume(given_up)
            self._consumer.incremental_unassign(given_up)
            self.topics.unassign(partitions)
            for each in partitions:
                self._began.pop(each, None)
                self._next.pop(each, None)
                self._beyond.pop(each, None)
            self._paused.difference_update(partitions)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Deliver nothing of these partitions until ``resume``."""
        partitions = list(partitions)
        self._paused.update(partitions)
        self._consumer.pause([KafkaPartition(*each) for each in partitions])

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Deliver again."""
        partitions = list(partitions)
        self._paused.difference_update(partitions)
        self._consumer.resume([KafkaPartition(*each) for each in partitions])

    def assigned(self) -> tuple[dict[TopicPartition, int], set[TopicPartition]]:
        """The offset of the next record to be delivered of each assigned partition, and the partitions that are
        paused."""
        found = self._consumer.position([KafkaPartition(*each) for each in self._began])
        delivered = {TopicPartition(it.topic, it.partition): it.offset for it in found if it.offset >= 0}
        return self._began | self._next | delivered, self._paused & self._began.keys()

    # ---- fetching ----------------------------------------------------------------------------------------------

    def fetch(self, limit: int, timeout: float) -> Fetched:
        fetched = self._fetch(limit, timeout)
        fetched.replaced += self.topics.replaced()
        if self._gone is not None and not fetched:
            error, self._gone = self._gone, None
            raise error
        now = time.monotonic()
        if fetched or not self._began:
            self._quiet_at = now + _QUIET
        elif now >= self._quiet_at:
            self._quiet_at = now + _QUIET
            self._find_leaders([next(iter(self._began)).topic])
        return fetched

    def _fetch(self, limit: int, timeout: float) -> Fetched:
        if self._wakeup is None:
            return self.fetch_at_once(limit, timeout)
        give_up = time.monotonic() + timeout
        while True:
            # Also without a wait: what is taken now is not to end the next one.
            notified = self._wakeup.wait(0)
            left = 0.0 if notified else max(0.0, give_up - time.monotonic())
            fetched = self.fetch_at_once(limit, min(left, _LOOK))
            if fetched or left <= _LOOK:
                return fetched

    def fetch_at_once(self, limit: int, timeout: float = 0.0) -> Fetched:
        """As ``fetch``, and no other thread ends the wait."""
        fetched = self._poll(limit, timeout)
        refused, records = set[TopicPartition](), fetched.records
        fetched.records = []
        for run in records:
            if run[0] not in refused and self._is_in_log(*run):
                fetched.records.append(run)
                self.topics.delivered(run[0].topic)
            else:
                refused.add(run[0])  # with what follows it
        return fetched

    def _is_in_log(self, partition: TopicPartition, records: Sequence[InputRecord]) -> bool:
        """Return whether records are to be delivered. No checksum covers offsets, so records beyond the end of the log
        that the client knows of are fetched again. It may know of an earlier one for a moment."""
        last = max(record.offset() for record in records)
        marks = self.watermarks(partition)
        if marks is None or last < marks[1]:
            self._next[partition] = last + 1
            self._beyond.pop(partition, None)
            return True
        if partition not in self._began:
            return False
        at, tries = self._next.get(partition, self._began[partition]), self._beyond[partition] + 1
        if at < 0:  # the end of then: what comes from there on is wanted
            at = min(record.offset() for record in records)
        if tries >= _TRIES:
            raise StreamsError(
                f"{partition} cannot be read: its broker sent offset {last} {tries} times, and its log ends at"
                f" {marks[1]}. Look at the topic's segments there with kafka-dump-log.sh, and at what is between it and"
                " this instance"
            )
        log.log(
            logging.WARNING if tries > 1 else logging.INFO,
            "%s: offset %d of %s lies beyond %d, where its log ends; fetching it again from %d",
            self._description, last, partition, marks[1], at,
        )  # fmt: skip
        topics = self.topics.of(partition)
        self.unassign([partition])
        self.assign({partition: at}, topics=topics)
        self._beyond[partition] = tries
        return False

    def _poll(self, limit: int, timeout: float) -> Fetched:
        fetched = Fetched()
        first = self._consumer.poll(timeout)
        if first is None:
            return fetched
        messages = [first, *self._consumer.consume(limit - 1, 0)]
        if any(map(_error, messages)):
            for message in messages:
                if (error := message.error()) is not None:
                    partition = TopicPartition(message.topic() or "", message.partition() or 0)
                    offset = message.offset()
                    self._note(error, partition, -1 if offset is None else offset, fetched)
            messages = [message for message in messages if message.error() is None]
        fetched.records = _by_partition(messages)
        return fetched

    def _note(self, error: KafkaError, partition: TopicPartition, offset: int, fetched: Fetched) -> None:
        """Note in ``fetched`` a message that is no record."""
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            fetched.ends[partition] = offset
            if partition in self._began:
                self._next.setdefault(partition, offset)  # a partition that began at the end has a place now
        elif code in _OUT_OF_RANGE:
            self._note_out_of_range(partition, offset, fetched)
        elif code in NOT_ALLOWED:
            raise not_authorised(partition, error.str())
        elif code in _GONE:
            self._gone = gone(partition.topic, error.str())
        elif error.fatal():
            raise StreamsError(f"{self._description} failed for good: {error.str()}")
        else:
            log.warning("%s: %s (goes on by itself)", self._description, error.str())

    def _note_out_of_range(self, partition: TopicPartition, offset: int, fetched: Fetched) -> None:
        """The client also reports what it found out before the partition was unassigned, or assigned anew. It has
        stopped fetching then, perhaps after the new assignment began: the partition is assigned once more, where it
        stands."""
        began = self._began.get(partition)
        if began is None:
            return
        if not 0 <= offset < began:
            fetched.out_of_range.append(partition)
            return
        [delivered] = self._consumer.position([KafkaPartition(*partition)])
        at = began if delivered.offset < 0 else delivered.offset
        log.warning(
            "%s: the broker has no offset %d of %s, where it was read before; fetching it again where it stands, at %d",
            self._description, offset, partition, at,
        )  # fmt: skip
        topics = self.topics.of(partition)
        self.unassign([partition])
        self.assign({partition: at}, topics=topics)

    def watermarks(self, partition: TopicPartition) -> tuple[int, int] | None:
        low, high = self._consumer.get_watermark_offsets(KafkaPartition(*partition), cached=True)
        return None if high < 0 else (max(low, 0), high)


def _by_partition(messages: list[Message]) -> list[tuple[TopicPartition, Sequence[InputRecord]]]:
    """Group records by partition, keeping their order. The broker's answers arrive partition by partition, so there
    are few runs; several runs of one partition stay several batches."""
    return [
        (TopicPartition(topic, partition), list(run))  # type: ignore[arg-type]  # a Message is an InputRecord
        for topic, of_topic in groupby(messages, _topic)
        for partition, run in groupby(of_topic, _partition)
    ]
