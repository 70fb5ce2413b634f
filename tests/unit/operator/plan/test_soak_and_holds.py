from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from observed_builders import ROLLOUT, passed, wanted
from planned_reconciles import Reconciles, has, only, three, told
from restart_truth import RestartTruth
from simulated_cluster import SimulatedCluster
from simulated_operator import SimulatedOperator
from streamsapp.errors import ManifestError
from streamsapp.manifest import decode
from streamsapp.manifest.model import MaintenanceWindow, RolloutSpec
from streamsapp_operator.model.actions import ApplyChildren, Evict
from streamsapp_operator.model.desired_state import AnnotationRequests, DesiredState
from streamsapp_operator.model.observed_state import PodSeen
from streamsapp_operator.model.resource_status import from_document, to_document
from streamsapp_operator.plan import ReconcilePlan
from streamsapp_operator.plan.rollout_holds import is_open
from streamsapp_operator.spec_reader import requests_of

ORDERS = AnnotationRequests()
SOAKS = RolloutSpec(**{name: getattr(ROLLOUT, name) for name in ROLLOUT.__struct_fields__} | {"soak_seconds": 30})


def rolling(rollout: RolloutSpec = SOAKS, requests: AnnotationRequests = ORDERS) -> Reconciles:
    """A new revision that passed its check."""
    reconciles = Reconciles(wanted("two", rollout=rollout, requests=requests))
    reconciles.plan(three())
    reconciles.plan(three(), checks=passed("two"))
    return reconciles


def reconcile(reconciles: Reconciles, seen: list[PodSeen], template: str = "two", after: float = 1.0) -> ReconcilePlan:
    """By an operator that knows nothing but the status."""
    reconciles.status = from_document(to_document(reconciles.status))
    return reconciles.plan(seen, template_revision=template, after=after)


def mixed(*revisions: str) -> list[PodSeen]:
    return three(*revisions)


def test_the_next_pod_is_taken_when_the_new_one_was_well_for_long_enough() -> None:
    reconciles = rolling()
    seen = mixed("one", "one", "two")
    assert not has(reconcile(reconciles, seen), Evict)
    assert not has(reconcile(reconciles, seen, after=29), Evict)
    assert "spec.rollout.soakSeconds" in (reconciles.rollout.message or "")
    assert (reconciles.rollout.phase, reconciles.rollout.proved) == ("Rolling", False)
    assert has(reconcile(reconciles, seen, after=1.1), Evict)
    assert reconciles.rollout.proved


@pytest.mark.parametrize("ready", [True, False])
def test_a_restart_of_a_new_container_begins_the_time_anew(ready: bool) -> None:
    """Also a restart that the operator did not see: its pod is ready again."""
    reconciles = rolling()
    seen = mixed("one", "one", "two")
    reconcile(reconciles, seen)
    restarted = [*seen[:2], replace(seen[2], restarts=1, ready=ready)]
    assert not has(reconcile(reconciles, restarted, after=31), Evict)
    again = [*seen[:2], replace(seen[2], restarts=1)]
    assert not has(reconcile(reconciles, again), Evict)
    assert not has(reconcile(reconciles, again, after=28), Evict)
    assert has(reconcile(reconciles, again, after=3), Evict)


def test_a_revision_is_the_last_good_one_only_when_all_its_pods_were_well_for_long_enough() -> None:
    reconciles = rolling()
    all_new = mixed("two", "two", "two")
    reconcile(reconciles, all_new)
    assert (reconciles.rollout.phase, reconciles.status.last_good_revision) == ("Rolling", "one")
    reconcile(reconciles, all_new, after=31)
    assert (reconciles.rollout.phase, reconciles.status.last_good_revision) == ("Complete", "two")


def test_pods_below_the_partition_keep_the_last_good_revision_until_it_is_approved() -> None:
    reconciles = rolling(RolloutSpec(soak_seconds=0, partition=2))
    assert only(reconcile(reconciles, three()), Evict).pod == "app-2"
    seen = mixed("one", "one", "two")
    planned = reconcile(reconciles, seen)  # the step ends
    planned = reconcile(reconciles, seen)
    assert not has(planned, Evict)
    # A pod that comes back by itself has the last good revision.
    assert only(planned, ApplyChildren).revision == "one"
    assert (reconciles.rollout.phase, told(planned)) == ("Paused", ["RolloutPaused"])
    reconcile(reconciles, seen, "one", after=4000)
    assert reconciles.rollout.phase == "Paused"  # a pause does not time out
    reconciles.app = replace(
        wanted("two", rollout=RolloutSpec(soak_seconds=0, partition=2)), requests=AnnotationRequests(approved="two")
    )
    planned = reconcile(reconciles, seen, "one")
    assert only(planned, ApplyChildren).revision == "two"
    assert not has(planned, Evict)  # it would come back as it was
    assert only(reconcile(reconciles, seen), Evict).pod in {"app-0", "app-1"}


