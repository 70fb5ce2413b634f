"""Tasks of one group stay together in stream time while one of them is behind, and never wait otherwise."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from streamsapp import TopicPartition
from streamsapp.tasks.alignment import BEHIND_MS, NOTHING, STANDS_STILL, AlignedTasks, TimeAlignment
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.testing import MockClock
from streamsapp.topology.time_alignment import TimeGroup
from task_parts import config, feed, raw, run, task_of, through

HOUR = 3_600_000
NOW = 1_000 * HOUR
BOUND = 10_000
GROUP = TimeGroup(frozenset({0}), BOUND, are_peers=True, above=frozenset())


class Group:
    """Tasks of one group, with hours of records to read."""

    def __init__(self, tasks: int = 2, group: TimeGroup = GROUP, *, alone: bool = True, **settings: Any) -> None:
        self.clock = MockClock(NOW)
        self.woken: list[StreamTask] = []
        self.alignment = TimeAlignment.of([group], self.clock, self._wake)
        self.tasks = [self.add(number, **settings) for number in range(tasks)]
        if alone:
            self.aligned.set_elsewhere(NOTHING, NOW)

    def _wake(self, tasks: Iterable[StreamTask]) -> None:
        self.woken += tasks

    @property
    def aligned(self) -> AlignedTasks:
        return self.alignment.groups[0]

    def add(self, number: int, **settings: Any) -> StreamTask:
        task = task_of(through(), number, clock=self.clock, settings=config(**settings))
        self.alignment.add(task)
        return task

    def feed(self, number: int, *times: int) -> None:
        feed(self.tasks[number], [raw(time, time, partition=number) for time in times])

    def end(self, number: int) -> None:
        self.tasks[number].reached_end(TopicPartition("in", number))

    def run(self, number: int, epoch: int = 0) -> list[int]:
        """The times of the records that a task takes now, as a processing thread asks."""
        task, taken = self.tasks[number], []
        while task.wait_ms(self.clock.now_ms(), epoch) == 0 and task.process(task.control, 512):
            taken += [record[6] for record in task.take_output()]
        return taken

    def look(self, seconds: float = 0.0) -> None:
        self.clock.advance(timedelta(seconds=seconds))
        self.aligned.look(self.clock.monotonic(), self.clock.now_ms(), 0.0, paused=False)


def test_a_task_waits_while_its_next_record_is_further_ahead_than_the_bound() -> None:
    it = Group()
    it.feed(0, HOUR, HOUR + BOUND, HOUR + BOUND + 1)
    it.feed(1, HOUR, HOUR + 1)
    assert it.run(0) == [HOUR, HOUR + BOUND]
    assert it.tasks[0].waits_for_others
    assert it.run(1) == [HOUR, HOUR + 1]


def test_it_goes_on_when_the_task_that_was_behind_has_moved() -> None:
    it = Group()
    it.feed(0, HOUR, HOUR + BOUND + 5)
    it.feed(1, HOUR, HOUR + 5, HOUR + 9)
    assert it.run(0) == [HOUR]
    assert not it.woken
    it.tasks[1].wait_ms(NOW)
    it.tasks[1].process(it.tasks[1].control, 1)
    assert it.tasks[1].wait_ms(NOW) == 0  # its next record is known now
    assert it.woken == [it.tasks[0]]
    assert it.run(0) == [HOUR + BOUND + 5]


def test_a_task_without_any_record_yet_holds_the_others_until_its_input_is_known() -> None:
    it = Group()
    it.feed(0, HOUR)
    assert it.run(0) == []
    it.feed(1, HOUR - 5)
    assert it.woken == [it.tasks[0]]
    assert it.run(1) == [HOUR - 5]
    assert it.run(0) == [HOUR]


def test_an_input_that_is_at_its_end_holds_nobody() -> None:
    it = Group()
    it.feed(0, HOUR, 2 * HOUR)
    assert it.run(0) == []
    it.end(1)
    assert it.woken == [it.tasks[0]]
    assert it.run(0) == [HOUR, 2 * HOUR]


def test_an_empty_buffer_holds_the_others_at_the_last_record_while_the_broker_has_more() -> None:
    it = Group()
    it.feed(1, HOUR)
    it.feed(0, HOUR, HOUR + BOUND + 1)
    assert it.run(1) == [HOUR]
    assert it.run(0) == [HOUR]
    it.end(1)
    assert it.run(0) == [HOUR + BOUND + 1]


def test_a_task_that_waits_goes_on_though_its_input_came_to_its_end_meanwhile() -> None:
    it = Group()
    it.feed(0, HOUR, 2 * HOUR)
    it.feed(1, HOUR)
    it.run(0)
    it.end(0)
    assert it.tasks[0].waits_for_others
    it.run(1)
    it.end(1)
    assert it.woken[-1:] == [it.tasks[0]]


def test_nobody_waits_when_all_are_up_to_date() -> None:
    it = Group()
    it.end(0)
    it.end(1)
    it.feed(1, NOW - BOUND)
    it.feed(0, NOW - BOUND, NOW)
    assert it.run(0) == [NOW - BOUND, NOW]
    assert not it.aligned.aligning


def test_alignment_lasts_until_every_task_has_caught_up() -> None:
    it = Group()
    it.feed(1, HOUR, NOW - BEHIND_MS + 1, NOW - 1)
    it.feed(0, HOUR, NOW - 1, NOW)
    assert it.run(0) == [HOUR]
    assert it.run(1)[:1] == [HOUR]
    assert it.run(0) == [NOW - 1, NOW]
    it.end(0)
    it.run(1)
    it.end(1)
    assert not it.aligned.aligning


def test_records_of_the_future_stop_nobody_and_are_taken_as_they_come() -> None:
    it = Group()
    it.feed(0, NOW + HOUR, HOUR + BOUND + 1)
    it.feed(1, HOUR)
    assert it.run(0) == [NOW + HOUR]  # and no record behind it that has to wait
    assert it.tasks[0].waits_for_others
    assert it.run(1) == [HOUR]


def test_a_bound_of_nothing_means_the_order_of_time() -> None:
    it = Group(3, replace(GROUP, most_ahead_ms=0))
    it.feed(0, 1, 4, 7)
    it.feed(1, 2, 5, 8)
    it.feed(2, 3, 6, 9)
    for number in range(3):
        it.end(number)
    taken = []
    for _ in range(9):
        for number in range(3):
            taken += it.run(number)
    assert taken == sorted(taken)
    assert len(taken) == 9


def test_results_that_go_into_the_next_commit_do_not_let_others_run_ahead_in_this_one() -> None:
    it = Group()
    it.feed(0, HOUR, HOUR + BOUND, HOUR + 2 * BOUND)
    it.feed(1, HOUR, HOUR + BOUND - 1, HOUR + BOUND)
    it.run(0, epoch=4)
    assert it.tasks[1].wait_ms(NOW, 4) == 0
    it.tasks[1].process(it.tasks[1].control, 1)
    it.tasks[1].take_output()
    # Its results wait for the next commit from here on; those of the other one are sent before.
    assert it.run(1, epoch=5) == [HOUR + BOUND - 1, HOUR + BOUND]
    assert it.run(0, epoch=4) == []
    assert it.tasks[1].wait_ms(NOW, 5) is None
    assert it.run(0, epoch=5) == [HOUR + 2 * BOUND]


def test_a_task_that_moves_away_holds_the_others_until_it_is_known_where_it_is() -> None:
    it = Group()
    it.feed(0, HOUR, 2 * HOUR)
    it.feed(1, HOUR)
    it.run(0)
    it.tasks[1].close_user_code()
    assert it.run(0) == []
    it.aligned.set_elsewhere(HOUR + 1, NOW)
    assert it.run(0) == []
    it.aligned.set_elsewhere(2 * HOUR - BOUND, NOW)
    assert it.woken[-1:] == [it.tasks[0]]
    assert it.run(0) == [2 * HOUR]


def test_an_up_to_date_task_does_not_wait_for_news_of_others_after_a_rebalance() -> None:
    it = Group(1, alone=False)
    it.feed(0, NOW - 1)
    it.end(0)
    assert it.run(0) == [NOW - 1]


def test_a_task_that_stands_still_is_left_out_told_and_taken_back_when_it_moves(
    caplog: pytest.LogCaptureFixture,
) -> None:
    it = Group()
    it.feed(0, HOUR, 2 * HOUR, 3 * HOUR)
    it.feed(1, HOUR, HOUR + 1)
    it.run(0)
    it.look()
    with caplog.at_level(logging.WARNING):
        it.look(STANDS_STILL - 1)
        assert it.run(0) == []
        it.look(1)
    assert "task 0_1 has stood still for 60 s" in caplog.text
    assert it.woken[-1:] == [it.tasks[0]]
    assert it.run(0) == [2 * HOUR, 3 * HOUR]
    it.feed(0, 4 * HOUR)
    assert it.run(1) == [HOUR, HOUR + 1]
    it.feed(1, HOUR + 2)
    it.tasks[1].wait_ms(NOW)
    assert it.run(0) == []  # it holds the others again


def test_time_that_nobody_processes_in_counts_for_nobody() -> None:
    it = Group()
    it.feed(0, HOUR, 2 * HOUR)
    it.feed(1, HOUR)
    it.run(0)
    it.look()
    it.clock.advance(timedelta(seconds=2 * STANDS_STILL))
    it.aligned.look(it.clock.monotonic(), it.clock.now_ms(), 0.0, paused=True)
    it.look(STANDS_STILL - 1)
    assert it.run(0) == []


def test_a_reader_of_two_topics_takes_no_record_before_what_is_on_its_way_has_come() -> None:
    clock, woken = MockClock(NOW), list[StreamTask]()
    reader = TimeGroup(frozenset({1}), BOUND, are_peers=False, above=frozenset({0}))
    alignment = TimeAlignment.of([GROUP, reader], clock, woken.extend)
    writer = task_of(through(), clock=clock)
    alignment.add(writer)
    alignment.groups[0].set_elsewhere(NOTHING, NOW)
    below = task_of(through(), clock=clock)
    below.plan = replace(below.plan, id=replace_subtopology(below.plan.id, 1))
    del below.__dict__["id"]
    alignment.add(below)

    def look(seconds: float) -> None:
        clock.advance(timedelta(seconds=seconds))
        for group in alignment.groups:
            group.look(clock.monotonic(), clock.now_ms(), 0.0, paused=False)

    feed(writer, [raw(0, HOUR), raw(1, 2 * HOUR)])
    writer.wait_ms(NOW)
    look(0)
    feed(below, [raw(0, HOUR + BOUND), raw(1, HOUR + BOUND + 1)])
    assert below.wait_ms(NOW) == 0
    assert below.process(below.control, 9) == 1
    writer.process(writer.control, 1)
    writer.wait_ms(NOW)
    look(0.01)
    assert below.wait_ms(NOW) is None  # what the writer sent may not be here yet
    look(1)
    assert woken[-1:] == [below]
    assert below.wait_ms(NOW) == 0


def replace_subtopology(task_id: Any, number: int) -> Any:
    return type(task_id)(number, task_id.partition)


def test_a_task_without_a_group_has_no_pace() -> None:
    alignment = TimeAlignment()
    task = task_of(through(), running=False)
    run(task)
    alignment.add(task)
    assert task.pace is None
    assert not task.waits_for_others
