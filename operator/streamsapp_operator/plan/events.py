"""Decides which events to post: one for each change of the status, so nothing is reported twice. Pure.

The status is written before an event is made, so an operator that dies in between loses the event, never repeats it.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamsapp_operator.gap_prediction import gap_text
from streamsapp_operator.model.actions import PostEvent
from streamsapp_operator.model.desired_state import DesiredState, InvalidSpec
from streamsapp_operator.model.observed_state import ObservedState
from streamsapp_operator.model.status import (
    AppStatus,
    BootstrapStatus,
    RolloutStatus,
    RolloutStep,
    ScheduleStatus,
    SwitchStatus,
)
from streamsapp_operator.plan.external_faults import ID_TAKEN, NODE_LOST, node_lost
from streamsapp_operator.plan.gap_limit import FIELD
from streamsapp_operator.plan.preview import outcome
from streamsapp_operator.plan.rollout_history import ended_steps
from streamsapp_operator.plan.rollout_holds import SECRET_CHANGED


def events(
    app: DesiredState | InvalidSpec, observed: ObservedState, before: AppStatus, after: AppStatus
) -> list[PostEvent]:
    """Returns the events of a change of the status. Reasons are stable: tools match them."""
    present = frozenset(pod.uid for pod in observed.pods)
    return [
        *_spec(app, before),
        *_bootstrap(before.bootstrap, after.bootstrap),
        *_secret(before.rollout, after.rollout),
        *_gap(before.rollout, after.rollout),
        *_rollout(before.rollout, after.rollout, present),
        *_preview(before, after),
        *_replicas(before, after),
        *_nodes(observed, before),
        *_held_back(before, after),
        *_switch(before.switch, after.switch),
        *_run(before.schedule, after.schedule),
    ]


def _spec(app: DesiredState | InvalidSpec, before: AppStatus) -> Iterator[PostEvent]:
    told = [it.message for it in before.conditions if it.type == "Degraded" and it.reason == "InvalidSpec"]
    if isinstance(app, InvalidSpec):
        message = "; ".join(app.faults)
        if not any(message in it for it in told):
            yield PostEvent("Warning", "InvalidSpec", message)
    elif told:
        yield PostEvent("Normal", "SpecAccepted", "the spec is valid again")


def _held_back(before: AppStatus, after: AppStatus) -> Iterator[PostEvent]:
    """Yields an event when the application turns out to be held back by an older one of its consumer group."""
    old, new = (
        {it.message for it in status.conditions if it.reason == ID_TAKEN and it.type == "Stalled"}
        for status in (before, after)
    )
    for message in new - old:
        if message:
            yield PostEvent("Warning", ID_TAKEN, message)


def _nodes(observed: ObservedState, before: AppStatus) -> Iterator[PostEvent]:
    """Yields an event when a node falls silent, and one when all are heard of again. The condition remembers."""
    told = [it.message for it in before.conditions if it.type in {"Ready", "Degraded"}]
    lost = node_lost(observed)
    if lost is not None and not any(lost in it for it in told):
        yield PostEvent("Warning", NODE_LOST, lost)
    elif lost is None and any(it.reason == NODE_LOST for it in before.conditions):
        yield PostEvent("Normal", "NodeReady", "every node with a pod of this application reports again")


def _bootstrap(before: BootstrapStatus | None, after: BootstrapStatus | None) -> Iterator[PostEvent]:
    if after is None:
        return
    began = after.started_at is not None and (before is None or before.started_at != after.started_at)
    if began and after.phase == "Pending":
        yield PostEvent(
            "Normal", "BootstrapStarted", f"Job {after.job} makes state of history before the first pods start"
        )
    if before is not None and before.phase == after.phase:
        return
    match after.phase:
        case "Done":
            yield PostEvent("Normal", "BootstrapDone", "the state is there: pods start with it")
        case "Failed":
            yield PostEvent("Warning", "BootstrapFailed", after.message or "")
        case "Ignored":
            yield PostEvent("Warning", "BootstrapIgnored", f"spec.bootstrap: {after.message}")


def _rollout(before: RolloutStatus | None, after: RolloutStatus | None, present: frozenset[str]) -> Iterator[PostEvent]:
    if after is None:
        return
    if before is not None:
        yield from _step(before, after, present)
    same = before is not None and before.revision == after.revision
    if not same or (before is not None and before.phase != after.phase):
        yield from _phase(before if same else None, after)


def _secret(before: RolloutStatus | None, after: RolloutStatus | None) -> Iterator[PostEvent]:
    """Yields an event when pods are found to have read an old Secret, once for each rollout."""
    old, new = ("" if it is None else it.message or "" for it in (before, after))
    if SECRET_CHANGED in new and SECRET_CHANGED not in old:
        yield PostEvent("Normal", "SecretChanged", SECRET_CHANGED)


def _gap(before: RolloutStatus | None, after: RolloutStatus | None) -> Iterator[PostEvent]:
    """Yields an event when the next restart would take too long, once for as long as it is held for that."""
    old, new = (it is not None and it.phase == "Paused" and FIELD in (it.message or "") for it in (before, after))
    if new and not old and after is not None:
        yield PostEvent("Warning", "GapTooLong", after.message or "")


def _preview(before: AppStatus, after: AppStatus) -> Iterator[PostEvent]:
    old, new = (None if it.rollout is None else it.rollout.preview for it in (before, after))
    if new is None or new == old:
        return
    same = old is not None and old.attempt == new.attempt
    if not same:
        yield PostEvent("Normal", "PreviewStarted", "the new revision runs beside the last good one on recent input")
    if same and old is not None and old.phase == new.phase:
        return
    asked = None if after.accepted is None else after.accepted.rollout.preview
    told = "; ".join((outcome(new), *new.first[:1]))
    if new.phase == "Done" and asked is not None and (new.differences or 0) > asked.max_differences:
        yield PostEvent("Warning", "PreviewDiffers", told)
    elif new.phase == "Done":
        yield PostEvent("Normal", "PreviewDone", told)
    elif new.phase == "Failed":
        yield PostEvent("Warning", "PreviewFailed", new.message or "")


def _phase(before: RolloutStatus | None, after: RolloutStatus) -> Iterator[PostEvent]:
    why = after.failure or after.message or ""
    match after.phase:
        case "Checking":
            yield PostEvent("Normal", "CheckStarted", f"the topology of revision {after.revision} is being loaded")
        case "Rolling":
            if before is not None and before.phase in {"Paused", "Blocked"}:
                yield PostEvent("Normal", "RolloutResumed", "pods may be restarted again")
            elif before is None or before.phase != "Complete":  # else one pod is restarted, and reported as such
                yield PostEvent("Normal", "RolloutStarted", f"revision {after.revision} is rolled out")
        case "Paused":
            yield PostEvent("Normal", "RolloutPaused", after.message or "")
        case "Blocked":
            yield PostEvent("Warning", "RolloutBlocked", after.message or "")
        case "Complete":
            which = f"all {after.total} pods have" if after.total else "runs that are scheduled have"
            yield PostEvent("Normal", "RolloutComplete", f"{which} revision {after.revision}")
        case "TimedOut":
            yield PostEvent("Warning", "RolloutTimedOut", f"{after.message}; waiting for a change of the spec")
        case "RollingBack":
            yield PostEvent("Warning", "RollingBack", why)
        case "RolledBack":
            yield PostEvent("Warning", "RolledBack", f"the last good revision runs again: {why}")
        case "Refused":
            yield PostEvent("Warning", "TopologyRefused" if after.checked else "CheckFailed", why)


def _step(before: RolloutStatus, after: RolloutStatus, present: frozenset[str]) -> Iterator[PostEvent]:
    for step in ended_steps(before, after, present):
        stood = (
            "" if step.observed_seconds is None else f"; its tasks ran again after {gap_text(step.observed_seconds)}"
        )
        yield PostEvent("Normal", "PodRestarted", f"{step.pod} is done{stood}{_predicted(step)}")
    if after.current_uid is not None and after.current_uid != before.current_uid:
        yield PostEvent("Normal", "PodRestarting", f"{after.current} is restarted{_predicted(after)}")
    driver = after.driver
    if driver is not None and driver.observed_seconds is None and driver != before.driver:
        yield PostEvent("Normal", "PodRestarting", f"{driver.pod} is restarted{_predicted(driver)}")


def _predicted(step: RolloutStatus | RolloutStep) -> str:
    if step.predicted_seconds is None:
        return ""
    why = "" if step.predicted_from is None else f": {step.predicted_from}"
    return f" (predicted: {gap_text(step.predicted_seconds)}{why})"


def _switch(before: SwitchStatus | None, after: SwitchStatus | None) -> Iterator[PostEvent]:
    if after is None or after == before:
        return
    way, predicted = f"{after.from_engine} → {after.to_engine}", f"(predicted: {after.predicted_seconds:.1f} s)"
    if after.observed_seconds is None:
        yield PostEvent(
            "Normal", "EngineSwitching", f"{way}: nothing is processed until the other engine runs {predicted}"
        )
    else:
        stood = f"the application stood still for {after.observed_seconds:.1f} s"
        yield PostEvent("Normal", "EngineSwitched", f"{way}: {stood} {predicted}")


def _run(before: ScheduleStatus | None, after: ScheduleStatus | None) -> Iterator[PostEvent]:
    same = before is not None and after is not None and before.last_run == after.last_run
    if after is None or after.last_run is None or (same and before is not None and before.result == after.result):
        return
    if after.result == "Failed":
        yield PostEvent("Warning", "RunFailed", f"the run of {after.last_run:%Y-%m-%dT%H:%MZ}: {after.message}")
    elif after.result == "Succeeded":
        left = "" if after.input_lag is None else f", and left {after.input_lag} records that came meanwhile"
        yield PostEvent("Normal", "RunDone", f"the run of {after.last_run:%Y-%m-%dT%H:%MZ} has caught up{left}")


def _replicas(before: AppStatus, after: AppStatus) -> Iterator[PostEvent]:
    old, new = before.target_replicas, after.target_replicas
    if new is None or old is None or old == new:
        return
    if new == 0:
        yield PostEvent("Normal", "Suspended" if after.draining_since is None else "Draining", "all pods end")
        return
    why = after.scaling.reason if after.scaling is not None else "asked for by spec.replicas"
    word = "Resumed" if old == 0 else "ScaledUp" if new > old else "ScaledDown"
    yield PostEvent("Normal", word, f"{old} → {new} pods: {why}")
