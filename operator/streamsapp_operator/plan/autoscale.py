"""How many pods the input lag asks for. Pure.

Up at once, as a lag that grows does not wait; down one at a time, after fewer have been enough for a while, and only
where what must move then is cheap. What is not known changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from streamsapp.manifest.model import AutoscalingSpec
from streamsapp_operator.model.status import ScalingStatus

#: For how long fewer pods must be enough before there is one less.
STABLE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Load:
    """What the decision is made of."""

    #: Of all tasks; ``None``: not known of all.
    input_lag: int | None
    #: More pods than tasks have nothing to do; ``None``: not known.
    tasks: int | None
    #: A pod restores, starts or ends: what it will do is not in the lag yet.
    moving: bool
    #: What taking the last pod away costs is known, and not too much.
    cheap: bool


def decide(
    autoscaling: AutoscalingSpec, last: ScalingStatus | None, seed: int, load: Load, now: datetime
) -> ScalingStatus:
    """The number of pods there is to be. ``seed``: what there are, where nothing was decided yet."""
    least, most = autoscaling.min_replicas, autoscaling.max_replicas
    desired = min(max(seed if last is None else last.desired, least), most)
    current = last or ScalingStatus(desired=desired, reason="as many as there were", changed_at=now)
    if desired != current.desired:
        current = ScalingStatus(desired=desired, reason="spec.autoscaling bounds it", changed_at=now)
    if load.input_lag is None or load.tasks is None:
        return replace(current, fewer_since=None)
    needed = min(max(-(-load.input_lag // autoscaling.target_input_lag), least), most)
    needed = max(min(needed, load.tasks), least)
    if needed > desired:
        reason = f"input lag {load.input_lag} asks for {needed} (targetInputLag {autoscaling.target_input_lag})"
        return replace(current, fewer_since=None) if load.moving else _changed(needed, reason, now)
    if needed == desired or load.moving:
        return replace(current, fewer_since=None)
    return _fewer(current, needed, load, now)


def _fewer(current: ScalingStatus, needed: int, load: Load, now: datetime) -> ScalingStatus:
    since = min(current.fewer_since or now, now)
    if (now - since).total_seconds() < STABLE_SECONDS or not load.cheap:
        return replace(current, fewer_since=since)
    minutes = STABLE_SECONDS / 60
    reason = f"{needed} have been enough for {minutes:.0f} minutes; one less at a time"
    return _changed(current.desired - 1, reason, now)


def _changed(desired: int, reason: str, now: datetime) -> ScalingStatus:
    return ScalingStatus(desired=desired, reason=reason, changed_at=now)
