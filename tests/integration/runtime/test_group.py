"""Several instances of one application: they share its tasks and take over from each other, and no output shows it."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from counting_group import MORTAL, PARTITIONS, TASKS, Group, caught_up, handed_over, running
from instances import PATIENT, TIMEOUT, Instances, eventually
from streamsapp import ClientState, TaskId, TopicPartition
from streamsapp.local.broker import EmbeddedBroker
from streamsapp.runtime.listeners import StandbyUpdateListener, SuspendReason


@pytest.fixture
def group(instances: Instances) -> Iterator[Group]:
    made = Group(instances)
    yield made
    if made.load is not None:
        made.load.stop()


def test_instances_that_come_and_go_share_the_tasks_and_nothing_is_lost_or_doubled(group: Group) -> None:
    first = group.start("a")
    group.feed()
    eventually(lambda: running(first) == TASKS)

    second = group.start("b")
    eventually(lambda: len(running(first)) == len(running(second)) == 3, "a balanced group")
    third = group.start("c")
    eventually(lambda: all(len(running(each)) == 2 for each in (first, second, third)), "a balanced group")
    eventually(lambda: caught_up(first, second, third))

    assert first.close()
    # Not one after the other: a task may move between two looks.
    eventually(lambda: sorted([*running(second), *running(third)]) == sorted(TASKS))
    group.verify()


class Standbys(StandbyUpdateListener):
    """Why updating was suspended."""

    def __init__(self) -> None:
        self.suspended: list[tuple[str, SuspendReason]] = []
        self.loaded: Counter[str] = Counter()

    def on_update_start(self, topic_partition: TopicPartition, store_name: str, starting_offset: int) -> None:
        assert starting_offset >= 0

    def on_batch_loaded(
        self,
        topic_partition: TopicPartition,
        store_name: str,
        task_id: TaskId,
        batch_end_offset: int,
        batch_size: int,
        current_end_offset: int,
    ) -> None:
        self.loaded[str(task_id)] += batch_size
        assert batch_end_offset < current_end_offset

    def on_update_suspended(
        self,
        topic_partition: TopicPartition,
        store_name: str,
        store_offset: int,
        current_end_offset: int,
        reason: SuspendReason,
    ) -> None:
        self.suspended.append((store_name, reason))


@pytest.mark.parametrize("guarantee", ["exactly_once", pytest.param("at_least_once", marks=pytest.mark.long)])
def test_a_drained_instance_hands_everything_over_to_standbys(instances: Instances, guarantee: str) -> None:
    group = Group(instances, guarantee)
    first = group.start("a")
    group.feed()
    second = instances.make(group.topology, group.config("b"))
    heard = Standbys()
    second.set_standby_update_listener(heard)
    second.start()
    eventually(lambda: caught_up(first, second) and len(heard.loaded) >= 3)

    assert first.drain()

    assert first.state is ClientState.NOT_RUNNING
    eventually(lambda: running(second) == TASKS)
    assert heard.suspended.count(("counts", SuspendReason.PROMOTED)) >= 3
    eventually(lambda: len(handed_over(second)) >= 3, "the hand-overs")
    group.verify()


@pytest.mark.seeds(1)
@pytest.mark.parametrize("guarantee", ["exactly_once", pytest.param("at_least_once", marks=pytest.mark.long)])
def test_an_heir_that_dies_in_the_middle_of_a_hand_over_loses_and_doubles_nothing(
    instances: Instances, guarantee: str, seed: int
) -> None:
    """The owner goes on, or the heir had taken over: then its standby does."""
    chance = random.Random(seed)
    group = Group(instances, guarantee, kafka=MORTAL)
    owner = group.start("a")
    heir = instances.process("count_per_key", group.config("b"), source=group.source, sink=group.sink)
    group.feed()
    eventually(lambda: len(running(owner)) == 3, "a balanced group")
    eventually(lambda: len(running(owner, "standby")) == 3, "standbys of the heir's")
    draining = threading.Thread(target=owner.drain, daemon=True)

    draining.start()
    time.sleep(chance.uniform(0, 0.6))
    heir.assert_running()
    heir.kill()

    third = group.start("c")
    draining.join(TIMEOUT)
    assert not draining.is_alive()
    eventually(lambda: running(third) == TASKS)
    group.verify()


@pytest.mark.long
@pytest.mark.seeds(1)
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_an_owner_that_dies_in_the_middle_of_a_hand_over_loses_and_doubles_nothing(
    instances: Instances, guarantee: str, seed: int
) -> None:
    chance = random.Random(seed)
    group = Group(instances, guarantee, kafka=MORTAL)
    owner = instances.process("count_per_key", group.config("a"), source=group.source, sink=group.sink)
    group.feed()
    heir = group.start("b")
    eventually(lambda: len(running(heir, "warmup")) + len(running(heir)) > 0, "a replica of what is to move")
    time.sleep(chance.uniform(0, 1.5))
    owner.assert_running()

    owner.kill()

    eventually(lambda: running(heir) == TASKS)
    group.verify()


@pytest.mark.long
@pytest.mark.seeds(1)
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_broker_that_stands_still_in_the_middle_of_a_hand_over_loses_and_doubles_nothing(
    own_broker: EmbeddedBroker, there: Instances, guarantee: str, seed: int
) -> None:
    """Frozen, not restarted: Kafka loses transaction markers of partitions whose only replica restarts (decision 7)."""
    chance = random.Random(seed)
    group = Group(there, guarantee)
    first, second = group.start("a"), group.start("b")
    group.feed()
    eventually(lambda: caught_up(first, second))
    draining = threading.Thread(target=first.drain, daemon=True)
    assert own_broker.pid is not None

    draining.start()
    time.sleep(chance.uniform(0, 0.4))
    os.kill(own_broker.pid, signal.SIGSTOP)
    time.sleep(3)
    os.kill(own_broker.pid, signal.SIGCONT)

    draining.join(TIMEOUT)
    assert not draining.is_alive()
    eventually(lambda: running(second) == TASKS)
    group.verify()


def test_the_only_instance_drains_at_once(group: Group) -> None:
    only = group.start("a")
    eventually(lambda: running(only) == TASKS)

    assert only.drain()

    assert only.wait(0) is None


@pytest.mark.parametrize("guarantee", ["exactly_once", pytest.param("at_least_once", marks=pytest.mark.long)])
def test_standbys_take_over_from_an_instance_that_was_killed(instances: Instances, guarantee: str) -> None:
    group = Group(instances, guarantee)
    victim = instances.process("count_per_key", group.config("v"), source=group.source, sink=group.sink)
    group.feed()
    second, third = group.start("b"), group.start("c")
    eventually(lambda: len(running(second)) == len(running(third)) == 2, "a balanced group")
    victim.assert_running()

    victim.kill()

    eventually(lambda: running(second) | running(third) == TASKS)
    group.verify()


def test_nobody_waits_for_the_session_of_one_that_was_killed_and_is_back_in_its_place(instances: Instances) -> None:
    group = Group(instances)
    config = group.config("v", kafka={"session.timeout.ms": "120000"})  # longer than anybody here waits
    victim = instances.process("count_per_key", config, source=group.source, sink=group.sink)
    group.feed()
    second = group.start("b")
    eventually(lambda: len(running(second)) == 3, "a balanced group")
    eventually(lambda: len(running(second, "standby")) == 3, "standbys of the others")
    before = second.status()["generation"]

    victim.kill()
    back = instances.process("count_per_key", config, source=group.source, sink=group.sink)

    eventually(lambda: second.status()["generation"] > before, "a group that begins anew")
    group.verify()
    back.assert_running()


def test_lags_are_told_with_the_time_at_which_they_were_observed(group: Group, tmp_path: Path) -> None:
    first, second = group.start("a"), group.start("b")
    group.feed()
    eventually(lambda: caught_up(first, second))

    lags = second.lags()["counts"]

    assert set(lags) == set(range(PARTITIONS))
    for lag in lags.values():
        assert lag["position"] is not None
        assert lag["endOffset"] is not None
        assert lag["lag"] == max(0, lag["endOffset"] - lag["position"])
    group.verify()


def test_who_does_not_leave_the_group_gets_its_tasks_back_when_it_returns_within_the_session(group: Group) -> None:
    first = group.start("a", group_instance_id="a", kafka=PATIENT)
    second = group.start("b", group_instance_id="b", kafka=PATIENT)
    eventually(lambda: len(running(first)) == len(running(second)) == 3, "a balanced group")
    before = running(first)

    assert first.close(leave_group=False)
    again = group.start("a", group_instance_id="a", kafka=PATIENT)

    eventually(lambda: running(again) == before)
    assert running(second) == TASKS - before
