"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

# ruff: noqa: RUF012 - a structure's default that may be changed is copied

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import field

from streamsapp.brokers.codec import NO_UUID, Asking, In, Int8, Int16, Int32, Int64, Structure, Uuid, Whole


class EpochEndOffset(Structure):
    epoch: Annotated[Int32, In(12)] = -1
    end_offset: Annotated[Int64, In(12)] = -1


class LeaderIdAndEpoch(Structure):
    leader_id: Annotated[Int32, In(12)] = -1
    leader_epoch: Annotated[Int32, In(12)] = -1


class SnapshotId(Structure):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Structure):
    producer_id: Annotated[Int64, In(4)] = 0
    first_offset: Annotated[Int64, In(4)] = 0


class PartitionData(Structure):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Annotated[Int64, In(4)] = -1
    log_start_offset: Annotated[Int64, In(5)] = -1
    aborted_transactions: Annotated[list[AbortedTransaction] | None, In(4, nullable=4)] = []
    preferred_read_replica: Annotated[Int32, In(11, ignorable=False)] = -1
    records: Annotated[bytes | None, In(nullable=0)] = b""
    diverging_epoch: Annotated[EpochEndOffset, In(12, tag=0, ignorable=False)] = field(default_factory=EpochEndOffset)
    current_leader: Annotated[LeaderIdAndEpoch, In(12, tag=1, ignorable=False)] = field(
        default_factory=LeaderIdAndEpoch
    )
    snapshot_id: Annotated[SnapshotId, In(12, tag=2, ignorable=False)] = field(default_factory=SnapshotId)


class FetchableTopicResponse(Structure):
    topic: Annotated[str, In(last=12)] = ""
    topic_id: Annotated[Uuid, In(13)] = NO_UUID
    partitions: list[PartitionData] = []


class NodeEndpoint(Structure):
    node_id: Annotated[Int32, In(16)] = 0
    host: Annotated[str, In(16)] = ""
    port: Annotated[Int32, In(16)] = 0
    rack: Annotated[str | None, In(16, nullable=16)] = None


class FetchResponse(Whole):
    VERSIONS: ClassVar = (4, 17)
    FIRST_COMPACT: ClassVar = 12

    throttle_time_ms: Annotated[Int32, In(1)] = 0
    error_code: Annotated[Int16, In(7)] = 0
    session_id: Annotated[Int32, In(7, ignorable=False)] = 0
    responses: list[FetchableTopicResponse] = []
    node_endpoints: Annotated[list[NodeEndpoint], In(16, tag=0, ignorable=False)] = []


class ReplicaState(Structure):
    replica_id: Annotated[Int32, In(15)] = -1
    replica_epoch: Annotated[Int64, In(15)] = -1


class FetchPartition(Structure):
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, In(9)] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, In(12, ignorable=False)] = -1
    log_start_offset: Annotated[Int64, In(5)] = -1
    partition_max_bytes: Int32 = 0
    replica_directory_id: Annotated[Uuid, In(17, tag=0)] = NO_UUID


class FetchTopic(Structure):
    topic: Annotated[str, In(last=12)] = ""
    topic_id: Annotated[Uuid, In(13)] = NO_UUID
    partitions: list[FetchPartition] = []


class ForgottenTopic(Structure):
    topic: Annotated[str, In(7, last=12)] = ""
    topic_id: Annotated[Uuid, In(13)] = NO_UUID
    partitions: Annotated[list[Int32], In(7)] = []


class FetchRequest(Asking[FetchResponse]):
    VERSIONS: ClassVar = (4, 17)
    FIRST_COMPACT: ClassVar = 12
    API_KEY: ClassVar = 1
    ANSWER: ClassVar = FetchResponse

    replica_id: Annotated[Int32, In(last=14, ignorable=False)] = -1
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Annotated[Int32, In(3)] = 2147483647
    isolation_level: Annotated[Int8, In(4)] = 0
    session_id: Annotated[Int32, In(7)] = 0
    session_epoch: Annotated[Int32, In(7)] = -1
    topics: list[FetchTopic] = []
    forgotten_topics_data: Annotated[list[ForgottenTopic], In(7, ignorable=False)] = []
    rack_id: Annotated[str, In(11)] = ""
    cluster_id: Annotated[str | None, In(12, nullable=12, tag=0)] = None
    replica_state: Annotated[ReplicaState, In(15, tag=1, ignorable=False)] = field(default_factory=ReplicaState)
