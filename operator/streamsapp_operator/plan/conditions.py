"""Makes the conditions of the status, which machines read. Pure; they have metav1.Condition's meaning.

``lastTransitionTime`` moves only when ``status`` does. Reasons are stable words.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from msgspec.structs import replace

from streamsapp_operator.model.desired_state import InvalidSpec
from streamsapp_operator.model.observed_state import PodSeen, RunSeen, Trouble
from streamsapp_operator.model.status import (
    AppStatus,
    Condition,
    ConditionType,
    PreviewStatus,
    RolloutStatus,
    ScheduleStatus,
)
from streamsapp_operator.plan import preview, progress, summary
from streamsapp_operator.plan.currency import Told, cannot_run, currency, of_trouble
from streamsapp_operator.plan.external_faults import NODE_LOST, node_lost, strangers, unreachable
from streamsapp_operator.plan.plan_input import PlanInput, moment
from streamsapp_operator.plan.short_forms import with_short_forms
from streamsapp_operator.takeover import leading_word

State = Literal["True", "False", "Unknown"]

#: The reason why a container does not run that is expected to run in a moment.
PASSING = frozenset({"ContainerCreating", "PodInitializing"})
BOOTSTRAP_FAILED = "BootstrapFailed"
_ENDED = frozenset({"Complete", "TimedOut", "RolledBack"})
RUN_FAILED = "RunFailed"
#: A container that was started again is well after so many seconds.
SETTLED_SECONDS = 60.0
#: A snapshot may be as old as so many intervals, and then some.
INTERVALS = 3
SLACK_SECONDS = 60.0


def conditions(inputs: PlanInput, status: AppStatus) -> tuple[Condition, ...]:
    """Returns all conditions. ``status`` has everything else of the new status."""
    told: dict[ConditionType, Told] = {
        "Ready": _ready(inputs, status),
        "Progressing": _progressing(inputs, status),
        **currency(inputs, status),
        "RestartSafe": _restart_safe(inputs),
        "SnapshotsFresh": _snapshots_fresh(inputs),
        "Degraded": _degraded(inputs, status),
    }
    stalled, reason, message = told["Stalled"]
    if stalled == "True" and told["Progressing"][:1] == ("True",) and told["Progressing"][1] != "Scaling":
        told["Progressing"] = "False", reason, message
    if status.rollout is not None and status.rollout.preview is not None:
        told["Previewed"] = _previewed(inputs, status.rollout.preview)
    return stamped(told, inputs.status, inputs.app.generation, inputs.time)


def stamped(
    told: dict[ConditionType, Told], before: AppStatus, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Returns the conditions with the time since when each is what it is."""
    old = {condition.type: condition for condition in before.conditions}
    stamp = now.isoformat(timespec="seconds").replace("+00:00", "Z")
    return tuple(
        Condition(
            type=name,
            status=state,
            reason=reason,
            message=message,
            last_transition_time=old[name].last_transition_time if _same(old.get(name), state) else stamp,
            observed_generation=generation,
        )
        for name, (state, reason, message) in told.items()
    )


def with_trouble(before: AppStatus, trouble: Trouble, generation: int, now: float) -> AppStatus:
    """Returns a status as it was left, but for a reconcile that failed."""
    faulty: dict[ConditionType, Told] = {
        **of_trouble(trouble),
        "Degraded": ("True", trouble.reason, trouble.message),
    }
    told = {it.type: it for it in stamped(faulty, before, generation, moment(now))}
    kept = [it for it in before.conditions if it.type not in told]
    return with_short_forms(replace(before, conditions=(*kept, *told.values())))


def _same(old: Condition | None, state: State) -> bool:
    return old is not None and old.status == state


def _ready(inputs: PlanInput, status: AppStatus) -> Told:
    rollout, wanted = status.rollout, inputs.observed.children.replicas or 0
    if inputs.settings.replicas == 0:
        if inputs.pods:
            return "False", "Suspending", "pods are ending"
        return "True", "Suspended", "nothing is to run, as spec.replicas is 0"
    if rollout is not None and rollout.phase == "Bootstrapping":
        return "False", _bootstrap_reason(status), rollout.message or ""
    if status.last_good_revision is None and rollout is not None and rollout.phase == "Refused":
        return "False", "TopologyRefused", rollout.failure or ""
    if status.last_good_revision is None and (rollout is None or rollout.phase != "Complete"):
        return "False", "Starting", (rollout.message if rollout else None) or "pods are starting"
    if status.schedule is not None:
        return _scheduled(status.schedule, inputs.observed.run)
    away = wanted - status.ready_replicas
    if wanted == 0 or away > int(rollout is not None and rollout.current is not None):
        node = node_lost(inputs.observed)
        if node is not None:
            return "False", NODE_LOST, node
        hang = progress.hang(inputs)
        why = _unready(inputs) or (None if hang is None else f"{hang[0].name}: {hang[1].message}")
        return "False", "PodsNotReady", why or f"{status.ready_replicas} of {wanted} pods are ready"
    driver = inputs.observed.driver
    if inputs.observed.children.driver_replicas and (driver is None or not driver.ready):
        return (
            "False",
            "DriverNotReady",
            node_lost(inputs.observed) or _unready(inputs) or "the driver of the query is not ready yet",
        )
    if status.tasks.restoring:
        return "True", "Restoring", f"{status.tasks.restoring} of {status.tasks.active} tasks restore"
    return "True", "Running", f"{status.ready_replicas} of {wanted} pods are ready"


