"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

# ruff: noqa: RUF012 - a structure's default that may be changed is copied

from __future__ import annotations

from typing import Annotated, ClassVar

from streamsapp.brokers.codec import Asking, In, Int16, Int32, Structure, Whole


class ListedGroup(Structure):
    group_id: str = ""
    protocol_type: str = ""
    group_state: Annotated[str, In(4)] = ""
    group_type: Annotated[str, In(5)] = ""


class ListGroupsResponse(Whole):
    VERSIONS: ClassVar = (0, 5)
    FIRST_COMPACT: ClassVar = 3

    throttle_time_ms: Annotated[Int32, In(1)] = 0
    error_code: Int16 = 0
    groups: list[ListedGroup] = []


class ListGroupsRequest(Asking[ListGroupsResponse]):
    VERSIONS: ClassVar = (0, 5)
    FIRST_COMPACT: ClassVar = 3
    API_KEY: ClassVar = 16
    ANSWER: ClassVar = ListGroupsResponse

    states_filter: Annotated[list[str], In(4, ignorable=False)] = []
    types_filter: Annotated[list[str], In(5, ignorable=False)] = []
