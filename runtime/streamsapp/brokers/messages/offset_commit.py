"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

# ruff: noqa: RUF012 - a structure's default that may be changed is copied

from __future__ import annotations

from typing import Annotated, ClassVar

from streamsapp.brokers.codec import Asking, In, Int16, Int32, Int64, Structure, Whole


class OffsetCommitResponsePartition(Structure):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetCommitResponseTopic(Structure):
    name: str = ""
    partitions: list[OffsetCommitResponsePartition] = []


class OffsetCommitResponse(Whole):
    VERSIONS: ClassVar = (2, 9)
    FIRST_COMPACT: ClassVar = 8

    throttle_time_ms: Annotated[Int32, In(3)] = 0
    topics: list[OffsetCommitResponseTopic] = []


class OffsetCommitRequestPartition(Structure):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, In(6)] = -1
    committed_metadata: Annotated[str | None, In(nullable=0)] = ""


class OffsetCommitRequestTopic(Structure):
    name: str = ""
    partitions: list[OffsetCommitRequestPartition] = []


class OffsetCommitRequest(Asking[OffsetCommitResponse]):
    VERSIONS: ClassVar = (2, 9)
    FIRST_COMPACT: ClassVar = 8
    API_KEY: ClassVar = 8
    ANSWER: ClassVar = OffsetCommitResponse

    group_id: str = ""
    generation_id_or_member_epoch: Annotated[Int32, In(1)] = -1
    member_id: Annotated[str, In(1)] = ""
    group_instance_id: Annotated[str | None, In(7, nullable=7, ignorable=False)] = None
    retention_time_ms: Annotated[Int64, In(2, last=4)] = -1
    topics: list[OffsetCommitRequestTopic] = []
