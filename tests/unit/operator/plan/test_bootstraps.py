"""State made of history before the first pods: nothing starts on half of it, and what is done is not done again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from observed_builders import passed, pod, pods, wanted
from planned_reconciles import RUNS, Reconciles, has, only, told
from streamsapp_operator.model.actions import (
    ApplyChildren,
    DeleteBootstrap,
    DeleteCheck,
    DeleteRevisions,
    RemoveFinalizer,
    StartBootstrap,
    StartCheck,
)
from streamsapp_operator.model.desired_state import InvalidSpec
from streamsapp_operator.model.observed_state import CheckSeen, CheckState, JobSeen, JobState
from streamsapp_operator.model.resource_status import from_document, to_document
from streamsapp_operator.model.status import AppStatus, BootstrapStatus, Condition
from streamsapp_operator.plan import ReconcilePlan

NOTHING: dict[str, Any] = {"replicas": None, "template_revision": None, "max_unavailable": None}
APP = wanted(bootstrap="first")


def job(state: JobState, message: str | None = None, *, attempt: str = "first", **changes: Any) -> JobSeen:
    return JobSeen(attempt, "one", state, message, **changes)


def fresh() -> Reconciles:
    """An application that has nothing in the cluster yet."""
    return Reconciles(APP, AppStatus())


def reconcile(reconciles: Reconciles, seen: JobSeen | None = None, **more: Any) -> ReconcilePlan:
    return reconciles.plan([], job=seen, **NOTHING | more)


def asked_for() -> Reconciles:
    """Its check has passed, and the Job is asked for."""
    reconciles = fresh()
    reconcile(reconciles)
    reconcile(reconciles, checks=passed("one"))
    return reconciles


def failed(why: str = "exit 2: no such topic") -> Reconciles:
    reconciles = asked_for()
    reconcile(reconciles, job(JobState.FAILED, why))
    return reconciles


def bootstrap(reconciles: Reconciles) -> BootstrapStatus:
    assert reconciles.status.bootstrap is not None
    return reconciles.status.bootstrap


def condition(reconciles: Reconciles, name: str) -> Condition:
    return next(it for it in reconciles.status.conditions if it.type == name)


def test_the_job_starts_once_the_check_has_passed_and_no_pod_is_made_before_it_is_done() -> None:
    reconciles = fresh()
    assert has(reconcile(reconciles), StartCheck)
    planned = reconcile(reconciles, checks=passed("one"))
    assert only(planned, StartBootstrap) == StartBootstrap("first")
    assert has(planned, DeleteCheck)
    assert told(planned) == ["BootstrapStarted"]
    for state in (JobState.WAITING, JobState.RUNNING):
        planned = reconcile(reconciles, job(state))
        assert not has(planned, ApplyChildren)
        assert not has(planned, StartBootstrap)
    planned = reconcile(reconciles, job(JobState.DONE))
    assert only(planned, ApplyChildren).revision == "one"
    assert has(planned, DeleteBootstrap)
    assert told(planned) == ["BootstrapDone", "RolloutStarted"]


def test_the_status_says_what_is_going_on() -> None:
    reconciles = asked_for()
    assert (bootstrap(reconciles).phase, bootstrap(reconciles).job, bootstrap(reconciles).attempt) == (
        "Pending",
        "app-bootstrap",
        "first",
    )
    reconcile(reconciles, job(JobState.RUNNING))
    assert (reconciles.status.phase, bootstrap(reconciles).phase, reconciles.rollout.phase) == (
        "Bootstrapping",
        "Running",
        "Bootstrapping",
    )
    assert [
        (condition(reconciles, it).status, condition(reconciles, it).reason) for it in ("Ready", "Progressing")
    ] == [
        ("False", "Bootstrapping"),
        ("True", "Bootstrapping"),
    ]
    assert condition(reconciles, "Degraded").status == "False"
    began = bootstrap(reconciles).started_at
    reconcile(reconciles, job(JobState.DONE), after=60)
    assert (bootstrap(reconciles).phase, bootstrap(reconciles).started_at) == ("Done", began)
    assert bootstrap(reconciles).finished_at == reconciles.rollout.started_at


def test_what_keeps_its_pod_from_running_is_told() -> None:
    reconciles = asked_for()
    reconcile(reconciles, job(JobState.WAITING, "ImagePullBackOff: no such image", stuck=True))
    assert "no such image" in condition(reconciles, "Progressing").message
    assert condition(reconciles, "Degraded").reason == "PodFailing"
    reconcile(reconciles, job(JobState.RUNNING))
    assert condition(reconciles, "Degraded").status == "False"


def test_a_failure_starts_nothing_and_tells_why_and_what_to_do() -> None:
    reconciles = asked_for()
    planned = reconcile(reconciles, job(JobState.FAILED, "exit 1: the store is away"))
    assert told(planned) == ["BootstrapFailed"]
    for seen in (job(JobState.FAILED, "its pods are gone"), None):  # its Job may be deleted
        planned = reconcile(reconciles, seen, after=600)
        assert [it for it in planned.actions if not isinstance(it, DeleteRevisions)] == []
    assert reconciles.status.phase == "Bootstrap failed"
    for name, state in (("Ready", "False"), ("Progressing", "False"), ("Degraded", "True")):
        assert (condition(reconciles, name).status, condition(reconciles, name).reason) == (state, "BootstrapFailed")
        assert "the store is away; no pod is started" in condition(reconciles, name).message
        assert "kubectl streamsapp restart app" in condition(reconciles, name).message


@pytest.mark.parametrize("changes", [{"revision": "two", "bootstrap": "second"}, {"bootstrap": "second"}])
def test_it_is_tried_again_after_a_change_once_the_job_before_is_gone(changes: dict[str, Any]) -> None:
    reconciles = failed()
    reconciles.app = replace(APP, **changes)
    checks = passed("two")
    if "revision" in changes:
        assert not has(
            reconcile(reconciles, job(JobState.FAILED)), DeleteBootstrap
        )  # the check comes first: it may be wrong, too
    planned = reconcile(reconciles, job(JobState.FAILED), checks=checks)
    assert has(planned, DeleteBootstrap)
    assert not has(planned, StartBootstrap)
    assert condition(reconciles, "Degraded").status == "False"
    planned = reconcile(reconciles, job(JobState.ENDING), checks=checks)
    assert not has(planned, DeleteBootstrap)
    assert not has(planned, StartBootstrap)
    planned = reconcile(reconciles, checks=checks)
    assert only(planned, StartBootstrap) == StartBootstrap("second")
    assert told(planned) == ["BootstrapStarted"]


def test_a_change_while_it_runs_ends_the_job_and_begins_another() -> None:
    reconciles = asked_for()
    reconcile(reconciles, job(JobState.RUNNING))
    reconciles.app = replace(APP, bootstrap="second")
    assert has(reconcile(reconciles, job(JobState.RUNNING)), DeleteBootstrap)
    assert not has(reconcile(reconciles, job(JobState.ENDING)), StartBootstrap)
    assert only(reconcile(reconciles), StartBootstrap) == StartBootstrap("second")


def test_a_job_that_is_done_counts_although_the_spec_has_changed_since() -> None:
    reconciles = asked_for()
    reconciles.app = replace(APP, bootstrap="second")
    assert has(reconcile(reconciles, job(JobState.DONE)), ApplyChildren)
    assert bootstrap(reconciles).phase == "Done"


def test_a_revision_whose_check_fails_leaves_the_job_alone_and_starts_nothing() -> None:
    reconciles = asked_for()
    reconcile(reconciles, job(JobState.RUNNING))
    reconciles.app = replace(APP, revision="two", bootstrap="second")
    reconcile(reconciles, job(JobState.RUNNING))
    wrong = {"two": CheckSeen("two", CheckState.FAILED, ("no module wordcount",))}
    for _ in range(2):
        planned = reconcile(reconciles, job(JobState.RUNNING), checks=wrong, revisions=frozenset({"one", "two"}))
        assert not {type(it) for it in planned.actions} & {
            ApplyChildren,
            DeleteBootstrap,
            StartBootstrap,
            DeleteRevisions,
        }
    assert condition(reconciles, "Degraded").reason == "TopologyRefused"


def test_the_configuration_of_a_job_that_runs_is_kept() -> None:
    reconciles = asked_for()
    reconciles.app = replace(APP, revision="two", bootstrap="second")
    planned = reconcile(reconciles, job(JobState.RUNNING), revisions=frozenset({"one", "two", "zero"}))
    assert only(planned, DeleteRevisions).keep == {"one", "two"}


def test_an_operator_that_died_after_any_look_goes_on_from_the_status() -> None:
    reconciles = asked_for()
    seen: list[JobSeen | None] = [None, job(JobState.WAITING), job(JobState.RUNNING), job(JobState.DONE)]
    began = bootstrap(reconciles).started_at
    for each in seen:
        reconciles.status = from_document(to_document(reconciles.status))
        planned = reconcile(reconciles, each)
        assert has(planned, StartBootstrap) is (each is None)
        assert told(planned)[:1] == (["BootstrapDone"] if each is seen[-1] else [])
    reconciles.status = from_document(to_document(reconciles.status))
    assert only(reconcile(reconciles), ApplyChildren).revision == "one"
    assert bootstrap(reconciles).started_at == began


def test_the_job_is_looked_for_until_it_is_gone() -> None:
    reconciles = asked_for()
    reconcile(reconciles, job(JobState.DONE))
    assert bootstrap(reconciles).job == "app-bootstrap"
    assert has(reconcile(reconciles, job(JobState.DONE)), DeleteBootstrap)
    assert not has(reconcile(reconciles), DeleteBootstrap)
    assert bootstrap(reconciles).job is None


def test_pods_that_come_and_go_later_need_no_history() -> None:
    reconciles = asked_for()
    reconcile(reconciles, job(JobState.DONE))
    for state in (pods("one", "one", "one"), []):  # and a user deletes the StatefulSet
        children = {} if state else NOTHING
        planned = reconciles.plan(state, **children)
        assert not has(planned, StartBootstrap)
        assert has(planned, ApplyChildren)
    assert bootstrap(reconciles).phase == "Done"


def test_an_application_that_has_run_ignores_it_and_says_so() -> None:
    reconciles = Reconciles(wanted(bootstrap="first"), RUNS)
    planned = reconciles.plan(pods("one", "one", "one"))
    assert told(planned) == ["BootstrapIgnored"]
    assert (bootstrap(reconciles).phase, reconciles.status.phase) == ("Ignored", "Running")
    assert told(reconciles.plan(pods("one", "one", "one"))) == []
    reconciles.app = wanted()
    reconciles.plan(pods("one", "one", "one"))
    assert reconciles.status.bootstrap is None


def test_one_whose_pods_were_only_asked_for_has_run_too() -> None:
    reconciles = Reconciles(wanted(), AppStatus())
    reconcile(reconciles)
    reconcile(reconciles, checks=passed("one"))
    reconciles.app = APP
    assert not has(reconcile(reconciles), StartBootstrap)
    assert bootstrap(reconciles).phase == "Ignored"


def test_a_suspended_application_begins_when_there_are_to_be_pods() -> None:
    reconciles = fresh()
    reconciles.app = replace(APP, replicas=0)
    reconcile(reconciles)
    planned = reconcile(reconciles, checks=passed("one"))
    assert not {type(it) for it in planned.actions} & {ApplyChildren, StartBootstrap}
    assert (reconciles.status.phase, bootstrap(reconciles).phase) == ("Suspended", "Pending")
    assert "spec.replicas is 0" in (bootstrap(reconciles).message or "")
    reconciles.app = APP
    assert has(reconcile(reconciles), StartBootstrap)


def test_suspending_ends_the_job_and_it_goes_on_afterwards() -> None:
    reconciles = asked_for()
    reconcile(reconciles, job(JobState.RUNNING))
    reconciles.app = replace(APP, replicas=0)
    assert has(reconcile(reconciles, job(JobState.RUNNING)), DeleteBootstrap)
    reconcile(reconciles, job(JobState.ENDING))
    reconcile(reconciles)
    assert reconciles.status.phase == "Suspended"
    reconciles.app = APP
    planned = reconcile(reconciles)
    assert only(planned, StartBootstrap) == StartBootstrap("first")
    assert not has(planned, ApplyChildren)


def test_one_that_is_no_longer_asked_for_ends_before_pods_start() -> None:
    reconciles = asked_for()
    reconciles.app = wanted()
    planned = reconcile(reconciles, job(JobState.RUNNING))
    assert has(planned, DeleteBootstrap)
    assert not has(planned, ApplyChildren)
    assert not has(reconcile(reconciles, job(JobState.ENDING)), ApplyChildren)
    assert has(reconcile(reconciles), ApplyChildren)
    assert reconciles.status.bootstrap is None


def test_a_spec_that_became_invalid_starts_no_pod() -> None:
    reconciles = asked_for()
    reconciles.app = InvalidSpec("app", "ns", "uid", 2, ("spec.replicas: expected an integer",))
    assert not has(reconcile(reconciles, job(JobState.RUNNING)), ApplyChildren)
    assert bootstrap(reconciles).phase == "Running"
    assert has(reconcile(reconciles, job(JobState.DONE)), ApplyChildren)


def test_one_that_is_deleted_meanwhile_is_let_go_when_its_job_has_ended() -> None:
    reconciles = asked_for()
    reconciles.app = replace(APP, deleting=True)
    planned = reconcile(reconciles, job(JobState.RUNNING))
    assert (has(planned, DeleteBootstrap), has(planned, RemoveFinalizer)) == (True, False)
    assert not has(reconcile(reconciles, job(JobState.ENDING)), RemoveFinalizer)
    assert has(reconcile(reconciles), RemoveFinalizer)


def test_the_rollout_that_follows_is_a_first_start() -> None:
    reconciles = asked_for()
    reconcile(reconciles, job(JobState.DONE))
    starting = [pod(0, ready=False, report=None)]
    reconciles.plan(starting, template_revision="one", replicas=3)
    assert reconciles.status.phase == "Starting"
    reconciles.plan(pods("one", "one", "one"))
    assert reconciles.rollout.phase == "Complete"
