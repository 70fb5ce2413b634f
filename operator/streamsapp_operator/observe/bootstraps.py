"""Reads the Job of a bootstrap: whether it is done, and what its pods say if it is not. Pure.

Called by the observer. The reason of a failure is the termination message of its last pod; user code runs in it, so
that is text.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamsapp_operator.children.names import ATTEMPT, REVISION_LABEL
from streamsapp_operator.kube.kinds import Object, annotation, label
from streamsapp_operator.model.observed_state import BootstrapSeen, JobState
from streamsapp_operator.model.waiting_reasons import CANNOT_RUN_ONCE
from streamsapp_operator.observe.pods import container_status, last_exit, waiting


def bootstrap_seen(job: Object, pods: Sequence[Object]) -> BootstrapSeen:
    """Returns the state of the Job; ``pods`` are the Job's."""
    attempt, revision = annotation(job, ATTEMPT) or "", label(job, REVISION_LABEL)
    if _has(job, "Complete"):  # also while it is being deleted: what is done is done
        return BootstrapSeen(attempt, revision, JobState.DONE)
    if "deletionTimestamp" in job["metadata"]:
        return BootstrapSeen(attempt, revision, JobState.ENDING)
    ordered = sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    exits = [last_exit(container_status(pod["status"])) or _lost(pod) for pod in ordered]
    told = next((each for each in reversed(exits) if each is not None), None)
    if _has(job, "Failed"):
        return BootstrapSeen(attempt, revision, JobState.FAILED, told or _message(job, "Failed"))
    again = None if told is None else f"it is tried again after {told}"
    current = next((pod for pod in reversed(ordered) if pod["status"].get("phase") in ("Pending", "Running")), None)
    if current is None:
        nothing = f"Job {job['metadata']['name']} has no pod yet; its events may say why"
        return BootstrapSeen(attempt, revision, JobState.WAITING, again or nothing)
    if current["status"]["phase"] == "Running":
        return BootstrapSeen(attempt, revision, JobState.RUNNING, again)
    reason, message = waiting(current)
    why = None if reason is None else f"{reason}: {message}" if message else reason
    return BootstrapSeen(attempt, revision, JobState.WAITING, why, stuck=reason in CANNOT_RUN_ONCE | {"Unschedulable"})


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
