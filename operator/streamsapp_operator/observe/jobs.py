"""Reads the Job of a bootstrap, a preview or a scheduled run: whether it is done, and what its pods say. Pure.

Called by the observer. The reason of a failure is the termination message of its last pod, and so is the result of a
preview; user code runs in it, so the one is text, and the other is read whole before it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from msgspec import Struct

from streamsapp.structs import decoded
from streamsapp_operator.children.names import ATTEMPT, REVISION_LABEL
from streamsapp_operator.kube.kinds import Object, annotation, label
from streamsapp_operator.model.observed_state import JobSeen, JobState, PreviewResult, PreviewSeen, RunSeen
from streamsapp_operator.model.waiting_reasons import CANNOT_RUN_ONCE
from streamsapp_operator.observe.pods import container_status, last_exit, seconds, terminated, waiting
from streamsapp_operator.observe.status_document import Count

_MOST_LINES, _LONGEST_LINE = 20, 300
#: The phases of a pod that is not tried again. After its pod has succeeded, a Job takes seconds to be complete.
_GOES_ON = ("Pending", "Running", "Succeeded")
#: The reason in the condition of a failed Job when its deadline is over.
_TOO_LATE = "DeadlineExceeded"
_PREVIEW_LATE = (
    " (spec.rollout.preview.deadlineSeconds): allow it more, or spec.rollout.preview.resources, or ask for fewer"
    " records"
)
_RUN_LATE = " (spec.spark.deadlineSeconds): what it committed stays, and the next run goes on there"


class _Summary(Struct, frozen=True):
    records: Count
    keys: Count
    differences: Count
    first: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def job_seen(job: Object, pods: Sequence[Object], late: str = "") -> JobSeen:
    """Returns the state of the Job; ``pods`` are the Job's, ``late`` is the field of its deadline in brackets, and what
    to do if it is missed."""
    attempt, revision = annotation(job, ATTEMPT) or "", label(job, REVISION_LABEL)
    if _has(job, "Complete"):  # also while it is being deleted: what is done is done
        return JobSeen(attempt, revision, JobState.DONE)
    if "deletionTimestamp" in job["metadata"]:
        return JobSeen(attempt, revision, JobState.ENDING)
    ordered = sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    exits = [last_exit(container_status(pod["status"])) or _lost(pod) for pod in ordered if not _ended_well(pod)]
    told = next((each for each in reversed(exits) if each is not None), None)
    if _has(job, "Failed") and _condition(job, "Failed").get("reason") == _TOO_LATE:
        limit = (job.get("spec") or {}).get("activeDeadlineSeconds")
        return JobSeen(attempt, revision, JobState.FAILED, f"it did not end within {limit} s{late}")
    if _has(job, "Failed") and not _any_goes_on(pods):
        return JobSeen(attempt, revision, JobState.FAILED, told or _message(job, "Failed"))
    again = None if told is None else f"it is tried again after {told}"
    current = next((pod for pod in reversed(ordered) if pod["status"].get("phase") in _GOES_ON), None)
    if current is None:
        nothing = f"Job {job['metadata']['name']} has no pod yet; its events may say why"
        return JobSeen(attempt, revision, JobState.WAITING, again or nothing)
    if current["status"]["phase"] != "Pending":
        return JobSeen(attempt, revision, JobState.RUNNING, again)
    reason, message = waiting(current)
    why = None if reason is None else f"{reason}: {message}" if message else reason
    return JobSeen(attempt, revision, JobState.WAITING, why, stuck=reason in CANNOT_RUN_ONCE | {"Unschedulable"})


def preview_seen(job: Object, pods: Sequence[Object]) -> PreviewSeen:
    """Returns the state of the Job of a preview, and its result: a preview that ended well without a result has
    failed."""
    seen = job_seen(job, pods, _PREVIEW_LATE)
    if seen.state is not JobState.DONE:
        return PreviewSeen(seen)
    told = _said_by_one_that_ended_well(pods)
    if told is None and _any_goes_on(pods):
        return PreviewSeen(replace(seen, state=JobState.RUNNING))
    try:
        found = decoded(told or "", _Summary)
    except (ValueError, RecursionError):
        why = "it ended without a result; is its image one of this version of streamsapp, with Spark?"
        return PreviewSeen(JobSeen(seen.attempt, seen.revision, JobState.FAILED, why))
    first, notes = (tuple(_short(each) for each in lines[:_MOST_LINES]) for lines in (found.first, found.notes))
    return PreviewSeen(seen, PreviewResult(found.records, found.keys, found.differences, first, notes))


class _Left(Struct, frozen=True, rename="camel"):
    input_lag: Count


def run_seen(job: Object, pods: Sequence[Object]) -> RunSeen:
    """Returns the state of a scheduled run; how much input it left is what its pod said at its end."""
    try:
        left = decoded(_said_by_one_that_ended_well(pods) or "", _Left).input_lag
    except (ValueError, RecursionError):
        left = None
    return RunSeen(job_seen(job, pods, _RUN_LATE), seconds(str(job["metadata"]["creationTimestamp"])), left)


def _said_by_one_that_ended_well(pods: Sequence[Object]) -> str | None:
    ended = (terminated(container_status(pod["status"])) for pod in pods if _ended_well(pod))
    return next((str(each.get("message")) for each in ended if each is not None), None)


def _any_goes_on(pods: Sequence[Object]) -> bool:
    """Says whether the end of a pod, and what it said, is still to be heard of: pods are watched apart from Jobs.

    A pod that is being deleted is not waited for: a lost node never reports its end.
    """
    waited_for = (pod for pod in pods if "deletionTimestamp" not in pod["metadata"])
    return any(pod["status"].get("phase") in ("Pending", "Running") for pod in waited_for)


def _ended_well(pod: Object) -> bool:
    ended = terminated(container_status(pod["status"]))
    return ended is not None and ended.get("exitCode") == 0


def _short(line: str) -> str:
    return line[:_LONGEST_LINE]


def _lost(pod: Object) -> str | None:
    """Says whether the node ended or lost the pod before its container could say anything."""
    status = pod["status"]
    if status.get("phase") != "Failed":
        return None
    return ": ".join(str(each) for each in (status.get("reason"), status.get("message")) if each) or "a pod was lost"


def _has(job: Object, kind: str) -> bool:
    return _condition(job, kind).get("status") == "True"


def _message(job: Object, kind: str) -> str | None:
    found = _condition(job, kind)
    return found.get("message") or found.get("reason")


def _condition(job: Object, kind: str) -> Object:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind), {})
