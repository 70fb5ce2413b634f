"""The membership of an application that runs as one instance: it gets every task, at once and for good.

Two instances by mistake don't corrupt anything under exactly once: they share a transactional id, so the later one
fences the earlier.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.membership.api import Assignment, Holdings, TaskInfo
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

    @property
    def safe_until(self) -> float:
        return math.inf

    def start(self, tasks: Mapping[TaskId, TaskInfo], holdings: Callable[[], Holdings]) -> None:
        self._news = Assignment(active=frozenset(tasks))

    def poll(self) -> Assignment | None:
        news, self._news = self._news, None
        return news

    def rejoin(self) -> None:
        """There is nobody to give tasks to."""

    def begin_commit(self) -> bool:
        return True

    def end_commit(self) -> None:
        """Nothing waits for it."""

    def commit(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        try:
            self._consumer.commit(offsets)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_MEMBER_ID:
                raise
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_MEMBER_ID, self._taken())) from error

    def metadata(self) -> Any:
        return self._consumer.group_metadata()

    def drain(self) -> None:
        """There is nobody to take over."""

    def request_shutdown(self) -> None:
        """There is nobody else."""

    def leave(self) -> None:
        """There is no group to leave."""

    def _taken(self) -> str:
        return (
            f"the consumer group {self._application_id} has members: stop whatever else runs under this application id"
            " (an instance of Kafka Streams that did not leave the group counts until its session times out)"
        )
