"""Reconciles at an application, each planned from the status that the last one left: for tests of the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from observed_builders import NOW, SHAPE, observed, pods
from streamsapp_operator.model.actions import Action, PostEvent
from streamsapp_operator.model.desired_state import DesiredState, InvalidSpec
from streamsapp_operator.model.observed_state import CheckSeen, JobSeen, PodSeen, PreviewSeen, RunSeen
from streamsapp_operator.model.status import AppStatus, RolloutStatus
from streamsapp_operator.plan import ReconcilePlan, plan
from streamsapp_operator.plan.topology_compatibility import encode

A = TypeVar("A", bound=Action)
RUNS = AppStatus(
    last_good_revision="one",
    shape=encode(SHAPE),
    rollout=RolloutStatus(revision="one", phase="Complete", checked=True, proved=True, shape=encode(SHAPE)),
)


@dataclass
class Reconciles:
    """Plans look after look, from the status that the last one left."""

    app: DesiredState | InvalidSpec
    status: AppStatus = RUNS
    now: float = NOW

    def plan(
        self,
        seen: list[PodSeen],
        *,
        checks: Mapping[str, CheckSeen] | None = None,
        job: JobSeen | None = None,
        preview: PreviewSeen | None = None,
        run: RunSeen | None = None,
        after: float = 1.0,
        driver: PodSeen | None = None,
        **children: Any,
    ) -> ReconcilePlan:
        """A second later, by default; the observations of pods are as old as before."""
        self.now += after
        look = observed([fresh_at(it, self.now) for it in seen], at=self.now, checks=checks, **children)
        head = None if driver is None else fresh_at(driver, self.now)
        look = replace(look, bootstrap=job, preview=preview, run=run, driver=head)
        planned = plan(self.app, look, self.status, self.now)
        self.status = planned.status
        return planned

    @property
    def rollout(self) -> RolloutStatus:
        assert self.status.rollout is not None
        return self.status.rollout


def fresh_at(it: PodSeen, now: float) -> PodSeen:
    """Of a pod whose clock stands still."""
    if it.report is None:
        return it
    return replace(it, report=replace(it.report, fetched_at=now, clock_offset=NOW - now))


def only(planned: ReconcilePlan, kind: type[A]) -> A:
    found = [it for it in planned.actions if isinstance(it, kind)]
    assert len(found) == 1, planned.actions
    return found[0]


def has(planned: ReconcilePlan, kind: type[Action]) -> bool:
    return any(isinstance(it, kind) for it in planned.actions)


def told(planned: ReconcilePlan) -> list[str]:
    return [it.reason for it in planned.actions if isinstance(it, PostEvent)]


def three(*revisions: str) -> list[PodSeen]:
    return pods(*(revisions or ("one", "one", "one")))
