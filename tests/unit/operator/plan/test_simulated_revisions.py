"""Random changes of the spec among revisions that fit each other or do not, work or fail late. In each case, pods that
do not fit are never there at the same time, a failing revision is never the last good one, and conditions agree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, cast

import pytest
from msgspec.structs import replace as changed

from restart_truth import RestartTruth
from simulated_cluster import Pod, SimulatedCluster, shape_of
from simulated_operator import SimulatedOperator
from streamsapp.manifest.model import RolloutSpec
from streamsapp_operator.model.actions import ApplyChildren
from streamsapp_operator.model.desired_state import AnnotationRequests, DesiredState
from streamsapp_operator.model.observed_state import (
    CheckSeen,
    CheckState,
    HangReport,
    PodReport,
    ReportedRole,
    TaskReport,
    TopologyShape,
)
from streamsapp_operator.model.status import AppStatus
from streamsapp_operator.plan.topology_compatibility import compatibility, conflicts, decode

ROLLOUT = RolloutSpec(
    max_standby_lag=1000, max_observation_age_seconds=6, max_restore_seconds=40, timeout_seconds=200,
    progress_deadline_seconds=60, soak_seconds=10, last_good_seconds=150,
)  # fmt: skip
#: Seconds after which pods of a bad revision crash, hang in a record, or process nothing more without being in one.
CRASHES_AFTER, HANGS_AFTER, RESTS_AFTER = 45.0, 20.0, 40.0
#: Behaviours of revisions, as the first part of a name: the rest is the shape that ``shape_of`` knows.
BAD = ("crashes", "hangs", "idle", "rests")
SHAPES = ("good", "left", "right", "moved")
REVISIONS = [f"{kind}:{shape}" for kind in ("well", *BAD) for shape in SHAPES]


def behaviour(revision: str) -> str:
    return revision.partition(":")[0]


def shape_name(revision: str) -> str:
    return revision.partition(":")[2] or revision


class RevisionCluster(SimulatedCluster):
    """Pods of a revision work, end after a while, hang after some records, or process nothing."""

    mixed: frozenset[str] = frozenset()

    def apply(self, action: ApplyChildren) -> None:
        super().apply(action)
        self._makes = action.revision  # replicas and template are taken together

    def _tick(self) -> None:
        super()._tick()
        there = {pod.revision for pod in self.pods.values()}
        if any(conflicts(_shape(one), _shape(other)) for one in there for other in there):
            self.mixed = frozenset(there)

    def _check(self, revision: str, state: CheckState, ends_at: float) -> CheckSeen:
        return replace(super()._check(shape_name(revision), state, ends_at), revision=revision)

    def runs_for(self, pod: Pod) -> float:
        return 0.0 if pod.running_since is None else self.now - pod.running_since

    def hangs_for(self, pod: Pod) -> float:
        return max(0.0, self.runs_for(pod) - HANGS_AFTER) if behaviour(pod.revision) == "hangs" else 0.0

    def _live(self, pod: Pod) -> None:
        super()._live(pod)
        if behaviour(pod.revision) == "crashes" and pod.process is not None and self.runs_for(pod) > CRASHES_AFTER:
            self.kill(pod)

    def _probe(self, pod: Pod) -> None:
        super()._probe(pod)
        if self.hangs_for(pod) > 30 and pod.ready:
            pod.ready = pod.answers = pod.seen_to_answer = False
            pod.version += 1

    def _report(self, pod: Pod, process: str) -> PodReport:
        made, hangs = super()._report(pod, process), self.hangs_for(pod)
        tasks = tuple(self._worked(pod, it) for it in made.tasks)
        first = next((it.id for it in tasks if it.role is ReportedRole.ACTIVE), None)
        told = (HangReport(first, hangs, f"task {first} hangs"),) if hangs > 30 and first else ()
        return replace(made, tasks=tasks, hanging=told, in_process_seconds=hangs, ready=pod.answers)

    def _worked(self, pod: Pod, task: TaskReport) -> TaskReport:
        if task.role is not ReportedRole.ACTIVE:
            return task
        stops = {"idle": 0.0, "hangs": HANGS_AFTER, "rests": RESTS_AFTER}.get(behaviour(pod.revision), 1e9)
        done = int(min(self.runs_for(pod), stops) * 5)
        return replace(task, processed=done, commits=done // 10, input_lag=5)


def _shape(revision: str) -> TopologyShape:
    return shape_of(shape_name(revision))


class World:
    """A cluster, an operator in it, and a user who changes his mind."""

    def __init__(self, seed: int) -> None:
        self.cluster = RevisionCluster(seed, standbys=1, remote_state=True)
        self.app = DesiredState("app", "ns", "uid", 1, "well:good", 3, 1, ROLLOUT)
        self.truth = RestartTruth(self.cluster, 1000, 6, 40)
        self.operator = SimulatedOperator(self.cluster, self.app, self.truth)
        self.rng = self.cluster.rng
        #: The whole status was lost once: then the revision that runs is a first one, which has nothing to go back to.
        self.lost = False

    def change(self, **changes: object) -> None:
        self.app = dataclasses.replace(self.app, generation=self.app.generation + 1, **changes)  # type: ignore[arg-type]
        self.operator.app = self.app

    @property
    def status(self) -> AppStatus:
        return self.operator.status

    def run(self, seconds: float) -> None:
        end = self.cluster.now + seconds
        while self.cluster.now < end:
            self.operator.reconcile()
            self.judge()

    def judge(self) -> None:
        assert not self.cluster.mixed, self.cluster.mixed
        # A pod that hangs commits nothing: it goes whether its tasks are followed or not.
        assert [it for it in self.truth.violations if "(not ready)" not in it] == []
        good = self.status.last_good_revision
        assert self.lost or good is None or behaviour(good) == "well", self.status.rollout
        if self.status.conditions:
            self.judge_conditions()

    def comes_from_an_older_operator(self) -> None:
        """It kept no topologies of others, but why they do not fit the last good one, and knew no trial."""
        status = self.status
        good = decode(status.shape)
        if good is None or status.shape is None:
            return
        found = {it: compatibility(good, shape_of(shape_name(it))) for it in status.shapes}
        apart = {it: why for it, why in found.items() if why}
        self.operator.status = changed(status, shapes={}, trial=None, shape={**status.shape, "apart": apart})

    def loses_its_status(self) -> None:
        self.lost = True
        self.operator.status = AppStatus()

    def judge_conditions(self) -> None:
        told = {it.type: it for it in self.status.conditions}
        generation = self.status.observed_generation
        assert {it.observed_generation for it in told.values()} == {generation}
        true = {name for name, it in told.items() if it.status == "True"}
        assert len(true & {"UpToDate", "Reconciling", "Stalled"}) == 1, true
        scales = told["Progressing"].reason == "Scaling"  # also while the new revision is refused
        assert scales or not {"Progressing", "Stalled"} <= true, told
        held = told["Stalled"].reason == "Paused"  # the user's will is no fault
        assert held or not ("Stalled" in true and "Degraded" not in true), told
        rollout = self.status.rollout
        if "UpToDate" in true:
            assert rollout is not None
            assert (rollout.phase, rollout.revision) == ("Complete", self.app.revision)
            assert "Ready" in true, told

    def mix_up(self) -> None:
        """One change of the spec."""
        topology = cast(Literal["Refuse", "Recreate"], self.rng.choice(["Refuse", "Refuse", "Recreate"]))
        rollout = changed(ROLLOUT, topology_change=topology, partition=self.rng.choice([0, 0, 0, 2]))
        requests = AnnotationRequests(paused=self.rng.random() < 0.15)
        self.change(revision=self.rng.choice(REVISIONS), rollout=rollout, requests=requests)


@pytest.mark.parametrize("trouble", [None, World.comes_from_an_older_operator, World.loses_its_status])
@pytest.mark.seeds(1)
def test_what_does_not_fit_is_kept_apart_and_what_fails_is_never_good(
    seed: int, trouble: Callable[[World], None] | None
) -> None:
    world = World(seed)
    world.run(40)
    for _ in range(12):
        world.mix_up()
        if trouble is not None and world.rng.random() < 0.3:
            world.run(world.rng.choice([1, 5, 20]))
            trouble(world)
        world.run(world.rng.choice([3, 8, 15, 30, 60, 120]))
        if world.cluster.pods and world.rng.random() < 0.2:
            world.cluster.kill(world.rng.choice(list(world.cluster.pods.values())))
    for last in world.rng.sample([f"well:{it}" for it in SHAPES], 2):
        rollout = changed(ROLLOUT, topology_change=world.rng.choice(["Refuse", "Recreate"]))
        world.change(revision=last, rollout=rollout, requests=AnnotationRequests())
        world.run(500)
        assert world.status.rollout is not None
        phase = world.status.rollout.phase
        if phase != "Complete":
            assert (phase, rollout.topology_change) == ("Refused", "Refuse"), world.status.rollout
            world.change(rollout=changed(rollout, topology_change="Recreate"))
            world.run(500)
        assert world.status.rollout is not None
        assert world.status.rollout.phase == "Complete", world.status.rollout
        assert world.status.last_good_revision == last, world.status.trial
        assert {pod.revision for pod in world.cluster.pods.values()} == {last}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.seeds(1)
def test_a_revision_that_fails_late_is_rolled_back(seed: int, kind: str) -> None:
    world = World(seed)
    world.run(40)
    world.change(revision=f"{kind}:good")
    world.run(700)
    assert world.status.rollout is not None
    assert world.status.rollout.phase == "RolledBack", world.status.rollout
    assert world.status.last_good_revision == "well:good"
    assert {pod.revision for pod in world.cluster.pods.values()} == {"well:good"}


def test_pods_that_do_nothing_are_replaced_one_right_after_the_other() -> None:
    """No pod soaks before the next that hangs goes: all are gone long before one has soaked."""
    world = World(1)
    world.lost = True  # without a trial it is taken for good
    world.change(rollout=changed(ROLLOUT, soak_seconds=0, last_good_seconds=0))
    world.run(40)
    world.change(revision="hangs:good")
    world.run(100)
    assert {pod.revision for pod in world.cluster.pods.values()} == {"hangs:good"}
    assert not any(pod.ready for pod in world.cluster.pods.values())
    begun = world.cluster.now
    world.change(revision="well:good", rollout=changed(ROLLOUT, soak_seconds=300, progress_deadline_seconds=600))
    while "hangs:good" in {pod.revision for pod in world.cluster.pods.values()}:
        world.run(1)
        assert world.cluster.now < begun + 60
