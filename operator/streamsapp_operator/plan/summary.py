"""Sums up the figures of the status. Pure. A figure that is not known is ``None``, never 0."""

from __future__ import annotations

from streamsapp_operator.model.observed_state import PodSeen, ReportedRole, StoreReport, TaskReport
from streamsapp_operator.model.status import Tasks
from streamsapp_operator.plan.plan_input import PlanInput
from streamsapp_operator.takeover import RUNNING, known_lag

#: The largest number that the resource takes; each task of a pod may claim it.
_MOST_RECORDS = 2**63 - 1
#: Pods differ while a rollout is under way.
_MOST_DATA_PATHS = 4


def tasks(inputs: PlanInput) -> Tasks:
    """Returns the number of tasks, as far as pods report."""
    reported = [task for _, task in _reported(inputs)]
    active = {task.id: task for task in reported if task.role is ReportedRole.ACTIVE}
    running = sum(task.state.upper() == RUNNING for task in active.values())
    standby = len(reported) - sum(task.role is ReportedRole.ACTIVE for task in reported)
    return Tasks(active=len(active), running=running, restoring=len(active) - running, standby=standby)


def input_lag(inputs: PlanInput) -> int | None:
    """Returns the input lag of all active tasks together."""
    return _input_lag(inputs, _active(inputs))


def workable_lag(inputs: PlanInput) -> int | None:
    """Returns the input lag that more pods would shorten: without that of paused tasks."""
    return _input_lag(inputs, [task for task in _active(inputs) if not task.paused])


def _active(inputs: PlanInput) -> list[TaskReport]:
    return [task for _, task in _reported(inputs) if task.role is ReportedRole.ACTIVE]


def _input_lag(inputs: PlanInput, active: list[TaskReport]) -> int | None:
    lags = [task.input_lag for task in active]
    known = [lag for lag in lags if lag is not None]
    return min(sum(known), _MOST_RECORDS) if lags and len(known) == len(lags) and all_answer(inputs) else None


def standby_lag(inputs: PlanInput) -> int | None:
    """Returns the worst standby lag of all."""
    lags = [known_lag(store) for _, store in replica_stores(inputs)]
    known = [lag for lag in lags if lag is not None]
    return max(known) if lags and len(known) == len(lags) and all_answer(inputs) else None


def data_paths(inputs: PlanInput) -> tuple[str, ...]:
    """Returns how the pods move records, as they report it: texts that differ."""
    told = {pod.report.data_path for pod in inputs.pods if pod.report is not None}
    return tuple(sorted(each for each in told if each is not None))[:_MOST_DATA_PATHS]


def replica_stores(inputs: PlanInput) -> list[tuple[PodSeen, StoreReport]]:
    """Yields the stores of standbys and warm-ups."""
    return [
        (pod, store) for pod, task in _reported(inputs) if task.role is not ReportedRole.ACTIVE for store in task.stores
    ]


def active_stores(inputs: PlanInput) -> list[tuple[PodSeen, StoreReport]]:
    """Yields the stores of active tasks."""
    return [
        (pod, store) for pod, task in _reported(inputs) if task.role is ReportedRole.ACTIVE for store in task.stores
    ]


def all_answer(inputs: PlanInput) -> bool:
    """Says whether every pod that there is to be answered a moment ago."""
    answered = [pod for pod in inputs.pods if pod.report is not None and inputs.gate.covers.is_fresh(pod.report)]
    return len(answered) == len(inputs.pods) and len(answered) >= (inputs.observed.children.replicas or 0)


def _reported(inputs: PlanInput) -> list[tuple[PodSeen, TaskReport]]:
    driver = inputs.observed.driver
    pods = inputs.pods if driver is None else (driver,)
    return [(pod, task) for pod in pods if pod.report is not None for task in pod.report.tasks]
