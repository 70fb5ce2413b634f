from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace as replace_status

from observed_builders import NOW, active, broken, passed, pod, pods, report, standby, wanted
from planned_reconciles import RUNS, Reconciles, has, only, three, told
from streamsapp.manifest.model import AutoscalingSpec
from streamsapp_operator.model.actions import ApplyChildren, Evict, RemoveFinalizer, SetBudget, StartCheck
from streamsapp_operator.model.desired_state import InvalidSpec
from streamsapp_operator.model.observed_state import InputRates, PodSeen
from streamsapp_operator.model.status import AppStatus, ScalingStatus
from streamsapp_operator.plan.autoscale import Load, decide

TIME = datetime(2026, 1, 1, tzinfo=UTC)
BOUNDS = AutoscalingSpec(min_replicas=2, max_replicas=8, target_input_lag=100, scale_up_stabilization_seconds=0)
STABLE_SECONDS = BOUNDS.scale_down_stabilization_seconds


def replicas(reconciles: Reconciles, seen: list[PodSeen], **children: Any) -> int:
    return only(reconciles.plan(seen, **children), ApplyChildren).replicas


def behind() -> list[PodSeen]:
    last = three()[2]
    return [*three()[:2], replace(last, report=report(active("0_2"), standby("0_0", lag=5000)))]


def test_more_pods_are_made_at_once_however_unsafe_it_is() -> None:
    assert replicas(Reconciles(wanted(replicas=5)), behind()) == 5


def test_one_pod_less_at_a_time_and_only_once_nobody_else_may_take_one() -> None:
    reconciles = Reconciles(wanted(replicas=1))
    planned = reconciles.plan(three())
    assert only(planned, ApplyChildren).replicas == 3
    assert only(planned, SetBudget) == SetBudget(0)
    fewer = only(reconciles.plan(three(), max_unavailable=0), ApplyChildren)
    assert (fewer.replicas, fewer.max_unavailable) == (2, 0)
    assert fewer.until is not None
    assert replicas(reconciles, three(), replicas=2, max_unavailable=0) == 2
    settled = [pod(0, active("0_0"), active("0_2"), standby("0_1")), pod(1, active("0_1"), standby("0_0"))]
    assert replicas(reconciles, settled, max_unavailable=0) == 2
    settled[1] = pod(1, active("0_1"), standby("0_0"), standby("0_2"))
    assert replicas(reconciles, settled, max_unavailable=0) == 1


def test_no_pod_less_while_it_is_not_safe() -> None:
    assert replicas(Reconciles(wanted(replicas=2)), behind(), max_unavailable=0) == 3


def test_a_last_pod_that_holds_nothing_goes_although_the_application_is_not_safe() -> None:
    seen = [*behind()[:2], behind()[2], broken(3, "Unschedulable", revision="one")]
    assert replicas(Reconciles(wanted(replicas=3)), seen, max_unavailable=0) == 3


def test_no_pod_is_restarted_while_there_are_to_be_fewer() -> None:
    reconciles = Reconciles(wanted("two", replicas=2))
    reconciles.plan(three())
    reconciles.app = wanted("one", replicas=2)
    planned = reconciles.plan(three("one", "one", "zero"), max_unavailable=0)
    assert not has(planned, Evict)
    assert only(planned, ApplyChildren).replicas == 2


def test_no_replicas_suspend_all_pods_at_once_and_more_resume() -> None:
    reconciles = Reconciles(wanted(replicas=0))
    planned = reconciles.plan(behind())
    assert only(planned, ApplyChildren).replicas == 0
    assert reconciles.status.phase == "Suspending"
    reconciles.plan([], replicas=0, template_revision="one")
    assert reconciles.status.phase == "Suspended"
    reconciles.app = wanted(replicas=3)
    planned = reconciles.plan([], replicas=0, template_revision="one")
    assert only(planned, ApplyChildren).replicas == 3
    assert told(planned) == ["Resumed"]


def test_a_change_while_suspended_is_checked_and_started_on_resume() -> None:
    reconciles = Reconciles(wanted("two", replicas=0))
    assert has(reconciles.plan([], replicas=0, template_revision="one"), StartCheck)


def test_being_scaled_is_told_once() -> None:
    reconciles = Reconciles(wanted(replicas=3))
    reconciles.plan(three())
    reconciles.app = wanted(replicas=5)
    assert told(reconciles.plan(three())) == ["ScaledUp"]
    assert told(reconciles.plan(three(), replicas=5)) == []


