"""Rates follow what was measured lately; a limit holds over all transfers together."""

from __future__ import annotations

import pytest

from streamsapp.remote.transfer_rates import MeasuredRate, RateLimit
from streamsapp.testing import MockClock


def test_nothing_is_known_before_anything_was_measured() -> None:
    rate = MeasuredRate()
    assert rate.per_second is None

    rate.observe(0, 0.0)

    assert rate.per_second is None


def test_a_steady_rate_is_what_is_measured() -> None:
    rate = MeasuredRate()
    for _ in range(100):
        rate.observe(500, 0.5)

    assert rate.per_second == pytest.approx(1000)


def test_a_long_transfer_weighs_more_than_a_short_one() -> None:
    rate = MeasuredRate()
    rate.observe(10_000, 10.0)
    rate.observe(1_000_000, 0.01)
    rate.observe(10_000, 10.0)

    assert rate.per_second == pytest.approx(50_000, rel=0.1)


def test_what_is_long_ago_is_forgotten() -> None:
    rate = MeasuredRate()
    rate.observe(1_000_000, 1.0)
    for _ in range(60):
        rate.observe(1_000, 10.0)

    assert rate.per_second == pytest.approx(100, rel=0.01)


class Sleeper:
    """A clock that goes on only while the code under test sleeps."""

    def __init__(self) -> None:
        self.clock = MockClock()
        self.slept = 0.0

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.clock.advance(round(seconds * 1000))


@pytest.mark.parametrize("chunk", [10, 1_000, 50_000])
def test_no_more_is_moved_than_allowed_whatever_the_size_of_the_chunks(chunk: int) -> None:
    sleeper = Sleeper()
    limit = RateLimit(10_000, sleeper.clock, sleeper.sleep)

    for _ in range(100_000 // chunk):
        limit(chunk)

    assert sleeper.clock.monotonic() == pytest.approx(9.75, abs=0.1)


def test_a_limit_that_was_idle_lets_no_more_than_a_short_burst_through() -> None:
    sleeper = Sleeper()
    limit = RateLimit(10_000, sleeper.clock, sleeper.sleep)
    sleeper.clock.advance(3_600_000)

    limit(2_500)
    assert sleeper.slept == 0
    limit(10_000)

    assert sleeper.slept == pytest.approx(1.0)
