"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

# ruff: noqa: RUF012 - a structure's default that may be changed is copied

from __future__ import annotations

from typing import Annotated, ClassVar

from streamsapp.brokers.codec import Asking, Bool, In, Int16, Int32, Structure, Whole


class JoinGroupResponseMember(Structure):
    member_id: str = ""
    group_instance_id: Annotated[str | None, In(5, nullable=5)] = None
    metadata: bytes = b""


class JoinGroupResponse(Whole):
    VERSIONS: ClassVar = (0, 9)
    FIRST_COMPACT: ClassVar = 6

    throttle_time_ms: Annotated[Int32, In(2)] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[str | None, In(7, nullable=7)] = None
    protocol_name: Annotated[str | None, In(nullable=7)] = ""
    leader: str = ""
    skip_assignment: Annotated[Bool, In(9, ignorable=False)] = False
    member_id: str = ""
    members: list[JoinGroupResponseMember] = []


class JoinGroupRequestProtocol(Structure):
    name: str = ""
    metadata: bytes = b""


class JoinGroupRequest(Asking[JoinGroupResponse]):
    VERSIONS: ClassVar = (0, 9)
    FIRST_COMPACT: ClassVar = 6
    API_KEY: ClassVar = 11
    ANSWER: ClassVar = JoinGroupResponse

    group_id: str = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, In(1)] = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, In(5, nullable=5, ignorable=False)] = None
    protocol_type: str = ""
    protocols: list[JoinGroupRequestProtocol] = []
    reason: Annotated[str | None, In(8, nullable=8)] = None
