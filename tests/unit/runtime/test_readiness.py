"""An instance that has come back waits for some things before it is ready, and not for others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamsapp import ClientState, TaskId
from streamsapp.runtime import status
from streamsapp.runtime.readiness import PERIOD, Readiness
from streamsapp.tasks.states import TaskRole
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.testing import MockClock
from task_parts import task_of, through

ACTIVE, STANDBY, WARMUP = (TaskId(0, partition) for partition in range(3))
ACCEPTABLE = 100


class Pod:
    """An instance with a task of each role."""

    def __init__(self) -> None:
        self.lags: dict[TaskId, int | None] = {STANDBY: None, WARMUP: None}
        self.clock = MockClock()
        self.readiness = Readiness(lambda task: self.lags[task.id], ACCEPTABLE, self.clock)
        self.tasks: dict[TaskId, StreamTask] = {}
        for number, role in enumerate((TaskRole.ACTIVE, TaskRole.STANDBY, TaskRole.WARMUP)):
            task = task_of(through(), number, running=False)
            task.role = role
            self.tasks[task.id] = task

    def run(self) -> None:
        self.tasks[ACTIVE] = task_of(through(), 0)

    def complaint(self) -> str | None:
        self.clock.advance(int(PERIOD * 1000) + 1)
        self.readiness.update(self.tasks)
        return self.readiness.complaint


@pytest.fixture
def pod() -> Pod:
    pod = Pod()
    pod.readiness.assigned(pod.tasks.keys())
    return pod


def test_an_instance_that_is_not_in_the_group_is_not_ready() -> None:
    assert Pod().complaint() == "not in the group yet"


def test_an_instance_without_tasks_is_ready_as_soon_as_it_is_in_the_group() -> None:
    pod = Pod()
    pod.readiness.assigned([])
    assert pod.complaint() is None


def test_the_first_task_that_is_waited_for_is_named_and_the_others_are_counted(pod: Pod) -> None:
    assert pod.readiness.complaint == "task 0_0 is being opened, and 2 more"
    assert pod.complaint() == "task 0_0 is being restored, and 2 more"
    pod.run()
    assert pod.complaint() == "standby task 0_1: how far it is behind is not known yet, and 1 more"
    pod.lags |= {STANDBY: ACCEPTABLE, WARMUP: ACCEPTABLE + 1}
    assert pod.complaint() == "warmup task 0_2 is 101 records behind"
    pod.lags[WARMUP] = ACCEPTABLE
    assert pod.complaint() is None


def test_who_was_ready_once_stays_so_whatever_its_replicas_do(pod: Pod) -> None:
    pod.run()
    pod.lags = {STANDBY: 0, WARMUP: 0}
    assert pod.complaint() is None

    pod.lags = {STANDBY: 10**9, WARMUP: None}
    assert pod.complaint() is None
    pod.tasks[ACTIVE] = task_of(through(), 0, running=False)
    pod.readiness.assigned([*pod.tasks, TaskId(0, 7)])
    assert pod.complaint() is None


def test_a_replica_that_caught_up_once_is_not_waited_for_again(pod: Pod) -> None:
    pod.run()
    pod.lags = {STANDBY: 0, WARMUP: 500}
    assert pod.complaint() == "warmup task 0_2 is 500 records behind"
    pod.lags = {STANDBY: 500, WARMUP: 0}
    assert pod.complaint() is None


def test_what_a_later_assignment_takes_away_is_not_waited_for_and_what_it_brings_neither(pod: Pod) -> None:
    pod.run()
    pod.readiness.assigned([ACTIVE, STANDBY, TaskId(0, 7)])
    pod.lags[STANDBY] = 0
    assert pod.complaint() is None


def test_a_replica_that_becomes_active_is_waited_for_until_it_runs(pod: Pod) -> None:
    pod.run()
    pod.lags[WARMUP] = 0
    pod.readiness.assigned(pod.tasks.keys())
    pod.tasks[STANDBY] = pod.tasks[STANDBY].recycled(TaskRole.ACTIVE)
    assert pod.complaint() == "task 0_1 is being restored"
    pod.tasks[STANDBY] = task_of(through(), 1)
    assert pod.complaint() is None


def test_who_was_out_of_the_group_has_to_come_back_again(pod: Pod) -> None:
    pod.run()
    pod.lags = {STANDBY: 0, WARMUP: 0}
    assert pod.complaint() is None

    pod.readiness.lost()
    assert pod.complaint() == "not in the group yet"
    pod.lags[STANDBY] = None
    pod.readiness.assigned(pod.tasks.keys())
    assert pod.complaint() == "standby task 0_1: how far it is behind is not known yet"


def components(complaint: str | None, *, leaving: bool = False) -> Any:
    life = SimpleNamespace(readiness=SimpleNamespace(complaint=complaint))
    hangs = SimpleNamespace(hanging=())
    return cast(Any, SimpleNamespace(requests=SimpleNamespace(leaving=leaving), life=life, hangs=hangs))


@pytest.mark.parametrize("state", [ClientState.RUNNING, ClientState.REBALANCING])
def test_an_instance_that_has_come_back_is_ready_also_while_the_group_moves_tasks(state: ClientState) -> None:
    assert status.readiness(state, components(None)) == (True, f"state is {state.value}")
    assert status.readiness(state, components("task 0_0 is being restored")) == (False, "task 0_0 is being restored")


def test_an_instance_that_leaves_is_not_ready_from_the_moment_it_is_asked_to() -> None:
    ready, why = status.readiness(ClientState.RUNNING, components(None, leaving=True))
    assert (ready, why) == (False, "its tasks are handed over to other instances")


@pytest.mark.parametrize("state", [ClientState.CREATED, ClientState.PENDING_SHUTDOWN, ClientState.ERROR])
def test_an_instance_that_has_not_begun_or_ends_is_not_ready(state: ClientState) -> None:
    assert status.readiness(state, components(None)) == (False, f"state is {state.value}")
