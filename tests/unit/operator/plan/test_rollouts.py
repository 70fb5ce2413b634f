from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from observed_builders import ROLLOUT, active, broken, passed, pod, report, standby, wanted, words
from planned_reconciles import Looks, has, only, three, told
from streamsapp.manifest.model import RolloutSpec
from streamsapp_operator.model.actions import (
    ApplyChildren,
    DropCheck,
    DropRevisions,
    Evict,
    SetBudget,
    StartCheck,
    Tell,
)
from streamsapp_operator.model.desired_state import InvalidSpec
from streamsapp_operator.model.observed_state import CheckSeen, CheckState, PodSeen, TopologyShape
from streamsapp_operator.model.status import AppStatus
from streamsapp_operator.plan import ReconcilePlan

MOVED = TopologyShape(sources={0: ("other",)}, stores={0: {"counts": "key-value"}})


def rolling(**changes: Any) -> Looks:
    """A new revision that passed its check; the template has it already, in what is seen next."""
    looks = Looks(wanted("two", **changes))
    looks.look(three())
    looks.look(three(), checks=passed("two"))
    return looks


def behind() -> list[PodSeen]:
    """The first pod's standby is too far behind."""
    last = three()[2]
    return [*three()[:2], replace(last, report=report(active("0_2"), standby("0_0", lag=5000)))]


def test_nothing_is_made_before_the_first_check_has_passed() -> None:
    looks = Looks(wanted("one"), AppStatus())
    planned = looks.look([], replicas=None, max_unavailable=None)
    assert [type(it) for it in planned.actions] == [StartCheck, Tell]
    assert looks.status.phase == "Checking topology"
    planned = looks.look([], replicas=None, max_unavailable=None, checks=passed("one"))
    assert only(planned, ApplyChildren).revision == "one"
    assert only(planned, DropCheck) == DropCheck("one")


def test_a_check_that_failed_leaves_everything_as_it_is_and_says_why() -> None:
    looks = Looks(wanted("two"))
    looks.look(three())
    fault = "spec.topology.entrypoint: no module named orders"
    planned = looks.look(three(), checks={"two": CheckSeen("two", CheckState.FAILED, (fault,))})
    assert only(planned, ApplyChildren).revision == "one"
    assert (looks.rollout.phase, looks.rollout.failure, looks.status.failed_revision) == ("Refused", fault, "two")
    assert told(planned) == ["CheckFailed"]
    assert [it.message for it in looks.status.conditions if it.type == "Degraded"] == [fault]
    assert told(looks.look(three())) == []
    assert not has(looks.look(three()), StartCheck)


def test_a_check_that_does_not_end_is_given_up() -> None:
    looks = Looks(wanted("two"))
    looks.look(three())
    looks.look(three(), checks={"two": CheckSeen("two", CheckState.RUNNING)}, after=301)
    assert looks.rollout.phase == "Refused"
    assert "progressDeadlineSeconds" in (looks.rollout.failure or "")


def test_the_check_of_a_revision_that_is_not_wanted_any_more_is_dropped() -> None:
    looks = Looks(wanted("two"))
    planned = looks.look(three(), checks=passed("older"))
    assert DropCheck("older") in planned.actions
    assert StartCheck("two") in planned.actions


def test_no_pod_is_evicted_before_the_template_has_the_new_revision() -> None:
    looks = rolling()
    assert only(looks.look(three()), ApplyChildren).revision == "two"
    assert not has(looks.look(three()), Evict)
    assert has(looks.look(three(), template_revision="two"), Evict)


def test_the_status_names_the_pod_that_is_evicted() -> None:
    looks = rolling()
    evict = only(looks.look(three(), template_revision="two"), Evict)
    assert (looks.rollout.current, looks.rollout.current_uid) == (evict.pod, evict.uid)
    assert evict.until is not None
    assert looks.now < evict.until <= looks.now + ROLLOUT.max_observation_age_seconds


def test_the_cheapest_pod_is_first() -> None:
    looks = rolling()
    followed = [standby(f"0_{it}") for it in range(3)]
    seen = [pod(0, active("0_0"), followed[1]), pod(1, *followed), pod(2, active("0_1"), active("0_2"), followed[0])]
    assert only(looks.look(seen, template_revision="two"), Evict).pod == "app-1"


def test_an_eviction_that_was_not_admitted_is_tried_again_while_it_is_safe() -> None:
    looks = rolling()
    first = only(looks.look(three(), template_revision="two"), Evict)
    again = looks.look(three(), template_revision="two")
    assert only(again, Evict).uid == first.uid
    assert told(again) == []