def test_deletion_ends_all_pods_and_lets_go_once_they_are_gone() -> None:
    reconciles = Reconciles(wanted(deleting=True))
    planned = reconciles.plan(three())
    assert only(planned, ApplyChildren).replicas == 0
    assert not has(planned, RemoveFinalizer)
    assert not has(reconciles.plan([replace(three()[0], terminating=True)], replicas=0), RemoveFinalizer)
    assert has(reconciles.plan([], replicas=0, template_revision="one"), RemoveFinalizer)


def test_deletion_does_not_wait_for_ever_nor_for_a_valid_spec() -> None:
    reconciles = Reconciles(InvalidSpec("app", "ns", "uid", 2, ("bad",), deleting=True))
    reconciles.plan(three())
    assert not has(reconciles.plan(three(), replicas=0), RemoveFinalizer)
    assert has(reconciles.plan(three(), replicas=0, after=301), RemoveFinalizer)


def test_deletion_depends_on_nothing_else_once_it_takes_too_long() -> None:
    reconciles = Reconciles(wanted(deleting=True))
    reconciles.plan(three())
    first, *others = reconciles.plan(three(), after=301).actions
    assert first == RemoveFinalizer()
    assert [type(it) for it in others] == [ApplyChildren]


def test_deletion_of_what_never_ran_lets_go_at_once() -> None:
    reconciles = Reconciles(wanted(deleting=True), AppStatus())
    planned = reconciles.plan([], replicas=None, template_revision=None, max_unavailable=None)
    assert has(planned, RemoveFinalizer)
    assert not has(planned, ApplyChildren)


def load(lag: int | None, *, tasks: int | None = 6, moving: bool = False, cheap: bool = True) -> Load:
    return Load(lag, tasks, moving, 1.0 if cheap else None)


def scaled(desired: int, since: timedelta | None = None) -> ScalingStatus:
    fewer = None if since is None else TIME - since
    return ScalingStatus(desired=desired, reason="", changed_at=TIME, fewer_since=fewer)


@pytest.mark.parametrize(
    ("last", "it", "desired"),
    [
        (scaled(2), load(450), 5),
        (scaled(2), load(401), 5),
        (scaled(2), load(400), 4),
        (scaled(2), load(99_999), 6),
        (scaled(2), load(99_999, tasks=20), 8),
        (scaled(2), load(450, moving=True), 2),
        (scaled(2), load(None), 2),
        (scaled(2), load(450, tasks=None), 2),
        (scaled(5), load(0), 5),
        (scaled(5, timedelta(seconds=STABLE_SECONDS)), load(0), 4),
        (scaled(5, timedelta(seconds=STABLE_SECONDS)), load(0, cheap=False), 5),
        (scaled(5, timedelta(seconds=STABLE_SECONDS)), load(None), 5),
        (scaled(5, timedelta(seconds=STABLE_SECONDS)), load(0, moving=True), 5),
        (scaled(2, timedelta(seconds=STABLE_SECONDS)), load(0), 2),
        (scaled(5, timedelta(seconds=-100)), load(0), 5),
        (scaled(20), load(None), 8),
        (None, load(None), 3),
    ],
)
def test_the_autoscaler_wants(last: ScalingStatus | None, it: Load, desired: int) -> None:
    assert decide(BOUNDS, last, 3, it, TIME).desired == desired


def test_the_autoscaler_waits_anew_after_fewer_were_not_enough_for_a_moment() -> None:
    waiting = scaled(5, timedelta(seconds=200))
    assert decide(BOUNDS, waiting, 3, load(0), TIME).fewer_since == waiting.fewer_since
    assert decide(BOUNDS, waiting, 3, load(500), TIME).fewer_since is None


def test_the_next_pod_goes_once_what_came_while_the_last_one_went_is_caught_up() -> None:
    def decided(input_lag: int, most: int = 3) -> int:
        settled, seen = decreasing(input_lag, most)
        return replicas(settled, seen, max_unavailable=0)

    assert decided(input_lag=0) == 2
    assert decided(input_lag=20) == 3
    assert decided(input_lag=20, most=2) == 2, "no more than the autoscaler may have"


def decreasing(input_lag: int, most: int = 3) -> tuple[Reconciles, list[PodSeen]]:
    """Three pods, where one would do for what comes."""
    bounds = AutoscalingSpec(max_replicas=most, target_input_lag=10)
    settled = Reconciles(wanted(autoscaling=bounds), replace_status(RUNS, scaling=scaled(1)))
    seen = [pod(it, active(f"0_{it}", input_lag=input_lag), standby(f"0_{(it + 1) % 3}")) for it in range(3)]
    settled.plan(seen)
    return settled, seen


