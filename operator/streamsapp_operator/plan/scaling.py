"""Decides the number of replicas in the end and next: up at once, down one at a time. Pure.

A StatefulSet takes its last pod without asking any budget. So a reconcile asks for fewer replicas only if the
application is safe and the budget is already shut, or if the last pod has nothing to lose.
"""

from __future__ import annotations

from streamsapp.manifest.model import MOST_PODS
from streamsapp_operator.gate import Waiver
from streamsapp_operator.model.status import ScalingStatus
from streamsapp_operator.plan import autoscale
from streamsapp_operator.plan.budget import is_shut
from streamsapp_operator.plan.engine_switch import driver_is_there
from streamsapp_operator.plan.known_tasks import waiver
from streamsapp_operator.plan.plan_input import PlanInput
from streamsapp_operator.plan.rollout import RolloutDecision
from streamsapp_operator.plan.summary import workable_lag


def wanted_replicas(inputs: PlanInput) -> tuple[int, ScalingStatus | None]:
    """Returns the number in the end, and the autoscaler's decision, if it decides. No replicas is a suspended
    application, always."""
    autoscaling, replicas = inputs.settings.autoscaling, inputs.settings.replicas
    if autoscaling is None or replicas == 0:
        return replicas, inputs.status.scaling if autoscaling else None
    seed = inputs.observed.children.replicas or replicas
    scaling = autoscale.decide(autoscaling, inputs.status.scaling, seed, _load(inputs), inputs.time)
    return scaling.desired, scaling


def next_replicas(inputs: PlanInput, course: RolloutDecision, wanted: int, *, shrinking: bool) -> int:
    """Returns the number in this reconcile; ``shrinking`` is what ``is_shrinking`` says."""
    current = inputs.observed.children.replicas
    if course.stop or course.scheduled or wanted == 0:
        # The driver gives its tasks up with its executors.
        return (current or 0) if driver_is_there(inputs.observed) else 0
    if current is None:
        # A StatefulSet that was deleted without its pods is made anew and adopts them: it must not end those above its
        # number, so there are fewer from the next look on, one at a time. One that never was, as it was refused, has
        # none.
        was = inputs.status.target_replicas if inputs.status.last_good_revision is not None else None
        return max(wanted, min(was or 0, MOST_PODS))
    if wanted >= current:
        return wanted
    return current - 1 if shrinking and _may_shrink(inputs, course, current) else current


def is_shrinking(inputs: PlanInput, wanted: int, scaling: ScalingStatus | None) -> bool:
    """Says whether there are more pods than wanted, so that one of them is to go next, and the application goes on with
    the others. Records that came while the tasks of one pod moved are caught up before, as long as there are no more
    pods than the autoscaler may have."""
    current, autoscaling = inputs.observed.children.replicas or 0, inputs.settings.autoscaling
    most = MOST_PODS if autoscaling is None else autoscaling.max_replicas
    behind = scaling is not None and scaling.behind_since is not None
    return 0 < wanted < current and not (behind and current <= most)


def _may_shrink(inputs: PlanInput, course: RolloutDecision, current: int) -> bool:
    last = next((pod for pod in inputs.pods if pod.ordinal == current - 1), None)
    if last is None:
        return True
    busy = course.rollout.current not in {None, last.name} or course.restart is not None
    if busy or any(pod.terminating for pod in inputs.pods):
        return False
    # While a revision is being checked, or held, nothing leads to it.
    undecided = course.template is None or course.rollout.phase in {"Checking", "Paused"}
    excused = Waiver() if undecided else waiver(inputs, course.rollout, course.template or "")
    return inputs.gate.holds_nothing(last, Waiver()) or (inputs.gate.allows(last, excused) and is_shut(inputs))


def _load(inputs: PlanInput) -> autoscale.Load:
    children, pods = inputs.observed.children, inputs.pods
    last = max(pods, key=lambda pod: pod.ordinal, default=None)
    price = None if last is None else inputs.gate.predicted_seconds(last)
    limit = inputs.settings.rollout.max_restore_seconds
    settled = len(pods) == children.replicas and all(pod.ready and not pod.terminating for pod in pods)
    return autoscale.Load(
        input_lag=workable_lag(inputs),
        tasks=inputs.observed.tasks_total,
        moving=not settled or not inputs.gate.all_run(),
        move_seconds=price if inputs.restart.safe and price is not None and price <= limit else None,
        flow=inputs.observed.flow,
    )
