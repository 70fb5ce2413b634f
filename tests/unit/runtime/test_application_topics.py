"""How the topics of an application are looked for when an instance starts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import cast

import pytest

from streamsapp import Consumed, Produced, Serdes, StreamsBuilder, StreamsConfig, Topology
from streamsapp.clock import Clock
from streamsapp.errors import TopicError
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.runtime import application_topics
from streamsapp.runtime.application_topics import ApplicationTopics
from streamsapp.testing import MockClock


class SlowBroker:
    """Knows the sink only when it is asked for the third time; may refuse to create topics."""

    def __init__(self, *, knows_at: int, refusal: str = "") -> None:
        self.asked, self.knows_at, self._refusal = 0, knows_at, refusal

    def partition_counts(self) -> dict[str, int]:
        self.asked += 1
        return {"in": 1} | ({"out": 1} if self.asked >= self.knows_at else {})

    def why_missing(self, topic: str) -> str:
        return f"topic {topic} does not exist"

    def create(self, topics: object, replication_factor: int) -> None:
        if self._refusal:
            raise TopicError(self._refusal)


def _topics(broker: SlowBroker, clock: Clock | None = None) -> ApplicationTopics:
    text = Serdes.string()
    builder = StreamsBuilder()
    builder.stream("in", Consumed(text, text)).to("out", Produced(text, text))
    topology: Topology = builder.build()
    return ApplicationTopics(
        topology,
        StreamsConfig(application_id="app", bootstrap_servers="unused:9092"),
        cast(TopicAdmin, broker),
        clock or MockClock(),
    )


class AbsentBroker:
    """Answers when it has been asked twice in vain."""

    last_error = "connection refused"

    def wait_for_broker(self, given_up: Callable[[], bool]) -> None:
        assert not given_up()
        assert not given_up()


def test_who_waits_for_a_broker_says_so_until_one_answers() -> None:
    seen: list[tuple[float, str] | None] = []
    clock = MockClock(5_000)
    topics = _topics(cast(SlowBroker, AbsentBroker()), clock)

    def given_up() -> bool:
        seen.append(topics.outage)
        clock.advance(timedelta(seconds=2))
        return False

    topics.wait_for_broker(given_up)

    assert seen == [(5.0, "connection refused")] * 2
    assert topics.outage is None


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application_topics, "LOOK_UP_PERIOD", 0.0)


def test_a_topic_that_has_just_been_created_may_be_known_a_moment_later() -> None:
    assert len(_topics(SlowBroker(knows_at=3)).look_up().plans) == 1


def test_a_topic_that_stays_unknown_is_told() -> None:
    broker = SlowBroker(knows_at=1000)
    with pytest.raises(TopicError, match="topic out does not exist"):
        _topics(broker).look_up()
    assert broker.asked == application_topics.LOOK_UPS


def test_what_no_waiting_mends_is_told_at_once() -> None:
    broker = SlowBroker(knows_at=1, refusal="not authorised to create topic app-counts-changelog")
    with pytest.raises(TopicError, match="not authorised to create"):
        _topics(broker).look_up()
    assert broker.asked == 1
