"""The requests of a producer that sends whole record batches, and the reading of their answers. The most frequent
requests are in ``produce`` and ``transaction_requests``.

Pure; used on the thread of the connection. The greatest version of each request is fixed, as in ``membership.wire``:
the next ones mean something else. If a transaction admits partitions and groups implicitly (KIP-890, version 2 of
transactions), only the versions that say so are used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from streamsapp.brokers.bounds import WrongAnswerError, check_told
from streamsapp.brokers.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from streamsapp.brokers.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from streamsapp.brokers.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from streamsapp.brokers.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from streamsapp.brokers.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from streamsapp.brokers.request import Request

#: A topic and a number.
Name: TypeAlias = tuple[str, int]


class Producer(NamedTuple):
    """A producer as brokers know it (KIP-98)."""

    id: int
    epoch: int


def topics(names: Iterable[str]) -> Request[MetadataResponse]:
    """Ask for the partitions of topics and their leaders. A topic that is missing is made where brokers do so, as for
    any producer."""
    return Request(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names]), greatest=9)


def features() -> Request[ApiVersionsResponse]:
    """Ask for what the cluster has agreed on, which the first version with tags reports."""
    from streamsapp import __version__  # late: it takes a while

    return Request(ApiVersionsRequest("streamsapp", __version__), greatest=3)


def admits_implicitly(answer: ApiVersionsResponse) -> bool:
    """Returns whether transactions of this cluster admit partitions and groups with what is written to them, and have
    an epoch each (KIP-890)."""
    if answer.error_code or answer.finalized_features_epoch < 0:
        return False
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    return levels.get("transaction.version", 0) >= 2


def init_producer(transactional_id: str | None, transaction_timeout_ms: int) -> Request[InitProducerIdResponse]:
    """Ask for an id; with a transactional id, the producer that used it before cannot write any more."""
    return Request(InitProducerIdRequest(transactional_id, transaction_timeout_ms))


def add_partitions(
    transactional_id: str, producer: Producer, names: Iterable[Name]
) -> Request[AddPartitionsToTxnResponse]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in names:
        by_topic.setdefault(topic, []).append(partition)
    return Request(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer.id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(topic, numbers) for topic, numbers in by_topic.items()],
        )
    )


def check_producer(answer: InitProducerIdResponse) -> None:
    """Raises ``WrongAnswerError`` for an answer to InitProducerId without an error and without a producer."""
    if not answer.error_code and min(answer.producer_id, answer.producer_epoch) < 0:
        raise WrongAnswerError(
            f"the answer to InitProducerId has an impossible producer id: {answer.producer_id} in epoch"
            f" {answer.producer_epoch}"
        )


def check_added(answer: AddPartitionsToTxnResponse, names: Iterable[Name]) -> None:
    """Raises ``WrongAnswerError`` unless an answer to AddPartitionsToTxn names each of these."""
    check_told(
        "AddPartitionsToTxn",
        list(names),
        [
            (topic.name, partition.partition_index)
            for topic in answer.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        ],
    )


def add_partitions_errors(answer: AddPartitionsToTxnResponse) -> list[int]:
    """The error codes, without the codes of partitions that were left out for another's sake."""
    codes = [
        partition.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    ]
    return [code for code in codes if code not in (0, OPERATION_NOT_ATTEMPTED)]


#: Of a partition whose request was refused for the sake of others in it.
OPERATION_NOT_ATTEMPTED = 55


def add_offsets(transactional_id: str, producer: Producer, group_id: str) -> Request[AddOffsetsToTxnResponse]:
    return Request(AddOffsetsToTxnRequest(transactional_id, producer.id, producer.epoch, group_id))


class TransactionError(Exception):
    """A transaction cannot go on."""

    def __init__(self, code: int, text: str, *, abort: bool) -> None:
        """``abort``: another producer can do it all again."""
        super().__init__(text)
        self.code = code
        self.text = text
        self.abort = abort
