"""Changelogs end where their leaders say. Brokers that lead by a script."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

import pytest
from confluent_kafka import KafkaException

from restoring import Answer
from streamsapp import TopicPartition
from streamsapp.kafka import retry
from streamsapp.runtime import changelog_positions
from streamsapp.runtime.changelog_positions import ends

CHANGELOG = TopicPartition("app-s-changelog", 0)


class Led:
    """Brokers whose logs end where their number says; one of them is asked. A list says which broker leads."""

    def __init__(self, *leaders: int) -> None:
        self._leaders = list(leaders)
        self._asked = -1

    def leaders(self, topics: Collection[str]) -> dict[tuple[str, int], int]:
        assert topics == {CHANGELOG.topic}
        self._asked = self._leaders.pop(0)
        return {CHANGELOG: self._asked}

    def request_offsets(self, partitions: Collection[TopicPartition], *, earliest: bool = False) -> Answer:
        return Answer(dict.fromkeys(partitions, 0 if earliest else self._asked))


def told(*leaders: int) -> int:
    _, high = ends(cast(Any, Led(*leaders)), [CHANGELOG])
    return high[CHANGELOG]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0)


def test_the_answer_of_who_led_before_and_leads_after_it_is_taken() -> None:
    assert told(2, 2) == 2


def test_the_answer_of_who_leads_no_more_is_not_taken() -> None:
    assert told(1, 2, 2, 3, 3, 3) == 3


def test_leaders_that_change_for_ever_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "GIVE_UP_AFTER", -1)
    with pytest.raises(KafkaException, match="a leader changed meanwhile"):
        told(1, 2)


def test_an_answer_that_took_long_may_be_that_of_a_leader_that_stood_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelog_positions, "_LONG", -1)
    monkeypatch.setattr(changelog_positions, "_SETTLING", 0)
    assert told(1, 1, 2, 2) == 2
