"""Builds what the operator sees of an application, for tests of the gate and of the plan: every pod runs one task and
follows its neighbour's, all of it safe; tests change what they are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from streamsapp.manifest.model import RolloutSpec
from streamsapp_operator.gate import Gate
from streamsapp_operator.model.desired_state import DesiredState
from streamsapp_operator.model.observed_state import (
    CheckSeen,
    CheckState,
    ChildrenSeen,
    ObservedState,
    PodReport,
    PodSeen,
    ReportedRole,
    StoreReport,
    TaskReport,
    TopologyShape,
)
from streamsapp_operator.model.status import AppStatus

NOW = 1_700_000_000.0
ROLLOUT = RolloutSpec(
    max_standby_lag=1000, max_observation_age_seconds=10, max_restore_seconds=60, timeout_seconds=600,
    progress_deadline_seconds=300, soak_seconds=0, last_good_seconds=0,
)  # fmt: skip
SHAPE = TopologyShape(sources={0: ("in",)}, stores={0: {"counts": "key-value"}})


def store(task: str, role: ReportedRole, at: float = NOW, **changes: Any) -> StoreReport:
    mode = "processing" if role is ReportedRole.ACTIVE else "updating"
    made = StoreReport("counts", f"app-counts-changelog-{task[-1]}", 100, 100, 0, at - 1, mode)
    return replace(made, **changes)


def active(task: str, at: float = NOW, **changes: Any) -> TaskReport:
    made = TaskReport(task, ReportedRole.ACTIVE, "RUNNING", (store(task, ReportedRole.ACTIVE, at),), input_lag=10)
    return replace(made, **changes)


def standby(task: str, at: float = NOW, *, state: str = "RUNNING", **changes: Any) -> TaskReport:
    return TaskReport(task, ReportedRole.STANDBY, state, (store(task, ReportedRole.STANDBY, at, **changes),))


def report(*tasks: TaskReport, at: float = NOW, **changes: Any) -> PodReport:
    return replace(PodReport("RUNNING", 7, tasks, at), **changes)


def pod(ordinal: int, *tasks: TaskReport, revision: str = "one", at: float = NOW, **changes: Any) -> PodSeen:
    made = PodSeen(
        name=f"app-{ordinal}", uid=f"{revision}-{ordinal}", ordinal=ordinal, revision=revision, ready=True,
        terminating=False, created_at=NOW - 5000, resource_version="5", report=report(*tasks, at=at),
    )  # fmt: skip
    return replace(made, **changes)


def broken(ordinal: int, reason: str, revision: str = "two", **changes: Any) -> PodSeen:
    """Its container does not run."""
    made = pod(ordinal, revision=revision, ready=False, report=None, waiting_reason=reason, phase="Pending")
    return replace(made, **changes)


def pods(*revisions: str, at: float = NOW) -> list[PodSeen]:
    """As many as revisions; each runs one task and follows the one of the next."""
    count = len(revisions)
    return [
        pod(it, active(f"0_{it}", at), standby(f"0_{(it + 1) % count}", at), revision=revision, at=at)
        for it, revision in enumerate(revisions)
    ]


def observed(
    seen: list[PodSeen], *, at: float = NOW, checks: Mapping[str, CheckSeen] | None = None, **children: Any
) -> ObservedState:
    """By default the StatefulSet wants as many pods as there are, of the revision of the first."""
    template = seen[0].revision if seen else None
    made = ChildrenSeen(replicas=len(seen), template_revision=template, max_unavailable=1)
    return ObservedState(at, replace(made, **children), tuple(seen), checks or {}, tasks_total=len(seen))


def passed(revision: str, shape: TopologyShape | None = SHAPE) -> dict[str, CheckSeen]:
    return {revision: CheckSeen(revision, CheckState.PASSED, shape=shape)}


def gate(seen: ObservedState, rollout: RolloutSpec = ROLLOUT, expected: frozenset[str] = frozenset()) -> Gate:
    return Gate(seen, rollout, expected)


def wanted(revision: str = "one", replicas: int = 3, **changes: Any) -> DesiredState:
    return replace(DesiredState("app", "ns", "uid", 1, revision, replicas, 1, ROLLOUT), **changes)


def words(status: AppStatus) -> list[str]:
    """The leading words of what blocks."""
    return [blocker.reason.partition(":")[0] for blocker in status.restart.blockers]
