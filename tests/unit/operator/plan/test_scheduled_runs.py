"""Runs by a schedule take the place of pods: never both at a time, and the status reports them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from observed_builders import NOW, passed, pod, wanted
from planned_reconciles import RUNS, Reconciles, has, only, three, told
from streamsapp_operator.model.actions import (
    ApplyChildren,
    DeleteBootstrap,
    DeletePreview,
    DeleteRevisions,
    EndSchedule,
    Evict,
    RemoveFinalizer,
    StartCheck,
)
from streamsapp_operator.model.desired_state import AnnotationRequests, DesiredState
from streamsapp_operator.model.observed_state import (
    CheckSeen,
    CheckState,
    JobSeen,
    JobState,
    PodSeen,
    PreviewSeen,
    RunSeen,
)
from streamsapp_operator.model.resource_status import from_document, to_document
from streamsapp_operator.model.status import AppStatus, Condition, ScheduleStatus
from streamsapp_operator.plan import ReconcilePlan

APP = wanted("two", engine="spark", schedule="0 * * * *")
NO_PODS: dict[str, Any] = {"replicas": 0, "template_revision": "two", "engine": "spark", "schedule_revision": "two"}
#: When the CronJob is gone.
GONE: dict[str, Any] = {"replicas": 0, "template_revision": "two", "engine": "threads"}
BEFORE: dict[str, Any] = {"replicas": 3, "template_revision": "one", "engine": "threads"}
FULL_HOUR = datetime(2023, 11, 14, 23, 0, tzinfo=UTC)


def run(state: JobState, lag: int | None = None, message: str | None = None, *, stuck: bool = False) -> RunSeen:
    return RunSeen(JobSeen("", "two", state, message, stuck), NOW, lag)


STUCK = run(JobState.WAITING, None, "ImagePullBackOff: no such image", stuck=True)


def reconcile(
    reconciles: Reconciles, seen: list[PodSeen], ran: RunSeen | None = None, **children: Any
) -> ReconcilePlan:
    """By an operator that knows nothing but the status."""
    reconciles.status = from_document(to_document(reconciles.status))
    return reconciles.plan(seen, run=ran, **children)


def scheduled(app: DesiredState = APP) -> Reconciles:
    """An application that ran in pods runs by a schedule since."""
    reconciles = Reconciles(app)
    reconciles.plan(three(), **BEFORE)
    reconciles.plan(three(), checks=passed("two"), **BEFORE)
    reconcile(reconciles, [], **NO_PODS)
    return reconciles


def runs(reconciles: Reconciles) -> ScheduleStatus:
    assert reconciles.status.schedule is not None
    return reconciles.status.schedule


def condition(reconciles: Reconciles, name: str = "Ready") -> Condition:
    return next(it for it in reconciles.status.conditions if it.type == name)


def test_no_run_begins_before_every_pod_has_ended() -> None:
    reconciles = Reconciles(APP)
    assert has(reconciles.plan(three(), **BEFORE), StartCheck)
    planned = reconciles.plan(three(), checks=passed("two"), **BEFORE)
    applied = only(planned, ApplyChildren)
    assert (applied.revision, applied.replicas, applied.begins_runs) == ("two", 0, False)
    ending = [replace(it, terminating=True) for it in three()]
    applied = only(reconcile(reconciles, ending, **NO_PODS), ApplyChildren)
    assert (applied.replicas, applied.begins_runs) == (0, False)
    assert (reconciles.rollout.phase, runs(reconciles).next_run) == ("Rolling", None)
    planned = reconcile(reconciles, [], **NO_PODS)
    assert only(planned, ApplyChildren).begins_runs
    assert "RolloutComplete" in told(planned)
    assert (reconciles.rollout.phase, reconciles.status.last_good_revision) == ("Complete", "two")
    assert reconciles.status.phase == "Scheduled"


def test_a_driver_ends_before_its_executors_and_both_before_the_first_run() -> None:
    reconciles = Reconciles(APP, replace_status(engine="spark"))
    before = BEFORE | {"engine": "spark", "driver_replicas": 1, "driver_revision": "one"}
    driver = pod(0, name="app-driver-0")
    reconciles.plan(three(), driver=driver, **before)
    planned = reconciles.plan(three(), driver=driver, checks=passed("two"), **before)
    applied = only(planned, ApplyChildren)
    assert (applied.replicas, applied.runs_driver, applied.begins_runs) == (3, False, False)
    gone = before | {"driver_replicas": 0}
    applied = only(reconcile(reconciles, three(), **gone), ApplyChildren)
    assert (applied.replicas, applied.begins_runs) == (0, False)


def replace_status(**changes: Any) -> AppStatus:
    document = to_document(RUNS) | changes
    return from_document(document)


def test_the_status_tells_of_the_last_run_and_of_the_next() -> None:
    reconciles = scheduled()
    assert runs(reconciles) == ScheduleStatus(next_run=FULL_HOUR)
    assert condition(reconciles).message == "no run has begun yet; the next one begins at 2023-11-14T23:00Z"
    reconcile(reconciles, [], run(JobState.RUNNING), **NO_PODS)
    assert (runs(reconciles).result, reconciles.status.phase) == ("Running", "Catching up")
    planned = reconcile(reconciles, [], run(JobState.DONE, 12), **NO_PODS)
    assert told(planned) == ["RunDone"]
    began = datetime.fromtimestamp(NOW, UTC)
    done = ScheduleStatus(last_run=began, result="Succeeded", input_lag=12, next_run=FULL_HOUR)
    assert runs(reconciles) == done
    assert (condition(reconciles).status, condition(reconciles).reason) == ("True", "Scheduled")
    assert "has caught up, and left 12 records" in condition(reconciles).message
    planned = reconcile(reconciles, [], **NO_PODS)
    assert (runs(reconciles), told(planned)) == (done, []), "it is remembered when its Job is gone, and told once"
    reconcile(reconciles, [], after=3600, **NO_PODS)
    assert runs(reconciles).next_run == FULL_HOUR.replace(day=15, hour=0)


def test_a_run_that_fails_is_told_and_the_next_one_begins_all_the_same() -> None:
    reconciles = scheduled()
    planned = reconcile(reconciles, [], run(JobState.FAILED, None, "exit 1: the broker is away"), **NO_PODS)
    assert "RunFailed" in told(planned)
    assert only(planned, ApplyChildren).begins_runs
    assert (condition(reconciles).status, condition(reconciles).reason) == ("False", "RunFailed")
    assert condition(reconciles, "Degraded").message == "the last scheduled run failed: exit 1: the broker is away"
    reconcile(reconciles, [], run(JobState.DONE, 0), **NO_PODS)
    assert condition(reconciles, "Degraded").status == "False"


def test_another_revision_that_is_scheduled_takes_the_place_of_the_one_before_at_the_next_run() -> None:
    reconciles = scheduled()
    reconciles.app = replace(APP, revision="three")
    planned = reconcile(reconciles, [], run(JobState.RUNNING), **NO_PODS)
    assert has(planned, StartCheck)
    applied = only(planned, ApplyChildren)
    assert (applied.revision, applied.replicas, applied.begins_runs) == ("two", 0, True)
    planned = reconciles.plan([], run=run(JobState.RUNNING), checks=passed("three"), **NO_PODS)
    assert (only(planned, ApplyChildren).revision, only(planned, ApplyChildren).begins_runs) == ("three", True)
    after = NO_PODS | {"template_revision": "three", "schedule_revision": "three"}
    reconcile(reconciles, [], run(JobState.RUNNING), **after)
    assert reconciles.status.last_good_revision == "three"
    after |= {"revisions": frozenset({"one", "two", "three"})}
    planned = reconcile(reconciles, [], run(JobState.RUNNING), **after)
    assert only(planned, DeleteRevisions).keep == {"two", "three"}, "a run that tries again needs what it began with"
    keep = only(reconcile(reconciles, [], None, **after), DeleteRevisions).keep
    assert keep == {"two", "three"}, "the good one before can come back"


def test_one_that_does_not_load_leaves_the_runs_as_they_are() -> None:
    reconciles = scheduled()
    reconciles.app = replace(APP, revision="three")
    reconcile(reconciles, [], **NO_PODS)
    broken = {"three": CheckSeen("three", CheckState.FAILED, ("no such module",))}
    for _ in range(2):
        applied = only(reconciles.plan([], checks=broken, **NO_PODS), ApplyChildren)
        assert (applied.revision, applied.replicas, applied.begins_runs) == ("two", 0, True)
    assert reconciles.rollout.phase == "Refused"
    assert condition(reconciles, "Degraded").reason == "TopologyRefused"


@pytest.mark.parametrize("engine", ["threads", "spark"])
def test_a_run_ends_before_the_first_pod_starts(engine: Any) -> None:
    reconciles = scheduled()
    reconciles.app = wanted("three", engine=engine)
    reconcile(reconciles, [], **NO_PODS)
    for _ in range(2):
        planned = reconciles.plan([], run=run(JobState.RUNNING), checks=passed("three"), **NO_PODS)
        applied = only(planned, ApplyChildren)
        assert (applied.revision, applied.replicas, applied.begins_runs) == ("two", 0, False)
        assert not has(planned, EndSchedule)
    planned = reconcile(reconciles, [], run(JobState.DONE, 0), **NO_PODS)
    applied = only(planned, ApplyChildren)
    assert (applied.revision, applied.replicas, applied.begins_runs) == ("two", 0, False)
    assert has(planned, EndSchedule)
    planned = reconcile(reconciles, [], **GONE)
    applied = only(planned, ApplyChildren)
    assert (applied.revision, applied.replicas, has(planned, EndSchedule)) == ("three", 3, False)
    assert reconciles.status.schedule is None


def test_a_schedule_that_never_began_goes_while_the_pods_that_are_wanted_again_go_on() -> None:
    reconciles = Reconciles(wanted("one"))
    planned = reconciles.plan(three(), **(BEFORE | {"schedule_revision": "two"}))
    assert has(planned, EndSchedule)
    assert (only(planned, ApplyChildren).revision, only(planned, ApplyChildren).replicas) == ("one", 3)


def test_an_application_is_let_go_when_nothing_of_it_runs_any_more() -> None:
    reconciles = scheduled()
    reconciles.app = replace(APP, deleting=True)
    planned = reconcile(reconciles, [], run(JobState.RUNNING), **NO_PODS)
    assert (has(planned, EndSchedule), has(planned, RemoveFinalizer)) == (True, False)
    previews = PreviewSeen(JobSeen("", "two", JobState.RUNNING))
    planned = reconciles.plan([], preview=previews, **GONE)
    assert (has(planned, DeletePreview), has(planned, RemoveFinalizer)) == (True, False)
    ending = JobSeen("", "two", JobState.ENDING)
    planned = reconciles.plan([], preview=PreviewSeen(ending), job=ending, **GONE)
    assert [has(planned, it) for it in (DeletePreview, DeleteBootstrap, RemoveFinalizer)] == [False] * 3
    done = JobSeen("", "two", JobState.DONE)
    assert has(reconciles.plan([], job=done, **GONE), RemoveFinalizer)


def test_a_run_whose_pod_cannot_run_is_told_and_gives_way_to_the_next_one() -> None:
    reconciles = scheduled()
    planned = reconcile(reconciles, [], run(JobState.RUNNING), **NO_PODS)
    assert (only(planned, ApplyChildren).begins_runs, only(planned, ApplyChildren).replaces_run) == (True, False)
    planned = reconcile(reconciles, [], STUCK, **NO_PODS)
    assert (only(planned, ApplyChildren).begins_runs, only(planned, ApplyChildren).replaces_run) == (True, True)
    assert (condition(reconciles).status, condition(reconciles).reason) == ("False", "PodsNotReady")
    assert "does not run: ImagePullBackOff: no such image; the next one begins at" in condition(reconciles).message
    assert condition(reconciles, "Degraded").reason == "PodFailing"


def test_a_run_whose_pod_cannot_run_keeps_no_pod_of_another_revision_waiting() -> None:
    reconciles = scheduled()
    reconciles.app = wanted("three")
    reconcile(reconciles, [], STUCK, **NO_PODS)
    assert has(reconciles.plan([], run=STUCK, checks=passed("three"), **NO_PODS), EndSchedule)
    applied = only(reconciles.plan([], **GONE), ApplyChildren)
    assert (applied.revision, applied.replicas, applied.begins_runs) == ("three", 3, False)


def test_what_the_user_holds_stays_as_it_is() -> None:
    paused = AnnotationRequests(paused=True)
    held = Reconciles(replace(APP, requests=paused))
    held.plan(three(), **BEFORE)
    planned = held.plan(three(), checks=passed("two"), **BEFORE)
    applied = only(planned, ApplyChildren)
    assert (applied.revision, applied.replicas, applied.begins_runs) == ("one", 3, False)
    assert (held.rollout.phase, has(planned, Evict)) == ("Paused", False)

    reconciles = scheduled()
    reconciles.app = wanted("three", requests=paused)
    reconcile(reconciles, [], **NO_PODS)
    applied = only(reconciles.plan([], checks=passed("three"), **NO_PODS), ApplyChildren)
    assert (applied.revision, applied.replicas, applied.begins_runs) == ("two", 0, True)
    assert reconciles.rollout.phase == "Paused"


def test_a_suspended_application_begins_no_run() -> None:
    reconciles = scheduled()
    reconciles.app = replace(APP, replicas=0)
    applied = only(reconcile(reconciles, [], **NO_PODS), ApplyChildren)
    assert (applied.revision, applied.replicas, applied.begins_runs) == ("two", 0, False)
    assert (reconciles.status.phase, runs(reconciles).next_run) == ("Suspended", None)
    reconciles.app = APP
    assert only(reconcile(reconciles, [], **NO_PODS), ApplyChildren).begins_runs
