"""Takes one step of a rolling restart: it chooses the next pod, and follows the one that is being restarted. Pure.

A step is in the status before its pod is evicted, with the pod's uid: once another uid has the name, the pod was
replaced, whichever client did it and whatever the operator remembers. A pod that is healthy is taken only while the
gate allows it in this very reconcile, so a wrong memory can never take a second one.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from streamsapp_operator.gate import CRASHES, Waiver
from streamsapp_operator.model.observed_state import PodSeen
from streamsapp_operator.model.status import RolloutStatus
from streamsapp_operator.model.waiting_reasons import CANNOT_START, START_SECONDS
from streamsapp_operator.plan import gap_limit, gap_measurement, progress, rollout_holds, soak
from streamsapp_operator.plan.known_tasks import waiver
from streamsapp_operator.plan.plan_input import PlanInput

#: The remedy of a user for pods of an old revision that never become ready, while they have tasks.
REMEDY = "; to replace all pods at once, set spec.replicas to 0 and back"


@dataclass(frozen=True, slots=True)
class RestartStep:
    """The move of the rollout in this reconcile."""

    rollout: RolloutStatus
    #: To be evicted now.
    restart: PodSeen | None = None
    #: The reason why it does not get on.
    stuck: str | None = None
    #: The part of the user's will that it waits for.
    held: str | None = None
    #: The event that it waits for, which comes by itself.
    waits: str | None = None
    #: True if the pod of the step is there with the new revision, and not ready yet.
    made: bool = False

    @property
    def begins_none(self) -> bool:
        """Says whether no further pod is to have the new revision now: pods that come back by themselves have the last
        good one."""
        return self.made or self.held is not None or self.waits is not None


def advance(inputs: PlanInput, rollout: RolloutStatus, target: str, *, shrinking: bool) -> RestartStep:
    """Moves towards all pods being of ``target``; a reconcile ends a step or begins one, never both. While the
    application is to have fewer pods, none is restarted: it may be one of the pods that go."""
    if rollout.current is None:
        return _next(inputs, rollout, target, shrinking)
    pod = inputs.pod(rollout.current)
    gone = pod is None or pod.uid != rollout.current_uid  # otherwise it was given up before the pod was taken
    measured_from = rollout.measured_from if gone else None
    ended = replace(rollout, current=None, current_uid=None, step_started_at=None, measured_from=measured_from)
    return _go_on(inputs, rollout, target) or RestartStep(ended)


def is_settled(inputs: PlanInput, target: str) -> bool:
    """Says whether every pod that is to be there is there, of this revision, and ready."""
    children, pods = inputs.observed.children, inputs.pods
    return (
        children.template_revision == target
        and bool(pods)
        and len(pods) == (children.replicas or 0)
        and sorted(pod.ordinal for pod in pods) == list(range(len(pods)))
        and all(pod.ready and not pod.terminating and pod.revision == target for pod in pods)
    )


def failure_of(inputs: PlanInput, rollout: RolloutStatus) -> str | None:
    """Returns why the revision must be given up: its pod cannot run, or is not ready in time and none ever was; or one
    of its pods fails later, or all of them process nothing for as long."""
    step = inputs.since(rollout.step_started_at)
    return (
        _failure(inputs, rollout, inputs.pod(rollout.current), step)
        or _failure(inputs, rollout, inputs.observed.driver, inputs.since(rollout.started_at))
        or progress.failure(inputs, rollout.revision)
        or _idle_for_long(inputs, rollout)
    )


def _idle_for_long(inputs: PlanInput, rollout: RolloutStatus) -> str | None:
    limit = inputs.settings.rollout.progress_deadline_seconds
    if rollout.soaking is None or rollout.proved or inputs.since(rollout.soaking_since) < limit:
        return None
    idle = progress.idle(inputs, rollout.revision)
    return None if idle is None else f"{idle}, for {limit} s (spec.rollout.progressDeadlineSeconds)"


def _failure(inputs: PlanInput, rollout: RolloutStatus, pod: PodSeen | None, waited: float) -> str | None:
    if pod is None or pod.ready or pod.terminating or pod.revision != rollout.revision:
        return None
    lasted = min(waited, max(0.0, inputs.now - pod.created_at))
    why = ": ".join(text for text in (pod.waiting_reason, pod.last_exit or pod.waiting_message) if text)
    crashes = pod.restarts >= CRASHES and (pod.waiting_reason == "CrashLoopBackOff" or not rollout.proved)
    if crashes or (pod.waiting_reason in CANNOT_START and lasted >= START_SECONDS):
        return f"pod {pod.name} cannot run: {why}"
    limit = inputs.settings.rollout.progress_deadline_seconds
    if rollout.proved or lasted < limit:
        return None
    return (
        f"pod {pod.name} was not ready within {limit} s (spec.rollout.progressDeadlineSeconds): {why or 'see its log'}"
    )


def _go_on(inputs: PlanInput, rollout: RolloutStatus, target: str) -> RestartStep | None:
    """Returns the step that is under way, or ``None`` if it has ended or must not go on."""
    pod, excused = inputs.pod(rollout.current), waiver(inputs, rollout, target)
    if pod is None:
        return RestartStep(rollout, stuck=_unmade(rollout)) if _is_to_be(inputs, rollout.current or "") else None
    if pod.terminating:
        return RestartStep(rollout)
    if pod.uid == rollout.current_uid:
        due = rollout_holds.is_due(inputs, rollout, pod, target) and rollout_holds.hold(inputs, rollout, target) is None
        due = due and (not pod.ready or gap_limit.admits(inputs, rollout, target, pod))
        takes = due and _replaced_by(inputs, target) and _may_take(inputs, pod, excused)
        return (
            RestartStep(rollout, restart=pod, stuck=f"the eviction of {pod.name} is not admitted yet")
            if takes
            else None
        )
    return RestartStep(rollout, made=True) if not pod.ready and pod.revision == target else None


def _unmade(rollout: RolloutStatus) -> str:
    return (
        f"pod {rollout.current} does not exist yet: a quota or an admission policy may refuse it; `kubectl describe"
        " statefulset` shows the events"
    )


def _next(inputs: PlanInput, rollout: RolloutStatus, target: str, shrinking: bool) -> RestartStep:
    """Returns the pod to begin with now, or why there is none."""
    outdated = [pod for pod in inputs.pods if rollout_holds.is_due(inputs, rollout, pod, target)]
    away = _away(inputs)
    held = rollout_holds.hold(inputs, rollout, target) if outdated or away else None
    held = held or (None if outdated else rollout_holds.kept(inputs, rollout, target))
    soaking = soak.waits(inputs, rollout, target)
    if away is not None:
        return RestartStep(rollout, stuck=away, held=held, waits=soaking)
    coming = [pod for pod in inputs.pods if pod.revision == target and not pod.ready]
    if coming:  # a pod that came back by itself, or that was forgotten: it is waited for like one of ours
        return RestartStep(replace(rollout, current=coming[0].name, step_started_at=inputs.time), made=True)
    excused = waiver(inputs, rollout, target)
    broken = [] if held is not None else [pod for pod in outdated if inputs.gate.holds_nothing(pod, excused)]
    if soaking is not None and not broken:
        return RestartStep(rollout, waits=soaking)
    held = held or (None if broken else gap_limit.why_held(inputs, rollout, target, outdated))
    if held is not None or not outdated:
        return RestartStep(rollout, held=held)
    if not _replaced_by(inputs, target):
        return RestartStep(rollout, stuck=f"the StatefulSet does not make pods of revision {target} yet")
    if broken:  # a pod that does nothing has nothing to wait for
        return _begin(inputs, rollout, broken[0])
    if shrinking:
        return RestartStep(rollout, stuck=_first_blocker(inputs) or "the number of pods is reduced first")
    free = [pod for pod in outdated if pod.ready and _may_take(inputs, pod, excused)]
    free = [pod for pod in free if gap_limit.admits(inputs, rollout, target, pod)]
    if not free:
        unready = any(not pod.ready for pod in outdated)
        return RestartStep(
            rollout, stuck=(_first_blocker(inputs) or "no pod may be taken") + (REMEDY if unready else "")
        )
    return _begin(inputs, rollout, min(free, key=lambda pod: _price(inputs, pod)))


def _replaced_by(inputs: PlanInput, target: str) -> bool:
    """Says whether a pod that is taken away now comes back with the revision."""
    return inputs.observed.children.template_revision == target and inputs.observed.children.template_seen


def _begin(inputs: PlanInput, rollout: RolloutStatus, pod: PodSeen) -> RestartStep:
    step = gap_measurement.begun(inputs, rollout, pod)
    return RestartStep(step, restart=pod, stuck=f"the eviction of {pod.name} is not admitted yet")


def _price(inputs: PlanInput, pod: PodSeen) -> tuple[float, int, int]:
    seconds = inputs.gate.predicted_seconds(pod)
    tasks = len(pod.report.tasks) if pod.report else 0
    return float("inf") if seconds is None else seconds, tasks, -pod.ordinal


def _may_take(inputs: PlanInput, pod: PodSeen, excused: Waiver) -> bool:
    if inputs.gate.allows(pod, excused):
        return True
    return _away(inputs) is None and inputs.gate.holds_nothing(pod, excused)


def _away(inputs: PlanInput) -> str | None:
    """Says whether a pod is not there, or about to go: never is another one taken meanwhile."""
    ending = next((pod.name for pod in inputs.pods if pod.terminating), None)
    if ending is not None:
        return f"pod {ending} is ending"
    there = {pod.ordinal for pod in inputs.pods}
    first = next((it for it in range(inputs.observed.children.replicas or 0) if it not in there), None)
    return None if first is None else f"pod number {first} is not there yet"


def _first_blocker(inputs: PlanInput) -> str | None:
    """Returns the first blocker in words."""
    blockers = inputs.restart.blockers
    if not blockers:
        return None
    first, more = blockers[0], len(blockers) - 1 + inputs.restart.more_blockers
    place = " ".join(text for text in (first.pod, first.task, first.store) if text)
    return f"{place}: {first.reason}" + (f" (and {more} more)" if more else "")


def _is_to_be(inputs: PlanInput, name: str) -> bool:
    ordinal = name.rpartition("-")[2]
    return ordinal.isdecimal() and int(ordinal) < (inputs.observed.children.replicas or 0)
