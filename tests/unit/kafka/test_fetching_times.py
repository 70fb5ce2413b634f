"""A fetcher's pauses, before leaders are looked up and brokers asked or connected to again: in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import closing
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import KafkaError

from fetching_parts import A
from streamsapp.brokers.errors import NotSentError
from streamsapp.errors import TopicGoneError
from streamsapp.kafka.described import Described, TopicLeaders
from streamsapp.kafka.fetching import broker_connections
from streamsapp.kafka.fetching.broker import RequestTimes
from streamsapp.kafka.fetching.broker_connections import BrokerConnections
from streamsapp.kafka.fetching.leaders import Leaders
from streamsapp.kafka.fetching.settings import fetch_settings
from streamsapp.kafka.wakeup import Wakeup
from streamsapp.record import UNKNOWN_TOPIC
from virtual_time import VirtualClock

STEP = 0.005


def at_once(call: Callable[[], None]) -> None:
    call()


class LookedUp:
    """Leaders of a topic for which brokers answer an error, and when they were asked."""

    def __init__(self, error: int) -> None:
        self.clock = VirtualClock()
        self.times: list[float] = []
        self._error = error
        self.leaders = Leaders(self._describe, lambda: None, self.clock.monotonic, at_once)

    def _describe(self, topics: Collection[str], timeout: float) -> Described:
        self.times.append(self.clock.seconds)
        return Described({topic: TopicLeaders(self._error, UNKNOWN_TOPIC, {}) for topic in topics}, {})

    def for_seconds(self, seconds: float) -> None:
        end = self.clock.seconds + seconds
        while self.clock.seconds < end:
            self.leaders.look_up({A})
            self.clock.seconds += STEP


def near(*times: float) -> Any:
    return pytest.approx(times, abs=2 * STEP)


def test_leaders_are_looked_up_after_pauses_that_grow_until_all_are_found() -> None:
    it = LookedUp(KafkaError.LEADER_NOT_AVAILABLE)
    it.for_seconds(6.0)
    assert [after - before for before, after in pairwise(it.times)][:7] == near(0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0)

    it.leaders.found_all()
    it.times.clear()
    it.for_seconds(1.5)
    assert [after - before for before, after in pairwise(it.times)][:2] == near(0.05, 0.1)


def test_a_topic_is_gone_when_it_was_missing_for_half_a_minute_since_it_was_assigned() -> None:
    it = LookedUp(KafkaError.UNKNOWN_TOPIC_OR_PART)
    it.for_seconds(29.0)
    it.leaders.begin(A, UNKNOWN_TOPIC)  # it is assigned anew
    it.for_seconds(29.0)
    with pytest.raises(TopicGoneError, match="topic a no longer exists"):
        it.for_seconds(3.0)


def test_a_broker_that_has_nothing_and_does_not_wait_for_it_is_asked_after_pauses_that_grow() -> None:
    clock = VirtualClock()
    times, pauses = RequestTimes(clock.monotonic), list[float]()
    for _ in range(10):
        times.asked(0.5)
        times.told(anything=False)
        pauses.append(max(0.0, times.not_before - clock.seconds))
        clock.seconds += pauses[-1]
    assert pauses == pytest.approx([0, 0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0])

    for anything, waits in ((True, 0.0), (False, 0.5)):
        times.asked(0.5)
        clock.seconds += waits
        times.told(anything=anything)
        assert times.not_before <= clock.seconds


def test_a_broker_is_left_alone_for_as_long_as_it_wants_and_no_longer_than_half_a_minute() -> None:
    clock = VirtualClock()
    times = RequestTimes(clock.monotonic)
    for milliseconds, seconds in ((0, 0.0), (1500, 1.5), (60_000, 30.0)):
        times.leave_alone(milliseconds, 1)
        assert times.not_before - clock.seconds == pytest.approx(seconds)


def test_a_broker_that_is_away_is_tried_again_after_pauses_that_grow_and_others_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, tries = VirtualClock(), dict[str, list[float]]()

    def refused(address: tuple[str, int], *_: object) -> None:
        tries.setdefault(address[0], []).append(clock.seconds)
        raise NotSentError(f"no connection to {address[0]}")

    monkeypatch.setattr(broker_connections, "open_connection", refused)
    settings = fetch_settings({"bootstrap.servers": "nobody:1"})
    with closing(BrokerConnections(settings, Wakeup(), clock.monotonic, at_once)) as connections:
        while clock.seconds < 1004.0:
            for number, host in enumerate(("one", "two")):
                assert connections.to(number, (host, 9092)) is None
            for number, failure in connections.failed():
                connections.lose(number, failure)
            clock.seconds += STEP
        for times in tries.values():
            pauses = [after - before for before, after in pairwise(times)]
            for pause, usual in zip(pauses[:7], (0.05, 0.1, 0.2, 0.4, 0.5, 0.5, 0.5), strict=True):
                assert 0.8 * usual <= pause <= 1.2 * usual + 2 * STEP
        assert len(tries) == 2
