"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

from __future__ import annotations

from typing import Annotated, ClassVar

from streamsapp.brokers.codec import Asking, In, Int16, Int32, Int64, Whole


class InitProducerIdResponse(Whole):
    VERSIONS: ClassVar = (0, 4)
    FIRST_COMPACT: ClassVar = 2

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0


class InitProducerIdRequest(Asking[InitProducerIdResponse]):
    VERSIONS: ClassVar = (0, 4)
    FIRST_COMPACT: ClassVar = 2
    API_KEY: ClassVar = 22
    ANSWER: ClassVar = InitProducerIdResponse

    transactional_id: Annotated[str | None, In(nullable=0)] = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, In(3, ignorable=False)] = -1
    producer_epoch: Annotated[Int16, In(3, ignorable=False)] = -1
