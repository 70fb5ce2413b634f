"""Writes the phase: a short phrase for people. Machines read the conditions. Pure."""

from __future__ import annotations

from streamsapp_operator.model.desired_state import InvalidSpec
from streamsapp_operator.model.status import AppStatus, RolloutStatus
from streamsapp_operator.plan.plan_input import PlanInput


def phrase(inputs: PlanInput, status: AppStatus) -> str:
    """Says what goes on, in a few words."""
    if isinstance(inputs.app, InvalidSpec):
        return "Invalid spec"
    if inputs.settings.replicas == 0:
        return "Suspending" if inputs.pods else "Suspended"
    if status.bootstrap is not None and status.bootstrap.phase == "Failed":
        return "Bootstrap failed"
    if status.rollout is not None and (words := _of_rollout(status.rollout, first=status.last_good_revision is None)):
        return words
    if status.schedule is not None:
        return "Catching up" if status.schedule.result == "Running" else "Scheduled"
    pods, asked = len(inputs.pods), status.target_replicas
    if pods != asked:
        return f"Scaling to {asked}"
    return "Running" if status.ready_replicas == asked else f"Running, {status.ready_replicas} of {asked} ready"


def _of_rollout(rollout: RolloutStatus, *, first: bool) -> str | None:
    match rollout.phase:
        case "Checking":
            return "Checking topology"
        case "Bootstrapping":
            return "Bootstrapping"
        case "Rolling":
            return "Starting" if first else f"Restarting {rollout.updated}/{rollout.total}"
        case "Paused":
            return f"Restart paused {rollout.updated}/{rollout.total}"
        case "Blocked":
            return f"Restart blocked {rollout.updated}/{rollout.total}"
        case "TimedOut":
            return "Start timed out" if first else "Restart timed out"
        case "RollingBack":
            return "Rolling back"
        case "RolledBack":
            return "Rolled back"
        case "Refused":
            return "Change refused"
        case "Complete":
            return None
