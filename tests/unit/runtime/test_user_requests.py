"""Requests to close, to drain and to pause, as the polling thread finds them."""

from __future__ import annotations

from streamsapp.deadline import ClosingTime, reserve
from streamsapp.runtime.user_requests import UserRequests
from streamsapp.testing import MockClock


def test_an_instance_that_nobody_asks_anything_stays() -> None:
    clock = MockClock()
    requests = UserRequests(ClosingTime(clock), clock)

    assert (requests.leaving, requests.close_now, requests.out_of_time) == (False, False, False)


def test_closing_ends_now_and_gives_brokers_the_time_without_the_reserve() -> None:
    clock = MockClock()
    requests = UserRequests(ClosingTime(clock), clock)
    requests.close(10.0, leave_group=False)

    assert (requests.leaving, requests.close_now, requests.leave_group) == (True, True, False)
    clock.advance(int(1000 * (10.0 - reserve(10.0))) - 1)
    assert not requests.out_of_time
    clock.advance(1)
    assert requests.out_of_time


def test_draining_hands_over_first_and_keeps_time_for_the_last_commit_and_for_closing() -> None:
    clock = MockClock()
    requests = UserRequests(ClosingTime(clock), clock)
    requests.drain(10.0)

    assert requests.hand_over_by is not None
    assert (requests.leaving, requests.close_now) == (True, False)
    clock.advance(int(1000 * (10.0 - 2 * reserve(10.0))))
    assert requests.hand_over_by.passed
    assert not requests.out_of_time
