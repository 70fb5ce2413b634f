"""Topologies that cannot work side by side never do, also when the spec changes before all pods have the new one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest
from msgspec.structs import replace as changed

from observed_builders import ROLLOUT, SHAPE, passed, wanted
from planned_reconciles import Reconciles, has, only, three
from restart_truth import RestartTruth
from simulated_cluster import SimulatedCluster
from simulated_operator import SimulatedOperator
from streamsapp_operator.model.actions import ApplyChildren, Evict
from streamsapp_operator.model.desired_state import AnnotationRequests
from streamsapp_operator.model.observed_state import CheckSeen, CheckState, PodSeen, TopologyShape
from streamsapp_operator.model.status import from_document, to_document
from streamsapp_operator.plan import ReconcilePlan
from streamsapp_operator.plan.topology_compatibility import encode

MOVED = TopologyShape(sources={0: ("other",)}, stores={0: {"counts": "key-value"}})
RECREATE = changed(ROLLOUT, topology_change="Recreate")
TWO: dict[str, Any] = {"template_revision": "two", "replicas": 3}


def recreating() -> Reconciles:
    """Every pod of revision one has ended, and pods of two are being made."""
    reconciles = Reconciles(wanted("two", rollout=RECREATE))
    reconciles.plan(three())
    reconciles.plan(three(), checks=passed("two", MOVED))
    assert applied(reconciles.plan([], replicas=0, template_revision="one")) == ("two", 3)
    reconciles.plan(two(), **TWO)
    return reconciles


def two() -> list[PodSeen]:
    """The last one is not made yet."""
    return three("two", "two", "two")[:2]


def change(reconciles: Reconciles, revision: str, **changes: Any) -> None:
    """The spec changes, and another operator reads what the one before has written."""
    reconciles.app = wanted(revision, generation=3, **changes)
    reconciles.status = from_document(to_document(reconciles.status))


def applied(planned: ReconcilePlan) -> tuple[str, int]:
    assert not has(planned, Evict)
    action = only(planned, ApplyChildren)
    return action.revision, action.replicas


@pytest.mark.parametrize("topology_change", ["Recreate", "Refuse"])
def test_on_the_way_back_every_pod_ends_before_the_first_starts(topology_change: Literal["Recreate", "Refuse"]) -> None:
    reconciles = recreating()
    change(reconciles, "one", rollout=changed(ROLLOUT, topology_change=topology_change))

    assert applied(reconciles.plan(two(), **TWO)) == ("two", 0)
    assert "every pod ends before the first of the other topology starts" in (reconciles.rollout.message or "")
    ending = [replace(it, terminating=True) for it in two()[:1]]
    assert applied(reconciles.plan(ending, replicas=0, template_revision="two")) == ("two", 0)
    assert applied(reconciles.plan([], replicas=0, template_revision="two")) == ("one", 3)
    assert applied(reconciles.plan(three(), replicas=3)) == ("one", 3)
    assert (reconciles.rollout.phase, reconciles.status.last_good_revision) == ("Complete", "one")
    assert reconciles.status.shape == encode(SHAPE), "nothing is left to be remembered"


def test_pods_that_the_statefulset_may_just_make_count_as_pods() -> None:
    reconciles = recreating()
    change(reconciles, "one")
    assert applied(reconciles.plan([], **TWO)) == ("two", 0)
    assert applied(reconciles.plan([], replicas=0, template_revision="two", template_seen=False)) == ("two", 0)
    assert applied(reconciles.plan([], replicas=0, template_revision="two")) == ("one", 3)


def test_pods_of_the_good_revision_that_are_left_are_joined_by_others_at_once() -> None:
    reconciles = Reconciles(wanted("two", rollout=RECREATE))
    reconciles.plan(three())
    assert applied(reconciles.plan(three(), checks=passed("two", MOVED))) == ("one", 0)
    change(reconciles, "one")
    ending = [replace(it, terminating=True) for it in three()[:2]]
    assert applied(reconciles.plan(ending, replicas=0, template_revision="one")) == ("one", 3)


def test_a_revision_that_is_not_allowed_any_more_ends_before_the_last_good_one_starts() -> None:
    reconciles = recreating()
    change(reconciles, "two")
    assert applied(reconciles.plan(two(), **TWO)) == ("two", 0)
    assert reconciles.rollout.phase == "Refused"
    assert applied(reconciles.plan([], replicas=0, template_revision="two")) == ("one", 3)


@pytest.mark.parametrize(
    ("seen", "leads_to"),
    [
        (CheckSeen("three", CheckState.PASSED, shape=SHAPE), "three"),
        (CheckSeen("three", CheckState.FAILED, faults=("a typo",)), "one"),
        (CheckSeen("three", CheckState.PASSED, shape=MOVED), "one"),
    ],
)
def test_a_third_revision_or_the_way_back_from_it_waits_for_the_pods_before(seen: CheckSeen, leads_to: str) -> None:
    reconciles = recreating()
    change(reconciles, "three")
    assert applied(reconciles.plan(two(), **TWO)) == ("two", 3), "they go on while it is checked"
    change(reconciles, "three")
    assert applied(reconciles.plan(two(), checks={"three": seen}, **TWO)) == ("two", 0)
    assert applied(reconciles.plan(two()[:1], replicas=0, template_revision="two")) == ("two", 0)
    assert applied(reconciles.plan([], replicas=0, template_revision="two")) == (leads_to, 3)


@pytest.mark.parametrize(("revision", "shape"), [("one", None), ("three", SHAPE), ("three", MOVED)])
def test_while_the_user_holds_it_pods_come_back_as_they_were(revision: str, shape: TopologyShape | None) -> None:
    reconciles = recreating()
    change(reconciles, revision, rollout=RECREATE, orders=AnnotationRequests(paused=True))
    reconciles.plan(two(), **TWO)
    assert applied(reconciles.plan(two(), checks=passed(revision, shape), **TWO)) == ("two", 3)
    assert reconciles.rollout.phase == "Paused"


def test_a_revision_that_became_good_is_no_stranger_to_the_next() -> None:
    reconciles = recreating()
    reconciles.plan(three("two", "two", "two"))
    assert (reconciles.status.last_good_revision, reconciles.status.shape) == ("two", encode(MOVED))
    change(reconciles, "three")
    reconciles.plan(three("two", "two", "two"))
    assert applied(reconciles.plan(three("two", "two", "two"), checks=passed("three", MOVED))) == ("three", 3)


def test_what_cannot_be_read_of_the_status_is_not_known() -> None:
    reconciles = recreating()
    reconciles.status = changed(reconciles.status, shape={**(encode(SHAPE) or {}), "apart": 7})
    change(reconciles, "one")
    assert applied(reconciles.plan(two(), **TWO)) == ("two", 0), "the rollout before tells it yet"


class MixedCluster(SimulatedCluster):
    """Remembers when pods of both topologies were there; like a real one, it takes replicas and template together."""

    mixed: frozenset[str] = frozenset()

    def apply(self, action: ApplyChildren) -> None:
        super().apply(action)
        self._makes = action.revision

    def _tick(self) -> None:
        super()._tick()
        there = {pod.revision for pod in self.pods.values()}
        if len({it.startswith("moved") for it in there}) > 1:
            self.mixed = frozenset(there)


@pytest.mark.seeds(6)
def test_whenever_the_spec_changes_pods_of_both_topologies_are_never_there_at_a_time(seed: int) -> None:
    cluster = MixedCluster(seed)
    rollout = changed(RECREATE, soak_seconds=2, timeout_seconds=150, progress_deadline_seconds=60)
    app = wanted("good-first", rollout=rollout)
    truth = RestartTruth(cluster, rollout.max_standby_lag, rollout.max_observation_age_seconds, 60)
    operator = SimulatedOperator(cluster, app, truth)

    def run_for(seconds: float) -> None:
        end = cluster.now + seconds
        while cluster.now < end:
            operator.reconcile()

    run_for(40)
    for turn in range(25):
        revision = cluster.rng.choice(["good-first", "moved-a", "moved-b", "crash-a", "badcheck-a", f"good-{turn}"])
        strategy = changed(rollout, topology_change=cluster.rng.choice(["Recreate", "Recreate", "Refuse"]))
        operator.app = app = replace(app, revision=revision, rollout=strategy, generation=turn + 2)
        run_for(cluster.rng.choice([2, 5, 10, 15, 25]))
        assert not cluster.mixed, (turn, revision)
    operator.app = replace(app, revision="moved-last", rollout=rollout, generation=99)
    run_for(200)
    assert {pod.revision for pod in cluster.pods.values()} == {"moved-last"}
    assert operator.status.rollout is not None
    assert operator.status.rollout.phase == "Complete"
    assert not cluster.mixed
