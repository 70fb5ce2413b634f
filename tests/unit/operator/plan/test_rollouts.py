from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from observed_builders import ROLLOUT, active, broken, passed, pod, report, standby, wanted, words
from planned_reconciles import Reconciles, has, only, three, told
from streamsapp.manifest.model import RolloutSpec
from streamsapp_operator.model.actions import (
    ApplyChildren,
    DeleteCheck,
    DeleteRevisions,
    Evict,
    PostEvent,
    SetBudget,
    StartCheck,
)
from streamsapp_operator.model.desired_state import InvalidSpec
from streamsapp_operator.model.observed_state import CheckSeen, CheckState, PodSeen, TopologyShape
from streamsapp_operator.model.status import AppStatus
from streamsapp_operator.plan import ReconcilePlan

MOVED = TopologyShape(sources={0: ("other",)}, stores={0: {"counts": "key-value"}})


def rolling(**changes: Any) -> Reconciles:
    """A new revision that passed its check; the template has it already, in what is seen next."""
    reconciles = Reconciles(wanted("two", **changes))
    reconciles.plan(three())
    reconciles.plan(three(), checks=passed("two"))
    return reconciles


def behind() -> list[PodSeen]:
    """The first pod's standby is too far behind."""
    last = three()[2]
    return [*three()[:2], replace(last, report=report(active("0_2"), standby("0_0", lag=5000)))]


def test_nothing_is_made_before_the_first_check_has_passed() -> None:
    reconciles = Reconciles(wanted("one"), AppStatus())
    planned = reconciles.plan([], replicas=None, max_unavailable=None)
    assert [type(it) for it in planned.actions] == [StartCheck, PostEvent]
    assert reconciles.status.phase == "Checking topology"
    planned = reconciles.plan([], replicas=None, max_unavailable=None, checks=passed("one"))
    assert only(planned, ApplyChildren).revision == "one"
    assert only(planned, DeleteCheck) == DeleteCheck("one")


def test_a_check_that_failed_leaves_everything_as_it_is_and_says_why() -> None:
    reconciles = Reconciles(wanted("two"))
    reconciles.plan(three())
    fault = "spec.topology.entrypoint: no module named orders"
    planned = reconciles.plan(three(), checks={"two": CheckSeen("two", CheckState.FAILED, (fault,))})
    assert only(planned, ApplyChildren).revision == "one"
    assert (reconciles.rollout.phase, reconciles.rollout.failure, reconciles.status.failed_revision) == (
        "Refused",
        fault,
        "two",
    )
    assert told(planned) == ["CheckFailed"]
    assert [it.message for it in reconciles.status.conditions if it.type == "Degraded"] == [fault]
    assert told(reconciles.plan(three())) == []
    assert not has(reconciles.plan(three()), StartCheck)


def test_a_check_that_does_not_end_is_given_up() -> None:
    reconciles = Reconciles(wanted("two"))
    reconciles.plan(three())
    reconciles.plan(three(), checks={"two": CheckSeen("two", CheckState.RUNNING)}, after=301)
    assert reconciles.rollout.phase == "Refused"
    assert "progressDeadlineSeconds" in (reconciles.rollout.failure or "")


def test_the_check_of_a_revision_that_is_not_wanted_any_more_is_dropped() -> None:
    reconciles = Reconciles(wanted("two"))
    planned = reconciles.plan(three(), checks=passed("older"))
    assert DeleteCheck("older") in planned.actions
    assert StartCheck("two") in planned.actions


def test_no_pod_is_evicted_before_the_template_has_the_new_revision() -> None:
    reconciles = rolling()
    assert only(reconciles.plan(three()), ApplyChildren).revision == "two"
    assert not has(reconciles.plan(three()), Evict)
    assert has(reconciles.plan(three(), template_revision="two"), Evict)


def test_the_status_names_the_pod_that_is_evicted() -> None:
    reconciles = rolling()
    evict = only(reconciles.plan(three(), template_revision="two"), Evict)
    assert (reconciles.rollout.current, reconciles.rollout.current_uid) == (evict.pod, evict.uid)
    assert evict.until is not None
    assert reconciles.now < evict.until <= reconciles.now + ROLLOUT.max_observation_age_seconds


def test_the_cheapest_pod_is_first() -> None:
    reconciles = rolling()
    followed = [standby(f"0_{it}") for it in range(3)]
    seen = [pod(0, active("0_0"), followed[1]), pod(1, *followed), pod(2, active("0_1"), active("0_2"), followed[0])]
    assert only(reconciles.plan(seen, template_revision="two"), Evict).pod == "app-1"


def test_an_eviction_that_was_not_admitted_is_tried_again_while_it_is_safe() -> None:
    reconciles = rolling()
    first = only(reconciles.plan(three(), template_revision="two"), Evict)
    again = reconciles.plan(three(), template_revision="two")
    assert only(again, Evict).uid == first.uid
    assert told(again) == []


