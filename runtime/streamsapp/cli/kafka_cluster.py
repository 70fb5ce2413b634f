"""The topics of a Kafka cluster as ``reset`` and ``local`` use them: a thin layer over the admin client.

Runs on the main thread.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaError, KafkaException, TopicPartition as KafkaPartition
from confluent_kafka.admin import NewTopic, OffsetSpec

from streamsapp.cli.reset_plan import InputOffsets
from streamsapp.config import StreamsConfig, client_properties
from streamsapp.errors import StreamsError, TopicError
from streamsapp.kafka.admin import Admin
from streamsapp.kafka.retry import repeated
from streamsapp.record import TopicPartition
from streamsapp.topology.internal_topics import FOR_EVER

log = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 30.0
_CONNECT_SECONDS = 10.0
#: Longer than any request takes until the client gives it up.
_END_SECONDS = 90.0


class KafkaCluster:
    """The cluster an application runs on."""

    def __init__(self, config: StreamsConfig) -> None:
        properties = client_properties.admin(config)
        try:
            # Never polled, so what the client logs while it tries to connect stays out of the user's sight.
            self._admin = Admin(properties, logger=log)
        except KafkaException as error:
            raise client_properties.client_error(error) or StreamsError(str(error)) from error
        self._servers = config.bootstrap_servers

    def close(self) -> None:
        """No other program may be using it."""
        self._admin.close()

    def partitions(self) -> dict[str, int]:
        """Returns the number of partitions of every topic."""
        try:
            listed = self._admin.list_topics(timeout=_CONNECT_SECONDS)
        except KafkaException as error:
            raise StreamsError(f"cannot reach {self._servers}: {error.args[0].str()}") from error
        return {name: len(topic.partitions) for name, topic in listed.topics.items()}

    def bounds(
        self, topics: Mapping[str, int], committed: Mapping[TopicPartition, int], at_time_ms: int | None
    ) -> dict[TopicPartition, InputOffsets]:
        """The offsets that every partition of ``topics`` holds, beside the committed ones."""
        partitions = [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]
        earliest = self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        latest = self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        at_time = {}
        if at_time_ms is not None:
            at_time = self._offsets(partitions, OffsetSpec.for_timestamp(at_time_ms), all_have_one=False)
        return {
            partition: InputOffsets(
                earliest[partition], latest[partition], committed.get(partition), at_time.get(partition)
            )
            for partition in partitions
            if partition in earliest and partition in latest
        }

    def create_topics(self, topics: Iterable[str], partitions: int) -> None:
        """Create them with the broker's default settings, but for records to stay whatever their time is: those of an
        archive would be gone within a minute."""
        new = [NewTopic(topic, partitions, config={"retention.ms": FOR_EVER}) for topic in topics]
        for topic, future in self._admin.create_topics(new, request_timeout=_TIMEOUT_SECONDS).items():
            try:
                future.result(timeout=_END_SECONDS)
            except KafkaException as error:
                raise TopicError(f"cannot create topic {topic}: {error.args[0].str()}") from error

    def delete_topics(self, topics: Iterable[str]) -> None:
        """Delete them; returns when the cluster has agreed."""
        wanted = list(topics)
        if not wanted:
            return
        asked = self._admin.delete_topics(
            wanted, operation_timeout=_TIMEOUT_SECONDS, request_timeout=2 * _TIMEOUT_SECONDS
        )
        for topic, future in asked.items():
            try:
                future.result(timeout=_END_SECONDS)
            except KafkaException as error:
                raise TopicError(f"cannot delete topic {topic}: {error.args[0].str()}") from error

    def _offsets(
        self, partitions: Iterable[TopicPartition], spec: OffsetSpec, *, all_have_one: bool = True
    ) -> dict[TopicPartition, int]:
        """The offset of each; raises ``TopicError`` if no broker reports them. Unless ``all_have_one``, partitions in
        which nothing fits the time are left out."""
        request = {KafkaPartition(topic, number): spec for topic, number in partitions}

        def ask() -> dict[TopicPartition, int]:
            asked = self._admin.list_offsets(request, request_timeout=_TIMEOUT_SECONDS)
            found = {each: future.result(timeout=_END_SECONDS).offset for each, future in asked.items()}
            if all_have_one and any(offset < 0 for offset in found.values()):
                # A client that was cut off may answer without an offset and without an error.
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no offset was given"))
            return {TopicPartition(each.topic, each.partition): offset for each, offset in found.items()}

        try:  # a topic that was just created has no leaders for a moment
            answers = repeated(ask, "reading offsets")
        except KafkaException as error:
            topics = ", ".join(sorted({each.topic for each in request}))
            raise TopicError(f"cannot read the offsets of {topics}: {error.args[0].str()}") from error
        return {partition: offset for partition, offset in answers.items() if offset >= 0}