@pytest.mark.parametrize(("input_lag", "goes_on"), [(0, False), (20, True)])
def test_a_rollout_waits_for_fewer_pods_and_not_for_what_has_to_be_caught_up_before(
    input_lag: int, goes_on: bool
) -> None:
    settled, seen = decreasing(input_lag)
    settled.app = wanted("two", autoscaling=AutoscalingSpec(max_replicas=3, target_input_lag=10))
    settled.plan(seen, checks=passed("two"))

    planned = settled.plan(seen, template_revision="two")

    assert has(planned, Evict) == goes_on
    assert only(planned, ApplyChildren).max_unavailable == int(goes_on)


def test_a_pod_has_whole_tasks_so_some_numbers_of_pods_are_no_better_than_fewer() -> None:
    knows = replace_status(scaled(2), pod_records_per_second=100.0)

    def desired(arrival: float) -> int:
        it = Load(0, 6, False, 1.0, InputRates(arrival, arrival, None, 0.0))
        return decide(BOUNDS, knows, 2, it, TIME).desired

    assert [desired(rate) for rate in (160, 161, 240, 241, 1000)] == [2, 3, 3, 6, 6]


def test_the_autoscaler_counts_the_lag_of_all_tasks() -> None:
    reconciles = Reconciles(
        wanted(replicas=1, autoscaling=AutoscalingSpec(min_replicas=1, max_replicas=9, target_input_lag=10)), RUNS
    )
    assert replicas(reconciles, pods("one", "one", "one")) == 3
    busy = [pod(it, active(f"0_{it}", input_lag=20), standby(f"0_{(it + 1) % 2}")) for it in range(2)]
    reconciles.plan(busy)
    assert reconciles.status.scaling is not None
    assert reconciles.status.input_lag == 40


@pytest.mark.parametrize(("paused", "desired"), [(False, 3), (True, 1)])
def test_the_autoscaler_makes_no_pods_for_input_that_waits_for_a_user(paused: bool, desired: int) -> None:
    bounds = AutoscalingSpec(max_replicas=9, target_input_lag=10, scale_up_stabilization_seconds=0)
    reconciles = Reconciles(wanted(replicas=1, autoscaling=bounds), replace_status(RUNS, scaling=scaled(1)))
    lags = [(active(f"0_{n}", input_lag=1), active(f"1_{n}", input_lag=9, paused=paused)) for n in range(3)]
    reconciles.plan([pod(n, *tasks) for n, tasks in enumerate(lags)])
    assert reconciles.status.scaling is not None
    assert (reconciles.status.scaling.desired, reconciles.status.input_lag) == (desired, 30)


def test_a_stateful_set_that_is_missing_is_made_as_large_as_it_was_as_it_may_adopt_pods() -> None:
    reconciles = Reconciles(wanted(replicas=3))
    reconciles.plan(three())
    assert reconciles.status.target_replicas == 3
    reconciles.app = wanted(replicas=1)
    assert replicas(reconciles, [], replicas=None) == 3
    reconciles.app = wanted(replicas=5)
    assert replicas(reconciles, [], replicas=None) == 5
    reconciles.status = replace_status(reconciles.status, target_replicas=1 << 31)
    assert replicas(reconciles, [], replicas=None) == 1000


def test_a_last_pod_that_joins_its_group_again_does_not_go_while_its_tasks_run_nowhere() -> None:
    reconciles = Reconciles(wanted(replicas=3))
    reconciles.plan(three())
    reconciles.app = wanted(replicas=2)
    again = report(generation=None)
    rejoins = pod(2, ready=False, was_ready=True, phase="Running", running_since=NOW - 1000, report=again)
    seen = [pod(0, active("0_0"), standby("0_1")), pod(1, active("0_1"), standby("0_0")), rejoins]
    assert replicas(reconciles, seen, max_unavailable=0) == 3
    seen[0] = pod(0, active("0_0"), active("0_2"), standby("0_1"))
    assert replicas(reconciles, seen, max_unavailable=0) == 2


def test_the_autoscaler_never_wants_more_pods_than_a_cluster_has() -> None:
    reconciles = Reconciles(wanted(replicas=3, autoscaling=AutoscalingSpec(min_replicas=5000, max_replicas=9000)))
    assert replicas(reconciles, three()) == 1000
    assert reconciles.status.scaling is not None
    assert reconciles.status.scaling.desired == 1000


def test_a_stateful_set_that_was_refused_is_asked_for_with_as_many_pods_as_are_wanted_now() -> None:
    reconciles = Reconciles(wanted(replicas=5), AppStatus(target_replicas=50))
    reconciles.plan([], replicas=None, template_revision=None)
    planned = reconciles.plan([], replicas=None, template_revision=None, checks=passed("one"))
    assert only(planned, ApplyChildren).replicas == 5
