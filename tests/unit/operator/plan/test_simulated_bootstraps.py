"""Bootstraps in a made-up cluster: Jobs fail, end late and are deleted by others; the operator dies, its calls fail,
the user changes the spec. No pod is made while the state is half, and in the end the application runs.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest

from observed_builders import NOW, observed, passed, wanted
from streamsapp_operator.model.actions import Action, ApplyChildren, DeleteBootstrap, StartBootstrap
from streamsapp_operator.model.desired_state import DesiredState
from streamsapp_operator.model.observed_state import JobSeen, JobState
from streamsapp_operator.model.resource_status import from_document, to_document
from streamsapp_operator.model.status import AppStatus
from streamsapp_operator.plan import plan


@dataclass
class Job:
    attempt: str
    ends_at: float
    state: JobState = JobState.WAITING
    gone_at: float | None = None


@dataclass
class World:
    """One application, and the truth about its state."""

    rng: random.Random
    app: DesiredState = field(default_factory=lambda: wanted(bootstrap="attempt-0"))
    status: AppStatus = field(default_factory=AppStatus)
    now: float = NOW
    job: Job | None = None
    #: A Job has begun to write state; all of it is there.
    begun: bool = False
    whole: bool = False
    pods_made: bool = False
    #: Probability of dying or failing before an action.
    trouble: float = 0.0

    def reconcile(self) -> None:
        self.now += self.rng.uniform(0.5, 3)
        self._live()
        looked_for = self.status.bootstrap is not None and self.status.bootstrap.job is not None
        seen = observed([], at=self.now, checks=passed(self.app.revision), replicas=None, template_revision=None)
        seen = replace(seen, bootstrap=self._seen() if looked_for else None)
        planned = plan(self.app, seen, from_document(to_document(self.status)), self.now)
        if self.rng.random() < self.trouble:
            return
        self.status = planned.status
        for action in planned.actions:
            if self.rng.random() < self.trouble or not self._act(action):
                return

    def _live(self) -> None:
        """The Job's controller, and the pods that it has."""
        job = self.job
        if job is None:
            return
        if job.gone_at is not None:
            self.job = None if self.now >= job.gone_at else job
        elif self.now >= job.ends_at and job.state is JobState.RUNNING:
            bad = job.attempt.startswith("bad") or self.rng.random() < self.trouble
            job.state = JobState.FAILED if bad else JobState.DONE
            self.whole |= not bad
        elif job.state is JobState.WAITING:
            job.state, self.begun = JobState.RUNNING, True

    def _seen(self) -> JobSeen | None:
        if self.job is None:
            return None
        ending = self.job.gone_at is not None and self.job.state is not JobState.DONE
        return JobSeen(self.job.attempt, "one", JobState.ENDING if ending else self.job.state)

    def _act(self, action: Action) -> bool:
        match action:
            case StartBootstrap(attempt=attempt):
                if self.job is not None or attempt != self.app.bootstrap:
                    return False  # a conflict, or the spec has changed since
                self.job = Job(attempt, self.now + self.rng.uniform(1, 20))
            case DeleteBootstrap():
                self.delete_job()
            case ApplyChildren():
                assert self.whole or self.app.bootstrap is None, "pods are made though their state is not there"
                assert self.job is None or self.job.state is JobState.DONE, "pods are made beside a Job that writes"
                self.pods_made = True
        return True

    def delete_job(self) -> None:
        if self.job is not None and self.job.gone_at is None:
            self.job.gone_at = self.now + self.rng.uniform(0, 10)

    def change(self) -> None:
        """The user changes something, or another actor does."""
        number = self.rng.randrange(1000)
        match self.rng.randrange(6):
            case 0:
                self.app = replace(self.app, bootstrap=f"attempt-{number}")
            case 1:
                self.app = replace(self.app, bootstrap=f"bad-{number}")
            case 2:
                self.app = replace(self.app, bootstrap=f"attempt-{number}", revision=f"r-{number}")
            case 3:
                self.app = replace(self.app, replicas=self.rng.choice([0, 3]))
            case _:
                self.delete_job()


@pytest.mark.seeds(20)
def test_no_pod_is_made_before_the_state_is_whole_and_in_the_end_the_application_runs(seed: int) -> None:
    world = World(random.Random(seed), trouble=0.15)
    for _ in range(80):
        if world.pods_made:
            break
        if world.rng.random() < 0.1:
            world.change()
        world.reconcile()
    if not world.pods_made:
        world.trouble = 0.0
        world.app = replace(world.app, bootstrap="attempt-last", replicas=3)
        for _ in range(40):
            world.reconcile()
    assert world.pods_made
    assert world.whole


@pytest.mark.seeds(10)
def test_a_bootstrap_that_cannot_work_starts_nothing_and_is_not_tried_for_ever(seed: int) -> None:
    world = World(random.Random(seed), app=wanted(bootstrap="bad-0"), trouble=0.1)
    for _ in range(60):
        world.reconcile()
    assert not world.pods_made
    assert world.status.bootstrap is not None
    assert world.status.bootstrap.phase == "Failed"
