"""Committed offsets of a group that has no coordinator for a moment, or another one. The broker is scripted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from answering_broker import AnsweringBroker
from streamsapp import TopicPartition
from streamsapp.kafka import cluster as module
from streamsapp.kafka.cluster import Cluster

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
ELSEWHERE = [
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
]


@pytest.fixture
def broker() -> Iterator[AnsweringBroker]:
    with closing(AnsweringBroker()) as made:
        yield made


@pytest.fixture
def cluster(broker: AnsweringBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(module, "_PAUSE", 0.002)
    with closing(Cluster({"bootstrap.servers": f"127.0.0.1:{broker.port}", "group.id": "g"})) as made:
        yield made


def coordinator(answer: Any, code: int) -> None:
    answer.coordinators[0].error_code = code


def every_partition(answer: Any, code: int) -> None:
    for each in answer.topics[0].partitions:
        each.error_code = code


def last_partition(answer: Any, code: int) -> None:
    answer.topics[0].partitions[1].error_code = code


def the_whole(answer: Any, code: int) -> None:
    answer.error_code = code


def failing(broker: AnsweringBroker, key: int, where: Callable[[Any, int], None], code: int, times: int) -> None:
    """So many answers of a kind have the error."""
    left = [times]

    def rewritten(asked: int, answer: Any) -> None:
        if asked == key and left[0] > 0:
            left[0] -= 1
            where(answer, code)

    broker.rewritten = rewritten


@pytest.mark.parametrize("code", ELSEWHERE)
@pytest.mark.parametrize(
    ("key", "where"),
    [(FIND_COORDINATOR, coordinator), (OFFSET_COMMIT, every_partition), (OFFSET_COMMIT, last_partition)],
)
def test_a_commit_looks_for_the_coordinator_again_where_it_is_another_one(
    broker: AnsweringBroker, cluster: Cluster, key: int, where: Callable[[Any, int], None], code: int
) -> None:
    failing(broker, key, where, code, times=3)
    cluster.commit({FIRST: (5, "five"), SECOND: (6, "")})

    assert broker.asked.count(FIND_COORDINATOR) == 4
    assert broker.asked.count(OFFSET_COMMIT) == (1 if key == FIND_COORDINATOR else 4)


@pytest.mark.parametrize("code", ELSEWHERE)
@pytest.mark.parametrize(
    ("key", "where"),
    [(FIND_COORDINATOR, coordinator), (OFFSET_FETCH, the_whole), (OFFSET_FETCH, last_partition)],
)
def test_committed_offsets_are_asked_of_another_coordinator_where_it_is_another_one(
    broker: AnsweringBroker, cluster: Cluster, key: int, where: Callable[[Any, int], None], code: int
) -> None:
    failing(broker, key, where, code, times=3)

    assert cluster.committed([FIRST, SECOND], 30) == {FIRST: (7, "seven"), SECOND: (7, "seven")}
    assert broker.asked.count(FIND_COORDINATOR) == 4


def test_a_group_without_a_coordinator_is_given_up_when_the_time_is_over(
    broker: AnsweringBroker, cluster: Cluster
) -> None:
    failing(broker, OFFSET_FETCH, the_whole, KafkaError.NOT_COORDINATOR, times=1_000_000)
    with pytest.raises(KafkaException) as raised:
        cluster.committed([FIRST, SECOND], 2.0)

    assert raised.value.args[0].code() == KafkaError.NOT_COORDINATOR
    assert broker.asked.count(OFFSET_FETCH) > 1


@pytest.mark.parametrize("code", [KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.UNSTABLE_OFFSET_COMMIT])
def test_other_errors_end_the_look_up_at_once(broker: AnsweringBroker, cluster: Cluster, code: int) -> None:
    failing(broker, OFFSET_FETCH, last_partition, code, times=1)
    with pytest.raises(KafkaException) as raised:
        cluster.committed([FIRST, SECOND], 30)

    assert raised.value.args[0].code() == code
    assert broker.asked.count(OFFSET_FETCH) == 1
