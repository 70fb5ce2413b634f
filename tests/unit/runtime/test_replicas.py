"""Standby and warm-up replicas: they follow their changelogs, pass by pass, and are promoted with their stores open."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from restoring import Restoring, keys, taken
from streamsapp import TaskId, TopicPartition
from streamsapp.errors import ReplicaLostError
from streamsapp.runtime import restoration
from streamsapp.tasks.states import TaskRole, TaskState

S, OTHER = TopicPartition("app-s-changelog", 0), TopicPartition("app-s-changelog", 1)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restoration, "WORK_WAIT", 0)


@pytest.fixture
def it(tmp_path: Path) -> Restoring:
    return Restoring(tmp_path)


def test_a_replica_stays_and_follows_its_changelog(it: Restoring) -> None:
    it.log(S, 0, 1)
    task = it.task(role=TaskRole.STANDBY)
    it.thread.add(task)
    it.passes()
    assert keys(task) == ["0", "1"]

    it.log(S, 0, 1, 2)
    it.passes()

    assert keys(task) == ["0", "1", "2"]
    assert it.restored == []
    assert task.state is TaskState.RUNNING
    assert it.listener.told == [
        "update from app-s-changelog-0 s 0",
        "0_0 loaded app-s-changelog-0 s 1 2 2",
        "0_0 loaded app-s-changelog-0 s 2 1 3",
    ]


def test_a_promoted_replica_keeps_its_stores_open_and_is_restored_to_the_end(it: Restoring) -> None:
    it.log(S, 0, 1)
    replica = it.task(role=TaskRole.STANDBY)
    it.thread.add(replica)
    it.passes()
    it.log(S, 0, 1, 2, end=4)

    active = replica.recycled(TaskRole.ACTIVE)
    it.thread.promote(active)
    it.passes(3)

    assert it.restored == [TaskId(0, 0)]
    assert active.stores is replica.stores
    assert keys(active) == ["0", "1", "2"]
    assert active.changelog_positions == {"s": 4}
    assert it.listener.told[2:] == [
        "update promoted app-s-changelog-0 s 2 4",
        "start app-s-changelog-0 s 2 4",
        "batch app-s-changelog-0 s 2 1",
        "end app-s-changelog-0 s 1",
    ]


def test_a_replica_that_has_seen_the_last_control_record_is_complete_at_once_when_promoted(it: Restoring) -> None:
    it.log(S, 0, end=2)
    replica = it.task(role=TaskRole.STANDBY)
    it.thread.add(replica)
    it.passes(2)

    it.thread.promote(replica.recycled(TaskRole.ACTIVE))
    it.passes()

    assert it.restored == [TaskId(0, 0)]


def test_a_replica_can_be_promoted_before_its_stores_are_open(it: Restoring) -> None:
    it.log(S, 0, 1)
    replica = it.task(role=TaskRole.STANDBY)
    it.thread.add(replica)
    for state in (TaskState.CREATED, TaskState.RESTORING):
        replica.state = state
        active = replica.recycled(TaskRole.ACTIVE)
    replica.state = TaskState.CREATED
    it.thread.promote(active)

    it.passes(2)

    assert it.failed == []
    assert it.restored == [TaskId(0, 0)]
    assert keys(active) == ["0", "1"]


def test_a_task_whose_replica_failed_before_its_promotion_begins_anew(it: Restoring) -> None:
    it.log(S, 0)

    it.thread.promote(it.task(role=TaskRole.STANDBY).recycled(TaskRole.ACTIVE))
    it.passes()

    [failure] = taken(it.failures)
    assert isinstance(failure.error, ReplicaLostError), "it is wiped and restored; nobody is asked about it again"
    assert failure.task_id == TaskId(0, 0)
    assert str(failure.error) == "task 0_0 is to be promoted and is not here: it failed meanwhile"


def test_a_task_that_was_active_goes_on_as_a_replica_from_where_it_stands(it: Restoring) -> None:
    it.log(S, 0, 1)
    active = it.task()
    it.restore(active)
    active.initialize()
    it.log(S, 0, 1, 2)

    replica = active.recycled(TaskRole.STANDBY)
    it.listener.told.clear()
    it.thread.add(replica)
    it.passes()

    assert keys(replica) == ["0", "1", "2"]
    assert it.listener.told[0] == "update from app-s-changelog-0 s 2"


def test_replicas_wait_while_an_active_task_is_restored(it: Restoring) -> None:
    it.log(S, 0)
    it.log(OTHER, 0, 1)
    it.consumer.limit = 1
    replica = it.task(role=TaskRole.STANDBY)
    it.thread.add(replica)
    it.thread.add(it.task(1))

    it.passes()
    assert it.reading.replicas_paused
    assert keys(replica) == []
    it.passes(2)

    assert it.restored == [TaskId(0, 1)]
    assert not it.reading.replicas_paused
    assert keys(replica) == ["0"]


def test_replicas_stand_still_while_the_application_is_paused_and_are_observed_all_the_same(it: Restoring) -> None:
    it.log(S, 0, 1)
    it.thread.paused = True
    replica = it.task(role=TaskRole.STANDBY)
    it.thread.add(replica)
    it.passes(2)

    assert keys(replica) == []
    assert it.reading.lag(replica) == 2


def test_how_far_a_replica_is_behind_is_unknown_until_the_broker_said_where_the_changelog_ends(it: Restoring) -> None:
    it.log(S, 0)
    replica = it.task(role=TaskRole.STANDBY)
    assert it.reading.lag(replica) is None
    it.thread.add(replica)
    it.passes()
    assert it.reading.lag(replica) is None

    it.passes()

    assert it.reading.lag(replica) == 0


def test_a_lag_is_of_the_moment_at_which_the_end_was_asked_for(it: Restoring) -> None:
    it.log(S, 0)
    replica = it.task(role=TaskRole.STANDBY)
    it.thread.add(replica)
    it.passes(2)

    it.log(S, 0, 1, 2)
    it.clock.advance(10_000)
    it.thread.paused = True
    it.passes(2)

    seen = it.reading.readers[S].observed
    assert seen is not None
    assert (seen.position, seen.end_offset, seen.lag, seen.observed_at_ms) == (1, 3, 2, 10_000)


def test_a_replica_that_begins_anew_is_not_taken_for_the_one_whose_lag_was_asked_for(it: Restoring) -> None:
    it.log(S, 0, 1, 2)
    before = it.task(role=TaskRole.STANDBY)
    it.thread.add(before)
    it.passes()

    it.thread.paused = True
    it.thread.close([before], wipe=True)
    anew = it.task(role=TaskRole.STANDBY)
    it.thread.add(anew)
    it.passes()

    assert it.reading.lag(anew) == 3


def test_a_replica_that_is_closed_is_suspended_because_it_migrated(it: Restoring) -> None:
    it.log(S, 0)
    task = it.task(role=TaskRole.WARMUP)
    it.thread.add(task)
    it.passes()

    it.thread.close([task])
    it.passes()

    assert it.listener.told[-1] == "update migrated app-s-changelog-0 s 1 1"
    assert it.consumer.positions == {}


def test_a_replica_of_a_table_goes_no_further_than_the_group_has_committed(it: Restoring) -> None:
    source = TopicPartition("in", 0)
    it.log(source, 0, 1, 2, 3)
    replica = it.task(role=TaskRole.STANDBY)
    replica.plan = replace(replica.plan, changelogs={}, source_changelogs={"s": source})
    it.consumer.offsets[source] = 2
    it.thread.add(replica)
    it.passes(2)
    assert keys(replica) == ["0", "1"]

    it.consumer.offsets[source] = 3
    it.clock.advance(10_000)
    it.passes(3)

    assert keys(replica) == ["0", "1", "2"]
    seen = it.reading.readers[source].observed
    assert seen is not None
    assert (seen.position, seen.end_offset) == (2, 3)


def test_a_replica_of_a_table_has_caught_up_where_the_group_has_committed_nothing_yet(it: Restoring) -> None:
    """A partition without a record never has an offset; the instance would not become ready before one comes."""
    source = TopicPartition("in", 0)
    it.log(source)
    replica = it.task(role=TaskRole.STANDBY)
    replica.plan = replace(replica.plan, changelogs={}, source_changelogs={"s": source})
    it.thread.add(replica)
    it.consumer.silent = True
    it.passes(3)
    assert it.reading.lag(replica) is None, "the broker has not told what is committed"

    it.consumer.silent = False
    it.clock.advance(10_000)
    it.passes(2)

    assert it.reading.lag(replica) == 0


def test_a_promoted_replica_reads_on_where_it_stands_and_its_partition_is_not_fetched_anew(it: Restoring) -> None:
    it.log(S, 0, 1)
    replica = it.task(role=TaskRole.STANDBY)
    it.thread.add(replica)
    it.passes(2)
    it.log(S, 0, 1, 2)
    assigned = it.consumer.assigned.copy()

    it.consumer.assigned.clear()
    active = replica.recycled(TaskRole.ACTIVE)
    it.thread.promote(active)
    it.passes(3)

    assert (assigned, it.consumer.assigned) == ([S], [])
    assert it.restored == [TaskId(0, 0)]
    assert keys(active) == ["0", "1", "2"]
    assert it.reading.readers == {}


def test_a_replica_that_is_promoted_while_replicas_wait_goes_on(it: Restoring) -> None:
    it.log(S, 0)
    it.log(OTHER, *range(9))
    replica = it.task(role=TaskRole.STANDBY)
    it.thread.add(replica)
    it.passes(2)
    it.consumer.limit = 1
    it.thread.add(it.task(1))
    it.passes(2)
    assert it.reading.replicas_paused
    it.log(S, 0, 1)

    it.thread.promote(replica.recycled(TaskRole.ACTIVE))
    it.passes(12)

    assert set(it.restored) == {TaskId(0, 0), TaskId(0, 1)}
    assert it.failed == []


def test_a_promoted_replica_whose_state_is_refused_is_read_from_the_beginning(
    it: Restoring, monkeypatch: pytest.MonkeyPatch
) -> None:
    it.log(S, 0, 1)
    replica = it.task(role=TaskRole.STANDBY)
    it.thread.add(replica)
    it.passes(2)
    monkeypatch.setattr(it.reading, "objection", lambda task, highs: "it is too old")

    active = replica.recycled(TaskRole.ACTIVE)
    it.thread.promote(active)
    it.passes(3)

    assert it.restored == [TaskId(0, 0)]
    assert keys(active) == ["0", "1"]
    assert active.changelog_positions == {"s": 2}


def test_a_promotion_does_not_wait_for_the_fetch_under_way_nor_do_the_answers_it_needs(it: Restoring) -> None:
    replica = it.task(role=TaskRole.STANDBY)
    it.log(S, 0)
    it.thread.add(replica)
    it.passes(2)
    before = it.consumer.ended_waits

    it.thread.promote(replica.recycled(TaskRole.ACTIVE))
    assert it.consumer.ended_waits == before + 1
    it.passes()

    assert it.consumer.ended_waits == before + 2
