from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as changed

from observed_builders import ROLLOUT, SHAPE, active, broken, passed, pod, standby, store, wanted
from planned_reconciles import RUNS, Reconciles, has, only, three, told
from streamsapp.manifest.model import RolloutSpec
from streamsapp_operator.model.actions import ApplyChildren, Evict, PostEvent
from streamsapp_operator.model.desired_state import AnnotationRequests
from streamsapp_operator.model.observed_state import PodSeen, ReportedRole, TopologyShape
from streamsapp_operator.model.resource_status import from_document, to_document
from streamsapp_operator.model.status import ObservedGap
from streamsapp_operator.plan import ReconcilePlan

LIMITED = changed(ROLLOUT, max_gap="200ms")
APPROVED = AnnotationRequests(approved="two")


def checking(*seconds: float, rollout: RolloutSpec = LIMITED) -> Reconciles:
    """A new revision that is being checked, of an application whose hand-overs took so long."""
    reconciles = Reconciles(wanted("two", rollout=rollout))
    known = tuple(ObservedGap(kind="standby", work_seconds=0.0, seconds=it) for it in seconds)
    reconciles.status = changed(RUNS, observed_gaps=known)
    reconciles.plan(three())
    return reconciles


def rolling(*seconds: float, rollout: RolloutSpec = LIMITED) -> Reconciles:
    """One that has passed its check."""
    reconciles = checking(*seconds, rollout=rollout)
    reconciles.plan(three(), checks=passed("two"))
    return reconciles


def reconcile(reconciles: Reconciles, seen: list[PodSeen], template: str = "two", after: float = 1.0) -> ReconcilePlan:
    """By an operator that knows nothing but the status."""
    reconciles.status = from_document(to_document(reconciles.status))
    return reconciles.plan(seen, template_revision=template, after=after)


def conditions(reconciles: Reconciles) -> dict[str, tuple[str, str, str]]:
    return {it.type: (it.status, it.reason, it.message) for it in reconciles.status.conditions}


def test_a_rollout_is_held_whose_restarts_are_predicted_to_take_longer_and_says_why() -> None:
    reconciles = checking(0.8, 0.9, 0.85)
    planned = reconciles.plan(three(), checks=passed("two"))
    assert not has(planned, Evict)
    assert reconciles.rollout.phase == "Paused"
    words = (
        "a restart of app-0 would let tasks stand still for 850 ms (a standby goes on, 3 such observed), longer than "
        "200ms (spec.rollout.maxGap); `kubectl streamsapp approve` lets this revision go on, a larger maxGap lets all; "
        "it goes on by itself once a shorter gap is predicted"
    )
    assert reconciles.rollout.message == words
    assert conditions(reconciles)["Stalled"] == ("True", "Paused", words)
    assert conditions(reconciles)["Progressing"] == ("False", "Paused", words)
    events = [it for it in planned.actions if isinstance(it, PostEvent) and it.reason == "GapTooLong"]
    assert [(it.kind, it.message) for it in events] == [("Warning", words)]


def test_a_rollout_that_is_held_is_told_of_once_and_never_late() -> None:
    reconciles = checking(0.8)
    assert "GapTooLong" in told(reconciles.plan(three(), checks=passed("two")))
    for _ in range(5):
        planned = reconcile(reconciles, three(), "one", after=1000)
        assert not has(planned, Evict)
        assert told(planned) == []
        # Pods that come back by themselves have the last good revision, and the template does not go to and fro.
        assert {it.revision for it in planned.actions if isinstance(it, ApplyChildren)} <= {"one"}
    assert reconciles.rollout.phase == "Paused"


def test_a_rollout_goes_on_whose_restarts_are_predicted_to_be_short_enough() -> None:
    reconciles = rolling(0.2, 0.1, 0.3)
    assert has(reconcile(reconciles, three()), Evict)
    assert reconciles.rollout.predicted_seconds == 0.2


def test_without_the_limit_no_gap_is_too_long() -> None:
    assert has(reconcile(rolling(9.0, rollout=ROLLOUT), three()), Evict)


def test_an_approved_revision_goes_on_in_spite_of_its_gaps() -> None:
    reconciles = rolling(0.8)
    reconcile(reconciles, three())
    reconciles.app = replace(reconciles.app, requests=APPROVED)
    planned = reconcile(reconciles, three(), "one")
    assert only(planned, ApplyChildren).revision == "two"
    assert has(reconcile(reconciles, three()), Evict)
    assert reconciles.rollout.phase == "Rolling"


def test_an_approval_of_another_revision_does_not_count() -> None:
    reconciles = rolling(0.8)
    reconciles.app = replace(reconciles.app, requests=AnnotationRequests(approved="one"))
    assert not has(reconcile(reconciles, three()), Evict)


def test_a_larger_limit_lets_it_go_on() -> None:
    reconciles = rolling(0.8)
    reconcile(reconciles, three())
    reconciles.app = wanted("two", rollout=changed(ROLLOUT, max_gap="1s"))
    reconcile(reconciles, three(), "one")
    assert has(reconcile(reconciles, three()), Evict)


def test_the_first_restart_of_a_kind_is_made_and_said_to_be_unjudged() -> None:
    reconciles = rolling()
    planned = reconcile(reconciles, three())
    assert has(planned, Evict)
    words = "a standby goes on, none such was observed yet, so this one is not judged by spec.rollout.maxGap"
    assert reconciles.rollout.predicted_from == words
    [event] = [it for it in planned.actions if isinstance(it, PostEvent) and it.reason == "PodRestarting"]
    assert event.message == f"app-2 is restarted (predicted: 1.0 s: {words})"


