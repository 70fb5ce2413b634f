"""The plan in a made-up cluster in which everything goes wrong that may; an independent observer knows the truth."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from restart_truth import RestartTruth
from simulated_cluster import Pod, RefusedError, SimulatedCluster
from simulated_operator import SimulatedOperator
from streamsapp.manifest.model import AutoscalingSpec, RolloutSpec
from streamsapp_operator import takeover
from streamsapp_operator.model.desired_state import DesiredState, InvalidSpec
from streamsapp_operator.model.status import AppStatus

ROLLOUT = RolloutSpec(
    max_standby_lag=1000, max_observation_age_seconds=6, max_restore_seconds=40, timeout_seconds=150,
    progress_deadline_seconds=60, soak_seconds=4,
)  # fmt: skip
FAULTS_SECONDS = 240
CALM_SECONDS = 500
KINDS = {
    "standbys": {"standbys": 1, "remote_state": False},
    "snapshots": {"standbys": 0, "remote_state": True},
    "both": {"standbys": 1, "remote_state": True},
}
REVISIONS = [
    "good-a",
    "good-b",
    "good-c",
    "image-a",
    "crash-a",
    "slow-a",
    "hang-a",
    "flaky-a",
    "badcheck-a",
    "moved-a",
    "good-d+",
]
ENDED = {"Complete", "TimedOut", "RolledBack", "Refused"}


class World:
    """A cluster, an operator in it, and a source of trouble."""

    def __init__(self, seed: int, kind: str) -> None:
        self.cluster = SimulatedCluster(seed, **KINDS[kind])  # type: ignore[arg-type]
        self.cluster.group.add_subtopology("2", 2)
        self.truth = RestartTruth(
            self.cluster,
            ROLLOUT.max_standby_lag,
            ROLLOUT.max_observation_age_seconds,
            ROLLOUT.max_restore_seconds,
        )
        self.wanted = DesiredState("app", "ns", "uid", 1, "good-first", 3, 1, ROLLOUT)
        self.operator = SimulatedOperator(self.cluster, self.wanted, self.truth)
        self.rng = self.cluster.rng
        often = [self.hit, self.hold, self.lose_answers, self.change_revision, self.drain]
        seldom = [self.delete, self.deafen, self.stick, self.jump, self.pause, self.scale, self.spoil_spec]
        seldom.append(self.autoscale)
        rest = [
            self.lose_node,
            self.forget,
            self.make_deadly,
            *[self.deceive] * 3,
            *[self.fall_behind] * 3,
            *[self.relieve] * 6,
        ]
        self._troubles = [*often, *often, *seldom, *rest]

    def run(self, seconds: float, trouble: Callable[[], None] = lambda: None) -> None:
        end = self.cluster.now + seconds
        while self.cluster.now < end:
            trouble()
            self.operator.reconcile()

    def run_until(self, done: Callable[[], bool], seconds: float) -> bool:
        end = self.cluster.now + seconds
        while self.cluster.now < end:
            if done():
                return True
            self.operator.reconcile()
        return done()

    def change(self, **changes: object) -> None:
        self.wanted = dataclasses.replace(self.wanted, generation=self.wanted.generation + 1, **changes)  # type: ignore[arg-type]
        self.operator.app = self.wanted

    @property
    def phase(self) -> str | None:
        rollout = self.operator.status.rollout
        return rollout.phase if rollout else None

    def is_complete(self) -> bool:
        rollout = self.operator.status.rollout
        return rollout is not None and rollout.phase == "Complete" and rollout.revision == self.wanted.revision

    def replicas_until_checked(self) -> int:
        """Pods that never become ready have tasks all the same: then the message names the remedy."""
        return 0 if any(str(it).startswith("slow") for it in self.revisions()) else 3

    def revisions(self) -> set[str | None]:
        """All that there are pods of, or will be."""
        return {self.cluster.template, *(pod.revision for pod in self.cluster.pods.values())}

    def is_checked(self) -> bool:
        return self.cluster.template == self.wanted.revision and (self.wanted.replicas > 0 or not self.cluster.pods)

    def like_the_last_good(self) -> str:
        """A new revision whose topology can work beside that of the last good one, or of one on trial."""
        status = self.operator.status
        good = (status.trial.revision if status.trial else status.last_good_revision) or "good-first"
        return f"{'moved' if good.startswith('moved') else 'good'}-last{'+' if good.endswith('+') else ''}"

    def trouble(self) -> None:
        """A rolling restart most of the time, and now and then one of these."""
        if self.phase in ENDED and self.operator.app is self.wanted and self.rng.random() < 0.5:
            self.change(revision=f"good-{self.rng.random()}{self.rng.choice(['', '', '+'])}")
        if self.rng.random() < 0.1:
            self.rng.choice(self._troubles)()

    def _any_pod(self) -> Pod | None:
        return self.rng.choice(list(self.cluster.pods.values())) if self.cluster.pods else None

    def hit(self) -> None:
        if (pod := self._any_pod()) is not None:
            self.cluster.kill(pod)

    def delete(self) -> None:
        if (pod := self._any_pod()) is not None:
            self.cluster.delete_by_force(pod)

    def deafen(self) -> None:
        self.operator.failing = self.rng.choice([0.0, 0.2])

    def lose_node(self) -> None:
        if (pod := self._any_pod()) is not None:
            self.cluster.lose_node(pod, self.rng.uniform(5, 60))

    def _members(self, change: Callable[[str], None]) -> None:
        members = sorted(self.cluster.group.members)
        if members:
            change(self.rng.choice(members))

    def autoscale(self) -> None:
        """Every task has five records waiting, so this asks for one pod, or for many."""
        bounds = AutoscalingSpec(
            min_replicas=2, max_replicas=4, target_input_lag=self.rng.choice([1, 5, 1000]),
            scale_up_stabilization_seconds=2, scale_down_stabilization_seconds=5,
        )  # fmt: skip
        self.change(autoscaling=self.rng.choice([None, bounds]))

    def hold(self) -> None:
        self._members(lambda it: setattr(self.cluster.group.members[it], "held_back", True))

    def stick(self) -> None:
        self._members(lambda it: setattr(self.cluster.group.members[it], "stuck_observer", True))

    def pause(self) -> None:
        self._members(lambda it: setattr(self.cluster.group.members[it], "paused", True))

    def deceive(self) -> None:
        """The last that pods saw of their replicas was good, and is not true any more."""
        for member in self.cluster.group.members.values():
            member.held_back = member.stuck_observer = True

    def fall_behind(self) -> None:
        """A burst of records: no replica is close any more, which all pods see."""
        for member in self.cluster.group.members.values():
            member.held_back = True

    def jump(self) -> None:
        if (pod := self._any_pod()) is not None:
            self.cluster.jump(pod, self.rng.uniform(-8, 8))

    def lose_answers(self) -> None:
        self.cluster.loss, self.cluster.delay = self.rng.choice([(0.0, 0.0), (0.1, 0.2), (0.3, 0.5)])

    def change_revision(self) -> None:
        self.change(revision=self.rng.choice(REVISIONS))

    def scale(self) -> None:
        self.change(replicas=self.rng.choice([0, 2, 3, 3, 4, 5]))

    def spoil_spec(self) -> None:
        self.operator.app = InvalidSpec(
            "app", "ns", "uid", self.wanted.generation + 1, ("spec.replicas: must be a number",)
        )

    def forget(self) -> None:
        """The status is an older one, or gone."""
        self.operator.status = self.rng.choice([AppStatus(), *self.operator.written[-8:]])

    def drain(self) -> None:
        pod = self._any_pod()
        if pod is None or pod.terminating or not pod.ready:
            return
        try:
            self.cluster.evict(pod.name)
        except RefusedError:
            return
        well = self.operator.alive_since < self.cluster.now - 5 and not self.operator.failing
        if well and not self.operator.opens_for_itself:
            self.truth.was_drained(pod, grace=5)

    def make_deadly(self) -> None:
        self.operator.deadly = self.rng.choice([0.0, 0.05, 0.2])

    def relieve(self) -> None:
        for member in self.cluster.group.members.values():
            member.held_back = member.paused = member.stuck_observer = False

    def calm(self) -> None:
        self.relieve()
        self.cluster.group.worst_restore = 30.0
        self.cluster.loss = self.cluster.delay = 0.0
        self.operator.deadly = self.operator.failing = 0.0
        self.operator.app = self.wanted


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.seeds(3)
def test_whatever_happens_no_pod_is_taken_that_must_not_be_and_every_rollout_ends(seed: int, kind: str) -> None:
    world = World(seed, kind)
    world.run(30)
    world.run(FAULTS_SECONDS, world.trouble)
    world.calm()
    assert world.truth.violations == []
    world.change(replicas=3, autoscaling=None)
    assert world.run_until(lambda: world.phase in ENDED, CALM_SECONDS), world.operator.status.rollout
    world.change(revision=world.like_the_last_good(), replicas=world.replicas_until_checked())
    assert world.run_until(world.is_checked, CALM_SECONDS)
    world.change(replicas=3)
    assert world.run_until(world.is_complete, CALM_SECONDS), world.operator.status.rollout
    assert world.truth.violations == []


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("kind", ["standbys", "both"])
def test_a_revision_that_hangs_at_its_start_is_rolled_back_by_itself(replicas: int, kind: str) -> None:
    world = World(3, "snapshots" if replicas == 1 else kind)
    world.change(replicas=replicas)
    assert world.run_until(world.is_complete, 60)
    world.change(revision="hang-a")
    assert world.run_until(lambda: world.phase == "RolledBack", CALM_SECONDS), world.operator.status.rollout
    assert world.revisions() == {"good-first"}
    assert world.truth.violations == []


@pytest.mark.parametrize("after", [10, 40, 100])
def test_a_revision_that_hangs_at_its_start_is_mended_by_the_next_one(after: float) -> None:
    world = World(3, "standbys")
    assert world.run_until(world.is_complete, 60)
    world.change(revision="hang-a")
    world.run(after)
    world.change(revision="good-next")
    assert world.run_until(world.is_complete, CALM_SECONDS), world.operator.status.rollout
    assert world.revisions() == {"good-next"}
    assert world.truth.violations == []


def test_an_application_of_which_no_pod_ever_started_is_mended_by_the_next_revision() -> None:
    world = World(3, "standbys")
    world.change(revision="hang-a")
    world.run(60)
    assert {pod.process for pod in world.cluster.pods.values()} == {None}
    world.change(revision="good-next")
    assert world.run_until(world.is_complete, CALM_SECONDS), world.operator.status.rollout


@pytest.mark.parametrize("tells_ready", [True, False])
def test_pods_that_work_are_not_taken_while_their_nodes_are_not_seen(tells_ready: bool) -> None:
    world = World(4, "both")
    world.cluster.tells_ready = tells_ready
    assert world.run_until(world.is_complete, 60)
    for pod in list(world.cluster.pods.values())[:2]:
        world.cluster.lose_node(pod, 60)
    before = {pod.uid for pod in world.cluster.pods.values()}
    world.change(revision="good-next")
    world.run(50)
    assert {pod.uid for pod in world.cluster.pods.values()} == before
    assert world.run_until(world.is_complete, CALM_SECONDS)
    assert world.truth.violations == []


def test_a_pod_that_was_killed_keeps_its_warm_disk_while_it_comes_back() -> None:
    world = World(4, "both")
    assert world.run_until(world.is_complete, 60)
    killed = world.cluster.pods[1]
    world.cluster.kill(killed)
    world.change(revision="good-next")
    assert world.run_until(lambda: killed.answers, 60), "it comes back before it is taken"
    assert world.run_until(world.is_complete, CALM_SECONDS)
    assert world.truth.violations == []


def restarted_in(trouble: Callable[[World], None], seed: int) -> World:
    """All is well, then there is trouble that a rolling restart must wait for."""
    world = World(seed, "standbys")
    world.run(40)
    trouble(world)
    world.run(12)
    world.change(revision="good-next")
    world.run(60)
    return world


def pause_all(world: World) -> None:
    for member in world.cluster.group.members.values():
        member.paused = True


HIDDEN: dict[str, tuple[Callable[[World], None], str, Callable[..., object]]] = {
    "ages": (World.deceive, "observation_age", lambda *_: 0.0),
    "lags": (World.fall_behind, "known_lag", lambda _: 0),
    "pauses": (pause_all, "why_unfit", lambda *_: None),
}


@pytest.mark.parametrize("what", HIDDEN)
def test_the_observer_notices_a_gate_that_is_blind_to(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trouble, name, blind = HIDDEN[what]
    seeing = restarted_in(trouble, 1)
    assert (seeing.truth.taken, seeing.truth.violations) == (0, [])
    monkeypatch.setattr(takeover, name, blind)
    assert restarted_in(trouble, 1).truth.violations != []


def trace(seed: int) -> list[str]:
    world = World(seed, "both")
    world.run(60, world.trouble)
    return world.operator.trace


def test_a_run_is_determined_by_its_seed() -> None:
    assert trace(7) == trace(7)
    assert trace(7) != trace(8)
