"""A consumer of assigned partitions that hands over whole batches per partition.

Two of them per instance: the main consumer, touched by the polling thread only, and the restore consumer, touched by
the restoration thread only. Group membership is not their business (see ``membership``). Records are fetched by the
client that the configuration names, from the first to the last (``fetching``, ``librdkafka``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from threading import Thread
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    KafkaError,
    KafkaException,
    TopicPartition as KafkaPartition,
)

from streamsapp.config.client_properties import ClientProperties, chosen, client_error
from streamsapp.config.known_properties import OWN
from streamsapp.deadline import Deadline
from streamsapp.errors import StreamsError
from streamsapp.kafka.client_log import client_log
from streamsapp.kafka.cluster import Cluster
from streamsapp.kafka.fetching.fetched import NO_TOPICS, Fetched, Fetching, Topics
from streamsapp.kafka.fetching.fetcher import Fetcher
from streamsapp.kafka.fetching.settings import fetch_settings
from streamsapp.kafka.fetching.topic_id_watch import Confirmation, ended
from streamsapp.kafka.librdkafka.fetching import LibrdkafkaFetching
from streamsapp.kafka.rebootstrap import RebootstrappingConsumer
from streamsapp.kafka.requests import Requests
from streamsapp.kafka.rest import Rest
from streamsapp.kafka.retry import repeated
from streamsapp.kafka.tls_renewal import TlsRenewal
from streamsapp.kafka.wakeup import Wakeup
from streamsapp.record import TopicPartition

log = client_log(__name__)

T = TypeVar("T")

#: Start positions that the broker resolves.
BEGINNING: int = OFFSET_BEGINNING
END: int = OFFSET_END

#: How long a request to the broker may take, in seconds.
REQUEST_TIMEOUT = 30.0
#: So many events of librdkafka's are noted at a time where it makes requests only, and how often, in seconds.
_EVENTS, _EVENTS_PERIOD = 100, 0.1


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
        when other threads notify it. After records that are few it is not looked for more for ``rest`` seconds or
        longer, and not before ``poll_all`` if that is called within ``held`` seconds. Where ``has_handler``, a record
        without key and value, whose headers raise ``OversizedBatchError``, comes in place of a batch for which there is
        no room; otherwise that is raised by ``poll``."""
        self._deadline = deadline
        self._wakeup = wakeup
        self._requests = Requests(deadline)
        self._description = str(properties.get("client.id", "consumer"))
        client, self._properties = chosen(properties)
        self._cluster = Cluster(self._properties)
        self._tls = TlsRenewal(properties)
        try:
            self._consumer, self._client = self._made()
        except KafkaException as error:
            raise client_error(error) or error from error
        self._fetching: Fetching = self._client
        self._fetcher: Fetcher | None = None
        if client == OWN:
            settings = fetch_settings(self._properties, has_handler=has_handler)
            self._fetcher = Fetcher(settings, self._cluster.describe, wakeup)
            self._fetching = self._fetcher
        self._events_at = 0.0
        self._rest = Rest(rest, time.monotonic, held)

    def _made(self) -> tuple[RebootstrappingConsumer, LibrdkafkaFetching]:
        consumer = RebootstrappingConsumer({**self._properties, "error_cb": self._on_error}, logger=log)
        return consumer, LibrdkafkaFetching(consumer, self._description, self._describe_topics, self._wakeup)

    def _renew_client(self, *, left_behind: bool) -> None:
        """The files of TLS were renewed: another client goes on where this one stands. One that was ``left_behind`` to
        the thread of a request is closed by nobody."""
        before, fetching = self._consumer, self._client
        try:
            positions, paused = fetching.assigned()
            self._consumer, self._client = self._made()
        except KafkaException as error:
            log.warning("%s keeps the files of TLS that it has: %s", self._description, error)
            return
        if self._fetching is fetching:
            self._fetching = self._client
        self._client.topics = fetching.topics  # it knows what was delivered
        log.info("%s: the files of TLS were renewed; another client uses them", self._description)
        for each, position in positions.items():
            self._client.assign({each: position}, topics=fetching.topics.of(each))
        self._client.pause(paused)
        if not left_behind:
            under_way = fetching.topics.under_way  # later ones use the new client
            Thread(
                target=_closed, args=(before, under_way, self._fetcher), name=f"{self._description}-close", daemon=True
            ).start()

    # ---- assignment --------------------------------------------------------------------------------------------

    def assign(
        self,
        positions: Mapping[TopicPartition, int],
        packed: Collection[TopicPartition] = (),
        topics: Topics = NO_TOPICS,
    ) -> None:
        """Start fetching these partitions at these offsets, beside those assigned already. Those to be ``packed`` are
        delivered so where record batches are fetched whole, and else as others are. ``topics`` are those that the
        positions belong to: once a name stands for another one, its partitions are ``replaced``."""
        if positions:
            self._fetching.assign(positions, packed, topics)

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching; nothing of these partitions is delivered any more."""
        if partitions := list(partitions):
            self._fetching.unassign(partitions)

    def reposition(self, positions: Mapping[TopicPartition, int], topics: Topics = NO_TOPICS) -> None:
        """Go on from other offsets; what was fetched and not delivered is dropped."""
        self.unassign(positions)
        self.assign(positions, topics=topics)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Deliver nothing of these partitions until ``resume``."""
        self._fetching.pause(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Deliver again."""
        self._fetching.resume(partitions)

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
        """Up to ``limit`` of the records that brokers have by now, whether the consumer rests or not; waits for their
        answers up to ``timeout`` seconds, and not at all for a while after ``hurry``. Raises as ``poll`` does."""
        return self._fetch(limit, 0.0 if self._rest.hurries else timeout, at_once=True)

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
        fetched = self._fetched(limit, timeout, at_once=at_once)
        self._rest.after(fetched.count, more=fetched.more)
        return fetched

    def _fetched(self, limit: int, timeout: float, *, at_once: bool) -> Fetched:
        if self._tls.due():
            self._renew_client(left_behind=self._requests.under_way)
        if self._fetcher is None:
            return self._client.fetch(limit, 0.0 if at_once else timeout)
        if (now := time.monotonic()) >= self._events_at:
            self._events_at = now + _EVENTS_PERIOD
            self._client.fetch_at_once(_EVENTS)  # it tells what becomes of other requests
        return self._fetcher.fetch_all(limit, timeout) if at_once else self._fetcher.fetch(limit, timeout)

    # ---- topics ------------------------------------------------------------------------------------------------

    def topics(self, names: Collection[str]) -> Topics:
        """The topics that these names stand for, of those that there are. Raises ``StreamsError``."""
        try:
            return self._repeated(lambda: self._cluster.topics(names, REQUEST_TIMEOUT), "looking up the ids of topics")
        except KafkaException as error:
            named = ", ".join(sorted(names))
            raise StreamsError(f"the brokers do not tell the ids of {named}: {error.args[0].str()}") from error

    def confirm(self) -> Confirmation:
        """Begin to find out whether all records that were delivered so far are of the topics that their positions
        belong to; what is returned tells the partitions of others. Nothing is asked where record batches are fetched
        whole."""
        return self._client.topics.confirm() if self._fetcher is None else list

    def doubts(self, topic: str) -> bool:
        """Return whether the last records of a topic of this name may be of another one, as far as it is known."""
        return self._fetcher is None and self._client.topics.doubts(topic)

    def _describe_topics(self, names: Collection[str], timeout: float) -> Topics:
        return self._cluster.topics(names, timeout)

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
        """Committed offsets, of those partitions that have one; ``None`` if the broker does not tell them within
        ``timeout`` seconds."""
        try:
            found = self._cluster.committed(partitions, timeout)
        except KafkaException as error:
            log.debug("committed offsets are not known now: %s", error)
            return None
        return {each: at for each, (at, _) in found.items()}

    def commit(self, positions: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Commit offsets with their metadata; raises ``KafkaException``."""
        self._cluster.commit(positions)

    def watermarks(self, partition: TopicPartition, *, cached: bool) -> tuple[int, int] | None:
        """First offset the broker has and the one the next record gets; ``None`` if cached and not known yet."""
        if cached:
            return self._fetching.watermarks(partition)
        low, high = self._repeated(
            lambda: self._consumer.get_watermark_offsets(KafkaPartition(*partition), timeout=REQUEST_TIMEOUT),
            f"looking up where {partition} begins and ends",
        )
        return max(low, 0), high

    def offsets_for_time(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        """The first offset at or after a time, the end where there is none."""
        asked = [KafkaPartition(*each, timestamp_ms) for each in partitions]

        def request() -> list[KafkaPartition]:
            answer = self._consumer.offsets_for_times(asked, REQUEST_TIMEOUT)
            for each in answer:
                if each.error is not None:  # one partition's leader may fail alone
                    raise KafkaException(each.error)
            return answer

        return {
            TopicPartition(each.topic, each.partition): each.offset if each.offset >= 0 else END
            for each in self._repeated(request, "looking up offsets by time")
        }

    def group_metadata(self) -> Any:
        """The metadata of a consumer outside any group: no generation, so commits with it are not fenced."""
        return self._consumer.consumer_group_metadata()

    def close(self) -> None:
        """Leave the broker. A client whose request was given up is left to that request's thread."""
        if self._fetcher is not None:
            self._fetcher.close()
        self._cluster.close()
        if self._requests.under_way or not (
            self._client.topics.close() and (self._fetcher is None or self._fetcher.ended)
        ):
            return
        self._consumer.close()

    def _repeated(self, request: Callable[[], T], what: str) -> T:
        left_behind = self._requests.under_way

        def attempt() -> T:
            if self._tls.due():  # a consumer of which nothing is wanted is not polled
                self._renew_client(left_behind=left_behind)
            return self._consumer.asked(request)

        return self._requests.ask(lambda: repeated(attempt, what, self._deadline))

    def _on_error(self, error: KafkaError) -> None:
        log.warning("%s: %s", self._description, error.str())


def _closed(consumer: RebootstrappingConsumer, look_up: Thread | None, fetcher: Fetcher | None) -> None:
    """Close a client that another one has taken the place of, unless a thread asks it; its brokers may be out of
    reach."""
    if ended(look_up) and (fetcher is None or fetcher.ended):
        consumer.close()
