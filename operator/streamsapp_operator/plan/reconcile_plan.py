"""Makes the plan: the actions to do now, and the status that reports them. Pure; called by the operator's loop, once
per reconcile.

The status is written first and the actions carried out then, in their order. Any of them may fail or never be reached:
the next reconcile plans anew, from the status and from the state of the cluster then. So nothing here relies on an
action having been carried out, and every action may be carried out twice.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from msgspec.structs import replace

from streamsapp_operator.gap_prediction import predictor_of
from streamsapp_operator.gate import Gate
from streamsapp_operator.model.actions import Action, ApplyChildren, DeleteRevisions, EndSchedule, Evict, SetBudget
from streamsapp_operator.model.desired_state import DesiredState, InvalidSpec
from streamsapp_operator.model.observed_state import ObservedState
from streamsapp_operator.model.status import AppStatus, ScalingStatus
from streamsapp_operator.plan import currency, gap_measurement, known_tasks, scheduled_runs, summary, trial
from streamsapp_operator.plan.budget import max_unavailable
from streamsapp_operator.plan.conditions import conditions, stamped
from streamsapp_operator.plan.drain import drain
from streamsapp_operator.plan.engine_switch import engine_of_good, followed, query_of
from streamsapp_operator.plan.events import events
from streamsapp_operator.plan.external_faults import ID_TAKEN, held_back
from streamsapp_operator.plan.phase_text import phrase
from streamsapp_operator.plan.plan_input import PlanInput, moment, settings_of
from streamsapp_operator.plan.rollout import RolloutDecision, decide
from streamsapp_operator.plan.rollout_history import good_before, remembered
from streamsapp_operator.plan.scaling import is_shrinking, next_replicas, wanted_replicas
from streamsapp_operator.plan.short_forms import with_short_forms


@dataclass(frozen=True, slots=True)
class ReconcilePlan:
    """The status to write, then the actions to do in their order."""

    status: AppStatus
    actions: tuple[Action, ...]


def plan(app: DesiredState | InvalidSpec, observed: ObservedState, status: AppStatus, now: float) -> ReconcilePlan:
    """Returns the next move for one application. ``now`` is the operator's clock, like ``observed.at``."""
    planned = _planned(app, observed, status, now, told=status)
    return dataclasses.replace(planned, status=with_short_forms(planned.status))


def _planned(
    app: DesiredState | InvalidSpec, observed: ObservedState, status: AppStatus, now: float, told: AppStatus
) -> ReconcilePlan:
    """``told`` is the status that the world knows: events say what has changed since."""
    looked_at, observed = observed.at, dataclasses.replace(observed, at=max(observed.at, now))
    settings = settings_of(app, status, observed)
    if app.deleting:
        after, actions = drain(app, observed, status, now)
        return ReconcilePlan(after, tuple(actions))
    if settings is None:
        faults = "; ".join(app.faults) if isinstance(app, InvalidSpec) else ""
        return _never_begun(app, observed, status, now, ("InvalidSpec", "Invalid spec", faults))
    if observed.elder is not None and _is_new(observed, status):
        return _never_begun(app, observed, status, now, (ID_TAKEN, "Application id taken", held_back(observed.elder)))
    seen = trial.seen_by_rules(status)
    known = replace(seen, known_tasks=known_tasks.learn(seen, observed))
    gaps = predictor_of(status.observed_gaps, observed.pods)
    gate = Gate(observed, settings.rollout, known_tasks.expected(known), gaps)
    inputs = PlanInput(app, settings, observed, looked_at, known, now, gate, gate.verdict())
    if (failed := trial.failed(inputs, status)) is not None:
        return _planned(app, observed, failed, now, told)
    wanted, scaling = wanted_replicas(inputs)
    shrinking = is_shrinking(inputs, wanted, scaling)
    course = decide(inputs, shrinking=shrinking)
    replicas = next_replicas(inputs, course, wanted, shrinking=shrinking)
    after = trial.judged(inputs, status, _status(inputs, course, scaling, replicas))
    after = replace(after, conditions=conditions(inputs, after))
    runs = not (course.stop or course.scheduled) and wanted > 0
    undo = good_before(after.history, after.last_good_revision)
    kept = frozenset(it for it in (status.last_good_revision, after.last_good_revision, undo) if it is not None)
    actions = _actions(inputs, course, replicas, shrinking, runs, kept)
    return ReconcilePlan(after, (*actions, *events(app, observed, told, after)))


