"""A consumer rests after records that are few, and longer where they come seldom."""

from __future__ import annotations

import pytest

from streamsapp.kafka.rest import FEW, HURRY, LONGEST, TOGETHER, Rest


class Time:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def rest_after(records: int, seconds: float, looks: int = 100, shortest: float = 0.01) -> float:
    """Returns the rest after some looks that found so many records, so many seconds apart."""
    time = Time()
    rest = Rest(shortest, time)
    for _ in range(looks):
        time.now += seconds
        rest.after(records)
    return rest.left


@pytest.mark.parametrize(
    ("records", "seconds", "expected"),
    [
        (TOGETHER, 0.015, 0.015),
        (1, 0.004, TOGETHER * 0.004),
        (20, 0.02, 0.01),
        (FEW - 1, 0.02, 0.01),
        (1, 60, LONGEST * 0.01),
    ],
)
def test_a_rest_brings_some_records_and_is_bounded(records: int, seconds: float, expected: float) -> None:
    assert rest_after(records, seconds) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(
    ("records", "seconds", "seldom"), [(1, 0.01, True), (10, 0.1, True), (1, 0.004, False), (100, 0.1, False)]
)
def test_records_come_seldom_or_not_however_often_they_are_looked_for(
    records: int, seconds: float, seldom: bool
) -> None:
    time = Time()
    rest = Rest(0.01, time)
    assert not rest.seldom
    for _ in range(100):
        time.now += seconds
        rest.after(records)
        time.now += 0.001
        rest.after(0)
    assert rest.seldom == seldom
    time.now += 1
    rest.after(FEW)
    assert not rest.seldom


def test_one_look_that_finds_a_single_record_does_not_make_rests_longer() -> None:
    time = Time()
    rest = Rest(0.01, time)
    for records in (10, 10, 10, 1, 10):
        time.now += 0.01
        rest.after(records)
        assert rest.left == pytest.approx(0.01)


@pytest.mark.parametrize(("records", "shortest"), [(0, 0.01), (FEW, 0.01), (1, 0.0)])
def test_without_records_with_many_and_without_a_shortest_rest_there_is_none(records: int, shortest: float) -> None:
    assert rest_after(records, 1.0, 1, shortest) <= 0


def test_a_rest_ends_by_itself_and_with_the_next_look_and_when_somebody_ends_it() -> None:
    time = Time()
    rest = Rest(0.01, time)
    rest.after(1)
    assert rest.left > 0
    time.now += LONGEST
    assert rest.left <= 0
    rest.after(1)
    rest.after(0)
    assert rest.left <= 0
    rest.after(1)
    rest.end()
    assert rest.left <= 0


@pytest.mark.parametrize(
    ("records", "more", "expected"), [(1, False, 0.1), (FEW - 1, False, 0.1), (1, True, 0.01), (FEW, False, 0.0)]
)
def test_a_rest_is_as_long_as_results_are_held_unless_there_are_more_records(
    records: int, more: bool, expected: float
) -> None:
    rest = Rest(0.01, Time(), held=0.1)
    rest.after(records, more=more)
    assert max(0.0, rest.left) == pytest.approx(expected)


def test_after_two_that_took_too_long_in_a_row_rests_are_shorter_for_a_while() -> None:
    time = Time()
    rest = Rest(0.005, time, held=0.1)
    for took_too_long in (True, False, True):
        rest.after(1)
        if took_too_long:
            rest.hurry()
        assert not rest.hurries
    rest.after(1)
    rest.hurry()
    rest.after(1)
    assert rest.hurries
    assert rest.left == pytest.approx(0.005)
    time.now += HURRY
    rest.after(100)
    assert not rest.hurries
    assert rest.left == pytest.approx(0.1)


def test_without_a_shortest_rest_there_is_none_whatever_is_held() -> None:
    rest = Rest(0.0, Time(), held=0.1)
    rest.after(1)
    assert rest.left <= 0
