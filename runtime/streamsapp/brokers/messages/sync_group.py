"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

# ruff: noqa: RUF012 - a structure's default that may be changed is copied

from __future__ import annotations

from typing import Annotated, ClassVar

from streamsapp.brokers.codec import Asking, In, Int16, Int32, Structure, Whole


class SyncGroupResponse(Whole):
    VERSIONS: ClassVar = (0, 5)
    FIRST_COMPACT: ClassVar = 4

    throttle_time_ms: Annotated[Int32, In(1)] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[str | None, In(5, nullable=5)] = None
    protocol_name: Annotated[str | None, In(5, nullable=5)] = None
    assignment: bytes = b""


class SyncGroupRequestAssignment(Structure):
    member_id: str = ""
    assignment: bytes = b""


class SyncGroupRequest(Asking[SyncGroupResponse]):
    VERSIONS: ClassVar = (0, 5)
    FIRST_COMPACT: ClassVar = 4
    API_KEY: ClassVar = 14
    ANSWER: ClassVar = SyncGroupResponse

    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, In(3, nullable=3, ignorable=False)] = None
    protocol_type: Annotated[str | None, In(5, nullable=5)] = None
    protocol_name: Annotated[str | None, In(5, nullable=5)] = None
    assignments: list[SyncGroupRequestAssignment] = []
