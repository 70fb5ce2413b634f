"""Topologies that cannot work side by side never do, also when the spec changes before all pods have the new one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest
from msgspec import to_builtins
from msgspec.structs import replace as changed

from observed_builders import ROLLOUT, SHAPE, passed, wanted
from planned_reconciles import Reconciles, has, only, three
from restart_truth import RestartTruth
from simulated_cluster import SimulatedCluster, shape_of
from simulated_operator import SimulatedOperator
from streamsapp_operator.model.actions import ApplyChildren, DeleteCheck, Evict, StartCheck
from streamsapp_operator.model.desired_state import AnnotationRequests
from streamsapp_operator.model.observed_state import CheckSeen, CheckState, PodSeen, TopologyShape
from streamsapp_operator.model.resource_status import from_document, to_document
from streamsapp_operator.model.status import AppStatus
from streamsapp_operator.plan import ReconcilePlan
from streamsapp_operator.plan.topology_compatibility import conflicts, encode

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
    change(reconciles, revision, rollout=RECREATE, requests=AnnotationRequests(paused=True))
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
    """Remembers pods that were there and do not fit; like a real one, it takes replicas and template together."""

    mixed: frozenset[str] = frozenset()

    def apply(self, action: ApplyChildren) -> None:
        super().apply(action)
        self._makes = action.revision

    def _tick(self) -> None:
        super()._tick()
        there = {pod.revision for pod in self.pods.values()}
        if any(conflicts(shape_of(one), shape_of(other)) for one in there for other in there):
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
        names = ["good-first", "moved-a", "moved-b", "crash-a", "badcheck-a", f"good-{turn}", "left-a", "right-a"]
        revision = cluster.rng.choice([*names, f"left-{turn}", f"right-{turn}"])
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


#: Both fit revision one, and not each other: sub-topology 1 of the first is sub-topology 2 of the second.
FIRST = TopologyShape({0: ("in",), 1: ("more",)}, {0: {"counts": "key-value"}, 1: {"sums": "key-value"}})
SECOND = TopologyShape(
    {0: ("in",), 1: ("other",), 2: ("more",)}, {0: {"counts": "key-value"}, 1: {}, 2: {"sums": "key-value"}}
)
MIXED = ("one", "one", "two")


def between_two(**changes: Any) -> Reconciles:
    """A pod of the first is there when the spec asks for the second; another operator has seen what that is."""
    reconciles = Reconciles(wanted("two"))
    reconciles.plan(three())
    reconciles.plan(three(), checks=passed("two", FIRST))
    reconciles.plan(three(*MIXED), template_revision="two")
    change(reconciles, "three", **changes)
    reconciles.plan(three(*MIXED), template_revision="two")
    reconciles.status = from_document(to_document(reconciles.status))
    return reconciles


def see(reconciles: Reconciles, *revisions: str, template: str) -> ReconcilePlan:
    reconciles.status = from_document(to_document(reconciles.status))
    return reconciles.plan(three(*revisions), template_revision=template)


def test_a_revision_that_fits_the_last_good_one_and_not_the_pods_of_another_waits_until_they_have_gone_back() -> None:
    reconciles = between_two()
    assert reconciles.status.shapes == {"two": encode(FIRST)}, "the rollout tells of another one by now"
    planned = reconciles.plan(three(*MIXED), template_revision="two", checks=passed("three", SECOND))
    assert only(planned, ApplyChildren).revision == "one"
    assert not has(planned, Evict)
    planned = see(reconciles, *MIXED, template="one")
    assert only(planned, Evict).pod == "app-2", "of the revision in the way"
    assert reconciles.rollout.phase == "Rolling"
    (progressing,) = [it for it in reconciles.status.conditions if it.type == "Progressing"]
    assert progressing.status == "True"
    for named in ("revision two", "sub-topology 1 read more and would now read other", "store sums moved"):
        assert named in progressing.message
    # Its pod ends, and comes back with the last good one; only then the new one begins.
    ending = [*three()[:2], replace(three(*MIXED)[2], terminating=True)]
    assert only(reconciles.plan(ending, template_revision="one"), ApplyChildren).revision == "one"
    see(reconciles, template="one")
    assert only(see(reconciles, template="one"), ApplyChildren).revision == "three"
    assert has(see(reconciles, template="three"), Evict)
    assert reconciles.status.shapes == {}


def test_with_recreate_every_pod_ends_before_it_begins() -> None:
    reconciles = between_two(rollout=RECREATE)
    planned = reconciles.plan(three(*MIXED), template_revision="two", checks=passed("three", SECOND))
    assert applied(planned) == ("two", 0)
    assert "beside revision two, which has pods: sub-topology 1 read more" in (reconciles.rollout.message or "")
    assert applied(reconciles.plan(three(*MIXED)[2:], replicas=0, template_revision="two")) == ("two", 0)
    assert applied(reconciles.plan([], replicas=0, template_revision="two")) == ("three", 3)


def test_back_to_the_last_good_one_its_pods_need_not_end_first() -> None:
    reconciles = between_two()
    reconciles.plan(three(*MIXED), template_revision="two", checks=passed("three", SECOND))
    change(reconciles, "one")
    assert only(see(reconciles, *MIXED, template="two"), ApplyChildren).replicas == 3
    assert only(see(reconciles, *MIXED, template="one"), Evict).pod == "app-2"


def test_back_to_the_first_while_the_second_has_pods_waits_as_well() -> None:
    reconciles = Reconciles(wanted("three"))
    reconciles.plan(three())
    reconciles.plan(three(), checks=passed("three", SECOND))
    reconciles.plan(three("one", "one", "three"), template_revision="three")
    change(reconciles, "two")
    reconciles.plan(three("one", "one", "three"), template_revision="three")
    reconciles.plan(three("one", "one", "three"), template_revision="three", checks=passed("two", FIRST))
    planned = see(reconciles, "one", "one", "three", template="one")
    assert only(planned, ApplyChildren).revision == "one"
    assert only(planned, Evict).pod == "app-2"


def test_a_third_one_waits_for_every_other_that_has_pods() -> None:
    """The second fits the first, so both have pods; the third fits the first only."""
    more = TopologyShape({**FIRST.sources, 2: ("new",)}, {**FIRST.stores, 2: {"news": "key-value"}})
    other = TopologyShape({**FIRST.sources, 2: ("newer",)}, {**FIRST.stores, 2: {}})
    reconciles = Reconciles(wanted("two"))
    reconciles.plan(three())
    reconciles.plan(three(), checks=passed("two", FIRST))
    reconciles.plan(three(*MIXED), template_revision="two")
    three_there = ("one", "three", "two")
    change(reconciles, "three")
    reconciles.plan(three(*MIXED), template_revision="two")
    reconciles.plan(three(*MIXED), template_revision="two", checks=passed("three", more))
    assert has(see(reconciles, *MIXED, template="three"), Evict), "it fits both"
    change(reconciles, "four")
    see(reconciles, *three_there, template="three")
    assert reconciles.status.shapes.keys() == {"two", "three"}
    reconciles.plan(three(*three_there), template_revision="three", checks=passed("four", other))
    assert only(see(reconciles, *three_there, template="three"), ApplyChildren).revision == "one"
    assert "beside revision three" in (reconciles.rollout.message or "")
    assert "beside revision two" not in (reconciles.rollout.message or "")


def test_it_waits_in_a_pause_too_and_no_pod_comes_back_as_one_that_does_not_fit() -> None:
    reconciles = between_two(requests=AnnotationRequests(paused=True))
    planned = reconciles.plan(three(*MIXED), template_revision="two", checks=passed("three", SECOND))
    assert not has(planned, Evict)
    assert only(planned, ApplyChildren).revision == "one", "pods that come back by themselves fit all"
    assert reconciles.rollout.phase == "Paused"


@pytest.mark.parametrize(("worked", "phase"), [(True, "Refused"), (False, "Rolling")])
def test_before_there_is_a_good_one_pods_that_were_ready_are_not_ended_without_leave(worked: bool, phase: str) -> None:
    """Pods that never worked may go: no work depends on them."""
    reconciles = Reconciles(wanted("two"), status=AppStatus())
    reconciles.plan([])
    reconciles.plan([], checks=passed("two", FIRST))
    there = [replace(it, ready=False, was_ready=worked) for it in three("two", "two", "two")]
    reconciles.plan(there)
    assert reconciles.status.last_good_revision is None
    change(reconciles, "three")
    reconciles.plan(there)
    planned = reconciles.plan(there, checks=passed("three", SECOND))
    assert reconciles.rollout.phase == phase
    assert "beside revision two" in (reconciles.rollout.message or "")
    assert only(planned, ApplyChildren).replicas == (3 if worked else 0)


def test_beside_pods_of_which_nothing_is_known_nothing_is_begun() -> None:
    reconciles = between_two()
    reconciles.status = changed(reconciles.status, shapes={"two": {"sources": 7}})
    checks = passed("three", SECOND) | {"two": CheckSeen("two", CheckState.FAILED, ("its image is gone",))}
    reconciles.plan(three(*MIXED), template_revision="two", checks=checks)
    assert "the topology of two is not known" in (reconciles.rollout.message or "")
    assert only(see(reconciles, *MIXED, template="one"), Evict).pod == "app-2"


@pytest.mark.parametrize("good", ["one", None])
@pytest.mark.parametrize(("shape", "phase"), [(SHAPE, "Rolling"), (MOVED, "Refused")])
def test_a_topology_that_the_status_lost_is_loaded_before_another_revision_begins(
    good: str | None, shape: TopologyShape, phase: str
) -> None:
    """Of the last good revision, or of any whose pods have worked."""
    there = [replace(it, was_ready=True) for it in three()]
    reconciles = Reconciles(wanted("two"), status=AppStatus(last_good_revision=good))
    reconciles.plan(there)
    planned = reconciles.plan(there, checks=passed("two", shape))
    assert only(planned, StartCheck).revision == "one"
    assert not has(planned, DeleteCheck)
    assert "the topology of revision one, which has pods, is not known" in (reconciles.rollout.message or "")
    planned = reconciles.plan(there, checks=passed("two", shape) | passed("one", SHAPE))
    assert {it.revision for it in planned.actions if isinstance(it, DeleteCheck)} == {"one", "two"}
    assert reconciles.rollout.phase == phase
    see(reconciles, template="one")
    assert reconciles.rollout.phase == phase, "it is remembered"


@pytest.mark.parametrize("good", ["one", None])
def test_beside_pods_whose_topology_cannot_be_loaded_another_revision_is_refused(good: str | None) -> None:
    there = [replace(it, was_ready=True) for it in three()]
    reconciles = Reconciles(wanted("two"), status=AppStatus(last_good_revision=good))
    reconciles.plan(there)
    planned = reconciles.plan(there, checks=passed("two", SHAPE), after=301)
    assert reconciles.rollout.phase == "Refused"
    assert "the topology of one is not known" in (reconciles.rollout.failure or "")
    assert "topologyChange: Recreate" in (reconciles.rollout.failure or "")
    assert not has(planned, Evict)
    change(reconciles, "two", rollout=RECREATE)
    assert applied(see(reconciles, template="one")) == ("one", 0)
    assert applied(reconciles.plan([], replicas=0, template_revision="one")) == ("two", 3)


def test_what_an_older_operator_remembered_of_revisions_in_the_way_is_read() -> None:
    """It kept no topologies, but the reasons."""
    reconciles = recreating()
    rollout = changed(reconciles.rollout, revision="three", shape=None, checked=False, phase="Checking")
    kept = {**(encode(SHAPE) or {}), "apart": {"two": ["store counts moved"]}}
    document = to_builtins(changed(reconciles.status, shape=kept, shapes={}, rollout=rollout))
    del document["shapes"], document["trial"]
    reconciles.status = from_document(document)
    change(reconciles, "one")
    assert applied(reconciles.plan(two(), **TWO)) == ("two", 0)
    assert "store counts moved" in (reconciles.rollout.message or "")
    assert applied(reconciles.plan(two()[:1], replicas=0, template_revision="two")) == ("two", 0)
    assert applied(reconciles.plan([], replicas=0, template_revision="two")) == ("one", 3)
    reconciles.plan(three())
    assert reconciles.rollout.phase == "Complete"
