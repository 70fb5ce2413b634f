"""What ``reset`` and ``local`` ask of and tell a Kafka cluster: a thin layer over the admin client.

Runs on the main thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition as KafkaPartition
from confluent_kafka.admin import NewTopic, OffsetSpec  # type: ignore[attr-defined]  # exported, not declared so

from streamsapp.cli.reset_plan import Bounds
from streamsapp.config import StreamsConfig, client_properties
from streamsapp.errors import StreamsError, TopicError
from streamsapp.kafka.admin import Admin
from streamsapp.kafka.retry import repeated
from streamsapp.record import TopicPartition

log = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 30.0
_CONNECT_SECONDS = 10.0

#: An instance without group members shows itself by its commits only; this long they are watched.
_WATCH_SECONDS = 2.0


class Cluster:
    """The cluster an application runs on."""

    def __init__(self, config: StreamsConfig, sleep: Callable[[float], None] = time.sleep) -> None:
        properties = client_properties.admin(config)
        try:
            # Never polled, so what the client logs while it tries to connect stays out of the user's sight.
            self._admin = Admin(properties, logger=log)
        except KafkaException as error:
            raise client_properties.client_error(error) or StreamsError(str(error)) from error
        self._servers = config.bootstrap_servers
        self._sleep = sleep

    def partitions(self) -> dict[str, int]:
        """How many partitions every topic has."""
        try:
            listed = self._admin.list_topics(timeout=_CONNECT_SECONDS)
        except KafkaException as error:
            raise StreamsError(f"cannot reach {self._servers}: {error.args[0].str()}") from error
        return {name: len(topic.partitions) for name, topic in listed.topics.items()}

    def activity(self, group: str) -> str | None:
        """Why the application seems to run, or ``None``."""
        self.partitions()  # fails at once, and in words, when there is no cluster
        members = self._members(group)
        if members:
            return f"its consumer group has members ({', '.join(members)})"
        before = self.committed(group)
        if not before:
            return None
        self._sleep(_WATCH_SECONDS)
        return "its committed offsets move" if self.committed(group) != before else None

    def bounds(self, group: str, topics: Mapping[str, int], at_time_ms: int | None) -> dict[TopicPartition, Bounds]:
        """What every partition of ``topics`` holds."""
        partitions = [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]
        earliest = self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        latest = self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        at_time = {} if at_time_ms is None else self._offsets(partitions, OffsetSpec.for_timestamp(at_time_ms))
        committed = self.committed(group)
        return {
            partition: Bounds(earliest[partition], latest[partition], committed.get(partition), at_time.get(partition))
            for partition in partitions
            if partition in earliest and partition in latest
        }

    def create_topics(self, topics: Iterable[str], partitions: int) -> None:
        """Create them with the broker's default settings."""
        for topic, future in self._admin.create_topics([NewTopic(topic, partitions) for topic in topics]).items():
            try:
                future.result(timeout=_TIMEOUT_SECONDS)
            except KafkaException as error:
                raise TopicError(f"cannot create topic {topic}: {error.args[0].str()}") from error

    def delete_topics(self, topics: Iterable[str]) -> None:
        """Delete them; returns when the cluster has agreed."""
        wanted = list(topics)
        if not wanted:
            return
        for topic, future in self._admin.delete_topics(wanted, operation_timeout=_TIMEOUT_SECONDS).items():
            try:
                future.result(timeout=_TIMEOUT_SECONDS)
            except KafkaException as error:
                raise TopicError(f"cannot delete topic {topic}: {error.args[0].str()}") from error

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the group's committed offsets."""
        if not offsets:
            return
        request = ConsumerGroupTopicPartitions(
            group, [KafkaPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
        )
        try:
            result = self._admin.alter_consumer_group_offsets([request])[group].result(timeout=_TIMEOUT_SECONDS)
        except KafkaException as error:
            raise StreamsError(f"cannot set the offsets of group {group}: {error.args[0].str()}") from error
        for partition in result.topic_partitions:
            if partition.error is not None:
                raise StreamsError(
                    f"cannot set the offset of {partition.topic}-{partition.partition}: {partition.error.str()}"
                )

    def _members(self, group: str) -> list[str]:
        try:
            described = repeated(
                lambda: self._admin.describe_consumer_groups([group])[group].result(timeout=_TIMEOUT_SECONDS),
                f"looking up the members of group {group}",  # a broker that has just started loads its groups still
            )
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return []
            raise StreamsError(f"cannot ask for the members of group {group}: {error.args[0].str()}") from error
        return [member.client_id for member in described.members]

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """The group's committed offsets."""
        request = [ConsumerGroupTopicPartitions(group)]
        try:
            answer = repeated(
                lambda: self._admin.list_consumer_group_offsets(request)[group].result(timeout=_TIMEOUT_SECONDS),
                f"reading the committed offsets of group {group}",
            )
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return {}
            raise StreamsError(f"cannot read the offsets of group {group}: {error.args[0].str()}") from error
        return {TopicPartition(p.topic, p.partition): p.offset for p in answer.topic_partitions if p.offset >= 0}

    def _offsets(self, partitions: Iterable[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        """Partitions in which nothing fits the time are left out."""
        request = {KafkaPartition(topic, number): spec for topic, number in partitions}
        answers = self._admin.list_offsets(request)
        found = {}
        for partition, future in answers.items():
            try:
                offset = future.result(timeout=_TIMEOUT_SECONDS).offset
            except KafkaException as error:
                where = f"{partition.topic}-{partition.partition}"
                raise TopicError(f"cannot read the offsets of {where}: {error.args[0].str()}") from error
            if offset >= 0:
                found[TopicPartition(partition.topic, partition.partition)] = offset
        return found
