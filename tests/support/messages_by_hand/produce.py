"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

# ruff: noqa: RUF012 - a structure's default that may be changed is copied

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import field

from streamsapp.brokers.codec import Asking, In, Int16, Int32, Int64, Structure, Whole


class BatchIndexAndErrorMessage(Structure):
    batch_index: Annotated[Int32, In(8)] = 0
    batch_index_error_message: Annotated[str | None, In(8, nullable=8)] = None


class LeaderIdAndEpoch(Structure):
    leader_id: Annotated[Int32, In(10)] = -1
    leader_epoch: Annotated[Int32, In(10)] = -1


class PartitionProduceResponse(Structure):
    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Annotated[Int64, In(2)] = -1
    log_start_offset: Annotated[Int64, In(5)] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], In(8)] = []
    error_message: Annotated[str | None, In(8, nullable=8)] = None
    current_leader: Annotated[LeaderIdAndEpoch, In(10, tag=0, ignorable=False)] = field(
        default_factory=LeaderIdAndEpoch
    )


class TopicProduceResponse(Structure):
    name: str = ""
    partition_responses: list[PartitionProduceResponse] = []


class NodeEndpoint(Structure):
    node_id: Annotated[Int32, In(10)] = 0
    host: Annotated[str, In(10)] = ""
    port: Annotated[Int32, In(10)] = 0
    rack: Annotated[str | None, In(10, nullable=10)] = None


class ProduceResponse(Whole):
    VERSIONS: ClassVar = (3, 12)
    FIRST_COMPACT: ClassVar = 9

    responses: list[TopicProduceResponse] = []
    throttle_time_ms: Annotated[Int32, In(1)] = 0
    node_endpoints: Annotated[list[NodeEndpoint], In(10, tag=0, ignorable=False)] = []


class PartitionProduceData(Structure):
    index: Int32 = 0
    records: Annotated[bytes | None, In(nullable=0)] = b""


class TopicProduceData(Structure):
    name: str = ""
    partition_data: list[PartitionProduceData] = []


class ProduceRequest(Asking[ProduceResponse]):
    VERSIONS: ClassVar = (3, 12)
    FIRST_COMPACT: ClassVar = 9
    API_KEY: ClassVar = 0
    ANSWER: ClassVar = ProduceResponse

    transactional_id: Annotated[str | None, In(3, nullable=3)] = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = []
