"""A consumer of assigned partitions that hands over whole batches per partition.

Two of them per instance: the main consumer, touched by the polling thread only, and the restore consumer, touched by
the restoration thread only. Group membership is not their business (see ``membership``). Records are fetched by the
client that the configuration names, from the first to the last (``fetching``, ``librdkafka``).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException

from streamsapp.config.client_properties import ClientProperties, chosen
from streamsapp.config.known_properties import OWN
from streamsapp.deadline import Deadline
from streamsapp.errors import StreamsError
from streamsapp.kafka.cluster import Cluster
from streamsapp.kafka.fetching.fetched import NO_TOPICS, Confirmation, ConsumerClient, Fetched, Topics
from streamsapp.kafka.fetching.fetcher import Fetcher
from streamsapp.kafka.fetching.settings import fetch_settings
from streamsapp.kafka.librdkafka.consumer import LibrdkafkaConsumer
from streamsapp.kafka.partition_offsets import LATEST
from streamsapp.kafka.requests import Requests
from streamsapp.kafka.rest import Rest
from streamsapp.kafka.retry import repeated
from streamsapp.kafka.wakeup import Wakeup
from streamsapp.record import TopicPartition

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Start positions that the broker resolves.
BEGINNING: int = OFFSET_BEGINNING
END: int = OFFSET_END

#: How long a request to the broker may take, in seconds.
REQUEST_TIMEOUT = 30.0


class PartitionConsumer:
    """Fetches from explicitly assigned partitions."""

    def __init__(
        self,
        properties: ClientProperties,
        deadline: Deadline | None = None,
        wakeup: Wakeup | None = None,
        rest: float = 0.0,
        held: float = 0.0,
        *,
        has_handler: bool = False,
    ) -> None:
        """After the ``deadline`` requests are given up with ``NoAnswerError``. A ``wakeup`` ends the wait for records
        when other threads notify it. After few records the consumer does not look for more for ``rest`` seconds or
        longer. If ``poll_all`` is called within ``held`` seconds, it does not look before that. A batch for which there
        is no room raises ``OversizedBatchError`` in ``poll``. If the caller ``has_handler``, a record without key and
        value takes the place of the batch instead, and its headers raise the error."""
        self._deadline = deadline
        self._wakeup = wakeup
        self._requests = Requests(deadline)
        client, given = chosen(properties)
        self._cluster = Cluster(given)
        self._client: ConsumerClient
        if client == OWN:
            self._client = Fetcher(fetch_settings(given, has_handler=has_handler), self._cluster.describe, wakeup)
        else:
            self._client = LibrdkafkaConsumer(given, self._cluster.topics, wakeup)
        self._rest = Rest(rest, time.monotonic, held)
        self._held: set[TopicPartition] = set()

    # ---- assignment --------------------------------------------------------------------------------------------

    def assign(
        self,
        positions: Mapping[TopicPartition, int],
        packed: Collection[TopicPartition] = (),
        topics: Topics = NO_TOPICS,
    ) -> None:
        """Start fetching these partitions at these offsets, beside those assigned already. Partitions to be ``packed``
        are delivered packed where record batches are fetched whole, and like others elsewhere. ``topics`` are the
        topics that the positions belong to: once a name stands for another one, its partitions are ``replaced``."""
        if positions:
            self._client.assign(positions, packed, topics)

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching; nothing of these partitions is delivered any more."""
        if partitions := list(partitions):
            self._client.unassign(partitions)
            self._held.difference_update(partitions)

    def reposition(self, positions: Mapping[TopicPartition, int], topics: Topics = NO_TOPICS) -> None:
        """Go on from other offsets; fetched records that were not delivered are dropped."""
        self.unassign(positions)
        self.assign(positions, topics=topics)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Deliver nothing of these partitions until ``resume``."""
        self._client.pause(partitions)

    def hold(self, partitions: Collection[TopicPartition]) -> None:
        """Deliver nothing of these partitions until ``resume``, which comes soon: what was fetched ahead is kept, as
        far as the client can. The consumer does not rest meanwhile."""
        self._client.hold(partitions)
        self._held.update(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Deliver again."""
        self._client.resume(partitions)
        self._held.difference_update(partitions)

    def expect_partitions(self, seconds: float) -> None:
        """Partitions are about to be assigned, within so many seconds: they are not to wait for the broker's answer to
        what was asked before."""
        self._client.expect_partitions(seconds)

    # ---- fetching ----------------------------------------------------------------------------------------------

    def poll(self, limit: int, timeout: float) -> Fetched:
        """Up to ``limit`` records; returns as soon as there is one, or empty after ``timeout`` seconds, or when the
        consumer's ``Wakeup`` was notified. A consumer that rests returns no records.

        Raises ``TopicError`` for a topic that is gone or may not be read, ``StreamsError`` for what the client cannot
        recover from.
        """
        rest = self._rest.left
        if rest > 0 and self._wakeup is not None:
            if self._wakeup.wait_without_records(min(rest, timeout)) or timeout < rest:
                return Fetched()
            timeout -= rest
        return self._fetch(limit, timeout)

    def poll_all(self, limit: int, timeout: float) -> Fetched:
        """Up to ``limit`` of the records that brokers have by now, whether the consumer rests or not. Waits for their
        answers up to ``timeout`` seconds, and not at all for a while after ``hurry``. Raises as ``poll`` does."""
        return self._fetch(limit, 0.0 if self._rest.hurries else timeout, at_once=True)

    def end_wait(self) -> None:
        """``poll`` returns, or the next one does. Any thread, of a consumer that has a ``Wakeup``."""
        if self._wakeup is not None:
            self._wakeup.notify()

    @property
    def rests(self) -> bool:
        """True if ``poll`` returns no records now, as the last ones were few."""
        return self._rest.left > 0

    @property
    def seldom(self) -> bool:
        """True if the last records came far apart."""
        return self._rest.seldom

    def end_rest(self) -> None:
        """More records are wanted: the next ``poll`` looks for them."""
        self._rest.end()

    def hurry(self) -> None:
        """``poll_all`` takes too long, or the processing of what it returned: look for records sooner, for a while."""
        self._rest.hurry()

    def _fetch(self, limit: int, timeout: float, *, at_once: bool = False) -> Fetched:
        fetched = self._client.fetch(limit, timeout, at_once=at_once)
        self._rest.after(fetched.count, more=fetched.more)
        if self._held:
            self._rest.end()
        return fetched

    # ---- topics ------------------------------------------------------------------------------------------------

    def topics(self, names: Collection[str]) -> Topics:
        """The topics that these names stand for, as far as there are such topics. Raises ``StreamsError``."""
        try:
            return self._repeated(lambda: self._cluster.topics(names, REQUEST_TIMEOUT), "looking up the ids of topics")
        except KafkaException as error:
            named = ", ".join(sorted(names))
            raise StreamsError(f"the brokers do not report the ids of {named}: {error.args[0].str()}") from error

    def confirm(self) -> Confirmation:
        """Begin to find out whether all records that were delivered so far are of the topics that their positions
        belong to. The result names the partitions of other topics."""
        return self._client.confirm()

    def doubts(self, topic: str) -> bool:
        """Return whether the last records of a topic of this name may be of another one, as far as it is known."""
        return self._client.doubts(topic)

    # ---- positions ---------------------------------------------------------------------------------------------

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, str]]:
        """Committed offset and metadata of the group, for the partitions that have one."""
        if not partitions:
            return {}
        try:
            return self._repeated(
                lambda: self._cluster.committed(partitions, REQUEST_TIMEOUT), "reading the committed offsets"
            )
        except KafkaException as error:
            named = ", ".join(map(str, partitions))
            raise StreamsError(
                f"cannot read the committed offsets of {named}: {error.args[0].str()}; if the broker "
                "answers otherwise, a transaction was never ended: look for it with kafka-transactions.sh find-hanging"
            ) from error

    def committed_by_now(
        self, partitions: Sequence[TopicPartition], timeout: float
    ) -> dict[TopicPartition, int] | None:
        """Committed offsets, for the partitions that have one; ``None`` if the broker does not answer within
        ``timeout`` seconds."""
        try:
            found = self._cluster.committed(partitions, timeout)
        except KafkaException as error:
            log.debug("committed offsets are not known now: %s", error)
            return None
        return {each: at for each, (at, _) in found.items()}

    def ends_by_now(self, partitions: Collection[TopicPartition], timeout: float) -> dict[TopicPartition, int]:
        """The offset that the next record of each partition gets; of none if a broker does not answer within
        ``timeout`` seconds."""
        try:
            return self._cluster.offsets_at(dict.fromkeys(partitions, LATEST), timeout)
        except KafkaException as error:
            log.debug("the ends of partitions are not known now: %s", error)
            return {}

    def commit(self, positions: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Commit offsets with their metadata; raises ``KafkaException``."""
        self._cluster.commit(positions)

    def watermarks(self, partition: TopicPartition, *, cached: bool) -> tuple[int, int] | None:
        """First offset the broker has and the one the next record gets; ``None`` if cached and not known yet."""
        if cached:
            return self._client.watermarks(partition)
        return self._repeated(
            lambda: self._cluster.bounds(partition, REQUEST_TIMEOUT), f"looking up where {partition} begins and ends"
        )

    def offsets_for_time(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        """The first offset at or after a time, the end where there is none."""
        asked = dict.fromkeys(partitions, max(timestamp_ms, 0))
        if not asked:
            return {}
        found = self._repeated(lambda: self._cluster.offsets_at(asked, REQUEST_TIMEOUT), "looking up offsets by time")
        return {name: offset if offset >= 0 else END for name, offset in found.items()}

    def close(self) -> None:
        """Leave the brokers."""
        self._client.close()
        self._cluster.close()

    def _repeated(self, request: Callable[[], T], what: str) -> T:
        return self._requests.ask(lambda: repeated(request, what, self._deadline))