def test_an_eviction_is_withdrawn_when_it_is_not_safe_any_more() -> None:
    reconciles = rolling()
    reconciles.plan(three(), template_revision="two")
    unsafe = behind()
    planned = reconciles.plan(unsafe, template_revision="two")
    assert not has(planned, Evict)
    assert only(planned, SetBudget) == SetBudget(0)
    assert reconciles.rollout.current is None


def replaced(seen: list[PodSeen], name: str, **changes: object) -> list[PodSeen]:
    return [replace(it, **changes) if it.name == name else it for it in seen]  # type: ignore[arg-type]


def test_the_next_pod_waits_until_the_last_one_is_ready_and_all_is_safe() -> None:
    reconciles = rolling()
    evict = only(reconciles.plan(three(), template_revision="two"), Evict)
    ending = replaced(three(), evict.pod, terminating=True)
    assert not has(reconciles.plan(ending, template_revision="two"), Evict)
    gone = [it for it in three() if it.name != evict.pod]
    assert not has(reconciles.plan(gone, template_revision="two", replicas=3), Evict)
    coming = replaced(three(), evict.pod, uid="new", revision="two", ready=False)
    assert not has(reconciles.plan(coming, template_revision="two"), Evict)
    assert reconciles.rollout.current == evict.pod
    back = replaced(three(), evict.pod, uid="new", revision="two")
    assert told(reconciles.plan(back, template_revision="two")) == ["PodRestarted"]
    assert reconciles.rollout.observed_seconds is not None
    assert only(reconciles.plan(back, template_revision="two"), Evict).pod != evict.pod


def test_all_pods_of_the_new_revision_and_ready_is_complete_and_good() -> None:
    reconciles = rolling()
    planned = reconciles.plan(three("two", "two", "two"))
    assert reconciles.rollout.phase == "Complete"
    assert reconciles.status.last_good_revision == "two"
    assert "RolloutComplete" in told(planned)
    assert told(reconciles.plan(three("two", "two", "two"))) == []


def test_a_restart_that_is_blocked_says_so_goes_on_by_itself_and_tells_each_once() -> None:
    reconciles = rolling()
    unsafe = behind()
    assert not has(reconciles.plan(unsafe, template_revision="two"), Evict)
    planned = reconciles.plan(unsafe, template_revision="two", after=11)
    assert (reconciles.rollout.phase, told(planned)) == ("Blocked", ["RolloutBlocked"])
    assert words(reconciles.status) == ["StandbyBehind"]
    assert "app-0 0_0 counts" in (reconciles.rollout.message or "")
    assert told(reconciles.plan(unsafe, template_revision="two")) == []
    assert has(reconciles.plan(three(), template_revision="two"), Evict)


def test_a_restart_that_is_blocked_for_too_long_ends_and_waits_for_a_change() -> None:
    reconciles = rolling()
    unsafe = behind()
    reconciles.plan(unsafe, template_revision="two")
    planned = reconciles.plan(unsafe, template_revision="two", after=601)
    assert (reconciles.rollout.phase, told(planned)) == ("TimedOut", ["RolloutTimedOut"])
    assert not has(reconciles.plan(three(), template_revision="two"), Evict)
    reconciles.app = wanted("three", generation=3)
    reconciles.plan(three(), template_revision="two")
    reconciles.plan(three(), template_revision="two", checks=passed("three"))
    assert has(reconciles.plan(three(), template_revision="three"), Evict)


def phase(reconciles: Reconciles) -> str:
    return reconciles.rollout.phase


def failing(reconciles: Reconciles, reason: str, **changes: object) -> ReconcilePlan:
    """The first pod of the new revision does not come up; the step began when it was evicted."""
    evict = only(reconciles.plan(three(), template_revision="two"), Evict)
    bad = broken(int(evict.pod[-1]), reason, created_at=reconciles.now)
    seen = [replace(bad, **changes) if it.name == evict.pod else it for it in three()]  # type: ignore[arg-type]
    reconciles.plan(seen, template_revision="two")
    return reconciles.plan(seen, template_revision="two", after=31)


@pytest.mark.parametrize(
    ("reason", "changes"),
    [("ImagePullBackOff", {}), ("CreateContainerConfigError", {}), ("CrashLoopBackOff", {"restarts": 3})],
)
def test_a_revision_whose_pod_cannot_run_is_rolled_back(reason: str, changes: dict[str, object]) -> None:
    reconciles = rolling()
    planned = failing(reconciles, reason, **changes)
    assert phase(reconciles) == "RollingBack"
    assert only(planned, ApplyChildren).revision == "one"
    assert reconciles.status.failed_revision == "two"
    seen = [broken(2, reason) if it.ordinal == 2 else it for it in three()]
    planned = reconciles.plan(seen, template_revision="one")
    evict = only(planned, Evict)
    assert (evict.pod, evict.unready) == ("app-2", True)
    assert only(planned, ApplyChildren).max_unavailable == 0, "it goes by a rule of its own, and no healthy one may"
    assert "RolledBack" in told(reconciles.plan(three()))
    assert phase(reconciles) == "RolledBack"
    degraded = next(it for it in reconciles.status.conditions if it.type == "Degraded")
    assert (degraded.status, degraded.reason) == ("True", "RolledBack")
    assert reason in degraded.message
    assert not has(reconciles.plan(three()), Evict)


