"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

# ruff: noqa: RUF012 - a structure's default that may be changed is copied

from __future__ import annotations

from typing import ClassVar

from streamsapp.brokers.codec import Asking, Int16, Int32, Int64, Structure, Whole


class AddPartitionsToTxnPartitionResult(Structure):
    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


class AddPartitionsToTxnTopicResult(Structure):
    name: str = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = []


class AddPartitionsToTxnResponse(Whole):
    VERSIONS: ClassVar = (0, 3)
    FIRST_COMPACT: ClassVar = 3

    throttle_time_ms: Int32 = 0
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = []


class AddPartitionsToTxnTopic(Structure):
    name: str = ""
    partitions: list[Int32] = []


class AddPartitionsToTxnRequest(Asking[AddPartitionsToTxnResponse]):
    VERSIONS: ClassVar = (0, 3)
    FIRST_COMPACT: ClassVar = 3
    API_KEY: ClassVar = 24
    ANSWER: ClassVar = AddPartitionsToTxnResponse

    v3_and_below_transactional_id: str = ""
    v3_and_below_producer_id: Int64 = 0
    v3_and_below_producer_epoch: Int16 = 0
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = []
