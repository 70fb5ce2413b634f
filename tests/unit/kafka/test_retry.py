"""Which requests are repeated, for how long, and with what pauses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException

from streamsapp.kafka import retry
from streamsapp.kafka.retry import FIRST_PAUSE, GIVE_UP_AFTER, LONGEST_PAUSE, repeated


class FakeTime:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    fake = FakeTime()
    monkeypatch.setattr(retry, "time", fake)
    return fake


def failing(times: int, code: int = KafkaError._TIMED_OUT) -> Callable[[], str]:
    """A request that works after some failures."""
    errors = [KafkaException(KafkaError(code))] * times

    def request() -> str:
        if errors:
            raise errors.pop()
        return "answer"

    return request


def test_a_request_that_works_is_made_once(time: FakeTime) -> None:
    assert repeated(failing(0), "asking") == "answer"
    assert time.pauses == []


def test_pauses_double_up_to_the_longest(time: FakeTime) -> None:
    assert repeated(failing(9), "asking") == "answer"
    assert time.pauses[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert time.pauses[-1] == LONGEST_PAUSE


def test_what_fails_for_good_is_raised_at_once(time: FakeTime) -> None:
    with pytest.raises(KafkaException):
        repeated(failing(1, KafkaError.TOPIC_AUTHORIZATION_FAILED), "asking")
    assert time.pauses == []


def test_what_goes_on_failing_is_raised_in_the_end(time: FakeTime) -> None:
    began = time.now

    with pytest.raises(KafkaException):
        repeated(failing(10_000), "asking")

    assert GIVE_UP_AFTER <= time.now - began <= GIVE_UP_AFTER + LONGEST_PAUSE


def test_other_exceptions_are_not_held_back(time: FakeTime) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        repeated(broken, "asking")
