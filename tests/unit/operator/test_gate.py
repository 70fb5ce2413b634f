from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

import observed_builders
from observed_builders import NOW, ROLLOUT, active, broken, gate, observed, pod, pods, standby, store
from streamsapp_operator.gate import COUNTED, LISTED, Gate, Waiver
from streamsapp_operator.model.observed_state import (
    ChildrenSeen,
    ObservedState,
    Outage,
    PodReport,
    PodSeen,
    ReportedRole,
    TaskReport,
)
from streamsapp_operator.model.status import Blocker
from streamsapp_operator.plan.known_tasks import ExpectedTasks
from streamsapp_operator.takeover import leading_word

RUNS = active("0_0")


def two(follower: TaskReport | None, runs: TaskReport = RUNS) -> ObservedState:
    """The first pod runs a task that the second may follow."""
    return observed([pod(0, runs), pod(1, *([] if follower is None else [follower]))])


def reason(seen: ObservedState) -> str | None:
    blockers = gate(seen).blockers_of(seen.pods[0])
    return leading_word(blockers[0]) if blockers else None


def test_is_safe_when_every_task_is_followed_closely_by_another_ready_pod() -> None:
    assert gate(observed(pods("one", "one", "one"))).verdict().safe


@pytest.mark.parametrize(
    ("follower", "word"),
    [
        (None, "NoStandby"),
        (standby("0_0", lag=1001), "StandbyBehind"),
        (standby("0_0", lag=0, position=10, end_offset=5000), "StandbyBehind"),
        (standby("0_0", lag=None), "StandbyStale"),
        (standby("0_0", lag=-1), "StandbyStale"),
        (standby("0_0", observed_at=None), "StandbyStale"),
        (standby("0_0", observed_at=NOW - 9.5), "StandbyStale"),
        (standby("0_0", observed_at=NOW + 2), "StandbyStale"),
        (standby("0_0", observed_at=float("nan")), "StandbyStale"),
        (standby("0_0", mode="paused"), "StandbyPaused"),
        (standby("0_0", mode="restoring"), "StandbyNotReady"),
        (standby("0_0", state="CREATED"), "StandbyNotReady"),
        (standby("0_0", name="other"), "StandbyNotReady"),
        (standby("0_0", changelog="another-0"), "StandbyNotReady"),
    ],
)
def test_names_what_is_wrong_with_the_only_standby(follower: TaskReport | None, word: str) -> None:
    assert reason(two(follower)) == word


def test_a_lag_as_large_as_allowed_seen_as_long_ago_as_allowed_is_safe() -> None:
    assert reason(two(standby("0_0", lag=1000, observed_at=NOW - 9))) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"ready": False},
        {"terminating": True},
        {"report": None},
        {"report": observed_builders.report(standby("0_0"), at=NOW - 11)},
        {"report": observed_builders.report(standby("0_0"), at=NOW + 1)},
        {"report": observed_builders.report(standby("0_0"), generation=6)},
        {"report": observed_builders.report(standby("0_0"), generation=None)},
        {"report": observed_builders.report(standby("0_0"), state="REBALANCING")},
        {"ordinal": 2},
        {"name": "app-0"},
    ],
)
def test_a_standby_does_not_count_on_a_pod_that_is_not_ready_goes_or_is_not_heard(changes: dict[str, object]) -> None:
    other = replace(pod(1, standby("0_0")), **changes)  # type: ignore[arg-type]
    seen = observed([pod(0, RUNS), other], replicas=2)
    assert gate(seen).blockers_of(seen.pods[0])
    assert not gate(seen).verdict().safe


def test_a_task_without_stores_is_always_safe() -> None:
    assert gate(two(None, active("0_0", stores=()))).verdict().safe


def test_every_store_of_the_task_must_be_followed() -> None:
    runs = active("0_0", stores=(*RUNS.stores, store("0_0", ReportedRole.ACTIVE, name="second")))
    assert reason(two(standby("0_0"), runs)) == "StandbyNotReady"


