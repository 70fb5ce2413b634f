"""Remembers the last rollouts in the status: how each ended, and what each of its steps cost. Pure.

The status that a reconcile leaves is compared with the one that it found, as for events.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from datetime import datetime

from msgspec.structs import replace

from streamsapp_operator.model.status import AppStatus, RolloutRecord, RolloutStatus, RolloutStep

#: Rollouts that are remembered, and the last steps of each.
ROLLOUTS, STEPS = 8, 40
_ENDED = {"Complete", "TimedOut", "RolledBack", "Refused"}


def remembered(
    before: AppStatus, after: RolloutStatus, present: AbstractSet[str], now: datetime
) -> tuple[RolloutRecord, ...]:
    """Returns the rollouts with this one, the newest first; ``present`` are the uids of the pods that are there."""
    same, older = _split(before, after)
    record = same or RolloutRecord(revision=after.revision, started_at=after.started_at)
    last = before.rollout if before.rollout is not None and same is not None else None
    ended_at = record.ended_at
    if after.phase not in _ENDED:
        ended_at = None
    elif before.rollout is None or before.rollout.phase != after.phase:
        ended_at = now
    steps = record.steps
    pod = None if last is None else restarted(last, after, present)
    if last is not None and pod is not None:
        step = RolloutStep(
            pod=pod,
            started_at=last.step_started_at,
            predicted_seconds=after.predicted_seconds,
            observed_seconds=after.observed_seconds,
        )
        steps = (*steps, step)[-STEPS:]
    told = replace(record, phase=after.phase, failure=after.failure, ended_at=ended_at, steps=steps)
    return (told, *older)[:ROLLOUTS]


def restarted(before: RolloutStatus, after: RolloutStatus, present: AbstractSet[str]) -> str | None:
    """Returns the pod whose restart ended in this reconcile."""
    ended = before.current_uid is not None and before.current_uid != after.current_uid
    done = ended and before.current_uid not in present and after.phase != "RollingBack"
    return before.current if done else None


def _split(before: AppStatus, after: RolloutStatus) -> tuple[RolloutRecord | None, tuple[RolloutRecord, ...]]:
    """Returns the record of this rollout, if there is one, and all others."""
    first = before.history[0] if before.history else None
    if first is not None and (first.revision, first.started_at) == (after.revision, after.started_at):
        return first, before.history[1:]
    return None, before.history
