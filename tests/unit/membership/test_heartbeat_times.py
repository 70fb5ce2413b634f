"""All members of a group beat at the same moments, so that a rebalance keeps none of them from committing for long."""

from __future__ import annotations

from typing import Any, cast

import pytest

from played_coordinator import WakeUp
from streamsapp.membership.heartbeat_times import EXPECTED_FOR, EXPECTING_INTERVAL, FURTHEST, LEAD, HeartbeatTimes
from streamsapp.membership.wire import GroupSettings
from streamsapp.testing import MockClock


def times(clock: MockClock, heartbeat: float = 0.1, resting: float = 0.2) -> HeartbeatTimes:
    return HeartbeatTimes(GroupSettings("app", None, 6.0, heartbeat, 60.0, resting), clock, cast(Any, WakeUp([])))


def test_members_that_answer_late_beat_together_again() -> None:
    clock = MockClock()
    members = [times(clock) for _ in range(3)]
    for each in members:
        each.begin(expecting=False)
    clock.advance(512)  # an answer took long

    assert [each.beat_in(resting=False) for each in members] == pytest.approx([0.088] * 3)
    assert members[0].beat_in(resting=True) == pytest.approx(0.088)
    clock.advance(100)
    assert members[1].beat_in(resting=True) == pytest.approx(0.188), "every second moment"


def test_a_timer_that_was_early_makes_no_second_heartbeat() -> None:
    clock = MockClock()
    it = times(clock)
    it.begin(expecting=False)
    clock.advance(98)

    assert it.beat_in(resting=False) == pytest.approx(0.102)


def test_while_tasks_are_on_their_way_heartbeats_come_fast_and_no_longer_than_that() -> None:
    clock = MockClock()
    it = times(clock)
    it.begin(expecting=True)
    assert it.beat_in(resting=True) == pytest.approx(EXPECTING_INTERVAL)
    assert it.join_in() == 0

    clock.advance(round(1000 * EXPECTED_FOR))
    assert it.beat_in(resting=False) == pytest.approx(0.1)
    it.begin(expecting=True)
    it.begin(expecting=False)
    assert it.beat_in(resting=False) == pytest.approx(0.1), "a generation in which nothing moves"


@pytest.mark.parametrize("waited_ms", [0, 50, 100, 149, 185, 199])
def test_a_member_begins_to_join_just_before_all_beat(waited_ms: int) -> None:
    clock = MockClock()
    initiator, resting = times(clock), times(clock)
    for each in (initiator, resting):
        each.begin(expecting=False)
    clock.advance(waited_ms)

    clock.advance(round(1000 * initiator.join_in()))

    assert resting.beat_in(resting=True) == pytest.approx(LEAD)
    assert resting.beat_in(resting=False) == pytest.approx(LEAD)


def test_heartbeats_that_are_seldom_are_not_waited_for() -> None:
    clock = MockClock()
    it = times(clock, 2 * FURTHEST, 2 * FURTHEST)
    it.begin(expecting=False)

    assert it.join_in() == 0
