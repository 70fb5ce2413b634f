"""Checks a new revision: nothing of the running application is touched before its topology was loaded once. Pure.

The result goes to the status first; only then the pod that reported it may go.
"""

from __future__ import annotations

from msgspec.structs import replace

from streamsapp_operator.model.actions import Action, DeleteCheck, StartCheck
from streamsapp_operator.model.observed_state import CheckSeen, CheckState
from streamsapp_operator.model.status import RolloutStatus
from streamsapp_operator.plan import incompatible_pods
from streamsapp_operator.plan.plan_input import PlanInput
from streamsapp_operator.plan.topology_compatibility import encode


def examine(inputs: PlanInput, rollout: RolloutStatus) -> tuple[RolloutStatus, list[Action]]:
    """Returns the rollout with the result of its check, if it is being checked."""
    seen = inputs.observed.checks.get(rollout.revision, CheckSeen(rollout.revision))
    waits_for, starts = _of_others(inputs, rollout)
    others: list[Action] = [
        DeleteCheck(revision)
        for revision, check in inputs.observed.checks.items()
        if revision not in {rollout.revision, waits_for} and check.state is not CheckState.ABSENT
    ]
    if rollout.phase != "Checking":
        done = [] if seen.state is CheckState.ABSENT else [DeleteCheck(rollout.revision)]
        return rollout, [*others, *done]
    if waits_for is not None and seen.state is CheckState.PASSED:
        told = f"the topology of revision {waits_for}, which has pods, is not known: a check pod loads it"
        return replace(rollout, message=told), [*others, *starts]
    if rollout.checked or seen.state is CheckState.PASSED:
        shape = encode(seen.shape) if seen.state is CheckState.PASSED else rollout.shape
        passed = replace(rollout, phase="Rolling", checked=True, shape=shape, started_at=inputs.time, message=None)
        return passed, [*others, *([] if seen.state is CheckState.ABSENT else [DeleteCheck(rollout.revision)])]
    failure = _failure(inputs, rollout, seen)
    if failure is not None:
        return replace(rollout, phase="Refused", failure=failure), [*others, DeleteCheck(rollout.revision)]
    waiting = replace(rollout, message="its topology is being loaded by a check pod")
    return waiting, [*others, *([StartCheck(rollout.revision)] if seen.state is CheckState.ABSENT else [])]


def _of_others(inputs: PlanInput, rollout: RolloutStatus) -> tuple[str | None, list[Action]]:
    """Returns the revision whose topology is not known and must be loaded first, with what begins that: pods of it are
    there, and the status was lost, say. If it cannot be loaded in time, nothing is begun beside it."""
    late = inputs.since(rollout.started_at) >= inputs.settings.rollout.progress_deadline_seconds
    if rollout.phase != "Checking" or rollout.checked or late:
        return None, []
    for revision in incompatible_pods.lacking(inputs, rollout):
        state = inputs.observed.checks.get(revision, CheckSeen(revision)).state
        if state in {CheckState.ABSENT, CheckState.RUNNING}:
            return revision, [StartCheck(revision)] if state is CheckState.ABSENT else []
    return None, []


def _failure(inputs: PlanInput, rollout: RolloutStatus, seen: CheckSeen) -> str | None:
    if seen.state is CheckState.FAILED:
        return "; ".join(seen.faults) or "the check failed and gave no reason; see the log of its pod"
    limit = inputs.settings.rollout.progress_deadline_seconds
    if inputs.since(rollout.started_at) < limit:
        return None
    told = "; ".join(seen.faults) or "see the events of its pod"
    return f"the check did not end within {limit} s (spec.rollout.progressDeadlineSeconds): {told}"
