"""Several instances of one application: they share its tasks and take over from each other, and no output shows it."""

from __future__ import annotations

import itertools
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from instances import PATIENT, TIMEOUT, Instances, counts_per_key, eventually, produce
from kafka_cluster import Kafka
from killable import count_per_key
from streamsapp import ClientState, StreamsConfig, StreamsRuntime, TaskId, TopicPartition
from streamsapp.local.broker import EmbeddedBroker
from streamsapp.runtime.listeners import StandbyUpdateListener, SuspendReason

PARTITIONS = 6
TASKS = {TaskId(0, number) for number in range(PARTITIONS)}


class Load:
    """Records that keep coming until ``stop``, and the truth about them."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._kafka, self._topic = kafka, topic
        self.truth: Counter[bytes] = Counter()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for number in itertools.count():
            if self._stopping.wait(0.05):
                return
            keys = [b"key%d" % ((number * 40 + each) % 200) for each in range(40)]
            produce(self._kafka, self._topic, [(key, b"x", 1000 + number) for key in keys])
            self.truth.update(keys)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(TIMEOUT)  # the truth is whole when its last records are written
        assert not self._thread.is_alive()


class Group:
    """Instances of one application that counts per key."""

    def __init__(self, instances: Instances, guarantee: str = "exactly_once", **settings: Any) -> None:
        self.instances, self.kafka = instances, instances.kafka
        self.source = self.kafka.create_topic("keys", partitions=PARTITIONS)
        self.sink = self.kafka.create_topic("counts", partitions=PARTITIONS)
        self.application_id = self.kafka.unique("app")
        self.settings = {
            "standby_replicas": 1,
            "acceptable_recovery_lag": 100,
            "processing_guarantee": guarantee,
            "probing_rebalance_interval_ms": 60_000,
            **settings,
        }
        self.topology = count_per_key(self.source, self.sink)
        self.load: Load | None = None

    def config(self, name: str, **settings: Any) -> StreamsConfig:
        return self.instances.config(
            self.application_id,
            state_dir=self.instances.directory / name,
            client_id=name,
            host_id=name,
            **{**self.settings, **settings},
        )

    def start(self, name: str, **settings: Any) -> StreamsRuntime:
        return self.instances.start(count_per_key(self.source, self.sink), self.config(name, **settings))

    def feed(self) -> None:
        self.load = Load(self.kafka, self.source)

    def verify(self) -> None:
        """Everything was counted, once and in order."""
        assert self.load is not None
        self.load.stop()
        truth = self.load.truth
        eventually(lambda: sum(map(len, counts_per_key(self.kafka.read(self.sink)).values())) >= truth.total())
        updates = counts_per_key(self.kafka.read(self.sink))
        if self.settings["processing_guarantee"] == "exactly_once":
            assert updates == {key: list(range(1, count + 1)) for key, count in truth.items()}
        else:
            assert all(max(updates[key]) >= count for key, count in truth.items())


def running(instance: StreamsRuntime, role: str = "active") -> set[TaskId]:
    """The tasks of one role that an instance runs."""
    return {
        TaskId.parse(task["id"]) for task in instance.tasks() if task["role"] == role and task["state"] == "RUNNING"
    }


def handed_over(instance: StreamsRuntime) -> set[str]:
    """The tasks that an instance took over from one that gave them up, with results since."""
    return {each["task"] for each in instance.status()["handOvers"] if each["kind"] == "planned"}


def caught_up(*instances: StreamsRuntime) -> bool:
    """Says whether every task runs, and has a standby that is not far behind."""
    if set().union(*(running(each) for each in instances)) != TASKS:
        return False
    lags: dict[str, int | None] = {}
    for instance in instances:
        for task in instance.tasks():
            if task["role"] == "standby":
                lags[task["id"]] = task["stores"][0]["lag"]
    return len(lags) == PARTITIONS and all(lag is not None and lag < 100 for lag in lags.values())


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


#: A death is missed soon.
MORTAL = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "100"}


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
