"""The choice of the instance that is asked, and whether a replica may answer."""

from __future__ import annotations

from datetime import timedelta

import pytest

from streamsapp.errors import InvalidQueryError
from streamsapp.membership.api import Peer
from streamsapp.query.api import Staleness, TaskView
from streamsapp.query.routing import Hosts, hosts_of, may_answer, to_ask
from streamsapp.record import TaskId
from streamsapp.tasks.states import TaskRole

TASK = TaskId(0, 1)
OF_TASK = frozenset({TASK})


def replica(lag: int | None, observed_at_ms: int | None = 1_000) -> TaskView:
    return TaskView(TASK, TaskRole.STANDBY, running=True, stores={}, lag=lag, observed_at_ms=observed_at_ms)


def test_hosts_are_the_endpoints_of_those_who_have_the_task() -> None:
    peers = {
        "a": Peer("a:1", active=OF_TASK),
        "b": Peer("b:1", standby=OF_TASK),
        "c": Peer("c:1"),
        "d": Peer("", standby=OF_TASK),
    }
    assert hosts_of(TASK, peers) == Hosts("a:1", ("b:1",))
    assert hosts_of(TaskId(0, 2), peers) == Hosts(None, ())


def test_a_pod_with_both_is_named_as_the_active_one_only() -> None:
    peers = {"a-0": Peer("pod:1", active=OF_TASK), "a-1": Peer("pod:1", standby=OF_TASK)}
    assert hosts_of(TASK, peers) == Hosts("pod:1", ())


def test_replicas_are_asked_only_when_stale_answers_are_allowed() -> None:
    hosts = Hosts("a:1", ("b:1", "c:1"))
    assert to_ask(hosts, None) == ("a:1",)
    assert to_ask(hosts, Staleness()) == ("a:1", "b:1", "c:1")
    assert to_ask(Hosts(None, ("b:1",)), None) == ()


@pytest.mark.parametrize(
    ("role", "running", "answers"),
    [
        (TaskRole.ACTIVE, True, True),
        (TaskRole.ACTIVE, False, False),
        (TaskRole.STANDBY, True, False),
        (TaskRole.WARMUP, True, False),
    ],
)
def test_without_staleness_only_a_running_active_task_answers(role: TaskRole, running: bool, answers: bool) -> None:
    task = TaskView(TASK, role, running, {}, lag=0, observed_at_ms=1_000)
    assert may_answer(task, None, 1_000) is answers


@pytest.mark.parametrize(
    ("task", "bounds", "answers"),
    [
        (replica(5), Staleness(max_lag=5), True),
        (replica(6), Staleness(max_lag=5), False),
        (replica(None), Staleness(), False),
        (replica(0, None), Staleness(), False),
        (replica(10**9), Staleness(), True),
        (replica(0), Staleness(max_age=timedelta(seconds=4)), True),
        (replica(0), Staleness(max_age=timedelta(seconds=3.999)), False),
    ],
)
def test_a_replica_answers_within_its_bounds_and_the_unknown_is_out_of_bounds(
    task: TaskView, bounds: Staleness, answers: bool
) -> None:
    assert may_answer(task, bounds, 5_000) is answers


def test_nothing_answers_for_a_task_that_is_not_here() -> None:
    assert not may_answer(None, Staleness(), 0)


def test_a_negative_lag_is_refused() -> None:
    with pytest.raises(InvalidQueryError, match="max_lag"):
        Staleness(max_lag=-1)
