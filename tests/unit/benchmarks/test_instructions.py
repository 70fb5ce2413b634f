"""Which workloads take a step back, and which messages are counted."""

from __future__ import annotations

from pathlib import Path

from benchmarks.instructions import chosen, counted_case, known, steps_back
from benchmarks.launch import ROOT
from benchmarks.systems.counted_program import CountedCase


def test_a_workload_that_takes_a_tenth_more_is_a_step_back() -> None:
    assert steps_back({"w1": 1000, "w2": 1000}, {"w1": 1040, "w2": 1100}) == ["w2"]


def test_a_workload_that_the_release_does_not_have_is_none() -> None:
    assert steps_back({"w1": 1000}, {"w1": 900, "new": 5000}) == []


def test_a_table_has_the_rows_that_the_messages_meet() -> None:
    join = counted_case(next(case for case in chosen() if case.workload.name == "w7"))

    rows = {key for topic, key, _, _ in join.before if topic == "right"}
    met = {key for topic, key, _, _ in (*join.before, *join.counted) if topic == "input"}
    assert rows == met


def test_each_case_is_counted_once() -> None:
    names = [(case.workload.name, case.variant) for case in chosen()]

    assert len(names) == len(set(names)) > 15


def test_a_release_from_before_a_program_is_asked_for_the_others_only(tmp_path: Path) -> None:
    new, old = (CountedCase(name, "default", [], []) for name in ("shape-join-of-tables", "w7"))
    assert known([new, old], ROOT) == [new, old]
    assert known([new, old], tmp_path) == [old]
