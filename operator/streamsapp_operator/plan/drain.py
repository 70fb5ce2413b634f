"""Drains an application that is being deleted: its pods end in good order, then the object may go. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from streamsapp_operator.model.actions import (
    Action,
    ApplyChildren,
    DeleteBootstrap,
    DeletePreview,
    EndSchedule,
    PostEvent,
    RemoveFinalizer,
)
from streamsapp_operator.model.desired_state import DesiredState, InvalidSpec
from streamsapp_operator.model.observed_state import JobSeen, JobState, ObservedState
from streamsapp_operator.model.status import AppStatus, Condition
from streamsapp_operator.plan.conditions import stamped
from streamsapp_operator.plan.engine_switch import driver_is_there
from streamsapp_operator.plan.plan_input import moment

#: Then the object goes in any case, and its pods with it, each with what is left of its own grace period.
LIMIT_SECONDS = 300.0


def drain(
    app: DesiredState | InvalidSpec, observed: ObservedState, status: AppStatus, now: float
) -> tuple[AppStatus, list[Action]]:
    """Returns the moves until there are no pods any more, or it takes too long."""
    since = status.draining_since or moment(now)
    drained = replace(
        status,
        phase="Draining",
        observed_generation=app.generation,
        replicas=len(observed.pods),
        ready_replicas=sum(pod.ready and not pod.terminating for pod in observed.pods),
        draining_since=since,
        conditions=_conditions(app, status, now),
    )
    actions: list[Action] = []
    if status.draining_since is None:
        actions.append(PostEvent("Normal", "Draining", "the application is deleted: all pods end"))
    revision, replicas = observed.children.template_revision, observed.children.replicas
    driver = driver_is_there(observed)
    ending = _ended_jobs(observed)
    if not (observed.pods or replicas or driver or ending is not None):
        return drained, [*actions, RemoveFinalizer()]
    actions += ending or ()
    if revision is not None and (replicas or driver):
        left = replicas or 0 if driver else 0
        actions.insert(0, ApplyChildren(revision, left, 0, runs_driver=False))
    if now - since.timestamp() >= LIMIT_SECONDS:
        actions.insert(0, RemoveFinalizer())  # no action after a failed one is carried out
    return drained, actions


def _ended_jobs(observed: ObservedState) -> list[Action] | None:
    """Returns how all ends that runs beside pods, and may write; ``None`` if nothing does."""
    preview = None if observed.preview is None else observed.preview.job
    jobs: list[tuple[JobSeen | None, Action]] = [(observed.bootstrap, DeleteBootstrap()), (preview, DeletePreview())]
    at_work = [(job, end) for job, end in jobs if job is not None and job.state not in {JobState.DONE, JobState.FAILED}]
    runs = [EndSchedule()] if observed.children.schedule_revision is not None else []
    if not runs and not at_work:
        return None
    return [*runs, *(end for job, end in at_work if job.state is not JobState.ENDING)]


def _conditions(app: DesiredState | InvalidSpec, status: AppStatus, now: float) -> tuple[Condition, ...]:
    told = stamped(
        {
            "Ready": ("False", "Draining", "the application is being deleted"),
            "Progressing": ("True", "Draining", "its pods, and its Jobs, are ending"),
        },
        status,
        app.generation,
        moment(now),
    )
    return (*told, *(it for it in status.conditions if it.type not in {"Ready", "Progressing"}))
