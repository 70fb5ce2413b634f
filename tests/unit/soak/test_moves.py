"""The moves that a seed makes, and the hand-overs that an output shows."""

from __future__ import annotations

from collections import Counter

import pytest

from faults import AT_LEAST_ONCE, EXACTLY_ONCE
from moves import KILLS, Ended, MoveKind, count_hand_overs, make_moves
from verification import Update

SEEDS = range(1, 101)


@pytest.mark.parametrize("guarantee", [EXACTLY_ONCE, AT_LEAST_ONCE])
def test_a_seed_always_makes_the_same_moves_and_every_kind_is_made(guarantee: str) -> None:
    plans = [make_moves(seed, guarantee, 10, 8) for seed in SEEDS]

    assert plans == [make_moves(seed, guarantee, 10, 8) for seed in SEEDS]
    assert {kind for plan in plans for kind in plan.kinds} == set(MoveKind)


def test_at_least_once_only_seeds_with_kills_may_repeat_records() -> None:
    for seed in SEEDS:
        plan = make_moves(seed, AT_LEAST_ONCE, 10, 8)
        assert plan.repeats == (seed % 2 == 0) == (not plan.kinds.isdisjoint(KILLS))
        assert not make_moves(seed, EXACTLY_ONCE, 10, 8).repeats


def test_an_owner_and_its_heir_are_two_instances_and_the_new_one_leaves_again() -> None:
    for seed in SEEDS:
        moves = make_moves(seed, EXACTLY_ONCE, 10, 8).moves
        assert all(move.target != move.heir for move in moves)
        extra = [move.kind for move in moves if move.target == "d"]
        assert extra == [MoveKind.SCALE_UP, MoveKind.SCALE_DOWN] * (len(extra) // 2)


def update(at_ms: int, writer: str, task: str = "0_0") -> Update:
    return Update("out", 0, at_ms, at_ms, "k", {}, writer, task)


def test_each_change_of_a_tasks_writer_is_a_hand_over_of_the_kind_in_which_the_writer_ended() -> None:
    ended = [
        Ended(10, "a.1", MoveKind.RESTART), Ended(30, "b.1", MoveKind.KILL_HEIR), Ended(50, "b.2", MoveKind.DRAIN)
    ]  # fmt: skip
    updates = [
        update(5, "a.1.1"), update(12, "b.1.1"), update(13, "b.1.1"), update(20, "a.2.1"),
        update(31, "b.1.2"), update(32, "b.1.2"), update(70, "c.1.1"), update(80, "d.1.1"),
        update(5, "b.2.2", "1_0"), update(55, "a.1.2", "1_0"),
    ]  # fmt: skip

    assert count_hand_overs(updates, ended) == Counter(
        {MoveKind.RESTART: 1, MoveKind.BALANCE: 2, MoveKind.KILL_HEIR: 1, MoveKind.SCALE_UP: 1, MoveKind.DRAIN: 1}
    )


def test_the_first_writer_of_a_task_took_it_from_nobody() -> None:
    assert not count_hand_overs([update(1, "a.1.1"), update(2, "a.1.1")], [])
