"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

# ruff: noqa: RUF012 - a structure's default that may be changed is copied

from __future__ import annotations

from typing import Annotated, ClassVar

from streamsapp.brokers.codec import NO_UUID, Asking, Bool, In, Int16, Int32, Structure, Uuid, Whole


class MetadataResponseBroker(Structure):
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: Annotated[str | None, In(1, nullable=1)] = None


class MetadataResponsePartition(Structure):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, In(7)] = -1
    replica_nodes: list[Int32] = []
    isr_nodes: list[Int32] = []
    offline_replicas: Annotated[list[Int32], In(5)] = []


class MetadataResponseTopic(Structure):
    error_code: Int16 = 0
    name: Annotated[str | None, In(nullable=12)] = ""
    topic_id: Annotated[Uuid, In(10)] = NO_UUID
    is_internal: Annotated[Bool, In(1)] = False
    partitions: list[MetadataResponsePartition] = []
    topic_authorized_operations: Annotated[Int32, In(8, ignorable=False)] = -2147483648


class MetadataResponse(Whole):
    VERSIONS: ClassVar = (0, 13)
    FIRST_COMPACT: ClassVar = 9

    throttle_time_ms: Annotated[Int32, In(3)] = 0
    brokers: list[MetadataResponseBroker] = []
    cluster_id: Annotated[str | None, In(2, nullable=2)] = None
    controller_id: Annotated[Int32, In(1)] = -1
    topics: list[MetadataResponseTopic] = []
    cluster_authorized_operations: Annotated[Int32, In(8, last=10, ignorable=False)] = -2147483648
    error_code: Annotated[Int16, In(13)] = 0


class MetadataRequestTopic(Structure):
    topic_id: Annotated[Uuid, In(10)] = NO_UUID
    name: Annotated[str | None, In(nullable=10)] = ""


class MetadataRequest(Asking[MetadataResponse]):
    VERSIONS: ClassVar = (0, 13)
    FIRST_COMPACT: ClassVar = 9
    API_KEY: ClassVar = 3
    ANSWER: ClassVar = MetadataResponse

    topics: Annotated[list[MetadataRequestTopic] | None, In(nullable=1)] = []
    allow_auto_topic_creation: Annotated[Bool, In(4, ignorable=False)] = True
    include_cluster_authorized_operations: Annotated[Bool, In(8, last=10, ignorable=False)] = False
    include_topic_authorized_operations: Annotated[Bool, In(8, ignorable=False)] = False