def test_a_pod_that_is_away_while_the_new_ones_soak_comes_back_with_the_last_good_revision() -> None:
    reconciles = rolling()
    seen = mixed("one", "one", "two")
    for pods in (seen, [replace(seen[0], terminating=True, ready=False), *seen[1:]], seen[1:], seen):
        assert only(reconcile(reconciles, pods), ApplyChildren).revision == "one"
    planned = reconcile(reconciles, seen, "one", after=31)
    assert only(planned, ApplyChildren).revision == "two"
    assert not has(planned, Evict)  # it would come back as it was
    assert has(reconcile(reconciles, seen), Evict)


def test_a_pod_that_is_away_while_the_newest_one_is_not_ready_comes_back_with_the_last_good_revision() -> None:
    reconciles = rolling(RolloutSpec(soak_seconds=0))
    taken = only(reconcile(reconciles, three()), Evict)
    assert taken.pod == "app-2"
    # Until it is made it is to have the new revision.
    for pods in ([*three()[:2], replace(three()[2], terminating=True, ready=False)], three()[:2]):
        assert only(reconcile(reconciles, pods), ApplyChildren).revision == "two"
    coming = replace(mixed("one", "one", "two")[2], uid="new", ready=False)
    for others in (three()[:2], three()[1:2], three()[:2]):
        assert only(reconcile(reconciles, [*others, coming]), ApplyChildren).revision == "one"
    # The newest one itself is lost: its step ends, and is made again.
    lost = [*three()[:2], replace(three()[2], uid="third")]
    reconcile(reconciles, lost, "one")
    assert only(reconcile(reconciles, lost, "one"), ApplyChildren).revision == "two"
    assert has(reconcile(reconciles, lost), Evict)


@pytest.mark.parametrize("partition", [1, 2])
def test_a_pod_that_is_away_while_the_rollout_is_held_comes_back_with_the_last_good_revision(partition: int) -> None:
    reconciles = rolling(RolloutSpec(soak_seconds=0, partition=partition))
    seen = mixed("one", *["two" if ordinal >= partition else "one" for ordinal in (1, 2)])
    for _ in range(2):
        reconcile(reconciles, seen)
    assert reconciles.rollout.phase == "Paused"
    ending = [replace(seen[0], terminating=True, ready=False), *seen[1:]]
    for pods in (ending, seen[1:], [replace(seen[0], uid="other", ready=False), *seen[1:]]):
        planned = reconcile(reconciles, pods, "one", after=20)
        assert {it.revision for it in planned.actions if isinstance(it, ApplyChildren)} <= {"one"}
        assert not has(planned, Evict)
    reconcile(reconciles, seen, "one", after=20)
    assert reconciles.rollout.phase == "Paused"


def test_a_rollout_that_is_held_is_not_late_however_long_a_pod_is_away() -> None:
    rollout = RolloutSpec(soak_seconds=0, partition=2)
    reconciles = rolling(rollout)
    seen = mixed("one", "one", "two")
    ending = [replace(seen[0], terminating=True, ready=False), *seen[1:]]
    for pods in (seen, seen, ending, ending, ending):
        assert only(reconcile(reconciles, pods, after=3000), ApplyChildren).revision == "one"
    assert reconciles.rollout.phase == "Paused"
    assert "app-0 is ending" in (reconciles.rollout.message or "")
    reconciles.app = wanted("two", rollout=rollout, requests=AnnotationRequests(approved="two"))
    assert has(reconcile(reconciles, seen), Evict)


def test_the_approval_of_another_revision_says_nothing_of_this_one() -> None:
    reconciles = rolling(RolloutSpec(soak_seconds=0, partition=2), AnnotationRequests(approved="another"))
    seen = mixed("one", "one", "two")
    reconcile(reconciles, seen)
    assert not has(reconcile(reconciles, seen, after=60), Evict)


