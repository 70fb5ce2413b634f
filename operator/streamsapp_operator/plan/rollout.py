"""Rolls a revision out: it is checked first, then pod after pod is replaced; it ends in words, whatever happens.

Pure. The phases::

    Checking ──► Rolling ⇄ Blocked ──► Complete          another spec begins anew, from any phase;
       │            │         └──────► TimedOut ──► Complete (its pods became ready after all)
       ▼            ▼
    Refused     RollingBack ──► RolledBack | TimedOut    before the first Rolling: Bootstrapping, if it is asked for

Rolling ⇄ Paused is the user's will (``rollout_holds``).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from streamsapp_operator.model.actions import Action
from streamsapp_operator.model.observed_state import PodSeen
from streamsapp_operator.model.status import BootstrapStatus, Phase, RolloutStatus
from streamsapp_operator.plan import engine_switch, gap_limit, incompatible_pods, rollout_holds, scheduled_runs, soak
from streamsapp_operator.plan.bootstrap_job import prepared
from streamsapp_operator.plan.gap_measurement import measured
from streamsapp_operator.plan.plan_input import PlanInput
from streamsapp_operator.plan.preview import previewed
from streamsapp_operator.plan.restart_steps import RestartStep, advance, failure_of, is_settled
from streamsapp_operator.plan.topology_check import examine
from streamsapp_operator.plan.trial import given_up

#: A rollout that stands still for less is not reported as blocked: after every step the standbys catch up.
BLOCKED_AFTER = 10.0
#: Pods restarted so many seconds after the rollout began count as part of it. Kubelets renew files at different times.
TOGETHER = 300.0


@dataclass(frozen=True, slots=True)
class RolloutDecision:
    """The decision about the rollout in this reconcile."""

    rollout: RolloutStatus
    #: The revision children are to have; ``None``: nothing may be made yet.
    template: str | None
    last_good: str | None
    failed: str | None
    #: The topology of ``last_good``, and those of other revisions that ``incompatible_pods`` remembers.
    shape: dict[str, Any] | None
    shapes: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    restart: PodSeen | None = None
    #: Every pod must end before the first of the new revision may start.
    stop: bool = False
    #: Runs by a schedule take the place of pods.
    scheduled: bool = False
    #: The revision of the driver; ``None``: that of the executors.
    driver: str | None = None
    #: The actions before the first pod: those of the check, of the bootstrap and of the preview.
    before: tuple[Action, ...] = ()
    bootstrap: BootstrapStatus | None = None


def decide(inputs: PlanInput, *, shrinking: bool) -> RolloutDecision:
    """Returns the next move towards the wanted revision, or back to the last good one."""
    rollout, checks = examine(inputs, _begun(inputs))
    rollout, preparation = prepared(inputs, rollout)
    waits = preparation.waits or rollout.phase == "Checking"
    begins = not (waits or _is_refused(inputs, rollout, _objections(inputs, rollout)))
    rollout, previews = previewed(inputs, rollout, begins=begins)
    status, template = inputs.status, inputs.observed.children.template_revision
    course = RolloutDecision(
        rollout=rollout,
        template=template or status.last_good_revision,
        last_good=status.last_good_revision,
        failed=status.failed_revision if status.failed_revision == rollout.revision else None,
        shape=incompatible_pods.shape_of_good(inputs, rollout),
        scheduled=scheduled_runs.leads_to(inputs, template or status.last_good_revision),
        driver=engine_switch.driver_revision(inputs),
        before=(*checks, *preparation.actions, *previews),
        bootstrap=preparation.status,
    )
    course = course if waits else _follow(inputs, course, shrinking)
    return dataclasses.replace(course, shapes=incompatible_pods.remembered(inputs, course.rollout, course.last_good))


def _begun(inputs: PlanInput) -> RolloutStatus:
    """Returns the rollout that is under way, or a new one for another revision. A revision that was good needs no
    check."""
    wanted, last, status = inputs.settings.revision, inputs.status.rollout, inputs.status
    if last is not None and last.revision == wanted:
        return last
    known = wanted == status.last_good_revision
    return RolloutStatus(
        revision=wanted, started_at=inputs.time, checked=known, proved=known, shape=status.shape if known else None
    )


def _follow(inputs: PlanInput, course: RolloutDecision, shrinking: bool) -> RolloutDecision:
    """Returns the moves after the check."""
    rollout, reasons = course.rollout, _objections(inputs, course.rollout)
    refused = _is_refused(inputs, rollout, reasons)
    rollout = _refused(rollout, reasons) if refused else _admitted(inputs, rollout)
    back = refused or course.failed == rollout.revision
    failed = rollout.revision if not rollout.checked else course.failed
    waits = [] if back else _waits_for(inputs, course)
    target = course.last_good if back or waits else rollout.revision
    course = dataclasses.replace(course, rollout=rollout, failed=failed)
    if target is None:
        return course
    scheduled = scheduled_runs.leads_to(inputs, target)
    if scheduled or course.scheduled:
        kept = _held_with_schedule(inputs, course, target, back=back)
        if kept is not None:
            return kept
        course = dataclasses.replace(course, scheduled=scheduled)
    if scheduled:
        return _by_schedule(inputs, course, target, back=back)
    abandoned = None if back or waits or course.last_good in {None, rollout.revision} else _given_up(inputs, rollout)
    if abandoned is not None:
        return _follow(inputs, dataclasses.replace(course, rollout=abandoned, failed=rollout.revision), shrinking)
    engines = engine_switch.why_alone(inputs, target, refused=refused)
    topologies = incompatible_pods.why_alone(inputs, rollout, target)
    reasons = topologies or engines
    # Also pods of a third revision, which was rolled out before this one was asked for.
    third = engine_switch.is_foreign(inputs, target)
    foreign = bool(engines) and (third or any((pod.revision == rollout.revision) == back for pod in inputs.pods))
    foreign = foreign or (bool(topologies) and incompatible_pods.is_foreign(inputs, target))
    if foreign:
        told = f"every pod ends before the first of the other {'topology' if topologies else 'revision'} starts"
        return _alone(inputs, course, target, f"{told}: {'; '.join(reasons)}", refused=refused, back=back)
    course = dataclasses.replace(course, template=target, driver=None if reasons else course.driver)
    decision = _move(inputs, course, target, back=back, shrinking=shrinking, alone=bool(reasons))
    return _waiting(decision, waits) if waits else decision


def _waits_for(inputs: PlanInput, course: RolloutDecision) -> list[str]:
    """Returns why the revision waits until pods of others than the last good one have gone back to that, in words. With
    runs or ``Recreate``, all pods end instead; so they do if there is nothing to go back to."""
    good, rollout = course.last_good, course.rollout
    recreates = inputs.settings.rollout.topology_change == "Recreate"
    runs = course.scheduled or any(scheduled_runs.leads_to(inputs, it) for it in (good, rollout.revision))
    return [] if good is None or recreates or runs else incompatible_pods.in_the_way(inputs, rollout)


def _waiting(decision: RolloutDecision, waits: list[str]) -> RolloutDecision:
    rollout, good = decision.rollout, decision.last_good
    told = f"it cannot work {'; '.join(waits)}; they go back to revision {good} before it begins: {rollout.message}"
    return dataclasses.replace(decision, rollout=replace(rollout, message=told))


def _alone(
    inputs: PlanInput, course: RolloutDecision, target: str, waits: str, *, refused: bool, back: bool
) -> RolloutDecision:
    """Ends every pod before the first of the target starts, unless the user holds that."""
    rollout = course.rollout
    held = rollout_holds.hold(inputs, rollout, target) or gap_limit.why_all_held(inputs, rollout, target)
    if held is not None and inputs.observed.children.replicas:
        paused = replace(rollout, phase=rollout.phase if back else "Paused", message=held)
        # Pods go on as they are: a pod that comes back by itself must not be the first that has to wait.
        stays = back or target == course.last_good or incompatible_pods.are_there(inputs, rollout)
        return dataclasses.replace(course, rollout=paused, template=course.template if stays else course.last_good)
    phase: Phase = rollout.phase if refused else "RollingBack" if back else "Rolling"
    stopping = replace(rollout, phase=phase, message=waits, current=None)
    return dataclasses.replace(course, rollout=stopping, stop=True)


def _held_with_schedule(
    inputs: PlanInput, course: RolloutDecision, target: str, *, back: bool
) -> RolloutDecision | None:
    """Returns the decision that all stays as it is, pods or runs, if the user holds a change: from the one to the
    other, or of the runs."""
    rollout, good = course.rollout, course.last_good
    if good is None or course.template == target:
        return None
    held = rollout_holds.hold(inputs, rollout, target)
    if held is None:
        return None
    paused = replace(rollout, phase=rollout.phase if back else "Paused", message=held)
    return dataclasses.replace(course, rollout=paused, template=good, scheduled=scheduled_runs.leads_to(inputs, good))


def _by_schedule(inputs: PlanInput, course: RolloutDecision, target: str, *, back: bool) -> RolloutDecision:
    """Moves towards runs by a schedule: pods that are there end first."""
    rollout, course = course.rollout, dataclasses.replace(course, template=target)
    if scheduled_runs.are_alone(inputs) and inputs.observed.children.schedule_revision == target:
        return _finished(course, back)
    waits = "every pod ends before the first run that is scheduled"
    return dataclasses.replace(course, rollout=rollout if back else replace(rollout, phase="Rolling", message=waits))


def _move(
    inputs: PlanInput, course: RolloutDecision, target: str, *, back: bool, shrinking: bool, alone: bool
) -> RolloutDecision:
    """Moves towards ``target``, unless this rollout has ended."""
    rollout = measured(inputs, _counted(inputs, soak.followed(inputs, course.rollout), target))
    rollout = engine_switch.measured(inputs, rollout, target)
    asked = any(rollout_holds.is_asked_for(inputs, pod) for pod in inputs.pods)
    done = rollout.phase == "Complete" or soak.waits(inputs, rollout, target) is None
    if is_settled(inputs, target) and engine_switch.driver_ready(inputs, target) and done and not asked:
        return _finished(dataclasses.replace(course, rollout=rollout), back)
    together = rollout.started_at is not None and inputs.since(rollout.started_at) < TOGETHER
    if asked and rollout.phase == "Complete" and not together:
        rollout = replace(rollout, started_at=inputs.time)  # another rollout, of the same revision
    over = rollout.phase in {"Complete", "RolledBack"} and not asked
    ended = over and all(pod.revision == target for pod in inputs.pods)
    if ended or rollout.phase == "TimedOut" or inputs.settings.replicas == 0:
        return dataclasses.replace(course, rollout=rollout)
    move = advance(inputs, rollout, target, shrinking=shrinking)
    # Of two that cannot work side by side, the last good one ended before the first pod of this one was made.
    kept = move.begins_none and not alone
    template = (course.last_good or target) if kept else course.template
    none_left = course.driver is not None and move.rollout.current is None and not move.begins_none
    if none_left and engine_switch.driver_is_next(inputs, target):
        begun = engine_switch.driver_step(inputs, move.rollout, target)
        move = dataclasses.replace(move, rollout=begun, waits="the driver is replaced, after all of its executors")
        course = dataclasses.replace(course, driver=target)
    return dataclasses.replace(course, rollout=_judged(inputs, move, back), restart=move.restart, template=template)


def _finished(course: RolloutDecision, back: bool) -> RolloutDecision:
    """Says whether every pod is there, of the target and ready."""
    rollout = replace(course.rollout, current=None, current_uid=None, step_started_at=None, blocked_since=None)
    if not back:
        done = replace(rollout, phase="Complete", message=None, failure=None)
        return dataclasses.replace(course, rollout=done, last_good=rollout.revision, shape=rollout.shape, failed=None)
    phase = rollout.phase if rollout.phase == "Refused" else "RolledBack"
    return dataclasses.replace(course, rollout=replace(rollout, phase=phase, message=rollout.failure))


def _judged(inputs: PlanInput, move: RestartStep, back: bool) -> RolloutStatus:
    """Returns the decision with its phase."""
    rollout = move.rollout
    # However long the user holds it, it is not late: approved, it goes on.
    blocked_since = (rollout.blocked_since or inputs.time) if move.stuck and not move.held else None
    rollout = replace(rollout, blocked_since=blocked_since)
    doing = move.stuck or move.held or move.waits
    doing = doing or (f"{rollout.current} is being restarted" if rollout.current else "pods are starting")
    secret = (
        rollout_holds.SECRET_CHANGED if any(rollout_holds.has_old_secret(inputs, pod) for pod in inputs.pods) else None
    )
    message = "; ".join(text for text in (rollout.failure, secret, doing) if text)
    phase = _phase(inputs, rollout, back)
    return replace(rollout, phase="Paused" if move.held and phase == "Rolling" else phase, message=message)


def _phase(inputs: PlanInput, rollout: RolloutStatus, back: bool) -> Phase:
    if rollout.phase == "Refused":
        return "Refused"
    if _is_late(inputs, rollout, back):
        return "TimedOut"
    if back:
        return "RollingBack"
    return "Blocked" if inputs.since(rollout.blocked_since) >= BLOCKED_AFTER else "Rolling"


def _is_late(inputs: PlanInput, rollout: RolloutStatus, back: bool) -> bool:
    """Says whether the rollout is blocked, or waits for one pod, for longer than it may."""
    limit = inputs.settings.rollout.timeout_seconds
    if inputs.since(rollout.blocked_since) >= limit:
        return True
    if inputs.pod(rollout.current) is None:
        return False  # it is no fault of a pod that it is not made
    # A first pod has the deadline from when it was made, and is then rolled back, to what was proved.
    judged = inputs.status.last_good_revision is not None
    deadline = limit if rollout.proved or judged or back else inputs.settings.rollout.progress_deadline_seconds
    return inputs.since(rollout.step_started_at) >= min(limit, deadline)


def _counted(inputs: PlanInput, rollout: RolloutStatus, target: str) -> RolloutStatus:
    ready = [pod for pod in inputs.pods if pod.revision == target and pod.ready and not pod.terminating]
    works = bool(ready) and engine_switch.driver_ready(inputs, target)  # executors alone prove nothing
    well = target == rollout.revision and works and soak.waits(inputs, rollout, target) is None
    proved = rollout.proved or well
    updated = sum(not rollout_holds.is_asked_for(inputs, pod) for pod in ready)
    return replace(rollout, updated=updated, total=inputs.observed.children.replicas or 0, proved=proved)


def _given_up(inputs: PlanInput, rollout: RolloutStatus) -> RolloutStatus | None:
    judged = rollout.phase in {"Rolling", "Paused", "Blocked"} and not inputs.app.requests.paused
    failure = failure_of(inputs, rollout) if judged else None
    if failure is None:
        return None
    return given_up(rollout, failure)


def _objections(inputs: PlanInput, rollout: RolloutStatus) -> list[str]:
    """Returns why the revision cannot work beside the last good one, in words. Before there is one, pods that were
    ready are as good."""
    if inputs.status.last_good_revision is not None:
        return incompatible_pods.incompatibilities(inputs, rollout)
    works = any(pod.was_ready or pod.ready for pod in inputs.pods if pod.revision != rollout.revision)
    return incompatible_pods.in_the_way(inputs, rollout) if works else []


def _is_refused(inputs: PlanInput, rollout: RolloutStatus, reasons: list[str]) -> bool:
    return not rollout.checked or (bool(reasons) and inputs.settings.rollout.topology_change == "Refuse")


def _refused(rollout: RolloutStatus, reasons: list[str]) -> RolloutStatus:
    if not rollout.checked:
        return replace(rollout, message=rollout.failure)
    failure = (
        f"the new topology cannot work beside the running one: {'; '.join(reasons)}; "
        "spec.rollout.topologyChange: Recreate stops every pod before the first new one starts"
    )
    return replace(rollout, phase="Refused", failure=failure, message=failure)


def _admitted(inputs: PlanInput, rollout: RolloutStatus) -> RolloutStatus:
    """Says whether the revision was refused before, and is allowed since."""
    if rollout.phase != "Refused":
        return rollout
    return replace(rollout, phase="Rolling", failure=None, message=None, started_at=inputs.time)
