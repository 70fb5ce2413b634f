"""Decides the number of pods, by the rate of the input and the rate of a busy pod. Pure.

More pods: when incoming and waiting records are more than the pods can do in time, for a while. Fewer: when fewer have
been enough for a longer while, nothing waits, and the move pays. How much a pod does is only known of a busy one;
before, the lag decides, and fewer are tried one at a time. A figure that is not known changes nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from streamsapp.manifest.model import MOST_PODS, AutoscalingSpec
from streamsapp_operator.model.observed_state import InputRates
from streamsapp_operator.model.status import ScalingStatus

#: How far a new measure of what a busy pod does moves the old one: a smaller measure is believed sooner than a larger
#: one, as too few pods are worse than too many. Believing a larger one too soon makes the number of pods swing.
_LESS, _MORE = 0.5, 0.05
#: Tasks that move may stand still for one such part of the time.
_MOVING_PART = 10
#: When the time to catch up is nearly over, so much of it still is planned with.
_LAST_PART = 0.1


@dataclass(frozen=True, slots=True)
class Load:
    """The facts that the decision is made of."""

    #: Of all tasks; ``None``: not known of all.
    input_lag: int | None
    #: More pods than tasks have nothing to do; ``None``: not known.
    tasks: int | None
    #: A pod restores, starts or ends: its future work is not in the lag yet.
    moving: bool
    #: For how long tasks stand still when the last pod is taken away: the gate's prediction; ``None``: not known, or
    #: too long.
    move_seconds: float | None
    flow: InputRates | None = None


class _Needed(NamedTuple):
    """The number of pods that is needed, and why."""

    #: Fewer cannot do it.
    at_least: int
    #: So many can, whatever of what is measured was the truth.
    enough: int
    #: Of ``at_least``.
    why: str


def decide(
    autoscaling: AutoscalingSpec, last: ScalingStatus | None, seed: int, load: Load, now: datetime
) -> ScalingStatus:
    """Decides the number of pods there is to be. ``seed`` is the present number, for when nothing was decided yet."""
    least, most = min(autoscaling.min_replicas, MOST_PODS), min(autoscaling.max_replicas, MOST_PODS)
    desired = min(max(seed if last is None else last.desired, least), most)
    current = last or ScalingStatus(desired=desired, reason="as many as there were", changed_at=now)
    if desired != current.desired:
        current = _changed(current, desired, "spec.autoscaling bounds it", now)
    if load.input_lag is None or load.tasks is None or load.moving:
        return replace(current, fewer_since=None, fewer_enough=None, more_since=None)
    current = _learned(current, load.flow)
    current = replace(current, behind_since=_behind_since(autoscaling, current, load.input_lag, now))
    needed = _needed(autoscaling, current, load, now)
    at_least, enough = (max(min(it, most, load.tasks), least) for it in (needed.at_least, needed.enough))
    if at_least > desired:
        return _more(autoscaling, current, at_least, needed.why, now)
    if enough >= desired or current.behind_since is not None:
        return replace(current, fewer_since=None, fewer_enough=None, more_since=None)
    return _fewer(autoscaling, replace(current, more_since=None), enough, load, now)


def _learned(current: ScalingStatus, flow: InputRates | None) -> ScalingStatus:
    """Learns how much a busy pod does. A pod that is not busy could do at least what it does."""
    known = current.pod_records_per_second
    measured = None if flow is None else flow.busy_pod
    if flow is not None and measured is None and known is not None and flow.fastest_pod > known:
        measured = flow.fastest_pod
    if measured is None or measured <= 0:
        return current
    learned = measured if known is None else known + (measured - known) * (_LESS if measured < known else _MORE)
    return replace(current, pod_records_per_second=float(f"{learned:.3g}"))


def _behind_since(autoscaling: AutoscalingSpec, current: ScalingStatus, lag: int, now: datetime) -> datetime | None:
    """Returns since when more waits than may. That ends when half of it is left: a lag at the limit is no news all the
    time."""
    limit = autoscaling.target_input_lag * current.desired
    if lag > limit or (current.behind_since is not None and lag > limit / 2):
        return min(current.behind_since or now, now)
    return None


def _needed(autoscaling: AutoscalingSpec, current: ScalingStatus, load: Load, now: datetime) -> _Needed:
    lag, capacity, flow = load.input_lag or 0, current.pod_records_per_second, load.flow
    if flow is None or capacity is None:
        by_lag = math.ceil(lag / autoscaling.target_input_lag)
        why = f"input lag {lag} asks for {by_lag} (targetInputLag {autoscaling.target_input_lag})"
        return _Needed(by_lag, max(by_lag, current.desired - 1), why)  # fewer are tried one at a time
    tasks, usual = load.tasks or 0, capacity * autoscaling.target_utilization_percent / 100
    at_least, why = _pods(flow.arrival_low, usual, tasks), f"a busy pod does {capacity:.0f} records/s"
    if current.behind_since is not None:
        waits = lag / _seconds_left(autoscaling, current, now)
        at_least = max(at_least, _pods(flow.arrival_low + waits, capacity, tasks))
        why += f", {lag} wait (catchUpSeconds {autoscaling.catch_up_seconds})"
    # Records that come while tasks move have to be caught up by the pods that are left, or there would be more again.
    moved = flow.arrival_high * (1 + (load.move_seconds or 0.0) / autoscaling.catch_up_seconds)
    enough = max(_pods(flow.arrival_high, usual, tasks), _pods(moved, capacity, tasks))
    return _Needed(at_least, max(at_least, enough), f"{flow.arrival_low:.0f} records/s come, {why}")


def _pods(rate: float, capacity: float, tasks: int) -> int:
    """Returns the pods for so much input, if each does so much: tasks are taken as equal, and a pod has whole ones."""
    if rate <= 0:
        return 0
    each = math.floor(min(capacity * tasks / rate, tasks) + 1e-9)
    return math.ceil(tasks / each) if each else tasks


def _seconds_left(autoscaling: AutoscalingSpec, current: ScalingStatus, now: datetime) -> float:
    spent = 0.0 if current.behind_since is None else (now - current.behind_since).total_seconds()
    return max(autoscaling.catch_up_seconds - spent, autoscaling.catch_up_seconds * _LAST_PART)


def _more(autoscaling: AutoscalingSpec, current: ScalingStatus, needed: int, why: str, now: datetime) -> ScalingStatus:
    since = min(current.more_since or now, now)
    if now - since < timedelta(seconds=autoscaling.scale_up_stabilization_seconds):
        return replace(current, more_since=since, fewer_since=None, fewer_enough=None)
    return _changed(current, needed, why, now)


def _fewer(
    autoscaling: AutoscalingSpec, current: ScalingStatus, needed: int, load: Load, now: datetime
) -> ScalingStatus:
    """Returns the most pods that were needed at any time of the window; a dear move has to last for longer."""
    since, enough = min(current.fewer_since or now, now), max(needed, current.fewer_enough or 0)
    current = replace(current, fewer_since=since, fewer_enough=enough)
    if load.move_seconds is None:
        return current
    window = max(autoscaling.scale_down_stabilization_seconds, load.move_seconds * _MOVING_PART)
    if now - since < timedelta(seconds=window):
        return current
    return _changed(current, enough, f"{enough} have been enough for {window:.0f} s", now)


def _changed(current: ScalingStatus, desired: int, reason: str, now: datetime) -> ScalingStatus:
    return replace(
        current, desired=desired, reason=reason, changed_at=now, fewer_since=None, fewer_enough=None, more_since=None
    )