def test_a_paused_rollout_takes_no_pod_and_goes_on_when_the_pause_ends() -> None:
    reconciles = rolling(RolloutSpec(soak_seconds=0), AnnotationRequests(paused=True))
    planned = reconcile(reconciles, three())
    assert not has(planned, Evict)
    assert only(planned, ApplyChildren).revision == "one"
    assert reconciles.rollout.phase == "Paused"
    reconciles.app = wanted("two", rollout=RolloutSpec(soak_seconds=0))
    assert only(reconcile(reconciles, three(), "one"), ApplyChildren).revision == "two"
    assert has(reconcile(reconciles, three()), Evict)


def test_an_eviction_that_was_not_admitted_is_not_tried_again_in_a_pause() -> None:
    reconciles = rolling(RolloutSpec(soak_seconds=0))
    assert has(reconcile(reconciles, three()), Evict)
    reconciles.app = wanted("two", rollout=RolloutSpec(soak_seconds=0), requests=AnnotationRequests(paused=True))
    assert not has(reconcile(reconciles, three()), Evict)


def test_a_step_begins_within_a_maintenance_window_only() -> None:
    """The reconciles are at 22:13 of a Tuesday in UTC."""
    closed, opened = (
        RolloutSpec(soak_seconds=0, maintenance_windows=[MaintenanceWindow(start=start, end="23:00")])
        for start in ("22:50", "22:00")
    )
    reconciles = rolling(closed)
    assert not has(reconcile(reconciles, three()), Evict)
    assert reconciles.rollout.phase == "Paused"
    assert "maintenanceWindows" in (reconciles.rollout.message or "")
    reconciles.app = wanted("two", rollout=opened)
    reconcile(reconciles, three(), "one")
    assert has(reconcile(reconciles, three()), Evict)


@pytest.mark.parametrize(
    ("moment", "days", "inside"),
    [
        ("2026-03-07T21:30", ["Saturday"], True),  # 22:30 in Berlin
        ("2026-03-07T20:30", ["Saturday"], False),
        ("2026-03-08T02:59", ["Saturday"], True),  # it began on Saturday
        ("2026-03-08T03:00", ["Saturday"], False),
        ("2026-03-08T21:30", ["Saturday"], False),
        ("2026-07-01T19:59", [], False),
        ("2026-07-01T20:00", [], True),  # summer time
    ],
)
def test_windows_are_of_their_zone_and_may_last_over_midnight(moment: str, days: list[str], inside: bool) -> None:
    window = MaintenanceWindow(days=days, start="22:00", end="04:00", time_zone="Europe/Berlin")  # type: ignore[arg-type]
    assert is_open([window], datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()) is inside


def spans(window: MaintenanceWindow, begin: str, hours: int = 36) -> list[tuple[str, str]]:
    """Returns when the window opens and closes within some hours, by UTC."""
    first, found, was = datetime.fromisoformat(begin).replace(tzinfo=UTC), [], False
    for minute in range(hours * 60):
        moment = first + timedelta(minutes=minute)
        inside = is_open([window], moment.timestamp())
        if inside != was:
            found.append(f"{moment:%d %H:%M}")
        was = inside
    return list(zip(found[::2], [*found[1::2], "later"], strict=False))


@pytest.mark.parametrize(
    ("zone", "begin", "start", "end", "opened"),
    [
        # Clocks are set forward at 01:00 UTC, from 02:00 to 03:00.
        ("Europe/Berlin", "2026-03-28T12:00", "02:00", "03:00", [("29 01:00", "29 02:00")]),
        ("Europe/Berlin", "2026-03-28T12:00", "02:10", "02:40", [("29 01:00", "29 01:30")]),
        ("Europe/Berlin", "2026-03-28T12:00", "02:30", "04:00", [("29 01:00", "29 02:00")]),
        ("Europe/Berlin", "2026-03-28T12:00", "01:30", "02:30", [("29 00:30", "29 01:00"), ("29 23:30", "later")]),
        ("Europe/Berlin", "2026-03-28T12:00", "22:00", "02:30", [("28 21:00", "29 01:00"), ("29 20:00", "later")]),
        # Clocks are set back at 01:00 UTC, from 03:00 to 02:00.
        ("Europe/Berlin", "2026-10-24T12:00", "02:10", "02:50", [("25 00:10", "25 00:50")]),
        ("Europe/Berlin", "2026-10-24T12:00", "02:00", "03:00", [("25 00:00", "25 02:00")]),
        ("Europe/Berlin", "2026-10-24T12:00", "02:30", "04:00", [("25 00:30", "25 03:00")]),
        ("Europe/Berlin", "2026-10-24T12:00", "22:00", "02:30", [("24 20:00", "25 00:30"), ("25 21:00", "later")]),
        # Midnight itself is left out, and half an hour only.
        ("America/Havana", "2026-03-07T12:00", "00:00", "01:00", [("08 05:00", "08 06:00")]),
        (
            "Australia/Lord_Howe",
            "2026-10-03T06:00",
            "02:00",
            "02:30",
            [("03 15:30", "03 16:00"), ("04 15:00", "04 15:30")],
        ),
    ],
)
def test_a_window_opens_once_on_days_on_which_clocks_change(
    zone: str, begin: str, start: str, end: str, opened: list[tuple[str, str]]
) -> None:
    assert spans(MaintenanceWindow(start=start, end=end, time_zone=zone), begin) == opened


