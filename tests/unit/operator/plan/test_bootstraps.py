"""State made of history before the first pods: nothing starts on half of it, and what is done is not done again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from observed_builders import passed, pod, pods, wanted
from planned_reconciles import RUNS, Looks, has, only, told
from streamsapp_operator.model.actions import (
    ApplyChildren,
    DropBootstrap,
    DropCheck,
    DropRevisions,
    Release,
    StartBootstrap,
    StartCheck,
)
from streamsapp_operator.model.desired_state import InvalidSpec
from streamsapp_operator.model.observed_state import BootstrapSeen, CheckSeen, CheckState, JobState
from streamsapp_operator.model.status import AppStatus, BootstrapStatus, Condition, from_document, to_document
from streamsapp_operator.plan import ReconcilePlan

NOTHING: dict[str, Any] = {"replicas": None, "template_revision": None, "max_unavailable": None}
APP = wanted(bootstrap="first")


def job(state: JobState, message: str | None = None, *, attempt: str = "first", **changes: Any) -> BootstrapSeen:
    return BootstrapSeen(attempt, "one", state, message, **changes)


def fresh() -> Looks:
    """An application of which nothing is there."""
    return Looks(APP, AppStatus())


def look(looks: Looks, seen: BootstrapSeen | None = None, **more: Any) -> ReconcilePlan:
    return looks.look([], job=seen, **NOTHING | more)


def asked_for() -> Looks:
    """Its check has passed, and the Job is asked for."""
    looks = fresh()
    look(looks)
    look(looks, checks=passed("one"))
    return looks


def failed(why: str = "exit 2: no such topic") -> Looks:
    looks = asked_for()
    look(looks, job(JobState.FAILED, why))
    return looks


def bootstrap(looks: Looks) -> BootstrapStatus:
    assert looks.status.bootstrap is not None
    return looks.status.bootstrap


def condition(looks: Looks, name: str) -> Condition:
    return next(it for it in looks.status.conditions if it.type == name)


def test_the_job_starts_once_the_check_has_passed_and_no_pod_is_made_before_it_is_done() -> None:
    looks = fresh()
    assert has(look(looks), StartCheck)
    planned = look(looks, checks=passed("one"))
    assert only(planned, StartBootstrap) == StartBootstrap("first")
    assert has(planned, DropCheck)
    assert told(planned) == ["BootstrapStarted"]
    for state in (JobState.WAITING, JobState.RUNNING):
        planned = look(looks, job(state))
        assert not has(planned, ApplyChildren)
        assert not has(planned, StartBootstrap)
    planned = look(looks, job(JobState.DONE))
    assert only(planned, ApplyChildren).revision == "one"
    assert has(planned, DropBootstrap)
    assert told(planned) == ["BootstrapDone", "RolloutStarted"]


def test_the_status_says_what_is_going_on() -> None:
    looks = asked_for()
    assert (bootstrap(looks).phase, bootstrap(looks).job, bootstrap(looks).attempt) == (
        "Pending",
        "app-bootstrap",
        "first",
    )
    look(looks, job(JobState.RUNNING))
    assert (looks.status.phase, bootstrap(looks).phase, looks.rollout.phase) == (
        "Bootstrapping",
        "Running",
        "Bootstrapping",
    )
    assert [(condition(looks, it).status, condition(looks, it).reason) for it in ("Ready", "Progressing")] == [
        ("False", "Bootstrapping"),
        ("True", "Bootstrapping"),
    ]
    assert condition(looks, "Degraded").status == "False"
    began = bootstrap(looks).started_at
    look(looks, job(JobState.DONE), after=60)
    assert (bootstrap(looks).phase, bootstrap(looks).started_at) == ("Done", began)
    assert bootstrap(looks).finished_at == looks.rollout.started_at


def test_what_keeps_its_pod_from_running_is_told() -> None:
    looks = asked_for()
    look(looks, job(JobState.WAITING, "ImagePullBackOff: no such image", stuck=True))
    assert "no such image" in condition(looks, "Progressing").message
    assert condition(looks, "Degraded").reason == "PodFailing"
    look(looks, job(JobState.RUNNING))
    assert condition(looks, "Degraded").status == "False"


def test_a_failure_starts_nothing_and_tells_why_and_what_to_do() -> None:
    looks = asked_for()
    planned = look(looks, job(JobState.FAILED, "exit 1: the store is away"))
    assert told(planned) == ["BootstrapFailed"]
    for seen in (job(JobState.FAILED, "its pods are gone"), None):  # its Job may be deleted
        planned = look(looks, seen, after=600)
        assert [it for it in planned.actions if not isinstance(it, DropRevisions)] == []
    assert looks.status.phase == "Bootstrap failed"
    for name, state in (("Ready", "False"), ("Progressing", "False"), ("Degraded", "True")):
        assert (condition(looks, name).status, condition(looks, name).reason) == (state, "BootstrapFailed")
        assert "the store is away; no pod is started" in condition(looks, name).message
        assert "kubectl streamsapp restart app" in condition(looks, name).message


@pytest.mark.parametrize("changes", [{"revision": "two", "bootstrap": "second"}, {"bootstrap": "second"}])
def test_it_is_tried_again_after_a_change_once_the_job_before_is_gone(changes: dict[str, Any]) -> None:
    looks = failed()
    looks.app = replace(APP, **changes)
    checks = passed("two")
    if "revision" in changes:
        assert not has(look(looks, job(JobState.FAILED)), DropBootstrap)  # first the check: it may be wrong, too
    planned = look(looks, job(JobState.FAILED), checks=checks)
    assert has(planned, DropBootstrap)
    assert not has(planned, StartBootstrap)
    assert condition(looks, "Degraded").status == "False"
    planned = look(looks, job(JobState.ENDING), checks=checks)
    assert not has(planned, DropBootstrap)
    assert not has(planned, StartBootstrap)
    planned = look(looks, checks=checks)
    assert only(planned, StartBootstrap) == StartBootstrap("second")
    assert told(planned) == ["BootstrapStarted"]


def test_a_change_while_it_runs_ends_the_job_and_begins_another() -> None:
    looks = asked_for()
    look(looks, job(JobState.RUNNING))
    looks.app = replace(APP, bootstrap="second")
    assert has(look(looks, job(JobState.RUNNING)), DropBootstrap)
    assert not has(look(looks, job(JobState.ENDING)), StartBootstrap)
    assert only(look(looks), StartBootstrap) == StartBootstrap("second")


def test_a_job_that_is_done_counts_although_the_spec_has_changed_since() -> None:
    looks = asked_for()
    looks.app = replace(APP, bootstrap="second")
    assert has(look(looks, job(JobState.DONE)), ApplyChildren)
    assert bootstrap(looks).phase == "Done"


def test_a_revision_whose_check_fails_leaves_the_job_alone_and_starts_nothing() -> None:
    looks = asked_for()
    look(looks, job(JobState.RUNNING))
    looks.app = replace(APP, revision="two", bootstrap="second")
    look(looks, job(JobState.RUNNING))
    wrong = {"two": CheckSeen("two", CheckState.FAILED, ("no module wordcount",))}
    for _ in range(2):
        planned = look(looks, job(JobState.RUNNING), checks=wrong, revisions=frozenset({"one", "two"}))
        assert not {type(it) for it in planned.actions} & {ApplyChildren, DropBootstrap, StartBootstrap, DropRevisions}
    assert condition(looks, "Degraded").reason == "TopologyRefused"


def test_the_configuration_of_a_job_that_runs_is_kept() -> None:
    looks = asked_for()
    looks.app = replace(APP, revision="two", bootstrap="second")
    planned = look(looks, job(JobState.RUNNING), revisions=frozenset({"one", "two", "zero"}))
    assert only(planned, DropRevisions).keep == {"one", "two"}


def test_an_operator_that_died_after_any_look_goes_on_from_the_status() -> None:
    looks = asked_for()
    seen: list[BootstrapSeen | None] = [None, job(JobState.WAITING), job(JobState.RUNNING), job(JobState.DONE)]
    began = bootstrap(looks).started_at
    for each in seen:
        looks.status = from_document(to_document(looks.status))
        planned = look(looks, each)
        assert has(planned, StartBootstrap) is (each is None)
        assert told(planned)[:1] == (["BootstrapDone"] if each is seen[-1] else [])
    looks.status = from_document(to_document(looks.status))
    assert only(look(looks), ApplyChildren).revision == "one"
    assert bootstrap(looks).started_at == began


def test_the_job_is_looked_for_until_it_is_gone() -> None:
    looks = asked_for()
    look(looks, job(JobState.DONE))
    assert bootstrap(looks).job == "app-bootstrap"
    assert has(look(looks, job(JobState.DONE)), DropBootstrap)
    assert not has(look(looks), DropBootstrap)
    assert bootstrap(looks).job is None


def test_pods_that_come_and_go_later_need_no_history() -> None:
    looks = asked_for()
    look(looks, job(JobState.DONE))
    for state in (pods("one", "one", "one"), []):  # and somebody deletes the StatefulSet
        children = {} if state else NOTHING
        planned = looks.look(state, **children)
        assert not has(planned, StartBootstrap)
        assert has(planned, ApplyChildren)
    assert bootstrap(looks).phase == "Done"


def test_an_application_that_has_run_ignores_it_and_says_so() -> None:
    looks = Looks(wanted(bootstrap="first"), RUNS)
    planned = looks.look(pods("one", "one", "one"))
    assert told(planned) == ["BootstrapIgnored"]
    assert (bootstrap(looks).phase, looks.status.phase) == ("Ignored", "Running")
    assert told(looks.look(pods("one", "one", "one"))) == []
    looks.app = wanted()
    looks.look(pods("one", "one", "one"))
    assert looks.status.bootstrap is None


def test_one_whose_pods_were_only_asked_for_has_run_too() -> None:
    looks = Looks(wanted(), AppStatus())
    look(looks)
    look(looks, checks=passed("one"))
    looks.app = APP
    assert not has(look(looks), StartBootstrap)
    assert bootstrap(looks).phase == "Ignored"


def test_a_suspended_application_begins_when_there_are_to_be_pods() -> None:
    looks = fresh()
    looks.app = replace(APP, replicas=0)
    look(looks)
    planned = look(looks, checks=passed("one"))
    assert not {type(it) for it in planned.actions} & {ApplyChildren, StartBootstrap}
    assert (looks.status.phase, bootstrap(looks).phase) == ("Suspended", "Pending")
    assert "spec.replicas is 0" in (bootstrap(looks).message or "")
    looks.app = APP
    assert has(look(looks), StartBootstrap)


def test_suspending_ends_the_job_and_it_goes_on_afterwards() -> None:
    looks = asked_for()
    look(looks, job(JobState.RUNNING))
    looks.app = replace(APP, replicas=0)
    assert has(look(looks, job(JobState.RUNNING)), DropBootstrap)
    look(looks, job(JobState.ENDING))
    look(looks)
    assert looks.status.phase == "Suspended"
    looks.app = APP
    planned = look(looks)
    assert only(planned, StartBootstrap) == StartBootstrap("first")
    assert not has(planned, ApplyChildren)


def test_one_that_is_no_longer_asked_for_ends_before_pods_start() -> None:
    looks = asked_for()
    looks.app = wanted()
    planned = look(looks, job(JobState.RUNNING))
    assert has(planned, DropBootstrap)
    assert not has(planned, ApplyChildren)
    assert not has(look(looks, job(JobState.ENDING)), ApplyChildren)
    assert has(look(looks), ApplyChildren)
    assert looks.status.bootstrap is None


def test_a_spec_that_became_invalid_starts_no_pod() -> None:
    looks = asked_for()
    looks.app = InvalidSpec("app", "ns", "uid", 2, ("spec.replicas: expected an integer",))
    assert not has(look(looks, job(JobState.RUNNING)), ApplyChildren)
    assert bootstrap(looks).phase == "Running"
    assert has(look(looks, job(JobState.DONE)), ApplyChildren)


def test_one_that_is_deleted_meanwhile_is_let_go_at_once() -> None:
    looks = asked_for()
    looks.app = replace(APP, deleting=True)
    assert has(look(looks, job(JobState.RUNNING)), Release)


def test_the_rollout_that_follows_is_a_first_start() -> None:
    looks = asked_for()
    look(looks, job(JobState.DONE))
    starting = [pod(0, ready=False, report=None)]
    looks.look(starting, template_revision="one", replicas=3)
    assert looks.status.phase == "Starting"
    looks.look(pods("one", "one", "one"))
    assert looks.rollout.phase == "Complete"
