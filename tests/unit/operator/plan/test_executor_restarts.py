"""A revision of the same program on Spark: executors are replaced one by one, and their driver after them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as changed

from observed_builders import NOW, active, passed, pod, wanted
from planned_reconciles import RUNS, Reconciles, has, only
from streamsapp_operator.model.actions import ApplyChildren, DeleteRevisions, Evict, PostEvent
from streamsapp_operator.model.observed_state import PodSeen
from streamsapp_operator.model.status import RolloutStatus
from streamsapp_operator.plan import ReconcilePlan


def executor(ordinal: int, revision: str, state: str = "RUNNING", **changes: Any) -> PodSeen:
    made = pod(ordinal, replace(active(f"0_{ordinal}"), stores=()), revision=revision, program="p")
    assert made.report is not None
    return replace(made, report=replace(made.report, state=state), **changes)


def executors(*revisions: str) -> list[PodSeen]:
    return [executor(ordinal, revision) for ordinal, revision in enumerate(revisions)]


def driver(revision: str = "one", **changes: Any) -> PodSeen:
    made = pod(0, active("0_0"), active("0_1"), revision=revision, name="app-driver-0", uid=f"{revision}-driver")
    return replace(made, program="p", **changes)


def query(executors_of: str, driver_of: str = "one") -> dict[str, Any]:
    return {
        "engine": "spark", "driver_replicas": 1, "driver_revision": driver_of, "template_revision": executors_of,
        "replicas": 2,
    }  # fmt: skip


def begun(**changes: Any) -> Reconciles:
    """An application on Spark that is to have revision two, whose check has passed."""
    reconciles = Reconciles(
        wanted("two", 2, engine="spark", **{"program": "p", **changes}), changed(RUNS, engine="spark")
    )
    reconciles.plan(executors("one", "one"), driver=driver(), **query("one"))
    return reconciles


def revisions(planned: ReconcilePlan) -> tuple[str, str | None, bool]:
    """Those of the executors and of the driver, and whether that runs."""
    action = only(planned, ApplyChildren)
    return action.revision, action.driver_revision, action.runs_driver


def evicted(planned: ReconcilePlan) -> str | None:
    return only(planned, Evict).pod if has(planned, Evict) else None


def messages(planned: ReconcilePlan, reason: str = "PodRestarted") -> list[str]:
    return [it.message for it in planned.actions if isinstance(it, PostEvent) and it.reason == reason]


def first_is_new(reconciles: Reconciles) -> ReconcilePlan:
    """Until executor 1 has revision two, and the step has ended."""
    reconciles.plan(executors("one", "one"), driver=driver(), checks=passed("two"), **query("one"))
    reconciles.plan(executors("one", "one"), driver=driver(), **query("two"))
    reconciles.plan(executors("one", "two"), driver=driver(), **query("two"))
    return reconciles.plan(executors("one", "two"), driver=driver(), **query("two"))


def test_an_executor_is_replaced_only_when_the_last_one_took_part_in_a_batch() -> None:
    reconciles = begun()
    first = reconciles.plan(executors("one", "one"), driver=driver(), checks=passed("two"), **query("one"))
    assert (revisions(first), evicted(first)) == (("two", "one", True), None)
    second = reconciles.plan(executors("one", "one"), driver=driver(), **query("two"))
    assert (revisions(second), evicted(second)) == (("two", "one", True), "app-1")

    gone = reconciles.plan([executor(0, "one")], driver=driver(), **query("two"))
    assert evicted(gone) is None
    joining = [executor(0, "one"), executor(1, "two", "JOINING")]
    for _ in range(3):
        waits = reconciles.plan(joining, driver=driver(), **query("two"))
        assert evicted(waits) is None, "it is ready, and the query has not gone on with it"
    (blocker,) = reconciles.status.restart.blockers
    assert blocker.pod == "app-1"
    assert "its state is JOINING, not RUNNING, as it took part in no batch yet; if that" in blocker.reason
    assert "see its log and the driver's" in blocker.reason

    third = reconciles.plan(executors("one", "two"), driver=driver(), **query("two"))
    assert (revisions(third), evicted(third)) == (("two", "one", True), "app-0")


def test_the_driver_is_replaced_when_all_executors_have_the_revision_and_the_query_goes_on_with_them() -> None:
    reconciles = begun()
    first_is_new(reconciles)
    joining = [executor(0, "two", "JOINING"), executor(1, "two")]
    for _ in range(3):
        assert revisions(reconciles.plan(joining, driver=driver(), **query("two"))) == ("two", "one", True)
    planned = reconciles.plan(executors("two", "two"), driver=driver(), **query("two"))
    assert revisions(planned) == ("two", "two", True)
    assert "the driver is replaced" in (reconciles.rollout.message or "")

    starts = [executor(0, "two", "REBALANCING"), executor(1, "two", "REBALANCING")]
    again = driver("two", ready=False)
    assert revisions(reconciles.plan(starts, driver=again, **query("two", "two"))) == ("two", "two", True)
    assert reconciles.rollout.phase == "Rolling"
    reconciles.plan(executors("two", "two"), driver=driver("two"), **query("two", "two"))
    assert (reconciles.rollout.phase, reconciles.status.last_good_revision) == ("Complete", "two")


def test_the_replacement_of_the_driver_is_told_and_remembered_as_the_last_step() -> None:
    reconciles = begun()
    first_is_new(reconciles)
    for begins in (["app-driver-0 is restarted"], []):
        planned = reconciles.plan(executors("two", "two"), driver=driver(), **query("two"))
        assert messages(planned, "PodRestarting") == begins
    for seen in (driver(terminating=True), None, driver("two", ready=False)):
        assert messages(reconciles.plan(executors("two", "two"), driver=seen, **query("two", "two"))) == []
    planned = reconciles.plan(executors("two", "two"), driver=driver("two"), after=7, **query("two", "two"))
    assert messages(planned, "PodRestarted") == ["app-driver-0 is done; its tasks ran again after 11.0 s"]
    assert messages(reconciles.plan(executors("two", "two"), driver=driver("two"), **query("two", "two"))) == []
    record = reconciles.status.history[0]
    assert (record.revision, record.phase) == ("two", "Complete")
    assert [it.pod for it in record.steps] == ["app-1", "app-0", "app-driver-0"]
    assert record.steps[-1].observed_seconds == 11.0


def test_a_driver_that_ends_instead_of_being_replaced_is_not_told_as_done() -> None:
    reconciles = begun()
    first_is_new(reconciles)
    planned = reconciles.plan(executors("two", "two"), driver=driver(), **query("two"))
    assert messages(planned, "PodRestarting") == ["app-driver-0 is restarted"]
    suspended = query("two") | {"replicas": 0, "driver_replicas": 0}
    assert messages(reconciles.plan([], driver=None, **suspended), "PodRestarted") == []


def test_another_program_never_runs_beside_the_old_one() -> None:
    reconciles = begun(program="another")
    planned = reconciles.plan(executors("one", "one"), driver=driver(), checks=passed("two"), **query("one"))
    assert revisions(planned) == ("one", "one", False)
    assert "the same code" in (reconciles.rollout.message or "")


def test_a_driver_that_does_not_work_is_not_spared_by_a_revision_that_may_mend_it() -> None:
    reconciles = begun()
    broken = driver(ready=False, report=None, unreachable="timed out")
    planned = reconciles.plan(executors("one", "one"), driver=broken, checks=passed("two"), **query("one"))
    assert revisions(planned) == ("one", "one", False)
    assert "the driver does not work" in (reconciles.rollout.message or "")


def test_a_driver_that_was_ended_is_not_taken_for_one_that_comes_back() -> None:
    reconciles = begun()
    broken = driver(ready=False, restarts=1)
    ended = query("one") | {"driver_replicas": 0}
    first = reconciles.plan(executors("one", "one"), driver=broken, checks=passed("two"), **query("one"))
    assert not revisions(first)[2]
    for seen in (replace(broken, terminating=True), None):
        assert not revisions(reconciles.plan(executors("one", "one"), driver=seen, **ended))[2]
        assert "the driver does not work" in (reconciles.rollout.message or "")


YOUNG: dict[str, Any] = {"ready": False, "created_at": NOW, "report": None, "unreachable": "timed out"}


@pytest.mark.parametrize(
    "away",
    [None, driver(terminating=True), driver(waiting_reason="PodInitializing", **YOUNG), driver(**YOUNG)],
    ids=["missing", "terminating", "made", "starting"],
)
def test_a_restart_waits_for_a_driver_that_is_made_again_and_goes_on(away: PodSeen | None) -> None:
    reconciles = begun()
    first_is_new(reconciles)
    unknown = [replace(it, report=None, unreachable="its query has no driver") for it in executors("one", "two")]
    for _ in range(3):
        planned = reconciles.plan(unknown, driver=away, **query("two"))
        assert (revisions(planned), evicted(planned)) == (("two", "one", True), None)
    planned = reconciles.plan(executors("one", "two"), driver=driver(), **query("two"))
    assert (revisions(planned), evicted(planned)) == (("two", "one", True), "app-0")


@pytest.mark.parametrize(
    ("away", "after"),
    [
        (None, 600),
        (driver(**YOUNG), 600),
        (driver(**(YOUNG | {"waiting_reason": "ErrImagePull"})), 1),
        (driver(**(YOUNG | {"restarts": 1})), 1),
    ],
    ids=["missing", "starting", "no image", "crashed"],
)
def test_a_restart_ends_all_where_the_driver_does_not_come_back(away: PodSeen | None, after: float) -> None:
    reconciles = begun()
    first_is_new(reconciles)
    unknown = [replace(it, report=None, unreachable="its query has no driver") for it in executors("one", "two")]
    for _ in range(2):  # the step that began is given up, then it is known that none can begin
        reconciles.plan(unknown, driver=None, **query("two"))
    planned = reconciles.plan(unknown, driver=away, after=after, **query("two"))
    assert not revisions(planned)[2]
    assert "the driver does not work" in (reconciles.rollout.message or "")


@pytest.mark.parametrize(("restarts", "next_one"), [(0, "app-0"), (1, None)])
def test_an_executor_soaks_while_neither_it_nor_the_driver_is_started_again(
    restarts: int, next_one: str | None
) -> None:
    reconciles = begun(rollout=changed(wanted().rollout, soak_seconds=30))
    planned = first_is_new(reconciles)
    assert (revisions(planned), evicted(planned)) == (("one", "one", True), None)
    later = driver(restarts=restarts)
    for _ in range(2):  # the StatefulSet leads to the revision before the pod is taken
        planned = reconciles.plan(executors("one", "two"), driver=later, after=20, **query("two"))
    assert evicted(planned) == next_one


def test_a_new_executor_that_cannot_run_leads_back_and_the_driver_stays() -> None:
    reconciles = begun()
    reconciles.plan(executors("one", "one"), driver=driver(), checks=passed("two"), **query("one"))
    reconciles.plan(executors("one", "one"), driver=driver(), **query("two"))
    crashes = executor(1, "two", ready=False, restarts=3, waiting_reason="CrashLoopBackOff", last_exit="exit 1")
    back = reconciles.plan([executor(0, "one"), crashes], driver=driver(), **query("two"))
    assert (reconciles.rollout.phase, revisions(back)) == ("RollingBack", ("one", "one", True))
    planned = reconciles.plan([executor(0, "one"), crashes], driver=driver(), **query("one"))
    assert (evicted(planned), revisions(planned)) == ("app-1", ("one", "one", True))


def test_the_configuration_of_a_driver_is_kept_as_long_as_it_has_it() -> None:
    reconciles = begun()
    rollout = RolloutStatus(revision="two", phase="Rolling", checked=True)
    reconciles.status = changed(reconciles.status, last_good_revision="three", rollout=rollout)
    there = frozenset({"zero", "one", "two"})
    planned = reconciles.plan(executors("two", "two"), driver=driver(), revisions=there, **query("two"))
    assert "one" in only(planned, DeleteRevisions).keep