def test_a_pod_that_tells_of_two_replicas_of_a_task_is_believed_the_worse() -> None:
    seen = observed([pod(0, RUNS), pod(1, standby("0_0"), standby("0_0", lag=5000))])
    assert reason(seen) == "StandbyBehind"


def test_one_good_standby_is_enough_whatever_the_others_are() -> None:
    seen = observed([pod(0, RUNS), pod(1, standby("0_0", lag=5000)), pod(2, standby("0_0"))])
    assert reason(seen) is None


def test_two_pods_that_claim_the_same_task_are_unsafe() -> None:
    seen = observed([pod(0, RUNS), pod(1, active("0_0")), pod(2, standby("0_0"))])
    assert reason(seen) == "Rebalancing"


def test_a_task_that_does_not_run_yet_is_unsafe() -> None:
    assert reason(two(standby("0_0"), active("0_0", state="RESTORING"))) == "Rebalancing"


def test_a_task_that_is_followed_and_run_by_nobody_is_missed() -> None:
    seen = observed([pod(0), pod(1, standby("0_0"))])
    assert leading_word(gate(seen).verdict().blockers[0]) == "TaskMissing"


def test_a_task_that_is_known_and_run_by_nobody_is_missed() -> None:
    verdict = gate(observed(pods("one", "one")), expected=frozenset({"0_0", "0_9"})).verdict()
    assert [(it.task, leading_word(it)) for it in verdict.blockers] == [("0_9", "TaskMissing")]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"ready": False}, "NotReady"),
        ({"terminating": True}, "NotReady"),
        ({"report": None, "unreachable": "timed out"}, "Unreachable"),
        ({"report": None, "waiting_reason": "CrashLoopBackOff"}, "NotReady"),
        ({"report": observed_builders.report(generation=8)}, None),
        ({"report": observed_builders.report(generation=6)}, "Rebalancing"),
        ({"report": observed_builders.report(generation=None)}, "Rebalancing"),
        ({"report": observed_builders.report(state="REBALANCING")}, "Rebalancing"),
    ],
)
def test_a_pod_in_motion_makes_the_application_unsafe(changes: dict[str, object], word: str | None) -> None:
    seen = observed([*pods("one", "one"), replace(pod(2), **changes)])  # type: ignore[arg-type]
    found = gate(seen).blockers_of(seen.pods[2])
    assert [leading_word(it) for it in found] == ([] if word is None else [word])
    assert not gate(seen).verdict().safe


@pytest.mark.parametrize("replicas", [None, 1, 3])
def test_another_number_of_pods_than_asked_for_is_unsafe(replicas: int | None) -> None:
    assert not gate(observed(pods("one", "one"), replicas=replicas)).verdict().safe


def test_two_pods_with_one_number_are_unsafe() -> None:
    first, second = pods("one", "one")
    assert not gate(observed([first, second, replace(second, uid="again")], replicas=2)).verdict().safe


def test_an_application_without_pods_is_safe() -> None:
    assert gate(observed([])).verdict().safe


def snapshotted(seconds: float | None, offset: int | None = 50) -> ObservedState:
    kept = store("0_0", ReportedRole.ACTIVE, snapshot_offset=offset)
    return observed([pod(0, active("0_0", stores=(kept,), predicted_restore_seconds=seconds))])


@pytest.mark.parametrize(
    ("seconds", "offset", "word"),
    [
        (60.0, 50, None),
        (60.1, 50, "SnapshotTooOld"),
        (None, 50, "SnapshotUnknown"),
        (-1.0, 50, "SnapshotUnknown"),
        (float("nan"), 50, "SnapshotUnknown"),
        (1.0, None, "NoStandby"),
    ],
)
def test_a_snapshot_counts_if_its_restore_is_known_to_be_quick(
    seconds: float | None, offset: int | None, word: str | None
) -> None:
    assert reason(snapshotted(seconds, offset)) == word


def test_a_snapshot_of_one_store_of_two_does_not_count() -> None:
    both = (store("0_0", ReportedRole.ACTIVE, snapshot_offset=5), store("0_0", ReportedRole.ACTIVE, name="second"))
    assert reason(two(None, active("0_0", stores=both, predicted_restore_seconds=1.0))) == "SnapshotUnknown"


