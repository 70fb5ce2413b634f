"""Judges by the reports of its pods whether a revision gets on: a revision whose pods are ready may still process
nothing. Pure.

A pod that reports nothing of it (its runtime is older, its answer too old) is no reason for anything. Nor is an
application that has no input, is paused, restores, or cannot reach Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamsapp_operator.gate import CRASHES
from streamsapp_operator.model.observed_state import HangReport, PodReport, PodSeen, ReportedRole, TaskReport
from streamsapp_operator.plan.plan_input import PlanInput
from streamsapp_operator.takeover import RUNNING

#: A record that is in process for so long has to come back before its revision goes to another pod, in seconds; or for
#: so many times as long as a record that came back.
LONG, LONGER = 10.0, 1.5
#: A revision whose code hangs for so long is given up, like a revision that crashes again and again: that takes as
#: long.
HANGS = 120.0
#: A container that was started again so long ago has settled.
SETTLED = 600.0


def hang(inputs: PlanInput) -> tuple[PodSeen, HangReport] | None:
    """Returns the first pod with a task that hangs, whatever its revision is."""
    return next(((pod, it) for pod in inputs.pods for it in _hanging(inputs, pod)), None)


def waits(inputs: PlanInput, revision: str) -> str | None:
    """Returns why the revision does not get on now; ``None`` if it does, or nothing is known."""
    for pod, report in _reports(inputs, revision):
        usual = max(LONG, LONGER * report.usual_process_seconds)
        if (seconds := report.in_process_seconds) is not None and seconds >= usual:
            told = report.hanging[0].message if report.hanging else f"a record has been in process for {seconds:.0f} s"
            return f"{pod.name}: {told}"
    return idle(inputs, revision) or _uncommitted(inputs, revision)


def idle(inputs: PlanInput, revision: str) -> str | None:
    """Says that none of its pods has processed a record, although input waits for them."""
    return None if processed(inputs, revision) != 0 else idle_words(inputs, revision)


def idle_words(inputs: PlanInput, revision: str) -> str:
    """Says how many records wait for its pods, and none is processed."""
    waiting = sum(_waiting(task) for _, task in _working(inputs, revision))
    return f"its pods have processed none of the {waiting} records that wait for them"


def processed(inputs: PlanInput, revision: str) -> int | None:
    """Returns how many records its pods have processed so far, while others wait for them; ``None`` while none does, or
    it is not known, or something else is the reason: a record that takes long is judged by itself, as a hang."""
    tasks = [task for _, task in _working(inputs, revision)]
    reports = [report for _, report in _reports(inputs, revision)]
    excused = any(report.outages or (report.in_process_seconds or 0.0) >= LONG for report in reports)
    if excused or not any(map(_waiting, tasks)) or any(task.processed is None for task in tasks):
        return None
    return sum(task.processed or 0 for task in tasks)


def _uncommitted(inputs: PlanInput, revision: str) -> str | None:
    """Says which task has processed records and committed none of them yet."""
    found = next(((pod, it) for pod, it in _working(inputs, revision) if it.commits == 0 and it.processed), None)
    return None if found is None else f"{found[0].name}: task {found[1].id} has not committed yet"


def failure(inputs: PlanInput, revision: str) -> str | None:
    """Returns why the revision must be given up: a pod of it crashes again and again, or hangs."""
    crashing = {pod.revision: pod for pod in all_pods(inputs) if is_crashing(inputs, pod)}
    if set(crashing) == {revision}:  # a fault that others share is not the revision's
        pod = crashing[revision]
        why = pod.last_exit or pod.waiting_message or "see its log"
        return f"pod {pod.name} cannot run: it restarted {restarts(pod)} times, the last time after {why}"
    for pod in inputs.pods:
        for it in _hanging(inputs, pod) if pod.revision == revision else ():
            if it.seconds >= HANGS:
                return (
                    f"pod {pod.name} processes nothing: {it.message}; raise spec.processing.maxPollIntervalMs if it is "
                    "only slow"
                )
    return None


def is_crashing(inputs: PlanInput, pod: PodSeen) -> bool:
    """Says whether a container of the pod, or an instance in it, ended again and again, the last time not long ago."""
    return restarts(pod) >= CRASHES and has_restarted_within(inputs, pod, SETTLED)


def restarts(pod: PodSeen) -> int:
    """Returns how often the pod's container was started again, or the worst of the instances in it."""
    return max(pod.restarts, 0 if pod.report is None else pod.report.instance_restarts)


def has_restarted_within(inputs: PlanInput, pod: PodSeen, seconds: float) -> bool:
    """Says whether its container, or an instance in it, was started again within so many seconds."""
    ago = None if pod.report is None else pod.report.restarted_seconds_ago
    if ago is not None and ago < seconds:
        return True
    return pod.restarts > 0 and inputs.now - (pod.running_since or inputs.now) < seconds


def has_committed(inputs: PlanInput, revision: str) -> bool:
    """Says whether each task with input has committed, as far as its pods report."""
    tasks = (task for _, task in _working(inputs, revision))
    return not any(task.commits == 0 and (task.processed or _waiting(task)) for task in tasks)


def _waiting(task: TaskReport) -> int:
    """Returns how many records wait for a task: the records of its lag that the pod has, if it says so. The others may
    be part of a transaction that is open, which takes minutes where another system commits that seldom."""
    lag = task.input_lag or 0
    return lag if task.waiting is None else min(lag, task.waiting)


def _working(inputs: PlanInput, revision: str) -> Iterator[tuple[PodSeen, TaskReport]]:
    for pod, report in _reports(inputs, revision):
        yield from ((pod, task) for task in report.tasks if _works(pod, task))


def _works(pod: PodSeen, task: TaskReport) -> bool:
    paused = task.paused or any(store.mode == "paused" for store in task.stores)  # older runtimes say it of stores
    return task.role is ReportedRole.ACTIVE and task.state.upper() == RUNNING and not paused and not pod.terminating


def _hanging(inputs: PlanInput, pod: PodSeen) -> tuple[HangReport, ...]:
    fresh = pod.report is not None and inputs.gate.covers.is_fresh(pod.report) and not pod.terminating
    return pod.report.hanging if fresh and pod.report is not None else ()


def _reports(inputs: PlanInput, revision: str) -> Iterator[tuple[PodSeen, PodReport]]:
    for pod in inputs.pods:
        if pod.revision == revision and pod.report is not None and inputs.gate.covers.is_fresh(pod.report):
            yield pod, pod.report


def all_pods(inputs: PlanInput) -> Iterator[PodSeen]:
    """Yields the pods, and the driver's if there is one."""
    yield from inputs.pods
    if inputs.observed.driver is not None:
        yield inputs.observed.driver
