"""A consumer group as seen from outside: its members, its committed offsets, whether it is active.

Called by ``streamsapp reset`` and by the Spark part's driver, on the main thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition as KafkaPartition

from streamsapp.config import StreamsConfig, client_properties
from streamsapp.errors import StreamsError
from streamsapp.kafka.admin import Admin
from streamsapp.kafka.retry import repeated
from streamsapp.record import TopicPartition

log = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 30.0
#: The client's own end, after the time-out, comes first, as one of its errors.
_END_SECONDS = 60.0
_CONNECT_SECONDS = 10.0

#: An instance without group members shows itself by its commits only; this long they are watched.
_WATCH_SECONDS = 2.0


class GroupAdmin:
    """The consumer group of one application."""

    def __init__(self, config: StreamsConfig, sleep: Callable[[float], None] = time.sleep) -> None:
        try:
            # Never polled, so the client's own messages while it connects stay out of the user's sight.
            self._admin = Admin(client_properties.admin(config), logger=log)
        except KafkaException as error:
            raise client_properties.client_error(error) or StreamsError(str(error)) from error
        self._group = config.application_id
        self._servers = config.bootstrap_servers
        self._sleep = sleep

    def activity(self) -> str | None:
        """Returns why the application seems to run, or ``None``."""
        self._connect()
        members = self._members()
        if members:
            return f"its consumer group has members ({', '.join(members)})"
        before = self.committed()
        if not before:
            return None
        self._sleep(_WATCH_SECONDS)
        return "its committed offsets move" if self.committed() != before else None

    def committed(self) -> dict[TopicPartition, int]:
        """The group's committed offsets."""
        # The answer of a coordinator that does not know the group yet ends the process. (librdkafka 2.16.1 asks its
        # consumer group to look for another one, and an admin client has no consumer group.) Members are listed once it
        # does.
        self._members()
        group = [ConsumerGroupTopicPartitions(self._group)]

        def request() -> Any:
            asked = self._admin.list_consumer_group_offsets(group, request_timeout=_TIMEOUT_SECONDS)
            return asked[self._group].result(_END_SECONDS)

        try:
            answer = repeated(request, f"reading the committed offsets of group {self._group}")
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return {}
            raise StreamsError(f"cannot read the offsets of group {self._group}: {error.args[0].str()}") from error
        return {TopicPartition(p.topic, p.partition): p.offset for p in answer.topic_partitions if p.offset >= 0}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the group's committed offsets."""
        if not offsets:
            return
        request = ConsumerGroupTopicPartitions(
            self._group, [KafkaPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
        )
        try:
            asked = self._admin.alter_consumer_group_offsets([request], request_timeout=_TIMEOUT_SECONDS)
            result = asked[self._group].result(_END_SECONDS)
        except KafkaException as error:
            raise StreamsError(f"cannot set the offsets of group {self._group}: {error.args[0].str()}") from error
        for partition in result.topic_partitions:
            if partition.error is not None:
                raise StreamsError(
                    f"cannot set the offset of {partition.topic}-{partition.partition}: {partition.error.str()}"
                )

    def _connect(self) -> None:
        """Fails at once, and in words, when there is no cluster."""
        try:
            self._admin.list_topics(timeout=_CONNECT_SECONDS)
        except KafkaException as error:
            raise StreamsError(f"cannot reach {self._servers}: {error.args[0].str()}") from error

    def _members(self) -> list[str]:
        def request() -> list[str]:
            asked = self._admin.describe_consumer_groups([self._group], request_timeout=_TIMEOUT_SECONDS)
            return [member.client_id for member in asked[self._group].result(_END_SECONDS).members]

        try:  # a broker that has just started is still loading its groups
            return repeated(request, f"looking up the members of group {self._group}")
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return []
            raise StreamsError(f"cannot ask for the members of group {self._group}: {error.args[0].str()}") from error
