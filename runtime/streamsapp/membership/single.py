"""The membership of an application that runs as one instance: it gets every task, at once and for good.

Two instances by mistake don't corrupt anything under exactly once: they share a transactional id, so the later one
fences the earlier.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.membership.api import Assignment
from streamsapp.record import TaskId, TopicPartition


class SingleMember:
    """All tasks belong to this instance; offsets are committed without a generation."""

    def __init__(self, application_id: str, consumer: PartitionConsumer) -> None:
        self._application_id = application_id
        self._consumer = consumer
        self._news: Assignment | None = None

    @property
    def transactional_id(self) -> str:
        return f"{self._application_id}-single"

    def start(self, tasks: frozenset[TaskId]) -> None:
        self._news = Assignment(active=tasks)

    def poll(self) -> Assignment | None:
        news, self._news = self._news, None
        return news

    def commit(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        try:
            self._consumer.commit(offsets)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_MEMBER_ID:
                raise
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_MEMBER_ID, self._taken())) from error

    def metadata(self) -> Any:
        return self._consumer.group_metadata()

    def leave(self) -> None:
        """There is no group to leave."""

    def _taken(self) -> str:
        return (
            f"the consumer group {self._application_id} has members: stop whatever else runs under this application id"
            " (an instance of Kafka Streams that did not leave the group counts until its session times out)"
        )