def test_a_clock_of_a_pod_that_is_ahead_or_behind_does_not_change_ages() -> None:
    for offset in (-300.0, 0.0, 300.0):
        follower = standby("0_0", observed_at=NOW - 8 + offset)
        other = pod(1, report=observed_builders.report(follower, clock_offset=offset))
        assert gate(observed([pod(0, RUNS), other])).verdict().safe
        stale = replace(follower, stores=(replace(follower.stores[0], observed_at=NOW - 12 + offset),))
        other = pod(1, report=observed_builders.report(stale, clock_offset=offset))
        assert not gate(observed([pod(0, RUNS), other])).verdict().safe


def test_an_operator_whose_clock_went_back_takes_nothing_for_fresh() -> None:
    assert not gate(observed(pods("one", "one"), at=NOW - 5)).verdict().safe


def test_what_was_safe_is_unsafe_once_it_is_old() -> None:
    seen = observed(pods("one", "one"))
    until = gate(seen).good_until()
    assert NOW < until <= NOW + ROLLOUT.max_observation_age_seconds
    assert gate(replace(seen, at=until)).verdict().safe
    assert not gate(replace(seen, at=until + 0.1)).verdict().safe


def test_blockers_beyond_a_number_are_only_counted_and_the_worst_come_first() -> None:
    tasks = [active(f"0_{it}") for it in range(LISTED + 5)]
    verdict = gate(observed([pod(0, *tasks), pod(1, ready=False)])).verdict()
    assert (len(verdict.blockers), verdict.more_blockers) == (LISTED, 6)
    assert leading_word(verdict.blockers[0]) == "NotReady"


def test_predicts_the_restores_that_the_other_pods_share() -> None:
    kept = (store("0_0", ReportedRole.ACTIVE, snapshot_offset=5),)
    tasks = [active(f"0_{it}", stores=kept, predicted_restore_seconds=10.0) for it in range(4)]
    seen = observed([pod(0, *tasks), pod(1), pod(2)])
    assert gate(seen).predicted_seconds(seen.pods[0]) == pytest.approx(21.0)
    assert gate(seen).predicted_seconds(seen.pods[1]) == 0.0
    assert gate(two(None)).predicted_seconds(two(None).pods[0]) is None


@pytest.mark.parametrize(
    ("it", "holds_nothing"),
    [
        (broken(1, "ImagePullBackOff"), True),
        (broken(1, "CrashLoopBackOff", phase="Running"), True),
        (pod(1, ready=False, report=None, phase="Running", unreachable="timed out"), False),
        (pod(1, ready=False, report=None, phase="Pending"), True),
        (pod(1, ready=False), True),
        (pod(1, active("0_0"), ready=False), False),
        (pod(1, active("0_0", stores=()), ready=False), True),
        (pod(1, ready=False, report=observed_builders.report(at=NOW - 11)), False),
        (pod(1), False),
        (pod(1, ready=False, terminating=True), False),
    ],
)
def test_a_pod_holds_nothing_only_if_that_is_known(it: PodSeen, holds_nothing: bool) -> None:
    assert gate(observed([pod(0), it])).holds_nothing(it, Waiver()) is holds_nothing


def test_tasks_of_a_new_sub_topology_block_their_own_pod_and_no_other() -> None:
    seen = observed([*pods("one", "one"), pod(2, active("5_0"))])
    waiver = Waiver(newcomers=frozenset({"5"}), staying=frozenset({"0", "5"}))
    assert gate(seen).allows(seen.pods[0], waiver)
    assert not gate(seen).allows(seen.pods[2], waiver)
    assert not gate(seen).allows(seen.pods[0], Waiver())


def test_tasks_of_a_sub_topology_that_goes_block_nothing() -> None:
    seen = observed([*pods("one", "one"), pod(2, active("5_0"))])
    assert gate(seen).allows(seen.pods[2], Waiver(staying=frozenset({"0"})))


