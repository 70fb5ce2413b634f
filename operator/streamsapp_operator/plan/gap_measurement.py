"""Measures for how long tasks stood still in a step of a rollout, and remembers it for the predictions to come. Pure.

Pods report their hand-overs: the longest of a step is its gap. That includes the hand-overs back to the pod, which come
a moment after it is ready again. As long as a pod does not report them, as its runtime is older, the operator's own
looks show when all tasks run again: a second apart, and only until then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set as AbstractSet
from datetime import timedelta

from msgspec.structs import replace

from streamsapp_operator.gap_prediction import predicted_from, report_hand_overs, with_gap
from streamsapp_operator.model.observed_state import PodSeen
from streamsapp_operator.model.status import AppStatus, ObservedGap, PodGap, RolloutRecord, RolloutStatus, RolloutStep
from streamsapp_operator.plan import gap_limit
from streamsapp_operator.plan.plan_input import PlanInput
from streamsapp_operator.plan.rollout_history import has_grown, pod_step

#: For so long after a step its pod gets tasks back; seconds.
RETURNS = 60.0
#: A pod's clock may seem to be ahead by so many seconds, as the ``Date`` by which it is compared has whole ones.
CLOCKS = 2.0
#: Pods that the status has gaps of.
LISTED = 50


def begun(inputs: PlanInput, rollout: RolloutStatus, pod: PodSeen) -> RolloutStatus:
    """Returns the rollout with a step that begins now, and what it is predicted to cost."""
    expected = inputs.gate.predicted(pod)
    return replace(
        rollout,
        current=pod.name,
        current_uid=pod.uid,
        step_started_at=inputs.time,
        expected=expected,
        predicted_seconds=None if expected is None else expected.seconds,
        predicted_from=None if expected is None else gap_limit.told(inputs, expected),
        observed_seconds=None,
        measured_from=inputs.time,
        measured_until=None,
        seen_by_looks=False,
    )


def measured(inputs: PlanInput, rollout: RolloutStatus) -> RolloutStatus:
    """Returns the rollout with the gap of its step, as far as it was seen until now."""
    begin, end = rollout.measured_from, rollout.measured_until
    if begin is None or (end is not None and inputs.time > end):
        return rollout
    if rollout.current_uid is None and end is None:
        rollout = replace(rollout, measured_until=inputs.time + timedelta(seconds=RETURNS))
    if not report_hand_overs(inputs.pods):
        return _by_looks(inputs, rollout)
    longest = max(_reported(inputs, begin.timestamp()), default=None)
    last = None if rollout.seen_by_looks else rollout.observed_seconds
    if longest is None or (last is not None and longest <= last):
        return rollout
    return replace(rollout, observed_seconds=longest, seen_by_looks=False)


def _reported(inputs: PlanInput, begin: float) -> Iterator[float]:
    """Yields the gaps since then, by the operator's clock. One in the future is of a clock that jumped."""
    for pod in inputs.pods:
        if pod.report is not None:
            for each in pod.report.hand_overs or ():
                if begin <= each.at - pod.report.clock_offset <= inputs.now + CLOCKS:
                    yield round(each.gap_seconds, 3)


def _by_looks(inputs: PlanInput, rollout: RolloutStatus) -> RolloutStatus:
    """Measures until all tasks run again without the pod that was taken."""
    if rollout.current_uid is None or rollout.observed_seconds is not None:
        return rollout
    old = next((pod for pod in inputs.pods if pod.uid == rollout.current_uid), None)
    if old is not None and (not old.terminating or (old.report and old.report.tasks)):
        return rollout
    if not inputs.gate.all_run():
        return rollout
    return replace(rollout, observed_seconds=round(inputs.since(rollout.step_started_at), 1), seen_by_looks=True)


def learned(before: AppStatus, after: RolloutStatus, present: AbstractSet[str]) -> tuple[ObservedGap, ...]:
    """Returns the gaps to predict by, with that of a step that has ended, or that turned out to be longer."""
    last, known, gap = before.rollout, before.observed_gaps, _observed(after)
    if last is None or last.revision != after.revision or gap is None:
        return known
    if has_grown(last, after):
        known = known[:-1] if known and known[-1] == _observed(last) else known
    elif pod_step(last, after, present) is None:
        return known
    return with_gap(known, gap)


def _observed(rollout: RolloutStatus) -> ObservedGap | None:
    """Returns the gap of the last step; ``None`` if there was no task, or it was not seen."""
    expected, seconds = rollout.expected, rollout.observed_seconds
    if expected is None or expected.kind == "none" or seconds is None:
        return None
    return ObservedGap(
        kind=expected.kind, work_seconds=expected.work_seconds, seconds=seconds, reported=not rollout.seen_by_looks
    )


def of_pods(inputs: PlanInput, history: Sequence[RolloutRecord]) -> tuple[PodGap, ...]:
    """Returns of each pod what its restart would cost now, and what its last one did."""
    last: dict[str, RolloutStep] = {}
    for step in (step for record in history for step in reversed(record.steps)):
        last.setdefault(step.pod, step)
    return tuple(_of_pod(inputs, pod, last.get(pod.name)) for pod in inputs.pods[:LISTED])


def _of_pod(inputs: PlanInput, pod: PodSeen, step: RolloutStep | None) -> PodGap:
    expected = inputs.gate.predicted(pod)
    return PodGap(
        pod=pod.name,
        predicted_seconds=None if expected is None else expected.seconds,
        predicted_from=None if expected is None else predicted_from(expected),
        observed_seconds=None if step is None else step.observed_seconds,
        observed_at=None if step is None else step.started_at,
    )