def test_the_rest_of_a_rollout_is_held_when_its_first_restart_took_too_long() -> None:
    reconciles = rolling()
    taken = only(reconcile(reconciles, three()), Evict).pod
    new = [replace(it, revision="two", uid="new") if it.name == taken else it for it in three()]
    reconcile(reconciles, new, after=2.0)
    planned = reconcile(reconciles, new)
    assert not has(planned, Evict)
    assert "for 2.0 s (a standby goes on, 1 such observed), longer than 200ms" in (reconciles.rollout.message or "")


def test_gaps_that_looks_showed_of_a_runtime_before_hold_no_pods_that_report_their_own() -> None:
    reconciles = rolling()
    coarse = ObservedGap(kind="standby", work_seconds=0.0, seconds=1.5, reported=False)
    reconciles.status = changed(reconciles.status, observed_gaps=(coarse,))
    assert not has(reconcile(reconciles, three()), Evict)
    reports = [replace(it, report=replace(it.report, hand_overs=())) for it in three() if it.report is not None]
    reconcile(reconciles, reports, "one")
    assert has(reconcile(reconciles, reports), Evict)


def snapshotted(seconds: float) -> list[PodSeen]:
    kept = [store(f"0_{it}", ReportedRole.ACTIVE, snapshot_offset=50) for it in range(3)]
    return [
        pod(it, active(f"0_{it}", stores=(kept[it],), predicted_restore_seconds=seconds), revision="one")
        for it in range(3)
    ]


@pytest.mark.parametrize(("seconds", "held"), [(12.0, True), (0.1, False)])
def test_a_restore_that_takes_longer_by_the_rates_of_pods_is_held_though_none_was_observed(
    seconds: float, held: bool
) -> None:
    reconciles = rolling()
    planned = reconcile(reconciles, snapshotted(seconds))
    assert has(planned, Evict) is not held
    told_why = "for 12.0 s (a snapshot is restored, none such was observed yet), longer than 200ms"
    assert (told_why in (reconciles.rollout.message or "")) is held


def test_it_goes_on_by_itself_when_standbys_have_caught_up() -> None:
    """Without them snapshots are restored, which takes longer."""
    reconciles = rolling(0.1)
    reconcile(reconciles, snapshotted(12.0))
    assert reconciles.rollout.phase == "Paused"
    planned = reconcile(reconciles, three(), "one")
    assert (reconciles.rollout.phase, only(planned, ApplyChildren).revision) == ("Rolling", "two")
    assert has(reconcile(reconciles, three()), Evict)


def test_pods_whose_gaps_are_short_go_before_the_others_are_held() -> None:
    """Two pods have standbys, one has a snapshot alone."""
    reconciles = rolling(0.1)
    kept = store("0_2", ReportedRole.ACTIVE, snapshot_offset=50)
    seen = [
        pod(0, active("0_0"), standby("0_1")),
        pod(1, active("0_1"), standby("0_0")),
        pod(2, active("0_2", stores=(kept,), predicted_restore_seconds=9.0)),
    ]
    assert only(reconcile(reconciles, seen), Evict).pod == "app-1"


def test_a_step_that_was_begun_is_given_up_when_its_gap_grows_before_the_pod_is_taken() -> None:
    reconciles = rolling(0.1)
    assert has(reconcile(reconciles, three()), Evict)
    assert not has(reconcile(reconciles, snapshotted(12.0)), Evict)
    assert reconciles.rollout.current is None


def test_a_pod_that_does_nothing_is_replaced_whatever_the_gaps_of_others_are() -> None:
    reconciles = rolling(5.0)
    dead = broken(2, "ImagePullBackOff", "one", uid="one-2")
    taken = [pod(0, active("0_0"), active("0_2"), standby("0_1")), pod(1, active("0_1"), standby("0_0"))]
    assert only(reconcile(reconciles, [*taken, dead]), Evict).pod == "app-2"


def test_going_back_to_the_last_good_revision_is_not_held() -> None:
    reconciles = rolling(0.1)
    taken = only(reconcile(reconciles, three()), Evict).pod
    reconciles.status = changed(
        reconciles.status, observed_gaps=(ObservedGap(kind="standby", work_seconds=0.0, seconds=9.0),)
    )
    crashes = [
        replace(it, revision="two", uid="new", ready=False, restarts=3, waiting_reason="CrashLoopBackOff", report=None)
        if it.name == taken
        else it
        for it in three()
    ]
    reconcile(reconciles, crashes)
    assert reconciles.rollout.phase == "RollingBack"
    assert any(has(reconcile(reconciles, crashes, "one"), Evict) for _ in range(3))


def test_all_pods_do_not_end_at_once_before_that_is_approved() -> None:
    rollout = changed(LIMITED, topology_change="Recreate")
    reconciles = Reconciles(wanted("two", rollout=rollout))
    other = TopologyShape(sources={0: ("other",)}, stores={0: {"counts": "key-value"}})
    assert other != SHAPE
    reconciles.plan(three())
    planned = reconciles.plan(three(), checks=passed("two", other))
    planned = reconciles.plan(three())
    assert reconciles.rollout.phase == "Paused"
    assert "all pods would end before the first of this revision starts" in (reconciles.rollout.message or "")
    assert {it.replicas for it in planned.actions if isinstance(it, ApplyChildren)} == {3}
    reconciles.app = replace(reconciles.app, requests=APPROVED)
    assert only(reconciles.plan(three()), ApplyChildren).replicas == 0
