"""Topics: lists them, creates the internal ones, and looks up where partitions begin and end.

Called on the polling thread when an instance starts, and on the restoration thread for where changelogs end.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition as KafkaPartition,
)
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ListOffsetsResultInfo,
    NewTopic,
    OffsetSpec,
)

from streamsapp.config.client_properties import ClientProperties, client_error
from streamsapp.deadline import Deadline
from streamsapp.errors import StreamsError, TopicError
from streamsapp.kafka.admin import Admin
from streamsapp.kafka.cluster import Cluster
from streamsapp.kafka.partition_offsets import Offsets
from streamsapp.kafka.renewal import Renewal
from streamsapp.kafka.requests import Requests
from streamsapp.record import TopicIdentity, TopicPartition
from streamsapp.topology.internal_topics import InternalTopic

log = logging.getLogger(__name__)

T = TypeVar("T")

#: How long a request may take, in seconds.
TIMEOUT = 30.0
#: How often and how long a broker is looked for at the start, and after how many attempts the user hears of it again.
ATTEMPTS, ATTEMPT_TIMEOUT, REMINDER = 60, 2.0, 5


class TopicAdmin:
    """The instance's admin client."""

    def __init__(self, properties: ClientProperties, deadline: Deadline | None = None) -> None:
        """After the ``deadline`` requests are given up with ``NoAnswerError``."""
        self._requests = Requests(deadline)
        try:
            # ``wait_for_broker`` reports errors while it connects, in words and not ten times a second.
            self._renewal = Renewal(properties)
            settings: dict[str, Any] = {"log_level": 0, **properties, "error_cb": self._on_error}
            self._made = Admin(settings)
        except KafkaException as error:
            raise client_error(error) or error from error
        #: Connections that others have replaced, and until when requests may use them.
        self._before: list[tuple[float, Admin]] = []
        self._settings = settings
        self._cluster = Cluster(properties)
        self._servers = properties.get("bootstrap.servers")
        #: The client's last message about brokers that are out of reach.
        self.last_error = "no answer"

    @property
    def _admin(self) -> Admin:
        """The client, which is made anew when that is due. The previous client stays as long as its requests may take:
        when it is dropped, librdkafka 2.16.1 may leave their futures open for ever."""
        if self._renewal.due():
            try:
                made = Admin(self._settings)
            except KafkaException as error:
                log.warning("the admin client is not replaced: %s", error)
            else:
                now = time.monotonic()
                self._before = [each for each in self._before if each[0] > now] + [(now + 2 * TIMEOUT, self._made)]
                self._made = made
        return self._made

    def _ask(self, request: Callable[[], T]) -> T:
        try:
            answer = self._requests.ask(request)
        except KafkaException as error:
            self._renewal.failed(error)
            raise
        self._renewal.answered()
        return answer

    def wait_for_broker(self, given_up: Callable[[], bool]) -> None:
        """Return when a broker answers, or when ``given_up()``; ``StreamsError`` when none does for a long time."""
        for attempt in range(ATTEMPTS):
            try:
                self._ask(lambda: self._admin.list_topics("__none", timeout=ATTEMPT_TIMEOUT))
            except KafkaException:
                self._admin.poll(0)
            else:
                return
            if given_up():
                return
            if attempt % REMINDER == 0:
                log.warning("%s; trying again", self._unreachable())
        raise StreamsError(self._unreachable())

    def _unreachable(self) -> str:
        return (
            f"no broker answers at {self._servers} ({self.last_error}): check bootstrap_servers, the network and the"
            " security settings"
        )

    def _on_error(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.last_error = error.str()

    def partition_counts(self) -> dict[str, int]:
        """Every topic that this application may see, with its number of partitions."""
        try:
            metadata = self._ask(lambda: self._admin.list_topics(timeout=TIMEOUT))
        except KafkaException as error:
            raise TopicError(
                f"cannot read the list of topics: {error.args[0].str()}; check bootstrap_servers, the network and "
                "the security settings"
            ) from error
        return {name: len(topic.partitions) for name, topic in metadata.topics.items() if topic.error is None}

    def why_missing(self, topic: str) -> str:
        """Returns why a topic cannot be seen, as a sentence that says what to do."""
        try:
            error = self._ask(lambda: self._admin.list_topics(topic, timeout=TIMEOUT)).topics[topic].error
        except KafkaException as failure:
            error = failure.args[0]
        if error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return f"not authorised to describe topic {topic}: grant DESCRIBE and READ on it"
        return f"topic {topic} does not exist: create it before the application starts"

    def create(self, topics: Sequence[InternalTopic], replication_factor: int) -> None:
        """Create internal topics; raises ``TopicError`` that names the topic and the reason."""
        if not topics:
            return
        log.info("creating internal topics: %s", ", ".join(topic.name for topic in topics))
        new = [NewTopic(each.name, each.partitions, replication_factor, config=dict(each.config)) for each in topics]
        for name, future in self._admin.create_topics(new, operation_timeout=TIMEOUT).items():
            self._ask(partial(_await_created, name, future))

    def request_offsets(
        self, partitions: Collection[TopicPartition], *, earliest: bool = False, stable: bool = False
    ) -> OffsetRequest:
        """Ask where partitions begin or end, with one request per broker. An end counts records of open transactions: a
        reader that stands there misses nothing. A ``stable`` end does not count them: records up to it can be read by
        now."""
        spec: Callable[[], OffsetSpec] = OffsetSpec.earliest if earliest else OffsetSpec.latest
        asked = {KafkaPartition(*partition): spec() for partition in partitions}
        level = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
        asking = self._ask(lambda: self._admin.list_offsets(asked, isolation_level=level, request_timeout=TIMEOUT))
        return OffsetRequest(asking, self._requests)

    def ends(self, partitions: Collection[TopicPartition]) -> tuple[Offsets, Offsets]:
        """The first and the next offset of partitions, asked in two round trips (``Cluster.ends``)."""
        return self._ask(lambda: self._cluster.ends(partitions, TIMEOUT))

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """The id of each topic, which differs once a topic was deleted and created again."""
        asked = self._admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=TIMEOUT)
        return self._ask(lambda: {topic: str(future.result(2 * TIMEOUT).topic_id) for topic, future in asked.items()})

    def topics(self, names: Collection[str]) -> dict[str, TopicIdentity]:
        """The topics that names stand for, as far as there are such; raises ``KafkaException`` when no broker says."""
        return self._ask(lambda: self._cluster.topics(names, TIMEOUT))

    def only_compacts(self, topic: str) -> bool:
        """Return whether the broker keeps the last record of each key for good, so that a missing record was lost."""
        return self.setting(topic, "cleanup.policy") == "compact"

    def max_message_bytes(self, topic: str) -> int | None:
        """The size of the largest batch that the topic takes, in bytes; ``None`` when the broker does not say."""
        try:
            return int(self.setting(topic, "max.message.bytes"))
        except KafkaException as error:
            log.info("the largest record that topic %s takes is not known: %s", topic, error.args[0].str())
            return None

    def setting(self, topic: str, name: str) -> str:
        """The value of a topic's setting; raises ``KafkaException`` when the broker does not say."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        (future,) = self._admin.describe_configs([resource], request_timeout=TIMEOUT).values()
        value: str = self._ask(lambda: future.result(2 * TIMEOUT))[name].value
        return value

    def set(self, topic: str, name: str, value: str) -> None:
        """Change one setting of a topic; raises ``KafkaException`` when the broker refuses."""
        changed = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[changed])
        (future,) = self._admin.incremental_alter_configs([resource], request_timeout=TIMEOUT).values()
        self._ask(lambda: future.result(2 * TIMEOUT))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> list[Future[Any]]:
        """Let the broker drop consumed records of repartition topics. Failures only cost disk and are logged, so that
        no caller has to look at the futures."""
        asked = [KafkaPartition(*partition, offset) for partition, offset in before.items()]
        deleted = self._ask(lambda: self._admin.delete_records(asked))
        for partition, future in deleted.items():
            future.add_done_callback(partial(_log_failure, partition))
        return list(deleted.values())

    def close(self) -> None:
        """Close the client; no thread uses it any more. A client whose request was given up stays open."""
        self._cluster.close()
        if not self._requests.under_way:
            self._admin.close()


class OffsetRequest:
    """Offsets that were asked for."""

    def __init__(self, futures: Mapping[KafkaPartition, Future[ListOffsetsResultInfo]], requests: Requests) -> None:
        self._futures = futures
        self._requests = requests

    @property
    def done(self) -> bool:
        """True if ``result`` returns at once."""
        return all(future.done() for future in self._futures.values())

    def result(self) -> dict[TopicPartition, int]:
        """Offset per partition; raises ``KafkaException`` if any is not to be had."""
        return self._requests.ask(self._result)

    def _result(self) -> dict[TopicPartition, int]:
        return {
            TopicPartition(asked.topic, asked.partition): _known(future.result(2 * TIMEOUT).offset)
            for asked, future in self._futures.items()
        }


def _known(offset: int) -> int:
    """A client that was cut off may answer without an offset and without an error."""
    if offset < 0:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no offset was given"))
    return offset


def _await_created(name: str, future: Future[None]) -> None:
    try:
        future.result(TIMEOUT)
    except TimeoutError as error:
        raise TopicError(
            f"cannot create internal topic {name}: no answer within {TIMEOUT:.0f} s; see the broker's log"
        ) from error
    except KafkaException as error:
        cause = error.args[0]
        if cause.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return
        remedy = "grant CREATE on it, or create it" if "AUTHORIZATION" in cause.name() else "see the broker's log"
        raise TopicError(f"cannot create internal topic {name}: {cause.str()}; {remedy}") from error


def _log_failure(partition: KafkaPartition, done: Future[object]) -> None:
    error = done.exception()
    if error is not None:
        log.warning("consumed records of %s-%d were not deleted: %s", partition.topic, partition.partition, error)
