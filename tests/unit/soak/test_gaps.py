"""The longest pause of a task to which nothing happened."""

from __future__ import annotations

from gaps import Disturbance, longest_gap
from verification import Update


def updates(*written: tuple[int, str], task: str = "0_0") -> list[Update]:
    return [Update("out", 0, at, at_ms, "k", {}, writer, task) for at, (at_ms, writer) in enumerate(written)]


def test_measures_between_two_records_of_one_run_of_a_task() -> None:
    gap = longest_gap(updates((0, "a.1.1"), (100, "a.1.1"), (400, "a.1.1"), (450, "a.1.1")), [])

    assert str(gap) == "300 ms at 0.1 (task 0_0 of a.1.1)"


def test_looks_at_what_began_since_the_given_time() -> None:
    gap = longest_gap(updates((0, "a.1.1"), (1000, "a.1.1"), (1100, "a.1.1")), [], since_ms=500)

    assert str(gap) == "100 ms at 0.5 (task 0_0 of a.1.1)"


def test_a_task_that_moved_has_no_gap() -> None:
    assert longest_gap(updates((0, "a.1.1"), (5000, "b.1.1")), []) is None


def test_tasks_do_not_fill_each_others_gaps() -> None:
    gap = longest_gap([*updates((0, "a.1.1"), (500, "a.1.1")), *updates((250, "a.1.2"), task="0_1")], [])

    assert gap is not None
    assert gap.ms == 500


def test_partitions_of_a_sink_are_merged_by_time() -> None:
    gap = longest_gap([*updates((0, "a.1.1"), (200, "a.1.1")), *updates((100, "a.1.1"))], [])

    assert gap is not None
    assert gap.ms == 100


def test_what_happened_to_the_instance_or_to_everybody_explains_a_gap() -> None:
    written = updates((0, "a.1.1"), (900, "a.1.1"), (1000, "a.1.1"))

    for victim in ("a", ""):
        gap = longest_gap(written, [Disturbance(victim, 100, 200)])
        assert gap is not None
        assert gap.ms == 100


def test_what_happened_to_another_instance_or_at_another_time_does_not() -> None:
    written = updates((0, "a.1.1"), (900, "a.1.1"))

    gap = longest_gap(written, [Disturbance("b", 100, 200), Disturbance("a", 1000, 1100)])

    assert gap is not None
    assert gap.ms == 900
