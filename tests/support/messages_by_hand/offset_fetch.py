"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

# ruff: noqa: RUF012 - a structure's default that may be changed is copied

from __future__ import annotations

from typing import Annotated, ClassVar

from streamsapp.brokers.codec import Asking, Bool, In, Int16, Int32, Int64, Structure, Whole


class OffsetFetchResponsePartition(Structure):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, In(5)] = -1
    metadata: Annotated[str | None, In(nullable=0)] = ""
    error_code: Int16 = 0


class OffsetFetchResponseTopic(Structure):
    name: str = ""
    partitions: list[OffsetFetchResponsePartition] = []


class OffsetFetchResponse(Whole):
    VERSIONS: ClassVar = (1, 7)
    FIRST_COMPACT: ClassVar = 6

    throttle_time_ms: Annotated[Int32, In(3)] = 0
    topics: list[OffsetFetchResponseTopic] = []
    error_code: Annotated[Int16, In(2)] = 0


class OffsetFetchRequestTopic(Structure):
    name: str = ""
    partition_indexes: list[Int32] = []


class OffsetFetchRequest(Asking[OffsetFetchResponse]):
    VERSIONS: ClassVar = (1, 7)
    FIRST_COMPACT: ClassVar = 6
    API_KEY: ClassVar = 9
    ANSWER: ClassVar = OffsetFetchResponse

    group_id: str = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, In(nullable=2)] = []
    require_stable: Annotated[Bool, In(7, ignorable=False)] = False