MAYBE = st.none() | st.integers(-5, 3000)
TIMES = st.none() | st.floats(NOW - 30, NOW + 30)
STORES = st.builds(
    lambda name, lag, at, mode, offset: store(
        "0_0", ReportedRole.STANDBY, name=name, lag=lag, observed_at=at, mode=mode, snapshot_offset=offset),
    st.sampled_from(["counts", "second"]), MAYBE, TIMES, st.sampled_from(["updating", "updating", "paused", ""]), MAYBE,
)  # fmt: skip
TASKS = st.builds(
    TaskReport, st.sampled_from(["0_0", "0_1", "", "x"]), st.sampled_from(ReportedRole),
    st.sampled_from(["RUNNING", "RESTORING", ""]), st.lists(STORES, max_size=2).map(tuple), MAYBE,
    st.none() | st.floats(allow_nan=True),
)  # fmt: skip
REPORTS = st.builds(
    PodReport, st.sampled_from(["RUNNING", "REBALANCING", ""]), st.none() | st.integers(0, 2),
    st.lists(TASKS, max_size=4).map(tuple), st.floats(NOW - 20, NOW + 5), st.floats(-5, 5),
)  # fmt: skip
PODS = st.builds(
    lambda ordinal, ready, ending, said: pod(ordinal, ready=ready, terminating=ending, report=said),
    st.integers(0, 3), st.booleans(), st.booleans(), st.none() | REPORTS,
)  # fmt: skip


@given(st.lists(PODS, max_size=4), st.none() | st.integers(0, 4))
def test_whatever_is_reported_safe_means_that_every_task_is_followed_or_kept(
    found: list[PodSeen], replicas: int | None
) -> None:
    seen = ObservedState(NOW, ChildrenSeen(replicas=replicas), tuple(found))
    verdict = gate(seen).verdict()
    for it in found:
        gate(seen).predicted_seconds(it)
    if not verdict.safe:
        assert all(isinstance(it, Blocker) and it.reason for it in verdict.blockers)
        return
    assert len({it.ordinal for it in found}) == len(found)
    assert all(it.ready and not it.terminating and it.report is not None for it in found)
    for it in found:
        for task in it.report.tasks if it.report else ():
            if task.role is ReportedRole.ACTIVE and task.stores:
                assert is_followed(task, it, found) or is_kept(task)


def is_kept(task: TaskReport) -> bool:
    seconds = task.predicted_restore_seconds
    return seconds is not None and 0 <= seconds <= 60 and all(it.snapshot_offset is not None for it in task.stores)


def is_followed(task: TaskReport, owner: PodSeen, found: list[PodSeen]) -> bool:
    names = {it.name for it in task.stores}
    return any(
        names <= {it.name for it in replica.stores if it.lag is not None and it.lag <= 1000 and it.mode == "updating"}
        for other in found
        for replica in (other.report.tasks if other.report else ())
        if other.name != owner.name and replica.id == task.id and replica.role is not ReportedRole.ACTIVE
    )


def hanging(**changes: Any) -> PodSeen:
    """Its container runs for a minute and never passed its startup probe."""
    made = pod(2, ready=False, report=None, unreachable="refused", started=False, running_since=NOW - 60)
    return replace(made, **changes)


@pytest.mark.parametrize(
    ("changes", "holds_nothing"),
    [
        ({}, True),
        ({"running_since": NOW - 6}, True),
        ({"running_since": NOW - 3}, False),
        ({"started": True}, False),
        ({"started": None}, False),
        ({"ready": True}, False),
        ({"terminating": True}, False),
    ],
)
def test_a_container_that_never_answered_holds_nothing_while_all_tasks_run_elsewhere(
    changes: dict[str, Any], holds_nothing: bool
) -> None:
    seen = observed([*pods("one", "one"), hanging(**changes)])
    assert gate(seen).holds_nothing(seen.pods[2], Waiver()) == holds_nothing