def test_a_revision_is_given_time_to_become_ready() -> None:
    reconciles = rolling()
    failing(reconciles, "ContainerCreating")
    assert reconciles.rollout.phase == "Rolling"


def test_a_pod_that_is_not_ready_in_time_is_rolled_back() -> None:
    reconciles = rolling()
    evict = only(reconciles.plan(three(), template_revision="two"), Evict)
    slow = replaced(three(), evict.pod, uid="new", revision="two", ready=False, created_at=reconciles.now)
    reconciles.plan(slow, template_revision="two")
    reconciles.plan(slow, template_revision="two", after=301)
    assert reconciles.rollout.phase == "RollingBack"
    assert "progressDeadlineSeconds" in (reconciles.rollout.failure or "")


def test_an_operator_that_forgot_its_status_takes_no_second_pod() -> None:
    reconciles = rolling()
    evict = only(reconciles.plan(three(), template_revision="two"), Evict)
    forgotten = Reconciles(reconciles.app, AppStatus(), reconciles.now)
    coming = replaced(three(), evict.pod, uid="new", revision="two", ready=False)
    for checks in ({}, passed("two"), passed("two") | passed("one"), {}, {}):
        planned = forgotten.plan(coming, template_revision="two", checks=checks)
        assert not has(planned, Evict)
    assert forgotten.rollout.current == evict.pod


def test_a_topology_that_cannot_work_beside_the_old_one_is_refused_until_it_may_be_recreated() -> None:
    reconciles = Reconciles(wanted("two"))
    reconciles.plan(three())
    planned = reconciles.plan(three(), checks=passed("two", MOVED))
    assert (reconciles.rollout.phase, told(planned)) == ("Refused", ["TopologyRefused"])
    assert "topologyChange: Recreate" in (reconciles.rollout.failure or "")
    assert only(planned, ApplyChildren).revision == "one"
    reconciles.app = wanted("two", rollout=RolloutSpec(topology_change="Recreate"), generation=3)
    stopping = only(reconciles.plan(three()), ApplyChildren)
    assert (stopping.revision, stopping.replicas) == ("one", 0)
    started = only(reconciles.plan([], replicas=0, template_revision="one"), ApplyChildren)
    assert (started.revision, started.replicas) == ("two", 3)


def test_an_invalid_spec_leaves_the_rollout_going_and_the_budget_kept() -> None:
    reconciles = rolling()
    reconciles.app = InvalidSpec("app", "ns", "uid", 5, ("spec.replicas: must be a number",))
    planned = reconciles.plan(three(), template_revision="two")
    assert has(planned, Evict)
    assert "InvalidSpec" in told(planned)
    assert reconciles.status.observed_generation == 5
    unsafe = behind()
    assert only(reconciles.plan(unsafe, template_revision="two"), SetBudget) == SetBudget(0)
    assert "InvalidSpec" not in told(reconciles.plan(unsafe, template_revision="two"))


def test_a_spec_that_was_never_valid_makes_nothing() -> None:
    reconciles = Reconciles(InvalidSpec("app", "ns", "uid", 1, ("spec.kafka: missing",)), AppStatus())
    planned = reconciles.plan([], replicas=None, template_revision=None, max_unavailable=None)
    assert [type(it) for it in planned.actions] == [PostEvent]
    assert reconciles.status.phase == "Invalid spec"


def test_configurations_that_nothing_refers_to_are_dropped() -> None:
    reconciles = Reconciles(wanted("one"))
    planned = reconciles.plan(three("one", "one", "zero"), revisions=frozenset({"zero", "one", "older"}))
    assert only(planned, DeleteRevisions).keep == frozenset({"zero", "one"})
    assert not has(reconciles.plan(three(), revisions=frozenset({"one"})), DeleteRevisions)


def test_the_last_good_revision_needs_no_check() -> None:
    reconciles = rolling()
    reconciles.app = wanted("one", generation=3)
    planned = reconciles.plan(three("two", "one", "one"), template_revision="two")
    assert not has(planned, StartCheck)
    assert only(planned, ApplyChildren).revision == "one"
    assert only(reconciles.plan(three("two", "one", "one"), template_revision="one"), Evict).uid == "two-0"


def test_no_deadline_runs_for_a_pod_that_cannot_be_made_and_its_message_says_where_to_look() -> None:
    reconciles = rolling()
    evicted = only(reconciles.plan(three(), template_revision="two"), Evict).pod
    left = [it for it in three() if it.name != evicted]
    for _ in range(10):
        reconciles.plan(left, replicas=3, template_revision="two", after=50)
    assert phase(reconciles) == "Blocked"
    assert f"pod {evicted} does not exist yet: a quota" in (reconciles.rollout.message or "")
    late = replace(
        next(it for it in three() if it.name == evicted),
        uid="anew", revision="two", ready=False, report=None, created_at=reconciles.now,
    )  # fmt: skip
    reconciles.plan(sorted([*left, late], key=lambda it: it.ordinal), template_revision="two", after=5)
    assert phase(reconciles) == "Rolling", "its deadline begins when it is made"
