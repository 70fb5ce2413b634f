"""The deadline of closing: how long a wait may take, before and after it is set."""

from __future__ import annotations

import threading

import pytest

from streamsapp.deadline import ClosingTime, Deadline
from streamsapp.kafka.requests import NoAnswerError, Requests
from streamsapp.testing import MockClock


def test_before_it_is_set_a_wait_may_take_as_long_as_it_wants() -> None:
    deadline = Deadline(MockClock())

    assert deadline.left(30.0) == 30.0
    assert deadline.left(30.0, part=0.5) == 30.0
    assert not deadline.passed


def test_once_it_is_set_a_wait_may_take_what_is_left_or_a_part_of_it() -> None:
    clock = MockClock()
    deadline = Deadline(clock)

    deadline.set(clock.monotonic() + 10.0)
    clock.advance(2_000)

    assert deadline.left(30.0) == pytest.approx(8.0)
    assert deadline.left(30.0, part=0.5) == pytest.approx(4.0)
    assert deadline.left(1.0) == 1.0


def test_it_may_become_earlier_and_not_later() -> None:
    clock = MockClock()
    deadline = Deadline(clock)

    for at in (10.0, 20.0, 5.0):
        deadline.set(clock.monotonic() + at)

    assert deadline.left(30.0) == pytest.approx(5.0)


def test_a_wait_under_way_ends_when_a_deadline_is_set_that_has_passed() -> None:
    clock = MockClock()
    deadline, never = Deadline(clock), threading.Event()
    threading.Timer(0.05, lambda: deadline.set(clock.monotonic())).start()

    assert not deadline.wait(never.wait, 60.0)
    assert deadline.passed


def test_what_holds_already_is_seen_after_the_deadline_too() -> None:
    clock = MockClock()
    deadline = Deadline(clock)
    deadline.set(clock.monotonic())

    assert deadline.wait(lambda _: True, 60.0)


@pytest.mark.parametrize(("within", "remote"), [(60.0, 57.0), (5.0, 4.0), (0.0, 0.0)])
def test_other_machines_are_not_waited_for_to_the_very_end(within: float, remote: float) -> None:
    closing = ClosingTime(MockClock())

    closing.begin(within)

    assert closing.remote.left(100.0) == pytest.approx(remote)
    assert closing.end.left(100.0) == pytest.approx(within)


def test_a_request_that_does_not_return_is_given_up_and_its_client_is_in_use() -> None:
    clock = MockClock()
    deadline, release = Deadline(clock), threading.Event()
    requests = Requests(deadline)
    deadline.set(clock.monotonic())

    with pytest.raises(NoAnswerError, match="the instance closes"):
        requests.ask(lambda: release.wait(60))
    assert requests.under_way

    release.set()


def test_a_request_gives_its_answer_or_its_error() -> None:
    requests = Requests(Deadline(MockClock()))

    assert requests.ask(lambda: "answer") == "answer"
    with pytest.raises(ValueError, match="none"):
        requests.ask(lambda: int("none"))
    assert not requests.under_way
