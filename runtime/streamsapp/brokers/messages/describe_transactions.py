"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

# ruff: noqa: RUF012 - a structure's default that may be changed is copied

from __future__ import annotations

from typing import ClassVar

from streamsapp.brokers.codec import Asking, Int16, Int32, Int64, Structure, Whole


class TopicData(Structure):
    topic: str = ""
    partitions: list[Int32] = []


class TransactionState(Structure):
    error_code: Int16 = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[TopicData] = []


class DescribeTransactionsResponse(Whole):
    VERSIONS: ClassVar = (0, 0)
    FIRST_COMPACT: ClassVar = 0

    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState] = []


class DescribeTransactionsRequest(Asking[DescribeTransactionsResponse]):
    VERSIONS: ClassVar = (0, 0)
    FIRST_COMPACT: ClassVar = 0
    API_KEY: ClassVar = 65
    ANSWER: ClassVar = DescribeTransactionsResponse

    transactional_ids: list[str] = []
