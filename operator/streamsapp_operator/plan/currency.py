"""Reports by conditions if the spec of this generation is what runs: ``UpToDate``, ``Reconciling`` and ``Stalled``.
Pure; called for the conditions of the status.

``Reconciling`` and ``Stalled`` are those of kstatus, by which tools such as Argo CD and Flux wait for any resource.
``Stalled`` is true when nothing goes on before a person changes something.
"""

from __future__ import annotations

from typing import Literal

from streamsapp_operator.model.desired_state import InvalidSpec
from streamsapp_operator.model.observed_state import Trouble
from streamsapp_operator.model.status import AppStatus, ConditionType
from streamsapp_operator.model.waiting_reasons import CANNOT_START, START_SECONDS
from streamsapp_operator.plan import progress, rollout_holds
from streamsapp_operator.plan.engine_switch import driver_ready
from streamsapp_operator.plan.external_faults import unreachable
from streamsapp_operator.plan.plan_input import PlanInput

#: Status, reason and message of a condition.
Told = tuple[Literal["True", "False", "Unknown"], str, str]

#: Phases of a rollout from which it does not go on by itself.
_ENDED_BADLY = {"Refused", "RolledBack", "TimedOut"}
#: Reasons of a reconcile that failed which only a person removes; the others may go away by themselves.
_BY_HAND = {"NameTaken", "Rejected", "MissingRight"}


def currency(inputs: PlanInput, status: AppStatus) -> dict[ConditionType, Told]:
    """Returns the three conditions; one of them is true."""
    if isinstance(inputs.app, InvalidSpec):
        faults = "; ".join(inputs.app.faults)
        return told(
            "InvalidSpec", f"the spec is invalid, and the last valid one stays in force: {faults}", stalled=True
        )
    if inputs.observed.trouble is not None:
        return of_trouble(inputs.observed.trouble)
    why = _behind(inputs, status)
    if why is None and inputs.app.undone:
        return told("Undone", _undone(inputs), stalled=True)
    if why is None:
        message = "nothing runs, as spec.replicas is 0" if inputs.settings.replicas == 0 else _all_have(inputs)
        return told("UpToDate", message)
    broken = cannot_run(inputs)
    if broken is not None and status.last_good_revision in {None, inputs.settings.revision}:
        return told("PodFailing", broken, stalled=True)  # there is nothing to go back to
    return told(*why, stalled=_stalls(inputs, status))


def of_trouble(trouble: Trouble) -> dict[ConditionType, Told]:
    """Returns the three conditions of an application whose last reconcile failed."""
    return told(trouble.reason, trouble.message, stalled=trouble.reason in _BY_HAND)


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


def _undone(inputs: PlanInput) -> str:
    runs = f"revision {inputs.settings.revision} runs in place of that of generation {inputs.app.generation}"
    return f"{runs}, as it was undone; a change of the spec ends that, or removing the annotation streamsapp.dev/undone"


def _all_have(inputs: PlanInput) -> str:
    return f"all that runs has revision {inputs.settings.revision}, of generation {inputs.app.generation}"


def _stalls(inputs: PlanInput, status: AppStatus) -> bool:
    """Says whether the rollout does not go on by itself."""
    rollout, bootstrap = status.rollout, status.bootstrap
    if bootstrap is not None and bootstrap.phase == "Failed":
        return True
    return rollout is not None and (rollout.phase in _ENDED_BADLY or rollout_holds.waits_for_approval(inputs, rollout))


def cannot_run(inputs: PlanInput) -> str | None:
    """Returns the first pod whose container ends again and again, or cannot begin, and why. While Kafka or the object
    store is away, that is the reason, and waiting mends it."""
    if any(unreachable(inputs)):
        return None
    for pod in progress.all_pods(inputs):
        if pod.ready or pod.terminating:
            continue
        why = pod.last_exit or pod.waiting_message or "see its log"
        if progress.is_crashing(inputs, pod):
            return f"{pod.name}: it restarted {progress.restarts(pod)} times, the last time after {why}"
        if pod.waiting_reason in CANNOT_START and inputs.now - pod.created_at >= START_SECONDS:
            return f"{pod.name}: {pod.waiting_reason}: {why}"
    return None


def _behind(inputs: PlanInput, status: AppStatus) -> tuple[str, str] | None:
    """Returns why not all that runs is of this generation, as a reason and in words; ``None`` if it is."""
    rollout, settings, children = status.rollout, inputs.settings, inputs.observed.children
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
