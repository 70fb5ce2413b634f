"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

from __future__ import annotations

from typing import Annotated, ClassVar

from streamsapp.brokers.codec import Asking, Bool, In, Int16, Int32, Int64, Whole


class EndTxnResponse(Whole):
    VERSIONS: ClassVar = (0, 5)
    FIRST_COMPACT: ClassVar = 3

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, In(5)] = -1
    producer_epoch: Annotated[Int16, In(5)] = -1


class EndTxnRequest(Asking[EndTxnResponse]):
    VERSIONS: ClassVar = (0, 5)
    FIRST_COMPACT: ClassVar = 3
    API_KEY: ClassVar = 26
    ANSWER: ClassVar = EndTxnResponse

    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False
