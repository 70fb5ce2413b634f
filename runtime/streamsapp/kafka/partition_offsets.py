"""Asks the leaders of partitions for their first and last offsets, and for the first ones at or after a time.

Used by ``kafka.cluster``, on the thread of its connection. Leaders are looked up each time, as offsets are seldom asked
for. A leader that has moved is an error that passes, and the next call finds the new leader.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import partial
from typing import Any, TypeAlias

from confluent_kafka import KafkaError, KafkaException

from streamsapp.brokers.bounds import WrongAnswerError, check_told
from streamsapp.brokers.connection import Connection
from streamsapp.brokers.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from streamsapp.brokers.request import Request
from streamsapp.kafka.described import NONE, Described, Leader
from streamsapp.record import TopicPartition

Offsets: TypeAlias = dict[TopicPartition, int]

#: In place of a time: the beginning of a partition, its end, and its latest record (KIP-734).
EARLIEST, LATEST, LAST = -2, -1, -3
#: The first version that says whether ends of open transactions count, and the first that knows ``LAST``.
_LEAST, _LEAST_WITH_LAST = 2, 7


async def offsets_at(
    connection: Connection,
    told: Described,
    wanted: Mapping[TopicPartition, int],
    timeout: float,
    *,
    committed_only: bool,
) -> Offsets:
    """The offsets at these times, in milliseconds since 1970; -1 where no record is as late. ``told`` has the topics of
    all partitions, and each leader may take ``timeout`` seconds. Raises ``KafkaException`` with the error of the first
    partition that has one, and ``UnreachableError``."""
    by_leader: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
    for name, time_ms in wanted.items():
        leader = _leader(told, name)
        by_leader.setdefault(leader.node, {})[name] = leader.epoch, time_ms
    answers = await connection.together(
        connection.send(
            Request(
                _message(asked, committed_only=committed_only),
                least=_LEAST_WITH_LAST if LAST in wanted.values() else _LEAST,
            ),
            node, timeout, partial(_check, asked=asked),
        )
        for node, asked in by_leader.items()
    )  # fmt: skip
    return {name: offset for answer in answers for name, offset in _read(answer).items()}


async def ends(
    connection: Connection,
    describe: Callable[[], Coroutine[Any, Any, Described]],
    partitions: Collection[TopicPartition],
    timeout: float,
) -> tuple[Offsets, Offsets]:
    """The first offset of partitions, and where they end: records of open transactions count. ``describe`` asks for
    their topics. Raises as ``offsets_at`` does, also where a leader changed meanwhile: a broker that had stood still
    answers where its log ended when it was the leader, and records would be missed."""
    told = await describe()

    def offsets(at: int) -> Coroutine[Any, Any, Any]:
        return offsets_at(connection, told, dict.fromkeys(partitions, at), timeout, committed_only=False)

    # Together: a leader that is elected later does not matter for what was written before this call.
    asked: list[Coroutine[Any, Any, Any]] = [offsets(EARLIEST), offsets(LATEST), describe()]
    first, last, now = await connection.together(asked)
    if any(now.topics[each.topic].leaders != told.topics[each.topic].leaders for each in partitions):
        raise KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION, "a leader changed meanwhile"))
    return first, last


def _leader(told: Described, name: TopicPartition) -> Leader:
    topic = told.topics[name.topic]
    leader = topic.leaders.get(name.partition)
    if topic.error or leader is None:
        raise KafkaException(KafkaError(topic.error or KafkaError.UNKNOWN_TOPIC_OR_PART))
    if leader.node == NONE:
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    return leader


def _message(asked: Mapping[TopicPartition, tuple[int, int]], *, committed_only: bool) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, number), (epoch, time_ms) in asked.items():
        one = ListOffsetsPartition(partition_index=number, current_leader_epoch=epoch, timestamp=time_ms)
        topics.setdefault(topic, []).append(one)
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(committed_only),
        topics=[ListOffsetsTopic(name=name, partitions=of_it) for name, of_it in topics.items()],
    )


def _check(answer: ListOffsetsResponse, asked: Mapping[TopicPartition, tuple[int, int]]) -> None:
    """Raises ``WrongAnswerError`` for an answer to something else, and for offsets that there cannot be."""
    told = [
        (TopicPartition(topic.name, each.partition_index), each) for topic in answer.topics for each in topic.partitions
    ]
    check_told("ListOffsets", asked, [name for name, _ in told])
    for name, each in told:
        least = 0 if asked[name][1] in (EARLIEST, LATEST) else -1
        if not each.error_code and each.offset < least:
            raise WrongAnswerError(f"the answer to ListOffsets has offset {each.offset} of {name}, and no error")


def _read(answer: ListOffsetsResponse) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for topic in answer.topics:
        for each in topic.partitions:
            if each.error_code:
                raise KafkaException(KafkaError(each.error_code))
            found[TopicPartition(topic.name, each.partition_index)] = each.offset
    return found
