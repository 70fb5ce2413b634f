"""Decides on the bootstrap, which makes state of history before an application's first pods start. Pure.

The Job is in the status before it is made, and until it is gone, so it is looked for after any crash. There is one at a
time: another one is started only when the one before is gone with its pods. Finished work stays finished, whatever the
spec becomes; an application that has run needs no history.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from streamsapp_operator.children.names import bootstrap_job_name
from streamsapp_operator.model.actions import Action, DeleteBootstrap, StartBootstrap
from streamsapp_operator.model.observed_state import JobSeen, JobState
from streamsapp_operator.model.status import BootstrapStatus, RolloutStatus
from streamsapp_operator.plan.plan_input import PlanInput

_REMEDY = "no pod is started; it is tried again when the spec has changed, or after `kubectl streamsapp restart {name}`"
_IGNORED = "the application has run already and has its own state; to make that anew from history see docs/spark.md"


@dataclass(frozen=True, slots=True)
class Preparation:
    """The state of the preparation."""

    status: BootstrapStatus | None
    #: No pod may be made yet.
    waits: bool = False
    actions: tuple[Action, ...] = ()


def prepared(inputs: PlanInput, rollout: RolloutStatus) -> tuple[RolloutStatus, Preparation]:
    """Returns the rollout, which begins when the state is there."""
    preparation = prepare(inputs, rollout)
    if preparation.waits and rollout.phase in {"Rolling", "Bootstrapping"}:
        rollout = replace(rollout, phase="Bootstrapping", message=_message(preparation))
    elif rollout.phase == "Bootstrapping":
        rollout = replace(rollout, phase="Rolling", message=None, started_at=inputs.time)
    return rollout, preparation


def prepare(inputs: PlanInput, rollout: RolloutStatus) -> Preparation:
    """Returns the next move towards state that is whole."""
    last, seen = inputs.status.bootstrap, inputs.observed.bootstrap
    if last is not None and last.phase == "Done":
        return _over(last, seen)
    if _has_run(inputs):
        asked = inputs.settings.bootstrap is not None
        return _over(BootstrapStatus(phase="Ignored", message=_IGNORED, job=_job(last)) if asked else None, seen)
    if seen is not None and seen.state is JobState.DONE:
        return _over(_done(inputs, last), seen)
    if inputs.settings.bootstrap is None:
        return _ending(last, seen, "spec.bootstrap was removed") if seen else Preparation(None)
    if inputs.settings.replicas == 0:
        waiting = last or BootstrapStatus(phase="Pending")
        return _ending(waiting, seen, "spec.replicas is 0: it begins when there are to be pods")
    if not rollout.checked:
        return Preparation(last)
    return _towards(inputs, inputs.settings.bootstrap, last, seen)


def _towards(inputs: PlanInput, attempt: str, last: BootstrapStatus | None, seen: JobSeen | None) -> Preparation:
    same = last is not None and last.attempt == attempt
    if seen is None:
        if last is not None and same and last.phase == "Failed":
            return Preparation(replace(last, job=None), waits=True)
        return Preparation(_started(inputs, attempt, last if same else None), True, (StartBootstrap(attempt),))
    if seen.attempt != attempt:
        return _ending(last, seen, "it is begun anew, as the spec has changed")
    status = last if last is not None and same else _started(inputs, attempt, None)
    match seen.state:
        case JobState.FAILED:
            return Preparation(_failed(inputs, status, seen), waits=True)
        case JobState.ENDING:
            return _ending(status, seen, "it is begun anew")
        case _:
            phase = "Running" if seen.state is JobState.RUNNING else "Pending"
            return Preparation(replace(status, phase=phase, message=seen.message), waits=True)


def _started(inputs: PlanInput, attempt: str, last: BootstrapStatus | None) -> BootstrapStatus:
    since = inputs.time if last is None else last.started_at
    name = bootstrap_job_name(inputs.app.name)
    return BootstrapStatus(
        phase="Pending", message="its Job is being made", started_at=since, job=name, attempt=attempt
    )


def _failed(inputs: PlanInput, status: BootstrapStatus, seen: JobSeen) -> BootstrapStatus:
    """Returns the failure, which is reported once: its pods may be gone later."""
    if status.phase == "Failed":
        return status
    message = f"{seen.message or 'its Job failed and gave no reason'}; {_REMEDY.format(name=inputs.app.name)}"
    return replace(status, phase="Failed", message=message, finished_at=inputs.time)


def _done(inputs: PlanInput, last: BootstrapStatus | None) -> BootstrapStatus:
    return replace(last or BootstrapStatus(phase="Done"), phase="Done", message=None, finished_at=inputs.time)


def _over(status: BootstrapStatus | None, seen: JobSeen | None) -> Preparation:
    """Ends the bootstrap, as nothing waits for it any more; a Job that is left goes, and is forgotten when it is
    gone."""
    if seen is None:
        return Preparation(None if status is None else replace(status, job=None))
    return Preparation(status, actions=_drop(seen))


def _ending(status: BootstrapStatus | None, seen: JobSeen | None, why: str) -> Preparation:
    """Deletes a Job that is not to go on; the next move waits until it is gone."""
    after = replace(status or BootstrapStatus(phase="Pending"), phase="Pending", message=why, finished_at=None)
    if seen is None:
        return Preparation(replace(after, job=None), waits=True)
    return Preparation(after, True, _drop(seen))


def _drop(seen: JobSeen) -> tuple[Action, ...]:
    return () if seen.state is JobState.ENDING else (DeleteBootstrap(),)


def _has_run(inputs: PlanInput) -> bool:
    """Says whether the application has run: pods were made, or are about to be, whatever became of them."""
    status = inputs.status
    runs = inputs.observed.children.template_revision is not None
    return runs or status.target_replicas is not None or status.last_good_revision is not None


def _job(last: BootstrapStatus | None) -> str | None:
    return None if last is None else last.job


def _message(preparation: Preparation) -> str:
    told = preparation.status and preparation.status.message
    return told or "state is made of history before the first pods start"
