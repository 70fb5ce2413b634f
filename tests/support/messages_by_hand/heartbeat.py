"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

from __future__ import annotations

from typing import Annotated, ClassVar

from streamsapp.brokers.codec import Asking, In, Int16, Int32, Whole


class HeartbeatResponse(Whole):
    VERSIONS: ClassVar = (0, 4)
    FIRST_COMPACT: ClassVar = 4

    throttle_time_ms: Annotated[Int32, In(1)] = 0
    error_code: Int16 = 0


class HeartbeatRequest(Asking[HeartbeatResponse]):
    VERSIONS: ClassVar = (0, 4)
    FIRST_COMPACT: ClassVar = 4
    API_KEY: ClassVar = 12
    ANSWER: ClassVar = HeartbeatResponse

    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, In(3, nullable=3, ignorable=False)] = None
