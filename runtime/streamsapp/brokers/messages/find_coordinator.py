"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

# ruff: noqa: RUF012 - a structure's default that may be changed is copied

from __future__ import annotations

from typing import Annotated, ClassVar

from streamsapp.brokers.codec import Asking, In, Int8, Int16, Int32, Structure, Whole


class Coordinator(Structure):
    key: Annotated[str, In(4)] = ""
    node_id: Annotated[Int32, In(4)] = 0
    host: Annotated[str, In(4)] = ""
    port: Annotated[Int32, In(4)] = 0
    error_code: Annotated[Int16, In(4)] = 0
    error_message: Annotated[str | None, In(4, nullable=4)] = ""


class FindCoordinatorResponse(Whole):
    VERSIONS: ClassVar = (0, 4)
    FIRST_COMPACT: ClassVar = 3

    throttle_time_ms: Annotated[Int32, In(1)] = 0
    error_code: Annotated[Int16, In(last=3, ignorable=False)] = 0
    error_message: Annotated[str | None, In(1, last=3, nullable=1)] = ""
    node_id: Annotated[Int32, In(last=3, ignorable=False)] = 0
    host: Annotated[str, In(last=3, ignorable=False)] = ""
    port: Annotated[Int32, In(last=3, ignorable=False)] = 0
    coordinators: Annotated[list[Coordinator], In(4, ignorable=False)] = []


class FindCoordinatorRequest(Asking[FindCoordinatorResponse]):
    VERSIONS: ClassVar = (0, 4)
    FIRST_COMPACT: ClassVar = 3
    API_KEY: ClassVar = 10
    ANSWER: ClassVar = FindCoordinatorResponse

    key: Annotated[str, In(last=3, ignorable=False)] = ""
    key_type: Annotated[Int8, In(1, ignorable=False)] = 0
    coordinator_keys: Annotated[list[str], In(4, ignorable=False)] = []
