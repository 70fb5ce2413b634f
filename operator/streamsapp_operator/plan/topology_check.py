"""Checks a new revision: nothing of the running application is touched before its topology was loaded once. Pure.

The result goes to the status first; only then the pod that told it may go.
"""

from __future__ import annotations

from msgspec.structs import replace

from streamsapp_operator.model.actions import Action, DeleteCheck, StartCheck
from streamsapp_operator.model.observed_state import CheckSeen, CheckState
from streamsapp_operator.model.status import RolloutStatus
from streamsapp_operator.plan.plan_input import PlanInput
from streamsapp_operator.plan.topology_compatibility import encode


def examine(inputs: PlanInput, rollout: RolloutStatus) -> tuple[RolloutStatus, list[Action]]:
    """Returns the rollout with the result of its check, if it is being checked."""
    seen = inputs.observed.checks.get(rollout.revision, CheckSeen(rollout.revision))
    others = [
        DeleteCheck(revision)
        for revision, check in inputs.observed.checks.items()
        if revision != rollout.revision and check.state is not CheckState.ABSENT
    ]
    if rollout.phase != "Checking":
        done = [] if seen.state is CheckState.ABSENT else [DeleteCheck(rollout.revision)]
        return rollout, [*others, *done]
    if rollout.checked or seen.state is CheckState.PASSED:
        shape = encode(seen.shape) if seen.state is CheckState.PASSED else rollout.shape
        passed = replace(rollout, phase="Rolling", checked=True, shape=shape, started_at=inputs.time, message=None)
        return passed, [*others, *([] if seen.state is CheckState.ABSENT else [DeleteCheck(rollout.revision)])]
    failure = _failure(inputs, rollout, seen)
    if failure is not None:
        return replace(rollout, phase="Refused", failure=failure), [*others, DeleteCheck(rollout.revision)]
    waiting = replace(rollout, message="its topology is being loaded by a check pod")
    return waiting, [*others, *([StartCheck(rollout.revision)] if seen.state is CheckState.ABSENT else [])]


def _failure(inputs: PlanInput, rollout: RolloutStatus, seen: CheckSeen) -> str | None:
    if seen.state is CheckState.FAILED:
        return "; ".join(seen.faults) or "the check failed without saying why; its pod's log may tell"
    limit = inputs.settings.rollout.progress_deadline_seconds
    if inputs.since(rollout.started_at) < limit:
        return None
    told = "; ".join(seen.faults) or "see the events of its pod"
    return f"the check did not end within {limit} s (spec.rollout.progressDeadlineSeconds): {told}"
