"""The view that interactive queries have of an instance."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamsapp import ClientState, Serdes, Stores, TaskId, TopicPartition
from streamsapp.membership.api import Assignment, Peer
from streamsapp.runtime.changelog_reader import ChangelogReader, Observation
from streamsapp.runtime.query_host import InstanceHost
from streamsapp.state.api import StoreBuilder
from streamsapp.tasks.states import TaskRole, TaskState
from streamsapp.tasks.stream_task import StreamTask
from task_parts import config, task_of, through

TASK = TaskId(0, 0)


def builder(name: str) -> StoreBuilder:
    supplier = Stores.in_memory_key_value_store(name)
    return Stores.key_value_store_builder(supplier, Serdes.string(), Serdes.long())


def storing() -> StreamTask:
    topology = through().add_state_store(builder("counts"), "node").add_state_store(builder("totals"), "node")
    return task_of(topology.add_state_store(builder("scratch").with_logging_disabled(), "node"))


class Parts:
    """The parts of a started instance that queries read."""

    def __init__(self, task: StreamTask) -> None:
        peers = {"me": Peer("here:1", frozenset({task.id}))}
        self.state = SimpleNamespace(state=ClientState.RUNNING)
        self.owned = SimpleNamespace(all={task.id: task})
        restoration = SimpleNamespace(reading=SimpleNamespace(readers=dict[TopicPartition, ChangelogReader]()))
        self.stores = SimpleNamespace(restoration=restoration, global_thread=None)
        layout = SimpleNamespace(plans={TaskId(0, each): replace(task.plan, id=TaskId(0, each)) for each in range(3)})
        self.life = SimpleNamespace(
            layout=layout,
            assignment=Assignment(frozenset(), peers=peers),
        )
        self.membership = SimpleNamespace(safe_until=math.inf)

    def follow(self, task: StreamTask, store: str, observed: Observation | None) -> None:
        partition = task.plan.all_changelogs[store]
        self.stores.restoration.reading.readers[partition] = ChangelogReader(
            task, store, partition, 0, observed=observed
        )


def host_of(components: Parts | None, **settings: Any) -> InstanceHost:
    return InstanceHost(config(application_server="here:1", **settings), lambda: cast(Any, components))


@pytest.fixture
def replica() -> StreamTask:
    task = storing()
    task.role = TaskRole.STANDBY
    return task


def test_before_it_starts_an_instance_has_nothing() -> None:
    host = host_of(None)
    assert (dict(host.tasks()), dict(host.stores()), dict(host.peers())) == ({}, {}, {})
    assert host.safe_until == 0


def test_an_active_task_that_runs_shows_all_its_stores() -> None:
    view = host_of(Parts(storing())).tasks()[TASK]
    assert view.authoritative
    assert sorted(view.stores) == ["counts", "scratch", "totals"]


def test_an_active_task_that_restores_is_not_the_authority() -> None:
    task = storing()
    task.state = TaskState.RESTORING
    assert not host_of(Parts(task)).tasks()[TASK].authoritative


def test_a_replica_shows_what_it_follows_as_far_behind_as_its_worst_store(replica: StreamTask) -> None:
    components = Parts(replica)
    components.follow(replica, "counts", Observation(5, 9, observed_at_ms=100))
    components.follow(replica, "totals", Observation(9, 9, observed_at_ms=50))
    view = host_of(components).tasks()[TASK]
    assert sorted(view.stores) == ["counts", "totals"]
    assert (view.role, view.lag, view.observed_at_ms) == (TaskRole.STANDBY, 4, 50)


def test_a_replica_with_a_store_that_was_not_observed_is_of_unknown_lag(replica: StreamTask) -> None:
    components = Parts(replica)
    components.follow(replica, "counts", Observation(9, 9, observed_at_ms=100))
    assert host_of(components).tasks()[TASK].lag is None
    components.follow(replica, "totals", None)
    assert host_of(components).tasks()[TASK].lag is None


def test_what_was_observed_for_an_earlier_task_does_not_count(replica: StreamTask) -> None:
    components = Parts(replica)
    for store in ("counts", "totals"):
        components.follow(storing(), store, Observation(9, 9, observed_at_ms=100))
    assert host_of(components).tasks()[TASK].lag is None


def test_stores_are_known_with_their_partitions_and_serdes() -> None:
    components = Parts(storing())
    host = host_of(components)
    store = host.stores()["counts"]
    assert (store.subtopology, store.partitions) == (0, 3)
    assert (store.key_serde, store.value_serde) == (Serdes.string(), Serdes.long())
    assert host.stores() is host.stores()


@pytest.mark.parametrize(("guarantee", "committed"), [("exactly_once", True), ("at_least_once", False)])
def test_only_under_exactly_once_what_is_uncommitted_is_hidden(guarantee: str, committed: bool) -> None:
    host = host_of(Parts(storing()), processing_guarantee=guarantee)
    assert host.committed_only is committed


def test_peers_and_endpoint_are_those_of_the_group() -> None:
    host = host_of(Parts(storing()))
    assert host.peers()["me"].active == {TASK}
    assert (host.endpoint, host.safe_until) == ("here:1", math.inf)


def test_an_instance_that_has_ended_has_no_tasks_left() -> None:
    components = Parts(storing())
    components.state.state = ClientState.NOT_RUNNING
    assert dict(host_of(components).tasks()) == {}
