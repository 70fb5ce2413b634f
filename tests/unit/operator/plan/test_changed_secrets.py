"""Pods that have read a Secret which has changed since: ``spec.kafka.restartOnChange``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from observed_builders import report, standby, wanted
from planned_reconciles import Reconciles, has, only, three, told
from restart_truth import RestartTruth
from simulated_cluster import SimulatedCluster
from simulated_operator import SimulatedOperator
from streamsapp.manifest.model import RolloutSpec
from streamsapp_operator.model.actions import Evict
from streamsapp_operator.model.desired_state import AnnotationRequests, DesiredState
from streamsapp_operator.model.observed_state import PodSeen
from streamsapp_operator.model.resource_status import from_document, to_document

RESTARTS = wanted(restart_on_change=True)


def changed(seen: list[PodSeen], *ordinals: int) -> list[PodSeen]:
    """The pods with these numbers have read an old Secret."""
    return [replace(it, report=_report(it, kafka_secret_changed=it.ordinal in ordinals)) for it in seen]


def _report(pod: PodSeen, **changes: Any) -> Any:
    assert pod.report is not None
    return replace(pod.report, **changes)


def again(seen: list[PodSeen], ordinal: int) -> list[PodSeen]:
    """One pod was made anew, and has read the Secret as it is."""
    return [
        replace(it, uid=f"{it.uid}'", report=_report(it, kafka_secret_changed=False)) if it.ordinal == ordinal else it
        for it in seen
    ]


def test_pods_that_have_read_an_old_secret_restart_one_by_one_and_once() -> None:
    reconciles, seen, taken = Reconciles(RESTARTS), changed(three(), 0, 1, 2), []
    while (planned := reconciles.plan(seen)) and reconciles.rollout.phase != "Complete":
        for evict in (it for it in planned.actions if isinstance(it, Evict)):
            taken.append(evict.pod)
            seen = again(seen, int(evict.pod[-1]))
        reconciles.status = from_document(to_document(reconciles.status))  # the operator is another one each time
        assert len(taken) <= 3
    assert sorted(taken) == ["app-0", "app-1", "app-2"]
    assert not has(reconciles.plan(seen), Evict)


def test_the_cause_is_in_the_message_of_the_rollout_and_in_one_event() -> None:
    reconciles = Reconciles(RESTARTS)
    planned = reconciles.plan(changed(three(), 1))
    assert only(planned, Evict).pod == "app-1"
    assert (reconciles.rollout.phase, reconciles.rollout.updated, reconciles.rollout.total) == ("Rolling", 2, 3)
    assert "Secret of spec.kafka.secretRef has changed" in (reconciles.rollout.message or "")
    assert told(planned).count("SecretChanged") == 1
    assert "SecretChanged" not in told(reconciles.plan(changed(three(), 1)))


def test_no_pod_restarts_where_it_is_not_asked_for_or_the_secret_is_as_before_again() -> None:
    assert not has(Reconciles(wanted()).plan(changed(three(), 0, 1, 2)), Evict)
    reconciles = Reconciles(RESTARTS)
    unsafe = [replace(it, ready=it.ordinal != 2) for it in changed(three(), 0)]
    assert not has(reconciles.plan(unsafe), Evict)
    assert not has(reconciles.plan(three()), Evict)
    assert reconciles.rollout.phase == "Complete"


def test_none_restarts_while_it_is_not_safe_or_the_user_holds_it() -> None:
    behind = changed(three(), 0)
    behind[2] = replace(behind[2], report=report(*behind[2].report.tasks[:1], standby("0_0", lag=5000)))  # type: ignore[union-attr]
    reconciles = Reconciles(RESTARTS)
    assert not has(reconciles.plan(behind), Evict)
    held = Reconciles(replace(RESTARTS, requests=AnnotationRequests(paused=True)))
    assert not has(held.plan(changed(three(), 0)), Evict)
    assert held.rollout.phase == "Paused"
    assert has(reconciles.plan(changed(three(), 0)), Evict)


def test_an_answer_that_is_old_is_no_reason() -> None:
    seen = changed(three(), 0)
    seen[0] = replace(seen[0], report=None, unreachable="it did not answer")
    assert not has(Reconciles(RESTARTS).plan(seen), Evict)


def test_a_later_change_is_a_rollout_of_its_own_in_the_history_and_pods_that_notice_late_are_part_of_one() -> None:
    reconciles = Reconciles(RESTARTS)
    for ordinal, after, rollouts in ((0, 1000, 1), (1, 60, 1), (1, 1000, 2), (2, 60, 2)):
        assert has(reconciles.plan(changed(three(), ordinal), after=after), Evict)
        reconciles.plan(again(three(), ordinal))
        assert reconciles.rollout.phase == "Complete"
        assert len(reconciles.status.history) == rollouts
    assert [len(it.steps) for it in reconciles.status.history] == [2, 2]


@pytest.mark.parametrize("seed", range(6))
def test_every_pod_restarts_once_for_a_change_however_late_kubelets_are_and_often_the_operator_dies(seed: int) -> None:
    cluster = SimulatedCluster(seed, standbys=1, remote_state=True)
    rollout = RolloutSpec(soak_seconds=0, max_observation_age_seconds=6, max_restore_seconds=40, last_good_seconds=0)
    app = DesiredState("app", "ns", "uid", 1, "good-first", 3, 1, rollout, restart_on_change=True)
    operator = SimulatedOperator(cluster, app, RestartTruth(cluster, 1000, 6, 40))
    while not (operator.status.rollout and operator.status.rollout.phase == "Complete"):
        operator.reconcile()
    before, operator.deadly = {pod.uid for pod in cluster.pods.values()}, 0.05
    cluster.change_secret("new")
    uids = set(before)
    for _ in range(1500):
        operator.reconcile()
        uids |= {pod.uid for pod in cluster.pods.values()}
    assert all(pod.read == "new" for pod in cluster.pods.values())
    assert len(uids - before) == 3
    assert operator.truth.violations == []
