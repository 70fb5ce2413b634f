"""Tells by conditions if the spec of this generation is what runs: ``UpToDate``, ``Reconciling`` and ``Stalled``.
Pure; called for the conditions of the status.

``Reconciling`` and ``Stalled`` are those of kstatus, by which tools such as Argo CD and Flux wait for any resource.
"""

from __future__ import annotations

from typing import Literal

from streamsapp_operator.model.desired_state import InvalidSpec
from streamsapp_operator.model.status import AppStatus, ConditionType
from streamsapp_operator.plan.engine_switch import driver_ready
from streamsapp_operator.plan.plan_input import PlanInput

#: Status, reason and message of a condition.
Told = tuple[Literal["True", "False", "Unknown"], str, str]

#: Phases of a rollout from which it does not go on by itself.
_ENDED_BADLY = {"Refused", "RolledBack", "TimedOut"}


def currency(inputs: PlanInput, status: AppStatus) -> dict[ConditionType, Told]:
    """Returns the three conditions. At most one of ``UpToDate``, ``Reconciling`` and ``Stalled`` is true."""
    why = _behind(inputs, status)
    if why is None:
        message = "nothing runs, as spec.replicas is 0" if inputs.settings.replicas == 0 else _all_have(inputs)
        return told("UpToDate", message)
    stalled = _stalls(inputs, status)
    return told(*why, stalled=stalled)


def told(reason: str, message: str, *, stalled: bool = False) -> dict[ConditionType, Told]:
    """Returns the three conditions of an application that is up to date, or why it is not."""
    if reason == "UpToDate":
        return {
            "UpToDate": ("True", reason, message),
            "Reconciling": ("False", reason, ""),
            "Stalled": ("False", reason, ""),
        }
    return {
        "UpToDate": ("False", reason, message),
        "Reconciling": ("False", reason, "") if stalled else ("True", reason, message),
        "Stalled": ("True", reason, message) if stalled else ("False", reason, ""),
    }


def _all_have(inputs: PlanInput) -> str:
    return f"all that runs has revision {inputs.settings.revision}, of generation {inputs.app.generation}"


def _stalls(inputs: PlanInput, status: AppStatus) -> bool:
    """Says whether nothing changes before somebody changes something."""
    rollout, bootstrap = status.rollout, status.bootstrap
    failed = bootstrap is not None and bootstrap.phase == "Failed"
    bad = rollout is not None and rollout.phase in _ENDED_BADLY
    return isinstance(inputs.app, InvalidSpec) or bad or failed


def _behind(inputs: PlanInput, status: AppStatus) -> tuple[str, str] | None:
    """Returns why not all that runs is of this generation, as a reason and in words; ``None`` if it is."""
    rollout, settings, children = status.rollout, inputs.settings, inputs.observed.children
    if isinstance(inputs.app, InvalidSpec):
        return "InvalidSpec", f"the last valid spec goes on: {'; '.join(inputs.app.faults)}"
    if settings.replicas == 0 and settings.autoscaling is None:
        return ("Suspending", "pods are ending") if inputs.pods else None
    if rollout is None or rollout.revision != settings.revision:
        return "NotStarted", f"revision {settings.revision} is not begun yet"
    if rollout.phase != "Complete":
        words = rollout.failure or rollout.message or f"revision {rollout.revision} is {rollout.phase}"
        return rollout.phase, words
    if status.schedule is not None:
        late = children.schedule_revision != settings.revision
        return ("Rolling", f"the next run is not one of revision {settings.revision} yet") if late else None
    asked = children.replicas or 0
    wanted = asked if settings.autoscaling is not None else settings.replicas
    if asked != wanted or len(inputs.pods) != asked or any(pod.terminating for pod in inputs.pods):
        return "Scaling", f"there are {len(inputs.pods)} pods, {wanted} are wanted"
    others = [pod.name for pod in inputs.pods if pod.revision != settings.revision]
    if others:
        return "Rolling", f"{others[0]} has another revision than {settings.revision}"
    unready = [pod.name for pod in inputs.pods if not pod.ready]
    if unready or not driver_ready(inputs, settings.revision):
        return "PodsNotReady", f"{unready[0] if unready else 'the driver'} is not ready"
    return None
