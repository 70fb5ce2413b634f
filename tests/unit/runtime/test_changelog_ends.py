"""Changelogs end where brokers say. Brokers that answer by a script."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from streamsapp import TopicPartition
from streamsapp.kafka import retry
from streamsapp.runtime import changelog_positions
from streamsapp.runtime.changelog_positions import ends

CHANGELOG = TopicPartition("app-s-changelog", 0)
MOVED = KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION, "a leader changed meanwhile"))


class Brokers:
    """They say that logs end there, one answer after the other."""

    def __init__(self, *answers: int | KafkaException) -> None:
        self._answers = list(answers)

    def ends(
        self, partitions: Collection[TopicPartition]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        answer = self._answers.pop(0)
        if isinstance(answer, KafkaException):
            raise answer
        return dict.fromkeys(partitions, 0), dict.fromkeys(partitions, answer)


def told(*answers: int | KafkaException) -> int:
    _, high = ends(cast(Any, Brokers(*answers)), [CHANGELOG])
    return high[CHANGELOG]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0)


def test_brokers_are_asked_again_while_leaders_change() -> None:
    assert told(MOVED, MOVED, 3) == 3


def test_leaders_that_change_for_ever_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "GIVE_UP_AFTER", -1)
    with pytest.raises(KafkaException, match="a leader changed meanwhile"):
        told(MOVED)


def test_an_answer_that_took_long_may_be_that_of_a_leader_that_stood_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelog_positions, "_LONG", -1)
    monkeypatch.setattr(changelog_positions, "_SETTLING", 0)
    assert told(1, 2) == 2