def test_an_eviction_is_withdrawn_when_it_is_not_safe_any_more() -> None:
    looks = rolling()
    looks.look(three(), template_revision="two")
    unsafe = behind()
    planned = looks.look(unsafe, template_revision="two")
    assert not has(planned, Evict)
    assert only(planned, SetBudget) == SetBudget(0)
    assert looks.rollout.current is None


def replaced(seen: list[PodSeen], name: str, **changes: object) -> list[PodSeen]:
    return [replace(it, **changes) if it.name == name else it for it in seen]  # type: ignore[arg-type]


def test_the_next_pod_waits_until_the_last_one_is_ready_and_all_is_safe() -> None:
    looks = rolling()
    evict = only(looks.look(three(), template_revision="two"), Evict)
    ending = replaced(three(), evict.pod, terminating=True)
    assert not has(looks.look(ending, template_revision="two"), Evict)
    gone = [it for it in three() if it.name != evict.pod]
    assert not has(looks.look(gone, template_revision="two", replicas=3), Evict)
    coming = replaced(three(), evict.pod, uid="new", revision="two", ready=False)
    assert not has(looks.look(coming, template_revision="two"), Evict)
    assert looks.rollout.current == evict.pod
    back = replaced(three(), evict.pod, uid="new", revision="two")
    assert told(looks.look(back, template_revision="two")) == ["PodRestarted"]
    assert looks.rollout.observed_seconds is not None
    assert only(looks.look(back, template_revision="two"), Evict).pod != evict.pod


def test_all_pods_of_the_new_revision_and_ready_is_complete_and_good() -> None:
    looks = rolling()
    planned = looks.look(three("two", "two", "two"))
    assert looks.rollout.phase == "Complete"
    assert looks.status.last_good_revision == "two"
    assert "RolloutComplete" in told(planned)
    assert told(looks.look(three("two", "two", "two"))) == []


def test_a_restart_that_is_blocked_says_so_goes_on_by_itself_and_tells_each_once() -> None:
    looks = rolling()
    unsafe = behind()
    assert not has(looks.look(unsafe, template_revision="two"), Evict)
    planned = looks.look(unsafe, template_revision="two", after=11)
    assert (looks.rollout.phase, told(planned)) == ("Blocked", ["RolloutBlocked"])
    assert words(looks.status) == ["StandbyBehind"]
    assert "app-0 0_0 counts" in (looks.rollout.message or "")
    assert told(looks.look(unsafe, template_revision="two")) == []
    assert has(looks.look(three(), template_revision="two"), Evict)


def test_a_restart_that_is_blocked_for_too_long_ends_and_waits_for_a_change() -> None:
    looks = rolling()
    unsafe = behind()
    looks.look(unsafe, template_revision="two")
    planned = looks.look(unsafe, template_revision="two", after=601)
    assert (looks.rollout.phase, told(planned)) == ("TimedOut", ["RolloutTimedOut"])
    assert not has(looks.look(three(), template_revision="two"), Evict)
    looks.app = wanted("three", generation=3)
    looks.look(three(), template_revision="two")
    looks.look(three(), template_revision="two", checks=passed("three"))
    assert has(looks.look(three(), template_revision="three"), Evict)


def phase(looks: Looks) -> str:
    return looks.rollout.phase


def failing(looks: Looks, reason: str, **changes: object) -> ReconcilePlan:
    """The first pod of the new revision does not come up; the step began when it was evicted."""
    evict = only(looks.look(three(), template_revision="two"), Evict)
    bad = broken(int(evict.pod[-1]), reason, created_at=looks.now)
    seen = [replace(bad, **changes) if it.name == evict.pod else it for it in three()]  # type: ignore[arg-type]
    looks.look(seen, template_revision="two")
    return looks.look(seen, template_revision="two", after=31)


@pytest.mark.parametrize(
    ("reason", "changes"),
    [("ImagePullBackOff", {}), ("CreateContainerConfigError", {}), ("CrashLoopBackOff", {"restarts": 3})],
)
def test_a_revision_whose_pod_cannot_run_is_rolled_back(reason: str, changes: dict[str, object]) -> None:
    looks = rolling()
    planned = failing(looks, reason, **changes)
    assert phase(looks) == "RollingBack"
    assert only(planned, ApplyChildren).revision == "one"
    assert looks.status.failed_revision == "two"
    seen = [broken(2, reason) if it.ordinal == 2 else it for it in three()]
    planned = looks.look(seen, template_revision="one")
    assert only(planned, Evict).pod == "app-2"
    assert only(planned, ApplyChildren).max_unavailable == 1
    assert "RolledBack" in told(looks.look(three()))
    assert phase(looks) == "RolledBack"
    degraded = next(it for it in looks.status.conditions if it.type == "Degraded")
    assert (degraded.status, degraded.reason) == ("True", "RolledBack")
    assert reason in degraded.message
    assert not has(looks.look(three()), Evict)