@pytest.mark.parametrize(("seconds", "holds_nothing"), [(6, False), (31, True)])
def test_a_container_that_never_answered_is_waited_for_while_tasks_run_nowhere(
    seconds: float, holds_nothing: bool
) -> None:
    seen = observed([*pods("one", "one"), hanging(running_since=NOW - seconds)])
    found = gate(seen, expected=frozenset({"0_0", "0_1", "0_2"}))
    assert found.holds_nothing(seen.pods[2], Waiver()) == holds_nothing


def unseen(ordinal: int, *tasks: TaskReport, **changes: Any) -> PodSeen:
    """It says that it is ready, and Kubernetes says that it is not."""
    said = observed_builders.report(*tasks, ready=True)
    return replace(pod(ordinal, ready=False, report=said), **changes)


SNAPSHOT = store("0_0", ReportedRole.ACTIVE, snapshot_offset=90)
RESTORABLE = active("0_0", stores=(SNAPSHOT,), predicted_restore_seconds=5.0)


def test_a_pod_that_works_is_not_broken_because_kubernetes_calls_it_not_ready() -> None:
    seen = observed([unseen(0, RESTORABLE), unseen(1), pod(2)])
    assert not gate(seen).holds_nothing(seen.pods[0], Waiver())
    mute = replace(seen.pods[0], report=observed_builders.report(RESTORABLE), answers_probes=True)
    seen = observed([mute, unseen(1), pod(2)])
    assert not gate(seen).holds_nothing(seen.pods[0], Waiver())


def test_a_pod_that_works_may_go_when_only_it_is_called_not_ready_and_its_tasks_are_covered() -> None:
    seen = observed([unseen(0, RESTORABLE), pod(1), pod(2)])
    assert gate(seen).holds_nothing(seen.pods[0], Waiver())
    seen = observed([unseen(0, RUNS), pod(1), pod(2)])
    assert not gate(seen).holds_nothing(seen.pods[0], Waiver())


def test_a_snapshot_does_not_cover_a_broken_pod_while_no_other_pod_could_restore_it() -> None:
    fails = pod(0, RESTORABLE, ready=False)
    seen = observed([fails, broken(1, "CrashLoopBackOff", "one"), broken(2, "CrashLoopBackOff", "one")])
    assert not gate(seen).holds_nothing(fails, Waiver())
    seen = observed([fails, pod(1), broken(2, "CrashLoopBackOff", "one")])
    assert gate(seen).holds_nothing(fails, Waiver())


@pytest.mark.parametrize(
    ("changes", "holds_nothing"),
    [
        ({"running_since": None}, False),
        ({"running_since": NOW - 59}, False),
        ({"running_since": NOW - 61, "started": False}, True),
        ({"running_since": NOW - 10, "was_ready": False, "started": False}, True),
        ({"waiting_reason": "CrashLoopBackOff", "restarts": 1}, False),
        ({"waiting_reason": "CrashLoopBackOff", "restarts": 3}, True),
        ({"waiting_reason": "CreateContainerConfigError"}, True),
        ({"phase": "Failed"}, True),
    ],
)
def test_a_pod_that_was_well_is_given_time_to_come_back_to_its_disk(
    changes: dict[str, Any], holds_nothing: bool
) -> None:
    ended = pod(2, ready=False, report=None, unreachable="refused", was_ready=True, started=False, restarts=1)
    seen = observed([*pods("one", "one"), replace(ended, **changes)])
    assert gate(seen).holds_nothing(seen.pods[2], Waiver()) == holds_nothing


def test_of_any_number_of_missing_pods_the_first_are_named_and_the_others_counted() -> None:
    blockers = gate(observed(pods("one", "one"), replicas=100_000)).blockers
    assert len(blockers) == LISTED + 1
    assert "NotReady: pod number 2 does not exist yet" in {it.reason for it in blockers}
    assert f"NotReady: {100_000 - 2 - LISTED} more pods do not exist yet" in {it.reason for it in blockers}


def test_of_any_number_of_missing_tasks_no_more_are_looked_for_than_are_counted() -> None:
    found = Gate(observed(pods("one", "one")), ROLLOUT, ExpectedTasks({"0": 100_000}))
    assert [leading_word(it) for it in found.blockers] == ["TaskMissing"] * COUNTED
    assert not found.all_run()