def _scheduled(runs: ScheduleStatus, seen: RunSeen | None) -> Told:
    following = "none is scheduled" if runs.next_run is None else f"the next one begins at {_minute(runs.next_run)}"
    if runs.last_run is None:
        return "True", "Scheduled", f"no run has begun yet; {following}"
    last = f"the run of {_minute(runs.last_run)}"
    if seen is not None and seen.job.stuck:
        return "False", "PodsNotReady", f"the pod of {last} does not run: {seen.job.message}; {following}, in its place"
    if runs.result == "Failed":
        return "False", RUN_FAILED, f"{last} failed: {runs.message}; {following}"
    left = "" if runs.input_lag is None else f", and left {runs.input_lag} records"
    done = "is under way" if runs.result == "Running" else f"has caught up{left}"
    return "True", "CatchingUp" if runs.result == "Running" else "Scheduled", f"{last} {done}; {following}"


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%MZ}"


def _progressing(inputs: PlanInput, status: AppStatus) -> Told:
    rollout = status.rollout
    if inputs.settings.replicas == 0:
        return (
            ("True", "Suspending", "pods are ending") if inputs.pods else ("False", "Suspended", "spec.replicas is 0")
        )
    if rollout is None:
        return "Unknown", "NotStarted", "nothing was begun yet"
    message = rollout.message or f"revision {rollout.revision}"
    if rollout.phase == "Bootstrapping":
        reason = _bootstrap_reason(status)
        return "False" if reason == BOOTSTRAP_FAILED else "True", reason, message
    if rollout.phase in {"Checking", "Rolling", "Blocked", "RollingBack"}:
        return "True", rollout.phase, message
    if isinstance(inputs.app, InvalidSpec):
        return "False", "InvalidSpec", "nothing starts before the spec is valid"
    if len(inputs.pods) != status.target_replicas:
        return "True", "Scaling", f"{len(inputs.pods)} pods exist, {status.target_replicas} are wanted"
    if status.trial is not None and status.trial.revision == rollout.revision and rollout.phase == "Complete":
        seconds = inputs.settings.rollout.last_good_seconds
        message += f" is the last good one after {seconds} s without a restart (spec.rollout.lastGoodSeconds)"
    return "False", rollout.phase, message


def _restart_safe(inputs: PlanInput) -> Told:
    if inputs.restart.safe:
        return "True", "Safe", "any one pod may be taken away"
    first = inputs.restart.blockers[0]
    more = len(inputs.restart.blockers) + inputs.restart.more_blockers - 1
    place = " ".join(text for text in (first.pod, first.task, first.store) if text)
    return "False", leading_word(first), f"{place}: {first.reason}" + (f" (and {more} more)" if more else "")


def _snapshots_fresh(inputs: PlanInput) -> Told:
    if not inputs.settings.has_remote_state:
        return "Unknown", "NoRemoteState", "spec.remoteState is not set"
    if inputs.observed.driver is not None:
        return "Unknown", "NotReported", "the driver of a query does not report the age of its snapshots"
    if not summary.all_answer(inputs) or not inputs.pods:
        return "Unknown", "Unreachable", "not every pod answers"
    limit = INTERVALS * inputs.settings.snapshot_interval_seconds + SLACK_SECONDS
    oldest = 0.0
    for pod, store in summary.active_stores(inputs):
        if pod.report is None or store.snapshot_at is None:
            return "False", "SnapshotMissing", f"{pod.name}: store {store.name} has no snapshot yet ({store.changelog})"
        oldest = max(oldest, inputs.now + pod.report.clock_offset - store.snapshot_at)
    if oldest > limit:
        return "False", "SnapshotTooOld", f"the oldest snapshot is {oldest:.0f} s old, more than {limit:.0f} s"
    return "True", "Fresh", f"no snapshot is older than {limit:.0f} s"


