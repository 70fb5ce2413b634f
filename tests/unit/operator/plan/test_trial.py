"""A revision that all pods have becomes the last good one after a while; if it fails before, the operator goes back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as changed

from observed_builders import NOW, ROLLOUT, SHAPE, passed, pods, wanted
from planned_reconciles import Reconciles, has, only, three, told
from streamsapp.manifest.model import RolloutSpec
from streamsapp_operator.model.actions import ApplyChildren, DeleteRevisions, Evict
from streamsapp_operator.model.desired_state import AnnotationRequests
from streamsapp_operator.model.observed_state import HangReport, PodSeen, ReportedRole, TopologyShape
from streamsapp_operator.model.resource_status import from_document, to_document
from streamsapp_operator.plan import ReconcilePlan
from streamsapp_operator.plan.topology_compatibility import encode

TRIES: RolloutSpec = changed(ROLLOUT, soak_seconds=30, last_good_seconds=600)
MORE = TopologyShape({**SHAPE.sources, 1: ("more",)}, {**SHAPE.stores, 1: {"sums": "key-value"}})
STUCK = HangReport("0_1", 31.0, "task 0_1 has had record orders-1@17 in process for 31 s")


def look(reconciles: Reconciles, seen: list[PodSeen], template: str = "two", after: float = 1.0) -> ReconcilePlan:
    """By an operator that knows nothing but the status."""
    reconciles.status = from_document(to_document(reconciles.status))
    return reconciles.plan(seen, template_revision=template, after=after)


def phase(reconciles: Reconciles) -> str:
    return reconciles.rollout.phase


def tried(**changes: Any) -> Reconciles:
    """All pods have revision two, and were well for as long as they soak."""
    reconciles = Reconciles(wanted("two", rollout=TRIES, **changes))
    reconciles.plan(three())
    reconciles.plan(three(), checks=passed("two", MORE))
    look(reconciles, new())
    look(reconciles, new(), after=31)
    assert phase(reconciles) == "Complete"
    return reconciles


def new(**changes: Any) -> list[PodSeen]:
    """The pods of revision two; ``changes`` are of the last one."""
    seen = three("two", "two", "two")
    return [*seen[:2], replace(seen[2], **changes)]


def hanging(seconds: float, revision: str = "two", *, ready: bool = False) -> PodSeen:
    """The last pod, with a task that hangs."""
    pod = three(revision, revision, revision)[2]
    assert pod.report is not None
    told = replace(pod.report, hanging=(replace(STUCK, seconds=seconds),), in_process_seconds=seconds, ready=ready)
    return replace(pod, ready=ready, was_ready=True, report=told)


def test_it_is_the_last_good_one_when_its_pods_have_run_for_long_enough() -> None:
    reconciles = tried()
    assert reconciles.status.last_good_revision == "one"
    assert reconciles.status.shape == encode(SHAPE)
    assert "spec.rollout.lastGoodSeconds" in next(
        it.message for it in reconciles.status.conditions if it.type == "Progressing"
    )
    planned = reconciles.plan(new(), template_revision="two", revisions=frozenset({"one", "two", "old"}))
    assert only(planned, DeleteRevisions).keep == {"one", "two"}, "it may have to go back"
    look(reconciles, new(), after=590)
    assert reconciles.status.last_good_revision == "one"
    look(reconciles, new(), after=10)
    assert (reconciles.status.last_good_revision, reconciles.status.trial) == ("two", None)
    assert reconciles.status.shape == encode(MORE)


def test_a_restart_begins_the_time_anew_and_three_lead_back() -> None:
    reconciles = tried()
    for restarts, after in ((1, 45), (2, 45)):
        now = reconciles.now + after
        look(reconciles, new(restarts=restarts, running_since=now, ready=False), after=after)
        assert (phase(reconciles), reconciles.status.last_good_revision) == ("Complete", "one")
    began = reconciles.now
    look(reconciles, new(restarts=2, running_since=began), after=590)
    assert reconciles.status.last_good_revision == "one", "it ran for 590 s since the restart"

    planned = look(reconciles, new(restarts=3, running_since=reconciles.now, last_exit="exit 1: boom"), after=1)
    assert "RollingBack" in told(planned)
    assert (phase(reconciles), reconciles.status.failed_revision) == ("RollingBack", "two")
    assert "app-2 cannot run: it restarted 3 times, the last time after exit 1: boom" in (
        reconciles.rollout.failure or ""
    )
    assert only(planned, ApplyChildren).revision == "one"
    assert has(look(reconciles, new(restarts=3, running_since=reconciles.now), template="one"), Evict)
    look(reconciles, three(), template="one")
    look(reconciles, three(), template="one")
    assert (phase(reconciles), reconciles.status.last_good_revision) == ("RolledBack", "one")
    assert reconciles.status.trial is None


def test_a_pod_that_is_made_anew_by_a_drain_begins_nothing_anew() -> None:
    reconciles = tried()
    look(reconciles, new(), after=300)
    look(reconciles, new(uid="another", created_at=reconciles.now), after=301)
    assert reconciles.status.last_good_revision == "two"


def test_a_task_with_input_that_has_not_committed_is_waited_for() -> None:
    reconciles = tried()

    def committed(commits: int | None) -> list[PodSeen]:
        seen = new()
        report = seen[1].report
        assert report is not None
        tasks = tuple(replace(it, commits=commits, processed=5) for it in report.tasks)
        return [seen[0], replace(seen[1], report=replace(report, tasks=tasks)), seen[2]]

    look(reconciles, committed(0), after=700)
    assert reconciles.status.last_good_revision == "one"
    look(reconciles, committed(1))
    assert reconciles.status.last_good_revision == "two"


def test_a_hang_makes_it_degraded_at_once_and_leads_back_after_a_while() -> None:
    reconciles = tried()
    look(reconciles, [*new()[:2], hanging(31)])
    (degraded,) = [it for it in reconciles.status.conditions if it.type == "Degraded"]
    assert (degraded.status, degraded.reason) == ("True", "TaskHangs")
    assert STUCK.message in degraded.message
    assert not reconciles.status.restart.safe
    assert any(it.task == "0_1" and "it commits nothing" in it.reason for it in reconciles.status.restart.blockers)
    assert phase(reconciles) == "Complete"
    planned = look(reconciles, [*new()[:2], hanging(121)])
    assert phase(reconciles) == "RollingBack"
    assert "processes nothing" in (reconciles.rollout.failure or "")
    assert only(planned, ApplyChildren).revision == "one"


def test_nothing_leads_back_while_it_is_paused() -> None:
    reconciles = tried()
    reconciles.app = wanted("two", rollout=TRIES, requests=AnnotationRequests(paused=True))
    look(reconciles, new(restarts=3, running_since=reconciles.now))
    assert phase(reconciles) == "Complete"


def test_a_refused_revision_leaves_the_one_on_trial_alone() -> None:
    reconciles = tried()
    reconciles.app = wanted("three", rollout=TRIES, generation=3)
    look(reconciles, new())
    moved = TopologyShape({0: ("other",)}, {0: {"counts": "key-value"}})
    planned = reconciles.plan(new(), template_revision="two", checks=passed("three", moved))
    assert phase(reconciles) == "Refused"
    assert not has(planned, Evict)
    assert only(planned, ApplyChildren).revision == "two"
    assert reconciles.status.last_good_revision == "one"


def test_a_third_revision_is_compared_with_the_one_on_trial_and_goes_on_trial_itself() -> None:
    reconciles = tried()
    reconciles.app = wanted("three", rollout=TRIES, generation=3)
    look(reconciles, new())
    reconciles.plan(new(), template_revision="two", checks=passed("three", MORE))
    assert has(look(reconciles, new(), template="three"), Evict)
    newest = three("three", "three", "three")
    look(reconciles, newest, template="three")
    look(reconciles, newest, template="three", after=31)
    assert reconciles.status.trial is not None
    assert (reconciles.status.trial.revision, reconciles.status.last_good_revision) == ("three", "one")


def test_a_revision_whose_pods_process_nothing_of_what_waits_is_not_rolled_on() -> None:
    reconciles = Reconciles(wanted("two", rollout=TRIES))
    reconciles.plan(three())
    reconciles.plan(three(), checks=passed("two", MORE))

    def mixed(processed: int) -> list[PodSeen]:
        seen = three("one", "one", "two")
        report = seen[2].report
        assert report is not None
        tasks = tuple(replace(it, processed=processed) for it in report.tasks)
        return [*seen[:2], replace(seen[2], report=replace(report, tasks=tasks))]

    look(reconciles, mixed(0))
    assert not has(look(reconciles, mixed(0), after=40), Evict)
    assert "processed none of the 10 records that wait for them" in (reconciles.rollout.message or "")
    assert phase(reconciles) == "Rolling"
    look(reconciles, mixed(0), after=300)
    assert phase(reconciles) == "RollingBack", "as one that is not ready in time"

    again = Reconciles(wanted("two", rollout=TRIES))
    again.plan(three())
    again.plan(three(), checks=passed("two", MORE))
    look(again, mixed(1))
    look(again, mixed(1), after=40)
    assert has(look(again, mixed(1)), Evict)


def telling(seen: list[PodSeen], *, in_process: float = 0.0, usual: float = 0.0, **tasks: Any) -> list[PodSeen]:
    """These pods, whose reports say this of their active tasks."""
    found = []
    for pod in seen:
        report = pod.report
        assert report is not None
        told = tuple(replace(it, **tasks) if it.role is ReportedRole.ACTIVE else it for it in report.tasks)
        report = replace(report, tasks=told, in_process_seconds=in_process, usual_process_seconds=usual)
        found.append(replace(pod, report=report))
    return found


def rolling() -> Reconciles:
    """The first pod of revision two is there."""
    reconciles = Reconciles(wanted("two", rollout=TRIES))
    reconciles.plan(three())
    reconciles.plan(three(), checks=passed("two", MORE))
    return reconciles


def mixed(**told: Any) -> list[PodSeen]:
    return [*three()[:2], *telling(three("one", "one", "two")[2:], **told)]


def test_the_next_pod_waits_for_the_first_commits() -> None:
    reconciles = rolling()
    look(reconciles, mixed(processed=5, commits=0))
    assert not has(look(reconciles, mixed(processed=900, commits=0), after=40), Evict)
    assert "app-2: task 0_2 has not committed yet" in (reconciles.rollout.message or "")
    look(reconciles, mixed(processed=900, commits=1))
    assert has(look(reconciles, mixed(processed=900, commits=1)), Evict)


SLOW_BY_NATURE: dict[str, dict[str, Any]] = {
    "no input": {"processed": 0, "commits": 0, "input_lag": 0, "waiting": 0},
    "paused, or an open transaction": {"processed": 0, "commits": 0, "input_lag": 900, "waiting": 0},
    "every record is dropped": {"processed": 5, "commits": 1, "input_lag": 900, "waiting": 90},
    "records of 45 s": {
        "processed": 5, "commits": 1, "input_lag": 900, "waiting": 90, "in_process": 44.0, "usual": 44.0,
    },
    "an old runtime": {"processed": None, "commits": None},
}  # fmt: skip


@pytest.mark.parametrize("why", SLOW_BY_NATURE)
def test_what_is_slow_by_nature_gets_on(why: str) -> None:
    told = SLOW_BY_NATURE[why]
    reconciles = rolling()
    look(reconciles, mixed(**told))
    assert has(look(reconciles, mixed(**told), after=31), Evict) or has(look(reconciles, mixed(**told)), Evict)


@pytest.mark.parametrize("why", [it for it in SLOW_BY_NATURE if it != "every record is dropped"])
def test_what_is_slow_by_nature_becomes_the_last_good_one(why: str) -> None:
    reconciles, told = tried(), SLOW_BY_NATURE[why]
    for _ in range(3):
        look(reconciles, telling(new(), **told), after=250)
        assert phase(reconciles) == "Complete"
    assert (reconciles.status.last_good_revision, reconciles.status.trial) == ("two", None)


def test_one_on_trial_that_stops_processing_while_records_wait_leads_back() -> None:
    """It does not wait in a record: it waits for a lock between two records, or for a thread of the user's."""
    reconciles = tried()
    for count in (100, 200, 300):
        look(reconciles, telling(new(), processed=count, commits=9, input_lag=50, waiting=9), after=100)
    assert phase(reconciles) == "Complete"
    planned = look(reconciles, telling(new(), processed=300, commits=9, input_lag=9000, waiting=900), after=301)
    assert phase(reconciles) == "RollingBack"
    assert "processed none of the 2700 records that wait for them, for 300 s" in (reconciles.rollout.failure or "")
    assert only(planned, ApplyChildren).revision == "one"


