"""Topics as brokers describe them to a producer of batches: an error counts when brokers have answered it for long, not
when it is old."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError

from streamsapp.brokers.errors import RefusedError, UnreachableError
from streamsapp.kafka.producing.topics import PROPAGATION, Topics


class Brokers:
    """Answers, or raises, what the test wants."""

    def __init__(self) -> None:
        self.answer: int | Exception = 0

    async def ask_any(self, *_: object, **__: object) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return SimpleNamespace(topics=[SimpleNamespace(name="t", error_code=self.answer, partitions=[])])

    def learn(self, answer: object) -> None:
        """No test asks for addresses."""


class Asked:
    def __init__(self) -> None:
        self.brokers = Brokers()
        self.topics = Topics(cast(Any, self.brokers), lambda topic, count: None, 300.0)
        self.topics.want("t")

    def told(self, answer: int | Exception, now: float) -> None:
        self.brokers.answer = answer
        with pytest.raises(StopIteration):
            self.topics.refresh(now).send(None)


def test_a_topic_is_missing_when_brokers_have_said_so_for_long_and_not_when_nobody_has_asked_for_long() -> None:
    it = Asked()
    it.told(KafkaError.UNKNOWN_TOPIC_OR_PART, 0.0)
    it.told(UnreachableError("it stands still"), PROPAGATION + 1)
    assert it.topics.error("t") == 0

    it.told(KafkaError.UNKNOWN_TOPIC_OR_PART, PROPAGATION + 2)
    assert it.topics.error("t") == KafkaError.UNKNOWN_TOPIC_OR_PART

    it.told(0, PROPAGATION + 3)
    assert it.topics.error("t") == 0


def test_credentials_are_refused_since_brokers_refuse_them_without_a_break() -> None:
    it = Asked()
    it.told(RefusedError("no such user"), 1.0)
    it.told(RefusedError("still no such user"), 2.0)
    assert it.topics.refused == (1.0, "no such user")

    it.told(UnreachableError("it is away"), 3.0)
    assert it.topics.refused is None
