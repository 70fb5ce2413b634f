"""Offsets are asked of leaders, with their epochs; an answer that cannot be one is not believed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from streamsapp import TopicPartition
from streamsapp.brokers.bounds import WrongAnswerError
from streamsapp.brokers.connection import Connection
from streamsapp.brokers.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from streamsapp.kafka.described import NONE, Described, Leader, Node, TopicLeaders
from streamsapp.kafka.partition_offsets import EARLIEST, LATEST, ends, offsets_at
from streamsapp.record import TopicIdentity

A, A1, B = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
TOLD = Described(
    {
        "a": TopicLeaders(0, TopicIdentity("a"), {0: Leader(1, 5), 1: Leader(2, 6)}),
        "b": TopicLeaders(0, TopicIdentity("b"), {0: Leader(1, 7), 1: Leader(NONE, 8)}),
        "denied": TopicLeaders(KafkaError.TOPIC_AUTHORIZATION_FAILED, TopicIdentity(), {}),
    },
    {1: Node("one", 9092), 2: Node("two", 9092)},
)


class Brokers:
    """Answers as the test wants it; the offset of a partition is its epoch by ten."""

    def __init__(self, rewritten: Callable[[ListOffsetsResponse], object] = lambda answer: None) -> None:
        self.asked: list[tuple[int, ListOffsetsRequest]] = []
        self.rewritten = rewritten

    async def send(self, request: Any, node: int, timeout: float, check: Callable[[Any], None]) -> Any:
        message: ListOffsetsRequest = request.message
        self.asked.append((node, message))
        answer = ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=each.partition_index, offset=10 * each.current_leader_epoch
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in message.topics
            ]
        )
        self.rewritten(answer)
        check(answer)
        return answer

    async def together(self, works: Iterable[Awaitable[Any]]) -> list[Any]:
        return [await work for work in works]

    def offsets(
        self, wanted: Mapping[TopicPartition, int], *, committed_only: bool = True
    ) -> dict[TopicPartition, int]:
        connection = cast("Connection", self)
        return asyncio.run(offsets_at(connection, TOLD, wanted, 1.0, committed_only=committed_only))


@pytest.mark.parametrize("committed_only", [True, False])
def test_each_leader_is_asked_once_with_the_epochs_of_its_partitions(*, committed_only: bool) -> None:
    brokers = Brokers()

    assert brokers.offsets({A: EARLIEST, A1: LATEST, B: 1_000}, committed_only=committed_only) == {A: 50, A1: 60, B: 70}
    assert [node for node, _ in brokers.asked] == [1, 2]
    assert {message.isolation_level for _, message in brokers.asked} == {int(committed_only)}
    assert {
        (topic.name, each.partition_index): (each.current_leader_epoch, each.timestamp)
        for _, message in brokers.asked
        for topic in message.topics
        for each in topic.partitions
    } == {A: (5, EARLIEST), A1: (6, LATEST), B: (7, 1_000)}


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (TopicPartition("b", 1), KafkaError.LEADER_NOT_AVAILABLE),
        (TopicPartition("b", 2), KafkaError.UNKNOWN_TOPIC_OR_PART),
        (TopicPartition("denied", 0), KafkaError.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_a_partition_without_a_leader_is_an_error_of_kafkas(name: TopicPartition, code: int) -> None:
    with pytest.raises(KafkaException) as raised:
        Brokers().offsets({name: LATEST})
    assert raised.value.args[0].code() == code


def part(answer: ListOffsetsResponse) -> ListOffsetsPartitionResponse:
    return answer.topics[-1].partitions[-1]


@pytest.mark.parametrize("code", [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.FENCED_LEADER_EPOCH])
def test_the_error_of_one_partition_is_that_of_all(code: int) -> None:
    brokers = Brokers(lambda answer: setattr(part(answer), "error_code", code))
    with pytest.raises(KafkaException) as raised:
        brokers.offsets({A: LATEST, B: LATEST})
    assert raised.value.args[0].code() == code


def test_a_time_after_all_records_has_no_offset() -> None:
    assert Brokers(lambda answer: setattr(part(answer), "offset", -1)).offsets({A: 1_000}) == {A: -1}


@pytest.mark.parametrize(
    ("rewritten", "wanted"),
    [
        (lambda answer: setattr(part(answer), "offset", -1), {A: LATEST}),
        (lambda answer: setattr(part(answer), "offset", -2), {A: 1_000}),
        (lambda answer: setattr(part(answer), "partition_index", 3), {A: LATEST}),
        (lambda answer: answer.topics.clear(), {A: LATEST}),
        (lambda answer: answer.topics.append(answer.topics[0]), {A: LATEST}),
    ],
    ids=["no end", "no offset", "another partition", "nothing", "twice"],
)
def test_an_answer_that_cannot_be_one_is_not_believed(
    rewritten: Callable[[ListOffsetsResponse], object], wanted: dict[TopicPartition, int]
) -> None:
    with pytest.raises(WrongAnswerError):
        Brokers(rewritten).offsets(wanted)


def ends_as_told(*told: Described) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    answers = iter(told)

    async def describe() -> Described:
        return next(answers)

    return asyncio.run(ends(cast("Connection", Brokers()), describe, [A, A1], 1.0))


def led_by(node: int, epoch: int) -> Described:
    topic = TopicLeaders(0, TopicIdentity("a"), {0: Leader(node, epoch), 1: Leader(2, 6)})
    return Described({"a": topic}, TOLD.brokers)


def test_the_answer_of_who_leads_before_and_meanwhile_is_taken() -> None:
    assert ends_as_told(led_by(1, 5), led_by(1, 5)) == ({A: 50, A1: 60}, {A: 50, A1: 60})


@pytest.mark.parametrize("now", [led_by(2, 6), led_by(1, 6)], ids=["another leader", "another election"])
def test_the_answer_of_who_may_lead_no_more_is_not_taken(now: Described) -> None:
    with pytest.raises(KafkaException, match="a leader changed meanwhile") as raised:
        ends_as_told(led_by(1, 5), now)
    assert raised.value.args[0].code() == KafkaError.NOT_LEADER_FOR_PARTITION
