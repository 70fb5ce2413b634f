"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

# ruff: noqa: RUF012 - a structure's default that may be changed is copied

from __future__ import annotations

from typing import Annotated, ClassVar

from streamsapp.brokers.codec import Asking, In, Int8, Int16, Int32, Int64, Structure, Whole


class ListOffsetsPartitionResponse(Structure):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Annotated[Int64, In(1)] = -1
    offset: Annotated[Int64, In(1)] = -1
    leader_epoch: Annotated[Int32, In(4, ignorable=False)] = -1


class ListOffsetsTopicResponse(Structure):
    name: str = ""
    partitions: list[ListOffsetsPartitionResponse] = []


class ListOffsetsResponse(Whole):
    VERSIONS: ClassVar = (1, 7)
    FIRST_COMPACT: ClassVar = 6

    throttle_time_ms: Annotated[Int32, In(2)] = 0
    topics: list[ListOffsetsTopicResponse] = []


class ListOffsetsPartition(Structure):
    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, In(4)] = -1
    timestamp: Int64 = 0


class ListOffsetsTopic(Structure):
    name: str = ""
    partitions: list[ListOffsetsPartition] = []


class ListOffsetsRequest(Asking[ListOffsetsResponse]):
    VERSIONS: ClassVar = (1, 7)
    FIRST_COMPACT: ClassVar = 6
    API_KEY: ClassVar = 2
    ANSWER: ClassVar = ListOffsetsResponse

    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, In(2, ignorable=False)] = 0
    topics: list[ListOffsetsTopic] = []
