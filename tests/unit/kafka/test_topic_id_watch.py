"""A transaction has records of the topics that its positions belong to where librdkafka delivers; brokers are asked for
what moved."""

from __future__ import annotations

from collections.abc import Collection
from threading import Event

import pytest
from confluent_kafka import KafkaError, KafkaException

from instances import eventually
from streamsapp import TopicPartition
from streamsapp.kafka.fetching.fetched import Confirmation
from streamsapp.kafka.librdkafka import topic_id_watch as module
from streamsapp.kafka.librdkafka.topic_id_watch import TopicIdWatch
from streamsapp.record import TopicIdentity

A, A1, B = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
FIRST, SECOND = TopicIdentity("AAAAAAAAAAAAAAAAAAAAAQ", "here"), TopicIdentity("AAAAAAAAAAAAAAAAAAAAAg", "here")


class Brokers:
    """Answer when the test lets them."""

    def __init__(self) -> None:
        self.found = {"a": FIRST, "b": FIRST}
        self.asked: list[set[str]] = []
        self.answers = Event()
        self.answers.set()
        self.away = False

    def describe(self, topics: Collection[str], timeout: float) -> dict[str, TopicIdentity]:
        self.asked.append(set(topics))
        found = dict(self.found)
        assert self.answers.wait(timeout)
        if self.away:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return {topic: found[topic] for topic in topics if topic in found}


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def watch(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> TopicIdWatch:
    """Asks nothing by itself."""
    monkeypatch.setattr(module, "PERIOD", 3600.0)
    made = TopicIdWatch(brokers.describe)
    assert made.replaced() == []
    made.assign([A, A1, B], brokers.found)
    made._next = float("inf")
    return made


def answer(confirmation: Confirmation) -> list[TopicPartition]:
    found: list[list[TopicPartition]] = []

    def known() -> bool:
        if (told := confirmation()) is not None:
            found.append(told)
        return told is not None

    eventually(known)
    return found[0]


def test_topics_are_asked_for_once_and_only_those_of_which_records_came(watch: TopicIdWatch, brokers: Brokers) -> None:
    assert watch.confirm()() == []
    assert brokers.asked == []
    for _ in range(3):
        watch.delivered("a")
    assert watch.doubts("a")
    assert answer(watch.confirm()) == []
    assert not watch.doubts("a")
    assert watch.confirm()() == []
    assert brokers.asked == [{"a"}]

    watch.delivered("a")
    watch.delivered("b")
    assert answer(watch.confirm()) == []
    assert brokers.asked == [{"a"}, {"a", "b"}]


def test_an_answer_to_what_was_asked_before_the_last_record_confirms_nothing(
    watch: TopicIdWatch, brokers: Brokers
) -> None:
    brokers.answers.clear()
    watch.delivered("a")
    first = watch.confirm()
    assert first() is None
    brokers.found["a"] = SECOND
    watch.delivered("a")
    second = watch.confirm()
    brokers.answers.set()

    assert answer(first) == []
    assert answer(second) == [A, A1]
    assert brokers.asked == [{"a"}, {"a"}]
    assert watch.replaced() == [A, A1]
    assert watch.replaced() == []
    assert watch.doubts("a")


def test_what_is_known_to_be_of_another_topic_is_confirmed_by_nobody(watch: TopicIdWatch, brokers: Brokers) -> None:
    watch._next = 0.0
    brokers.found["a"] = SECOND
    watch.delivered("a")
    eventually(lambda: watch.replaced() == [A, A1])

    assert watch.confirm()() == [A, A1]
    watch.unassign([A, A1])
    watch.assign([A, A1], {"a": SECOND})
    assert answer(watch.confirm()) == []


def test_an_answer_from_before_an_assignment_says_nothing_of_it(watch: TopicIdWatch, brokers: Brokers) -> None:
    brokers.answers.clear()
    watch.delivered("a")
    confirmation = watch.confirm()
    watch.assign([A, A1], {"a": SECOND})
    brokers.answers.set()

    assert answer(confirmation) == []
    assert watch.replaced() == []


def test_a_failure_is_told_and_brokers_are_asked_again(watch: TopicIdWatch, brokers: Brokers) -> None:
    brokers.away = True
    watch.delivered("a")
    confirmation = watch.confirm()
    with pytest.raises(KafkaException):
        answer(confirmation)
    brokers.away = False
    assert answer(confirmation) == []


@pytest.mark.parametrize("told", [{}, {"a": TopicIdentity("", "here")}])
def test_brokers_that_tell_no_ids_hold_nothing_up(
    watch: TopicIdWatch, brokers: Brokers, told: dict[str, TopicIdentity]
) -> None:
    brokers.found = told
    watch.delivered("a")
    assert answer(watch.confirm()) == []
    assert watch.replaced() == []