def _previewed(inputs: PlanInput, found: PreviewStatus) -> Told:
    """Reports what the new revision would change, or has changed since."""
    if found.phase == "Failed":
        return "False", "PreviewFailed", found.message or ""
    if found.phase != "Done":
        return "Unknown", f"Preview{found.phase}", found.message or "both revisions run on copies of the state"
    message = "; ".join((preview.outcome(found), *found.first, *found.notes))
    if not found.keys:
        return "Unknown", "NothingCompared", message
    asked = inputs.settings.rollout.preview
    if asked is not None and (found.differences or 0) > asked.max_differences:
        return "False", "TooManyDifferences", message
    return "True", "Differs" if found.differences else "NothingDiffers", message


def _degraded(inputs: PlanInput, status: AppStatus) -> Told:
    """Returns all faults; the reason is that of the first."""
    found = list(_faults(inputs, status))
    return ("True", found[0][0], _joined(tuple(text for _, text in found))) if found else ("False", "AsExpected", "")


def _faults(inputs: PlanInput, status: AppStatus) -> Iterator[tuple[str, str]]:
    """Yields reasons and messages, first the ones that explain the others."""
    if isinstance(inputs.app, InvalidSpec):
        yield "InvalidSpec", f"the spec is invalid, and the last valid one stays in force: {_joined(inputs.app.faults)}"
    trouble = inputs.observed.trouble
    if trouble is not None:
        yield trouble.reason, trouble.message
    yield from strangers(inputs)
    node = node_lost(inputs.observed)
    if node is not None:
        yield NODE_LOST, node
    yield from unreachable(inputs)
    rollout = status.rollout
    if rollout is not None and rollout.phase in {"Refused", "RollingBack", "RolledBack", "TimedOut"}:
        yield "TopologyRefused" if rollout.phase == "Refused" else rollout.phase, _why(rollout)
    if rollout is not None and rollout.phase == "Bootstrapping" and _bootstrap_reason(status) == BOOTSTRAP_FAILED:
        yield BOOTSTRAP_FAILED, rollout.message or ""
    runs = status.schedule
    if runs is not None and runs.result == "Failed":
        yield RUN_FAILED, f"the last scheduled run failed: {runs.message}"
    job = inputs.observed.bootstrap
    if job is not None and job.stuck:
        yield "PodFailing", f"the bootstrap's pod does not run: {job.message}"
    run = inputs.observed.run
    if run is not None and run.job.stuck:
        yield "PodFailing", f"the scheduled run's pod does not run: {run.job.message}"
    found = inputs.observed.preview
    if found is not None and found.job.stuck:
        yield "PodFailing", f"the preview's pod does not run: {found.job.message}"
    hang = progress.hang(inputs)
    if hang is not None:
        yield "TaskHangs", f"{hang[0].name}: {hang[1].message}"
    if rollout is not None and rollout.phase in _ENDED:
        # During a rollout new tasks wait until enough pods know them; afterwards nothing ends it.
        noted = [f"{pod.name}: {it}" for pod in inputs.pods if pod.report is not None for it in pod.report.notes]
        if noted:
            yield "TopologiesDiffer", noted[0]
    unready = _unready(inputs) or cannot_run(inputs)
    if unready is not None:
        yield "PodFailing", unready


def _bootstrap_reason(status: AppStatus) -> str:
    failed = status.bootstrap is not None and status.bootstrap.phase == "Failed"
    return BOOTSTRAP_FAILED if failed else "Bootstrapping"


def _why(rollout: RolloutStatus) -> str:
    return rollout.failure or rollout.message or ""


def _unready(inputs: PlanInput) -> str | None:
    """Returns the first pod whose container does not run, or ended and has not been well for a while since, and why."""
    driver = inputs.observed.driver
    for pod in inputs.pods if driver is None else (driver, *inputs.pods):
        if pod.terminating:
            continue
        if pod.waiting_reason is not None and pod.waiting_reason not in PASSING:
            why = pod.last_exit or pod.waiting_message
            return f"{pod.name}: {pod.waiting_reason}" + (f": {why}" if why else "")
        if pod.restarts and pod.last_exit is not None and not _has_settled(pod, inputs.now):
            return f"{pod.name}: it restarted {pod.restarts} times, the last time after {pod.last_exit}"
    return None


def _has_settled(pod: PodSeen, now: float) -> bool:
    """Says whether a pod has been well for a while: between two crashes it runs, and may even be ready."""
    return pod.ready and pod.running_since is not None and now - pod.running_since >= SETTLED_SECONDS


def _joined(faults: tuple[str, ...]) -> str:
    return "; ".join(faults)