def test_a_time_zone_that_there_is_not_is_a_fault() -> None:
    window = {"start": "22:00", "end": "23:00", "timeZone": "Europe/Atlantis"}
    spec = {"topology": {"entrypoint": "a:b"}, "rollout": {"maintenanceWindows": [window]}}
    document = {"apiVersion": "streamsapp.dev/v1alpha1", "kind": "StreamsApp", "metadata": {"name": "a"}, "spec": spec}
    with pytest.raises(ManifestError, match=r"spec\.rollout\.maintenanceWindows\[0\]\.timeZone: .*'Europe/Atlantis'"):
        decode(document)


def test_one_pod_that_is_asked_for_is_replaced_once() -> None:
    reconciles = Reconciles(wanted("one", rollout=SOAKS, requests=AnnotationRequests(restart_pod="one-1")))
    evict = only(reconcile(reconciles, three(), "one"), Evict)
    assert (evict.pod, evict.uid, reconciles.rollout.phase) == ("app-1", "one-1", "Rolling")
    seen = three()
    replaced = [seen[0], replace(seen[1], uid="another"), seen[2]]
    for _ in range(2):
        assert not has(reconcile(reconciles, replaced, "one"), Evict)
    assert reconciles.rollout.phase == "Complete"


def test_orders_are_read_from_annotations() -> None:
    annotations = {"paused": "true", "approved": "two", "restartPod": "u"}
    document = {"metadata": {"annotations": {f"streamsapp.dev/{key}": text for key, text in annotations.items()}}}
    assert requests_of(document) == AnnotationRequests(paused=True, approved="two", restart_pod="u")
    assert requests_of({"metadata": {"annotations": {"streamsapp.dev/paused": "false"}}}) == AnnotationRequests()


@pytest.mark.parametrize("seed", range(8))
def test_a_revision_that_crashes_late_never_reaches_a_second_pod_however_often_the_operator_dies(seed: int) -> None:
    cluster = SimulatedCluster(seed, standbys=1, remote_state=True)
    rollout = RolloutSpec(soak_seconds=30, max_observation_age_seconds=6, max_restore_seconds=40)
    app = DesiredState("app", "ns", "uid", 1, "good-first", 3, 1, rollout)
    operator = SimulatedOperator(cluster, app, RestartTruth(cluster, 1000, 6, 40))
    _turn_until_phase(operator, "Complete", "good-first")
    operator.app = replace(app, revision="late-a", generation=2)
    operator.deadly = 0.05
    most: Counter[str] = Counter()
    while not (operator.status.rollout and operator.status.rollout.phase == "RolledBack"):
        assert cluster.now < 1_700_000_000 + 3000, operator.status.rollout
        operator.reconcile()
        most["late"] = max(most["late"], sum(pod.revision == "late-a" for pod in cluster.pods.values()))
        assert operator.status.last_good_revision == "good-first"
    assert most["late"] == 1
    assert operator.truth.violations == []
    assert {pod.revision for pod in cluster.pods.values()} == {"good-first"}


def _turn_until_phase(operator: SimulatedOperator, phase: str, revision: str) -> None:
    for _ in range(1000):
        operator.reconcile()
        rollout = operator.status.rollout
        if rollout is not None and (rollout.phase, rollout.revision) == (phase, revision):
            return
    raise AssertionError(operator.status.rollout)
