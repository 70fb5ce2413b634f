"""Tasks that change their role: replicas are promoted, active tasks go on as replicas, both with their stores open."""

from __future__ import annotations

from pathlib import Path

import pytest

from owned_tasks import Counting, Owned
from streamsapp import TaskId
from streamsapp.runtime.input_feeder import EXPECTED_FOR
from streamsapp.runtime.instance_tasks import GivenUp
from streamsapp.tasks.states import TaskRole, TaskState

FIRST, SECOND = TaskId(0, 0), TaskId(0, 1)


@pytest.fixture(autouse=True)
def _closed() -> None:
    Counting.closed = []
    Counting.raises_in_close = False


@pytest.fixture
def it(tmp_path: Path) -> Owned:
    return Owned(tmp_path)


def test_a_standby_task_is_promoted_with_its_stores_open(it: Owned) -> None:
    it.take_roles({FIRST: TaskRole.STANDBY})
    it.restoration.begin()
    stores = it.life.all[FIRST].stores

    it.take_roles({FIRST: TaskRole.ACTIVE})

    active = it.life.all[FIRST]
    assert it.restoration.promoted == [active]
    assert active.stores is stores
    assert not it.life.all_running


def test_a_given_up_task_goes_on_as_a_standby_with_its_stores_open(it: Owned) -> None:
    it.run(FIRST)
    it.process(FIRST, "x")
    it.commit(FIRST)
    stores = it.life.all[FIRST].stores

    it.take_roles({FIRST: TaskRole.STANDBY})
    it.life.give_up()

    replica = it.life.all[FIRST]
    assert replica.role is TaskRole.STANDBY
    assert replica.stores is stores
    assert it.restoration.here == {FIRST: replica}
    assert it.tasks.tasks == {}
    assert it.consumer.positions == {}
    assert Counting.closed == [FIRST]
    assert it.life.giving_up == {}


def test_a_task_that_is_given_up_processes_nothing_more_and_still_ends_its_epoch(it: Owned) -> None:
    it.run(FIRST)
    it.process(FIRST, "x")

    it.take_roles({})
    assert it.tasks.take(0) is None
    assert not it.tasks.at_rest(it.life.giving_up), "what it did is not committed"
    it.tasks.end_epochs()

    held = it.tasks.take(0)
    assert held is it.life.all[FIRST]
    it.tasks.epoch_ended(held, held.freeze())
    it.tasks.give_back(held, more=True)
    assert it.tasks.at_rest(it.life.giving_up)
    assert it.tasks.take(0) is None


def test_a_task_that_comes_back_before_it_was_given_up_goes_on(it: Owned) -> None:
    it.run(FIRST)
    task = it.life.all[FIRST]
    it.take_roles({})
    assert it.tasks.take(0) is None

    it.take_roles({FIRST: TaskRole.ACTIVE})

    assert it.life.giving_up == {}
    assert it.tasks.take(0) is task


def test_a_task_that_is_given_up_while_it_is_restored_becomes_a_new_replica(it: Owned) -> None:
    it.assign(FIRST)
    it.restoration.begin()

    it.take_roles({FIRST: TaskRole.STANDBY})
    assert it.tasks.at_rest(it.life.giving_up)
    it.life.give_up()

    replica = it.life.all[FIRST]
    assert (replica.role, replica.state) == (TaskRole.STANDBY, TaskState.CREATED)
    assert it.restoration.here == {FIRST: replica}


def test_replicas_that_are_no_longer_wanted_are_closed(it: Owned) -> None:
    it.take_roles({FIRST: TaskRole.STANDBY, SECOND: TaskRole.WARMUP})
    it.restoration.begin()
    closed = it.life.all[SECOND]

    it.take_roles({FIRST: TaskRole.WARMUP})

    assert it.life.all[FIRST].role is TaskRole.WARMUP
    assert closed.state is TaskState.CLOSED
    assert list(it.restoration.here) == [FIRST]


def test_brokers_are_not_asked_to_wait_while_tasks_of_others_are_on_their_way(it: Owned) -> None:
    it.take_roles({FIRST: TaskRole.ACTIVE, SECOND: TaskRole.STANDBY})
    it.take_roles({SECOND: TaskRole.STANDBY}, moving=[FIRST])
    assert it.consumer.expected == [], "its own go"

    it.take_roles({FIRST: TaskRole.ACTIVE, SECOND: TaskRole.STANDBY}, moving=[SECOND])

    assert it.consumer.expected == [EXPECTED_FOR]


def test_a_task_that_goes_on_at_its_heir_ends_with_the_cut_and_is_not_claimed_any_more(it: Owned) -> None:
    it.run(FIRST)
    it.process(FIRST, "x")
    it.take_roles({FIRST: TaskRole.STANDBY}, moving=[FIRST], cuts={FIRST: 7})
    task = it.life.all[FIRST]
    epoch = task.freeze()
    assert epoch is not None
    assert epoch.cut == 7
    assert it.life.holdings(1).active == {FIRST}
    task.control.handed_over = True  # the commit sends the cut

    assert it.life.holdings(1).active == frozenset()
    assert it.life.at_rest()
    assert it.life.give_up() == GivenUp(waited_for=False, handed_over=True)
    assert it.life.all[FIRST].role is TaskRole.STANDBY


def test_a_task_without_a_cut_stands_still_until_the_group_has_assigned_it(it: Owned) -> None:
    it.run(FIRST)
    it.process(FIRST, "x")
    it.take_roles({})
    it.commit(FIRST)

    assert it.life.give_up() == GivenUp(waited_for=True, handed_over=True)


def test_a_task_that_stays_after_all_has_no_cut(it: Owned) -> None:
    it.run(FIRST)
    it.process(FIRST, "x")
    it.take_roles({}, moving=[FIRST], cuts={FIRST: 7})
    it.assign(FIRST)

    epoch = it.life.all[FIRST].freeze()
    assert epoch is not None
    assert epoch.cut == 0


def test_a_task_that_was_handed_over_and_comes_back_is_made_anew(it: Owned) -> None:
    """Its heir may have run it meanwhile."""
    it.run(FIRST)
    it.process(FIRST, "x")
    it.take_roles({}, moving=[FIRST], cuts={FIRST: 7})
    task = it.life.all[FIRST]
    task.freeze()
    task.control.handed_over = True

    it.assign(FIRST)
    assert it.life.at_rest()
    it.life.give_up()

    assert it.life.all[FIRST] is not task
    assert it.life.holdings(1).active == {FIRST}
    assert it.restoration.here == {FIRST: it.life.all[FIRST]}


def test_a_task_whose_last_commit_failed_with_the_cut_on_its_way_is_not_started_again(it: Owned) -> None:
    it.run(FIRST, SECOND)
    it.process(FIRST, "x")
    it.take_roles({SECOND: TaskRole.ACTIVE}, moving=[FIRST], cuts={FIRST: 7})
    it.life.all[FIRST].control.handed_over = True

    it.life.revive(it.life.active)

    assert it.life.all.keys() == {SECOND}
    assert it.life.giving_up == {}
    assert it.life.take_in_doubt()
    assert not it.life.take_in_doubt()
