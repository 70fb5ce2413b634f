"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

# ruff: noqa: RUF012 - a structure's default that may be changed is copied

from __future__ import annotations

from typing import Annotated, ClassVar

from streamsapp.brokers.codec import In, Int32, Structure, Whole


class TopicPartition(Structure):
    topic: str = ""
    partitions: list[Int32] = []


class ConsumerProtocolAssignment(Whole):
    VERSIONS: ClassVar = (0, 3)
    FIRST_COMPACT: ClassVar = 32767

    assigned_partitions: list[TopicPartition] = []
    user_data: Annotated[bytes | None, In(nullable=0)] = None
