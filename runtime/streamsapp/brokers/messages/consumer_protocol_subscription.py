"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

# ruff: noqa: RUF012 - a structure's default that may be changed is copied

from __future__ import annotations

from typing import Annotated, ClassVar

from streamsapp.brokers.codec import In, Int32, Structure, Whole


class TopicPartition(Structure):
    topic: Annotated[str, In(1)] = ""
    partitions: Annotated[list[Int32], In(1)] = []


class ConsumerProtocolSubscription(Whole):
    VERSIONS: ClassVar = (0, 3)
    FIRST_COMPACT: ClassVar = 32767

    topics: list[str] = []
    user_data: Annotated[bytes | None, In(nullable=0)] = None
    owned_partitions: Annotated[list[TopicPartition], In(1)] = []
    generation_id: Annotated[Int32, In(2)] = -1
    rack_id: Annotated[str | None, In(3, nullable=3)] = None
