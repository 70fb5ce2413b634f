"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

# ruff: noqa: RUF012 - a structure's default that may be changed is copied

from __future__ import annotations

from typing import Annotated, ClassVar

from streamsapp.brokers.codec import Asking, In, Int16, Int32, Int64, Structure, Whole


class TransactionState(Structure):
    transactional_id: str = ""
    producer_id: Int64 = 0
    transaction_state: str = ""


class ListTransactionsResponse(Whole):
    VERSIONS: ClassVar = (0, 1)
    FIRST_COMPACT: ClassVar = 0

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[str] = []
    transaction_states: list[TransactionState] = []


class ListTransactionsRequest(Asking[ListTransactionsResponse]):
    VERSIONS: ClassVar = (0, 1)
    FIRST_COMPACT: ClassVar = 0
    API_KEY: ClassVar = 66
    ANSWER: ClassVar = ListTransactionsResponse

    state_filters: list[str] = []
    producer_id_filters: list[Int64] = []
    duration_filter: Annotated[Int64, In(1, ignorable=False)] = -1
