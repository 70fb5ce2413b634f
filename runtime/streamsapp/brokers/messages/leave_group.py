"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

# ruff: noqa: RUF012 - a structure's default that may be changed is copied

from __future__ import annotations

from typing import Annotated, ClassVar

from streamsapp.brokers.codec import Asking, In, Int16, Int32, Structure, Whole


class MemberResponse(Structure):
    member_id: Annotated[str, In(3)] = ""
    group_instance_id: Annotated[str | None, In(3, nullable=3)] = ""
    error_code: Annotated[Int16, In(3)] = 0


class LeaveGroupResponse(Whole):
    VERSIONS: ClassVar = (0, 5)
    FIRST_COMPACT: ClassVar = 4

    throttle_time_ms: Annotated[Int32, In(1)] = 0
    error_code: Int16 = 0
    members: Annotated[list[MemberResponse], In(3, ignorable=False)] = []


class MemberIdentity(Structure):
    member_id: Annotated[str, In(3)] = ""
    group_instance_id: Annotated[str | None, In(3, nullable=3)] = None
    reason: Annotated[str | None, In(5, nullable=5)] = None


class LeaveGroupRequest(Asking[LeaveGroupResponse]):
    VERSIONS: ClassVar = (0, 5)
    FIRST_COMPACT: ClassVar = 4
    API_KEY: ClassVar = 13
    ANSWER: ClassVar = LeaveGroupResponse

    group_id: str = ""
    member_id: Annotated[str, In(last=2, ignorable=False)] = ""
    members: Annotated[list[MemberIdentity], In(3, ignorable=False)] = []