def _actions(
    inputs: PlanInput,
    course: RolloutDecision,
    replicas: int,
    shrinking: bool,
    runs_driver: bool,
    kept_anyway: frozenset[str],
) -> list[Action]:
    """Returns the actions: shutting the budget comes first, taking a pod last."""
    observed, restart = inputs.observed, course.restart
    children = observed.children
    fewer = 0 < replicas < (children.replicas or 0)
    budget = max_unavailable(inputs, evicted=restart, shrinking=shrinking)
    actions: list[Action] = [SetBudget(0)] if budget == 0 and children.max_unavailable else []
    until = min(inputs.gate.good_until(), inputs.looked_at + inputs.settings.rollout.max_observation_age_seconds)
    if course.template is not None:
        begins = course.scheduled and scheduled_runs.may_begin(inputs)
        stuck = observed.run is not None and observed.run.job.stuck
        safe_until = until if fewer else None
        actions.append(
            ApplyChildren(course.template, replicas, budget, safe_until, runs_driver, course.driver, begins, stuck)
        )
    if not course.scheduled and scheduled_runs.is_over(inputs):
        actions.append(EndSchedule())
    if restart is not None:
        reason = f"rolling restart to revision {course.template}"
        limit = until if restart.ready else observed.at + inputs.settings.rollout.max_observation_age_seconds
        evict = Evict(restart.name, restart.uid, restart.resource_version, reason, limit, unready=not restart.ready)
        actions.append(evict)
    job = None if observed.bootstrap is None else observed.bootstrap.revision
    run = None if observed.run is None else observed.run.job.revision  # a pod that it makes again mounts it again
    kept = {job, run, course.rollout.revision, course.last_good, course.template, course.driver}
    kept |= {children.template_revision, children.driver_revision}
    keep = kept_anyway | frozenset(it for it in (*kept, *(pod.revision for pod in inputs.pods)) if it is not None)
    drop = [DeleteRevisions(keep)] if children.revisions - keep else []
    return [*actions, *course.before, *drop]


def _status(inputs: PlanInput, course: RolloutDecision, scaling: ScalingStatus | None, replicas: int) -> AppStatus:
    before, present = inputs.status, {pod.uid for pod in inputs.pods}
    history = remembered(before, course.rollout, present, inputs.time)
    runs = scheduled_runs.told(inputs, begins=scheduled_runs.may_begin(inputs)) if course.scheduled else None
    status = replace(
        before,
        observed_generation=inputs.app.generation,
        replicas=len(inputs.pods),
        ready_replicas=sum(pod.ready and not pod.terminating for pod in inputs.pods),
        selector=f"streamsapp.dev/name={inputs.app.name}",
        tasks=summary.tasks(inputs),
        input_lag=summary.input_lag(inputs),
        standby_lag=summary.standby_lag(inputs),
        data_paths=summary.data_paths(inputs),
        restart=inputs.restart,
        rollout=course.rollout,
        history=history,
        gaps=gap_measurement.of_pods(inputs, history),
        observed_gaps=gap_measurement.learned(before, course.rollout, present),
        bootstrap=course.bootstrap,
        scaling=scaling,
        last_good_revision=course.last_good,
        failed_revision=course.failed,
        shape=course.shape,
        shapes=course.shapes,
        target_replicas=before.target_replicas if course.template is None else replicas,
        draining_since=None,
        accepted=inputs.settings,
        engine=engine_of_good(inputs, course.last_good),
        query=query_of(inputs),
        schedule=runs,
        last_good_scheduled=scheduled_runs.leads_to(inputs, course.last_good),
        switch=followed(inputs, course.rollout, stops=course.stop, last_good=course.last_good),
    )
    return replace(status, phase=phrase(inputs, status))


def _is_new(observed: ObservedState, status: AppStatus) -> bool:
    """Says whether nothing of the application runs, nor ever ran."""
    children = observed.children
    there = (children.replicas, children.driver_replicas, children.schedule_revision, observed.run, observed.bootstrap)
    return all(it is None for it in there) and not observed.pods and status.last_good_revision is None


def _never_begun(
    app: DesiredState | InvalidSpec, observed: ObservedState, status: AppStatus, now: float, why: tuple[str, str, str]
) -> ReconcilePlan:
    """Returns the plan of an application that has nothing running, and may have nothing: ``why`` is the reason, and
    says so in a phrase and in words."""
    reason, phase, faults = why
    told = stamped(
        {
            "Ready": ("False", reason, faults),
            "Progressing": ("False", reason, "nothing starts before that is mended"),
            **currency.told(reason, faults, stalled=True),
            "RestartSafe": ("Unknown", "NotStarted", ""),
            "SnapshotsFresh": ("Unknown", "NotStarted", ""),
            "Degraded": ("True", reason, faults),
        },
        status,
        app.generation,
        moment(now),
    )
    selector = f"streamsapp.dev/name={app.name}"
    after = replace(status, phase=phase, observed_generation=app.generation, selector=selector, conditions=told)
    return ReconcilePlan(after, tuple(events(app, observed, status, after)))