def without(name: str, ordinal: int, *tasks: TaskReport, at: float = NOW) -> PodSeen:
    """A pod that cannot reach this."""
    outages = (Outage(name, "far:9092", NOW - 60, "no route to host"),)
    return pod(ordinal, report=observed_builders.report(*tasks, at=at, outages=outages))


def test_a_snapshot_that_cannot_be_read_now_covers_nothing() -> None:
    seen = observed([pod(0, RESTORABLE), without("remoteState", 1)])
    (blocker,) = gate(seen).verdict().blockers
    assert (blocker.pod, blocker.task, leading_word(blocker)) == ("app-0", "0_0", "SnapshotUnknown")
    assert "app-1 cannot use the object store of spec.remoteState at far:9092: no route to host" in blocker.reason
    fails = replace(seen.pods[0], ready=False)
    assert not gate(replace(seen, pods=(fails, seen.pods[1]))).holds_nothing(fails, Waiver())
    assert reason(observed([pod(0, RESTORABLE), pod(1)])) is None


def test_a_standby_covers_its_task_whatever_becomes_of_the_object_store() -> None:
    assert gate(observed([pod(0, RUNS), without("remoteState", 1, standby("0_0"))])).verdict().safe


def test_an_outage_that_was_told_of_long_ago_is_no_outage() -> None:
    seen = observed([pod(0, RESTORABLE), without("remoteState", 1, at=NOW - 11)])
    assert reason(seen) is None


def test_nothing_is_safe_while_a_pod_cannot_reach_kafka() -> None:
    seen = observed([pod(0, RUNS), without("kafka", 1, standby("0_0"))])
    (blocker,) = gate(seen).verdict().blockers
    assert (blocker.pod, leading_word(blocker)) == ("app-1", "Unreachable")
    assert "cannot reach Kafka at far:9092" in blocker.reason
    assert not gate(seen).allows(seen.pods[0], Waiver())
    by_driver = replace(observed([pod(0, RUNS), pod(1, standby("0_0"))]), driver=without("kafka", 0))
    assert not gate(by_driver).verdict().safe


@pytest.mark.parametrize("changes", [{"generation": None}, {"state": "CREATED"}, {"state": "REBALANCING"}])
def test_an_answer_of_a_pod_that_joins_its_group_is_complete_only_if_all_tasks_run_elsewhere(
    changes: dict[str, Any],
) -> None:
    began: dict[str, Any] = {"phase": "Running", "running_since": NOW - 1000}
    joins = pod(2, ready=False, was_ready=True, report=observed_builders.report(**changes), **began)
    seen = observed([*pods("one", "one"), joins])
    all_known = frozenset({"0_0", "0_1"})
    assert gate(seen, expected=all_known).holds_nothing(joins, Waiver())
    assert not gate(seen, expected=all_known | {"0_2"}).holds_nothing(joins, Waiver())


def test_the_only_pod_is_mended_by_its_next_revision_unless_kafka_is_away() -> None:
    began: dict[str, Any] = {"ready": False, "was_ready": True, "phase": "Running", "running_since": NOW - 1000}
    joins = pod(0, report=observed_builders.report(generation=None, state="CREATED"), **began)
    assert gate(observed([joins]), expected=frozenset({"0_0"})).holds_nothing(joins, Waiver())
    outages = (Outage("kafka", "far:9092", NOW - 60, "no route to host"),)
    away = replace(joins, report=observed_builders.report(generation=None, state="CREATED", outages=outages))
    assert not gate(observed([away]), expected=frozenset({"0_0"})).holds_nothing(away, Waiver())


def test_a_pod_that_was_never_ready_has_no_state_that_it_does_not_tell_of() -> None:
    joins = pod(2, ready=False, report=observed_builders.report(generation=None, state="CREATED"))
    seen = observed([*pods("one", "one"), joins])
    assert gate(seen, expected=frozenset({"0_0", "0_1", "0_2"})).holds_nothing(joins, Waiver())