def test_a_revision_is_given_time_to_become_ready() -> None:
    looks = rolling()
    failing(looks, "ContainerCreating")
    assert looks.rollout.phase == "Rolling"


def test_a_pod_that_is_not_ready_in_time_is_rolled_back() -> None:
    looks = rolling()
    evict = only(looks.look(three(), template_revision="two"), Evict)
    slow = replaced(three(), evict.pod, uid="new", revision="two", ready=False, created_at=looks.now)
    looks.look(slow, template_revision="two")
    looks.look(slow, template_revision="two", after=301)
    assert looks.rollout.phase == "RollingBack"
    assert "progressDeadlineSeconds" in (looks.rollout.failure or "")


def test_an_operator_that_forgot_its_status_takes_no_second_pod() -> None:
    looks = rolling()
    evict = only(looks.look(three(), template_revision="two"), Evict)
    forgotten = Looks(looks.app, AppStatus(), looks.now)
    coming = replaced(three(), evict.pod, uid="new", revision="two", ready=False)
    for checks in ({}, passed("two"), {}, {}):
        assert not has(forgotten.look(coming, template_revision="two", checks=checks), Evict)
    assert forgotten.rollout.current == evict.pod


def test_a_topology_that_cannot_work_beside_the_old_one_is_refused_until_it_may_be_recreated() -> None:
    looks = Looks(wanted("two"))
    looks.look(three())
    planned = looks.look(three(), checks=passed("two", MOVED))
    assert (looks.rollout.phase, told(planned)) == ("Refused", ["TopologyRefused"])
    assert "topologyChange: Recreate" in (looks.rollout.failure or "")
    assert only(planned, ApplyChildren).revision == "one"
    looks.app = wanted("two", rollout=RolloutSpec(topology_change="Recreate"), generation=3)
    stopping = only(looks.look(three()), ApplyChildren)
    assert (stopping.revision, stopping.replicas) == ("one", 0)
    started = only(looks.look([], replicas=0, template_revision="one"), ApplyChildren)
    assert (started.revision, started.replicas) == ("two", 3)


def test_an_invalid_spec_leaves_the_rollout_going_and_the_budget_kept() -> None:
    looks = rolling()
    looks.app = InvalidSpec("app", "ns", "uid", 5, ("spec.replicas: must be a number",))
    planned = looks.look(three(), template_revision="two")
    assert has(planned, Evict)
    assert "InvalidSpec" in told(planned)
    assert looks.status.observed_generation == 5
    unsafe = behind()
    assert only(looks.look(unsafe, template_revision="two"), SetBudget) == SetBudget(0)
    assert "InvalidSpec" not in told(looks.look(unsafe, template_revision="two"))


def test_a_spec_that_was_never_valid_makes_nothing() -> None:
    looks = Looks(InvalidSpec("app", "ns", "uid", 1, ("spec.kafka: missing",)), AppStatus())
    planned = looks.look([], replicas=None, template_revision=None, max_unavailable=None)
    assert [type(it) for it in planned.actions] == [Tell]
    assert looks.status.phase == "Invalid spec"


def test_configurations_that_nothing_refers_to_are_dropped() -> None:
    looks = Looks(wanted("one"))
    planned = looks.look(three("one", "one", "zero"), revisions=frozenset({"zero", "one", "older"}))
    assert only(planned, DropRevisions).keep == frozenset({"zero", "one"})
    assert not has(looks.look(three(), revisions=frozenset({"one"})), DropRevisions)


def test_the_last_good_revision_needs_no_check() -> None:
    looks = rolling()
    looks.app = wanted("one", generation=3)
    planned = looks.look(three("two", "one", "one"), template_revision="two")
    assert not has(planned, StartCheck)
    assert only(planned, ApplyChildren).revision == "one"
    assert only(looks.look(three("two", "one", "one"), template_revision="one"), Evict).uid == "two-0"


def test_no_deadline_runs_for_a_pod_that_cannot_be_made_and_its_message_says_where_to_look() -> None:
    looks = rolling()
    evicted = only(looks.look(three(), template_revision="two"), Evict).pod
    left = [it for it in three() if it.name != evicted]
    for _ in range(10):
        looks.look(left, replicas=3, template_revision="two", after=50)
    assert phase(looks) == "Blocked"
    assert f"pod {evicted} is not made: a quota" in (looks.rollout.message or "")
    late = replace(
        next(it for it in three() if it.name == evicted),
        uid="anew", revision="two", ready=False, report=None, created_at=looks.now,
    )  # fmt: skip
    looks.look(sorted([*left, late], key=lambda it: it.ordinal), template_revision="two", after=5)
    assert phase(looks) == "Rolling", "its deadline begins when it is made"
