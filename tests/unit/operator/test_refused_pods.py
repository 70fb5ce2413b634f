"""Pods that Kafka refuses: a restart is what mends them, and takes nothing away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import observed_builders
from observed_builders import NOW, active, gate, observed, passed, pod, standby, wanted
from planned_reconciles import Reconciles, has, only, three
from streamsapp_operator.gate import Waiver
from streamsapp_operator.model.actions import Evict
from streamsapp_operator.model.observed_state import Outage, PodSeen, TaskReport


def refused(ordinal: int, *tasks: TaskReport, at: float = NOW, **changes: Any) -> PodSeen:
    """A pod that was a member until its certificates were no longer taken."""
    return _out(ordinal, *tasks, at=at, refused=True, **changes)


def away(ordinal: int, **changes: Any) -> PodSeen:
    """A pod that was a member until Kafka was out of reach."""
    return _out(ordinal, at=NOW, refused=False, **changes)


def _out(ordinal: int, *tasks: TaskReport, at: float, refused: bool, **changes: Any) -> PodSeen:
    outages = (Outage("kafka", "far:9093", NOW - 60, "it says why", refused=refused),)
    report: dict[str, Any] = {"generation": None, "state": "REBALANCING", "outages": outages, "at": at}
    began: dict[str, Any] = {"ready": False, "was_ready": True, "phase": "Running", "running_since": NOW - 1000}
    return pod(ordinal, report=observed_builders.report(*tasks, **report), **(began | changes))


def test_where_kafka_refuses_every_pod_any_of_them_may_be_restarted() -> None:
    seen = observed([refused(0), refused(1), refused(2, standby("0_1"))])
    found = gate(seen, expected=frozenset({"0_0", "0_1"}))
    assert all(found.holds_nothing(each, Waiver()) for each in seen.pods)
    assert not found.verdict().safe


@pytest.mark.parametrize(
    "other",
    [
        away(1),
        away(1, ready=True),
        refused(1, active("0_1")),
        refused(1, at=NOW - 60),
        refused(1, ready=True),
        replace(refused(1), report=None),
        pod(1, active("0_1")),
    ],
    ids=["away", "away and ready", "has a task", "too long ago", "is ready", "does not answer", "works"],
)
def test_a_pod_that_kafka_refuses_is_not_restarted_for_that_while_another_may_have_tasks(other: PodSeen) -> None:
    seen = observed([refused(0), other, refused(2)])
    assert not gate(seen, expected=frozenset({"0_0", "0_1"})).holds_nothing(seen.pods[0], Waiver())


@pytest.mark.parametrize("whose", [refused, away])
def test_a_rollout_restarts_the_first_of_pods_that_are_refused_and_waits_where_kafka_is_away(whose: Any) -> None:
    reconciles = Reconciles(wanted("two"))
    reconciles.plan(three())
    reconciles.plan(three(), checks=passed("two"))
    seen = [whose(number) for number in range(3)]

    planned = reconciles.plan(seen, template_revision="two")

    assert has(planned, Evict) is (whose is refused)
    if whose is refused:
        evict = only(planned, Evict)
        assert evict.unready
        coming = [replace(it, uid="new", revision="two") if it.name == evict.pod else it for it in seen]
        assert not has(reconciles.plan(coming, template_revision="two"), Evict), "it comes back first"