def test_a_record_in_process_for_long_is_waited_for_before_the_next_pod() -> None:
    reconciles = Reconciles(wanted("two", rollout=TRIES))
    reconciles.plan(three())
    reconciles.plan(three(), checks=passed("two", MORE))
    seen = three("one", "one", "two")
    assert seen[2].report is not None
    slow = [*seen[:2], replace(seen[2], report=replace(seen[2].report, in_process_seconds=25.0))]
    look(reconciles, slow)
    assert not has(look(reconciles, slow, after=31), Evict)
    assert "a record has been in process for 25 s" in (reconciles.rollout.message or "")
    look(reconciles, seen)
    assert has(look(reconciles, seen), Evict)


@pytest.mark.parametrize("started", [NOW - 40, NOW - 4000])
def test_pods_that_hang_are_replaced_one_after_the_other_at_once(started: float) -> None:
    """The correction by hand: its first pod need not soak before the next that does nothing goes."""
    reconciles = Reconciles(wanted("two", rollout=TRIES))
    reconciles.plan(three())
    reconciles.plan(three(), checks=passed("two", MORE))

    def stuck(*ordinals: int) -> list[PodSeen]:
        there = pods("one", "one", "one")
        hung = hanging(50.0, "one")
        assert hung.report is not None
        found = []
        for it in there:
            assert it.report is not None
            report = replace(it.report, hanging=hung.report.hanging, ready=False)
            bad = replace(it, ready=False, was_ready=True, running_since=started, report=report)
            found.append(bad if it.ordinal in ordinals else replace(it, revision="two", uid=f"new-{it.ordinal}"))
        return found

    first = only(look(reconciles, stuck(0, 1, 2)), Evict)
    assert first.unready
    left = [it for it in (0, 1, 2) if f"app-{it}" != first.pod]
    look(reconciles, stuck(*left))  # the step ends
    look(reconciles, stuck(*left))
    second = only(look(reconciles, stuck(*left)), Evict)
    assert second.pod in {f"app-{it}" for it in left}
    assert reconciles.now < NOW + 10


def test_an_instance_of_several_in_a_pod_that_crashes_counts_as_a_container_does() -> None:
    """The supervisor starts it again, so Kubernetes sees no restart."""
    reconciles = tried()

    def seen(restarts: int, ago: float) -> list[PodSeen]:
        report = new()[2].report
        assert report is not None
        return new(report=replace(report, instance_restarts=restarts, restarted_seconds_ago=ago))

    look(reconciles, seen(2, 590.0), after=601)
    assert (phase(reconciles), reconciles.status.last_good_revision) == ("Complete", "one")
    look(reconciles, seen(3, 1.0))
    assert phase(reconciles) == "RollingBack"


def test_tasks_that_wait_for_another_topology_are_told_once_no_rollout_ends_that() -> None:
    reconciles = tried()
    report = new()[2].report
    assert report is not None
    note = "sub-topology 2: its tasks wait for task 1_0, which instances with another topology run"
    look(reconciles, new(report=replace(report, notes=(note,))))
    (degraded,) = [it for it in reconciles.status.conditions if it.type == "Degraded"]
    assert (degraded.reason, degraded.message) == ("TopologiesDiffer", f"app-2: {note}")
