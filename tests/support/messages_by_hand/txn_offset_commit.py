"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

# ruff: noqa: RUF012 - a structure's default that may be changed is copied

from __future__ import annotations

from typing import Annotated, ClassVar

from streamsapp.brokers.codec import Asking, In, Int16, Int32, Int64, Structure, Whole


class TxnOffsetCommitResponsePartition(Structure):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class TxnOffsetCommitResponseTopic(Structure):
    name: str = ""
    partitions: list[TxnOffsetCommitResponsePartition] = []


class TxnOffsetCommitResponse(Whole):
    VERSIONS: ClassVar = (0, 5)
    FIRST_COMPACT: ClassVar = 3

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = []


class TxnOffsetCommitRequestPartition(Structure):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, In(2)] = -1
    committed_metadata: Annotated[str | None, In(nullable=0)] = ""


class TxnOffsetCommitRequestTopic(Structure):
    name: str = ""
    partitions: list[TxnOffsetCommitRequestPartition] = []


class TxnOffsetCommitRequest(Asking[TxnOffsetCommitResponse]):
    VERSIONS: ClassVar = (0, 5)
    FIRST_COMPACT: ClassVar = 3
    API_KEY: ClassVar = 28
    ANSWER: ClassVar = TxnOffsetCommitResponse

    transactional_id: str = ""
    group_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id_or_member_epoch: Annotated[Int32, In(3, ignorable=False)] = -1
    member_id: Annotated[str, In(3, ignorable=False)] = ""
    group_instance_id: Annotated[str | None, In(3, nullable=3, ignorable=False)] = None
    topics: list[TxnOffsetCommitRequestTopic] = []
