"""Distinguishes the last good revision from a revision on trial: all pods have it, were well for a while, and may still
fail. Pure.

Many faults show only after minutes. So a revision that was rolled out becomes the last good one when its pods have run
for ``rollout.lastGoodSeconds`` without a restart, and each task with input has committed. Until then a crash loop or a
hang leads back to the last good one. In everything else the revision on trial stands for the last good one (what pods
come back as, what is compared, where a refusal leads): rules of the plan never see the difference.
"""

from __future__ import annotations

from msgspec.structs import replace

from streamsapp_operator.model.status import AppStatus, RolloutStatus, Trial
from streamsapp_operator.plan import progress
from streamsapp_operator.plan.plan_input import PlanInput

#: A revision that has processed nothing of what waits for so long is not called good now; seconds. It is longer than
#: commits are apart, as records are counted in turns.
RESTS = 60.0


def seen_by_rules(status: AppStatus) -> AppStatus:
    """Returns the status with the revision on trial in the place of the last good one."""
    trial = status.trial
    if trial is None:
        return status
    return replace(
        status,
        last_good_revision=trial.revision,
        shape=trial.shape,
        engine=trial.engine,
        last_good_scheduled=trial.scheduled,
    )


def failed(inputs: PlanInput, status: AppStatus) -> AppStatus | None:
    """Returns the status, as it was left, after a trial that has failed: the rollout of that revision leads back to the
    last good one; ``None`` if none has failed."""
    trial = status.trial
    if trial is None or inputs.app.requests.paused:
        return None
    failure = _failure(inputs, trial)
    if failure is None:
        return None
    rollout, shapes = status.rollout, status.shapes
    if trial.shape is not None:
        shapes = shapes | {trial.revision: trial.shape}
    if rollout is None or rollout.revision != trial.revision:
        return replace(status, trial=None, shapes=shapes)
    return replace(
        status, trial=None, shapes=shapes, failed_revision=trial.revision, rollout=given_up(rollout, failure)
    )


def _failure(inputs: PlanInput, trial: Trial) -> str | None:
    return progress.failure(inputs, trial.revision) or _idle_for_long(inputs, trial)


def _idle_for_long(inputs: PlanInput, trial: Trial) -> str | None:
    limit = inputs.settings.rollout.progress_deadline_seconds
    same = trial.processed is not None and progress.processed(inputs, trial.revision) == trial.processed
    if not same or inputs.since(trial.idle_since) < limit:
        return None
    idle = progress.idle_words(inputs, trial.revision)
    return f"{idle}, for {limit} s (spec.rollout.progressDeadlineSeconds)"


def given_up(rollout: RolloutStatus, failure: str) -> RolloutStatus:
    """Returns the rollout of a revision that leads back to the last good one from now on."""
    return replace(
        rollout, phase="RollingBack", failure=failure, current=None, current_uid=None, step_started_at=None,
        driver=None, blocked_since=None, soaking=None, soaking_since=None, measured_from=None,
    )  # fmt: skip


def judged(inputs: PlanInput, before: AppStatus, after: AppStatus) -> AppStatus:
    """Returns the new status, which the rules made, with the last good revision as it is reported: ``before`` is the
    status as it was left."""
    good = after.last_good_revision
    # Of the first there is nothing to go back to; a run by a schedule reports itself when it ends.
    if good is None or before.last_good_revision in {None, good} or after.last_good_scheduled:
        return replace(after, trial=None)
    last = None if before.trial is None or before.trial.revision != good else before.trial
    # One that fails while a pause holds it begins anew.
    since = inputs.time if last is None or _failure(inputs, last) else last.since
    processed = progress.processed(inputs, good)
    same = last is not None and last.processed == processed
    idle_since = None if processed is None else last.idle_since if last is not None and same else inputs.time
    if inputs.since(idle_since) < RESTS and _has_passed(inputs, good, inputs.since(since)):
        return replace(after, trial=None)
    trial = Trial(
        revision=good,
        since=since,
        shape=after.shape,
        engine=after.engine,
        scheduled=after.last_good_scheduled,
        processed=processed,
        idle_since=idle_since,
    )
    return replace(
        after,
        trial=trial,
        last_good_revision=before.last_good_revision,
        shape=before.shape,
        engine=before.engine,
        last_good_scheduled=before.last_good_scheduled,
    )


def _has_passed(inputs: PlanInput, revision: str, lasted: float) -> bool:
    seconds, driver = inputs.settings.rollout.last_good_seconds, inputs.observed.driver
    if seconds == 0:
        return True
    pods = (*inputs.pods, *(() if driver is None else (driver,)))
    well = all(pod.revision == revision and pod.ready and not pod.terminating for pod in pods)
    restarted = any(progress.has_restarted_within(inputs, pod, seconds) for pod in pods)
    # One that was made anew begins nothing anew, but has to show as much as a hang takes to show.
    least = min(seconds, progress.HANGS)
    young = any(inputs.now - max(pod.created_at, pod.running_since or 0.0) < least for pod in pods)
    told = bool(inputs.pods) and well and not (restarted or young) and progress.waits(inputs, revision) is None
    return told and lasted >= seconds and progress.has_committed(inputs, revision)
