"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

from __future__ import annotations

from typing import ClassVar

from streamsapp.brokers.codec import Asking, Int16, Int32, Int64, Whole


class AddOffsetsToTxnResponse(Whole):
    VERSIONS: ClassVar = (0, 4)
    FIRST_COMPACT: ClassVar = 3

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


class AddOffsetsToTxnRequest(Asking[AddOffsetsToTxnResponse]):
    VERSIONS: ClassVar = (0, 4)
    FIRST_COMPACT: ClassVar = 3
    API_KEY: ClassVar = 25
    ANSWER: ClassVar = AddOffsetsToTxnResponse

    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: str = ""
