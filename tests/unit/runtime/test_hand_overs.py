"""How long tasks stood still that an instance took over, by its own clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from streamsapp import TaskId, TopicPartition
from streamsapp.membership.api import Assignment
from streamsapp.runtime.hand_overs import LONGEST, MOST, HandOver, HandOvers
from streamsapp.tasks.task_plan import ConsumedOffset
from streamsapp.testing import MockClock
from task_parts import feed, raw, task_of, through

FIRST, SECOND = TaskId(0, 0), TaskId(0, 1)
IN = TopicPartition("in", 0)


class Observed:
    """One instance that takes over its first task."""

    def __init__(self, *, exactly_once: bool = True) -> None:
        self.clock = MockClock()
        self.hand_overs = HandOvers(self.clock, exactly_once=exactly_once)
        self.task = task_of(through())

    def hears(self, *active: TaskId, moving: tuple[TaskId, ...] = (), here: tuple[TaskId, ...] = ()) -> None:
        self.hand_overs.assigned(Assignment(frozenset(active), moving=frozenset(moving)), here)

    def reads(self) -> None:
        feed(self.task, [raw(self.clock.now_ms())])
        self.task.process(self.task.control, 1)

    def commits(self) -> None:
        self.task.freeze()
        self.hand_overs.committed([self.task], self.clock.monotonic())

    @property
    def told(self) -> list[HandOver]:
        return [replace(each, gap=round(each.gap, 6)) for each in self.hand_overs.last]


def test_a_planned_hand_over_counts_from_when_the_owner_stops_to_the_first_commit_with_its_records() -> None:
    it = Observed()
    it.hears(moving=(FIRST,))
    it.clock.advance(40)
    it.hears(FIRST)
    it.clock.advance(30)
    it.commits()
    assert it.told == [], "nothing of it was read"
    it.reads()
    it.clock.advance(20)
    it.commits()
    it.reads()
    it.commits()

    assert it.told == [HandOver(FIRST, 90, 0.09, "planned")]


def test_the_steps_of_a_hand_over_are_told() -> None:
    it = Observed()
    it.hears(moving=(FIRST,))
    it.clock.advance(40)
    it.hears(FIRST)
    it.clock.advance(10)
    it.hand_overs.processed([it.task])
    it.clock.advance(5)
    it.reads()
    it.hand_overs.processed([it.task])
    it.clock.advance(25)
    it.commits()

    assert it.hand_overs.last[0].steps == {"assigned": 0.04, "restored": 0.05, "read": 0.055}


def test_exactly_once_the_first_results_want_a_commit() -> None:
    it = Observed()
    it.hears(moving=(FIRST,))
    it.hears(FIRST)
    assert not it.hand_overs.commit_near
    it.hand_overs.processed([it.task])
    assert (it.hand_overs.commit_near, it.hand_overs.commit_wanted) == (True, False)
    it.reads()
    it.hand_overs.processed([it.task])
    assert it.hand_overs.commit_wanted
    it.commits()
    assert (it.hand_overs.commit_near, it.hand_overs.commit_wanted) == (False, False)


def test_at_least_once_results_are_sent_as_they_come_and_want_no_commit() -> None:
    it = Observed(exactly_once=False)
    it.hears(FIRST)
    it.hand_overs.processed([it.task])
    it.reads()

    assert (it.hand_overs.commit_near, it.hand_overs.commit_wanted) == (False, False)


def test_at_least_once_it_ends_with_the_first_record() -> None:
    it = Observed(exactly_once=False)
    it.hears(moving=(FIRST,))
    it.clock.advance(40)
    it.hears(FIRST)
    it.hand_overs.processed([it.task])
    assert it.told == []
    it.reads()
    it.hand_overs.processed([it.task])

    assert it.told == [HandOver(FIRST, 40, 0.04, "planned")]


def test_a_task_that_was_not_on_its_way_counts_from_its_assignment() -> None:
    it = Observed()
    it.clock.advance(500)
    it.hears(FIRST)
    it.hears(FIRST, here=(FIRST,))
    it.reads()
    it.clock.advance(70)
    it.commits()

    assert it.told == [HandOver(FIRST, 570, 0.07, "unplanned")]


@pytest.mark.parametrize("away", [{"active": ()}, {"active": (), "moving": (FIRST,)}])
def test_a_task_that_goes_on_elsewhere_is_not_told(away: dict[str, Any]) -> None:
    it = Observed()
    it.hears(moving=(FIRST,))
    it.hears(FIRST)
    it.hears(*away["active"], moving=away.get("moving", ()), here=(FIRST,))
    it.reads()
    it.commits()

    assert it.told == []


def test_a_task_that_has_no_records_for_long_shows_no_gap() -> None:
    it = Observed()
    it.hears(FIRST)
    it.clock.advance(round(1000 * LONGEST) + 1)
    it.reads()
    it.commits()
    it.reads()
    it.commits()

    assert it.told == []


def test_a_task_that_goes_on_from_a_committed_offset_has_read_nothing_before_it_moves_on() -> None:
    it = Observed()
    it.task.start_offsets = {IN: ConsumedOffset(7, 0)}
    cast(Any, it.task)._committed = {IN: 7}
    it.hears(FIRST)
    it.commits()

    assert it.told == []


def test_the_last_ones_are_kept() -> None:
    it = Observed(exactly_once=False)
    it.reads()
    for _ in range(MOST + 1):
        it.clock.advance(1)
        it.hears(FIRST)
        it.hand_overs.processed([it.task])
        it.hears()

    assert [each.at_ms for each in it.told] == list(range(2, MOST + 2))


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_task_that_runs_and_has_nothing_to_read_shows_no_gap(exactly_once: bool) -> None:
    it = Observed(exactly_once=exactly_once)
    it.hears(FIRST)
    it.task.input_lag = 0
    it.hand_overs.processed([it.task])
    it.clock.advance(20_000)
    it.reads()
    it.hand_overs.processed([it.task])
    it.commits()

    assert it.told == []
