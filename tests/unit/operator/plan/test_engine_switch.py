"""Two engines: one of them at a time, in either direction, and a pause that the status reports before and after."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as changed

from observed_builders import active, passed, pod, wanted
from planned_reconciles import RUNS, Reconciles, has, only, three, told
from streamsapp_operator.model.actions import ApplyChildren, Evict, RemoveFinalizer
from streamsapp_operator.model.desired_state import AnnotationRequests
from streamsapp_operator.model.observed_state import CheckSeen, CheckState, PodSeen, QueryReport
from streamsapp_operator.model.status import AppStatus, SwitchStatus
from streamsapp_operator.plan import ReconcilePlan
from streamsapp_operator.plan.plan_input import moment

SPARK = wanted("two", 2, engine="spark")


def executors(revision: str = "two") -> list[PodSeen]:
    return [pod(it, replace(active(f"0_{it}"), stores=()), revision=revision) for it in range(2)]


def driver(revision: str = "two", **changes: Any) -> PodSeen:
    made = pod(0, active("0_0"), active("0_1"), revision=revision, name="app-driver-0", uid=f"{revision}-driver")
    return replace(made, **changes)


def query(drivers: int = 1, revision: str = "two", replicas: int = 2) -> dict[str, Any]:
    """The children of ``engine: spark``."""
    return {
        "engine": "spark", "driver_replicas": drivers, "driver_revision": revision, "template_revision": revision,
        "replicas": replicas,
    }  # fmt: skip


def threads(replicas: int = 3) -> dict[str, Any]:
    return {"engine": "threads", "template_revision": "one", "replicas": replicas}


def applied(planned: ReconcilePlan) -> tuple[str, int, bool]:
    action = only(planned, ApplyChildren)
    return action.revision, action.replicas, action.runs_driver


def switch(reconciles: Reconciles) -> SwitchStatus:
    assert reconciles.status.switch is not None
    return reconciles.status.switch


def on_spark(**changes: Any) -> Reconciles:
    """An application that runs on Spark, and is to do something else."""
    good = replace_status(RUNS, revision="two", engine="spark")
    return Reconciles(wanted("three", 2, **changes), good)


def replace_status(status: AppStatus, *, revision: str, engine: Any) -> AppStatus:
    assert status.rollout is not None
    return changed(
        status, last_good_revision=revision, engine=engine, rollout=changed(status.rollout, revision=revision)
    )


def test_every_pod_ends_before_the_driver_starts_and_the_pause_is_told_before_and_after() -> None:
    reconciles = Reconciles(SPARK)
    reconciles.plan(three(), **threads())  # the check begins
    first = reconciles.plan(three(), checks=passed("two"), **threads())

    assert applied(first) == ("one", 0, False)
    assert "EngineSwitching" in told(first)
    begun = switch(reconciles)
    assert (begun.from_engine, begun.to_engine, begun.observed_seconds) == ("threads", "spark", None)
    assert begun.predicted_seconds > 0

    ending = [replace(it, terminating=True) for it in three()[:1]]
    assert applied(reconciles.plan(ending, **threads(0))) == ("one", 0, False)
    assert applied(reconciles.plan([], **threads(0))) == ("two", 2, True)
    waits = reconciles.plan(executors(), driver=driver(ready=False), **query())
    assert "EngineSwitched" not in told(waits)
    assert reconciles.rollout.phase == "Rolling"
    last = reconciles.plan(executors(), driver=driver(), **query())

    assert "EngineSwitched" in told(last)
    assert switch(reconciles).observed_seconds == pytest.approx(4, abs=0.1)
    assert (reconciles.rollout.phase, reconciles.status.engine) == ("Complete", "spark")
    assert reconciles.status.last_good_revision == "two"


def test_a_new_application_says_the_engine_that_its_spec_asks_for() -> None:
    reconciles = Reconciles(SPARK, AppStatus())
    reconciles.plan([], **threads(0) | {"engine": None, "template_revision": None, "replicas": None})
    assert (reconciles.rollout.phase, reconciles.status.engine) == ("Checking", "spark")


def test_what_comes_back_while_new_pods_soak_is_not_of_the_engine_that_ended() -> None:
    reconciles = Reconciles(replace(SPARK, rollout=changed(SPARK.rollout, soak_seconds=30)))
    reconciles.plan(three(), **threads())
    reconciles.plan(three(), checks=passed("two"), **threads())
    reconciles.plan([], **threads(0))
    soaks = reconciles.plan(executors(), driver=driver(), **query())
    assert reconciles.rollout.phase == "Rolling"
    assert applied(soaks) == ("two", 2, True)


def soaking() -> Reconciles:
    """An application whose pods have all ended, in order to go to Spark."""
    rollout = changed(SPARK.rollout, soak_seconds=30, progress_deadline_seconds=60)
    reconciles = Reconciles(replace(SPARK, rollout=rollout))
    reconciles.plan(three(), **threads())
    reconciles.plan(three(), checks=passed("two"), **threads())
    reconciles.plan([], **threads(0))
    return reconciles


def test_executors_that_soak_prove_nothing_while_their_driver_does_not_get_ready() -> None:
    reconciles = soaking()
    for _ in range(7):
        reconciles.plan(executors(), driver=driver(ready=False), after=10, **query())
    assert reconciles.rollout.phase == "RollingBack"
    assert "app-driver-0 was not ready within 60 s" in (reconciles.rollout.failure or "")


def test_the_soak_is_no_part_of_the_pause_and_begins_when_the_driver_is_ready() -> None:
    reconciles = soaking()
    reconciles.plan(executors(), driver=driver(ready=False), after=10, **query())
    for _ in range(3):
        reconciles.plan(executors(), driver=driver(), after=10, **query())
        assert reconciles.rollout.phase == "Rolling"
    reconciles.plan(executors(), driver=driver(), after=10, **query())
    assert reconciles.rollout.phase == "Complete"
    assert switch(reconciles).observed_seconds == pytest.approx(21, abs=0.1)


def test_a_driver_whose_executors_were_never_made_ends_before_pods_start() -> None:
    reconciles = Reconciles(wanted("one", 3))
    alone = {**threads(0), "driver_replicas": 1, "driver_revision": "two"}
    assert applied(reconciles.plan([], **alone)) == ("one", 0, False)
    assert applied(reconciles.plan([], driver=driver(terminating=True), **threads(0))) == ("one", 0, False)
    assert applied(reconciles.plan([], **threads(0))) == ("one", 3, True)


def test_a_revision_that_is_refused_during_a_switch_leads_back_without_two_engines_at_a_time() -> None:
    reconciles = soaking()
    reconciles.plan(executors(), driver=driver(), **query())
    reconciles.app = wanted("three", 2, engine="spark")
    reconciles.plan(executors(), driver=driver(), **query())
    refused = {"three": CheckSeen("three", CheckState.FAILED, faults=("spec.topology: a typo",))}

    first = reconciles.plan(executors(), driver=driver(), checks=refused, **query())
    assert applied(first) == ("two", 2, False)
    assert not has(first, Evict)
    assert applied(reconciles.plan(executors(), **query(drivers=0))) == ("two", 0, False)
    assert applied(reconciles.plan([], **query(drivers=0, replicas=0))) == ("one", 2, True)
    last = reconciles.plan(three()[:2], **threads(2))
    assert reconciles.rollout.phase == "Refused"
    assert "EngineSwitched" in told(last), "nobody waits for the other engine any more"
    assert switch(reconciles).learned == {}
    assert "a typo" in (reconciles.rollout.message or "")


def test_a_revision_that_is_refused_ends_no_pod_of_the_engine_that_runs() -> None:
    reconciles = Reconciles(wanted("two"))
    reconciles.plan(three(), **threads())
    reconciles.plan(three(), checks=passed("two"), **threads())
    reconciles.app = wanted("three", engine="spark")
    reconciles.plan(three("one", "one", "two"), **threads())
    refused = {"three": CheckSeen("three", CheckState.FAILED, faults=("spec.topology: a typo",))}
    assert applied(reconciles.plan(three("one", "one", "two"), checks=refused, **threads())) == ("one", 3, True)


def test_the_engine_that_runs_goes_on_while_the_way_back_to_the_other_is_paused() -> None:
    reconciles = soaking()
    reconciles.plan(executors(), driver=driver(), **query())
    reconciles.app = wanted("three", 2, engine="spark", requests=AnnotationRequests(paused=True))
    reconciles.plan(executors(), driver=driver(), **query())
    refused = {"three": CheckSeen("three", CheckState.FAILED, faults=("spec.topology: a typo",))}
    assert applied(reconciles.plan(executors(), driver=driver(), checks=refused, **query())) == ("two", 2, True)


def test_the_driver_ends_before_its_executors_and_these_before_the_first_pod() -> None:
    reconciles = on_spark()
    reconciles.plan(executors(), driver=driver(), **query())
    first = reconciles.plan(executors(), driver=driver(), checks=passed("three"), **query())
    assert applied(first) == ("two", 2, False)

    gone = reconciles.plan(executors(), driver=driver(terminating=True), **query(drivers=0))
    assert applied(gone) == ("two", 2, False), "it commits its batch with them"
    assert applied(reconciles.plan(executors(), **query(drivers=0))) == ("two", 0, False)
    ending = [replace(it, terminating=True) for it in executors()]
    assert applied(reconciles.plan(ending, **query(drivers=0, replicas=0))) == ("two", 0, False)
    assert applied(reconciles.plan([], **query(drivers=0, replicas=0))) == ("three", 2, True)
    assert switch(reconciles).to_engine == "threads"


def test_a_driver_that_is_asked_for_and_not_there_yet_is_not_started_beside_pods() -> None:
    reconciles = on_spark()
    reconciles.plan([], **query(replicas=0))
    planned = reconciles.plan([], checks=passed("three"), **query(replicas=0))
    assert applied(planned) == ("two", 0, False)


def test_a_new_revision_on_spark_is_no_switch_and_never_runs_beside_the_old_one() -> None:
    reconciles = on_spark(engine="spark")
    reconciles.plan(executors(), driver=driver(), **query())
    first = reconciles.plan(executors(), driver=driver(), checks=passed("three"), **query())

    assert applied(first) == ("two", 2, False)
    assert reconciles.status.switch is None
    assert "executors and their driver must run the same code" in (reconciles.rollout.message or "")


def test_a_driver_that_cannot_run_leads_back_to_the_engine_before() -> None:
    reconciles = Reconciles(SPARK)
    reconciles.plan(three(), **threads())
    reconciles.plan(three(), checks=passed("two"), **threads())
    reconciles.plan([], **threads(0))
    crashes = driver(
        ready=False, report=None, restarts=3, waiting_reason="CrashLoopBackOff", last_exit="exit 2: no such module"
    )
    back = reconciles.plan(executors(), driver=crashes, **query())

    assert "RollingBack" in told(back)
    assert "app-driver-0 cannot run" in (reconciles.rollout.failure or "")
    assert applied(back) == ("two", 2, False)
    assert applied(reconciles.plan(executors(), **query(drivers=0))) == ("two", 0, False)
    assert applied(reconciles.plan([], **query(drivers=0, replicas=0))) == ("one", 2, True)


def test_what_a_switch_took_is_what_is_predicted_for_the_next_one() -> None:
    reconciles = Reconciles(SPARK)
    learned = SwitchStatus(
        revision="zero", from_engine="spark", to_engine="threads", started_at=moment(reconciles.now),
        predicted_seconds=5.0, observed_seconds=8.0, learned={"threads": 8.0, "spark": 33.0},
    )  # fmt: skip
    reconciles.status = changed(reconciles.status, switch=learned)
    reconciles.plan(three(), **threads())
    reconciles.plan(three(), checks=passed("two"), **threads())
    assert switch(reconciles).predicted_seconds == 33.0


def test_a_query_is_ready_when_its_driver_is() -> None:
    reconciles = Reconciles(wanted("two", 2, engine="spark"), replace_status(RUNS, revision="two", engine="spark"))
    reconciles.plan(executors(), driver=driver(ready=False), **query())
    ready = {it.type: it for it in reconciles.status.conditions}["Ready"]
    assert (ready.status, ready.reason) == ("False", "DriverNotReady")

    figures = QueryReport(state="RUNNING", batches=7, batch_seconds=0.4, records_per_second=1200.0)
    seen = driver()
    assert seen.report is not None
    reconciles.plan(executors(), driver=replace(seen, report=replace(seen.report, query=figures)), **query())
    ready = {it.type: it for it in reconciles.status.conditions}["Ready"]
    assert ready.status == "True"
    assert reconciles.status.query == figures
    assert (reconciles.status.tasks.active, reconciles.status.input_lag) == (2, 20)
    assert reconciles.status.restart.safe


def test_a_suspended_or_deleted_application_ends_its_driver_first() -> None:
    reconciles = Reconciles(wanted("two", 0, engine="spark"), replace_status(RUNS, revision="two", engine="spark"))
    assert applied(reconciles.plan(executors(), driver=driver(), **query())) == ("two", 2, False)
    assert applied(reconciles.plan(executors(), **query(drivers=0))) == ("two", 0, False)

    reconciles.app = wanted("two", 2, engine="spark", deleting=True)
    assert applied(reconciles.plan(executors(), driver=driver(), **query())) == ("two", 2, False)
    assert applied(reconciles.plan(executors(), **query(drivers=0))) == ("two", 0, False)
    assert [type(it) for it in reconciles.plan([], **query(drivers=0, replicas=0)).actions] == [RemoveFinalizer]
