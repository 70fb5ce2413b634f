"""Remembers the last rollouts in the status: how each ended, and what each of its steps cost. Pure.

The status that a reconcile leaves is compared with the one that it found, as for events.
"""

from __future__ import annotations

from collections.abc import Sequence, Set as AbstractSet
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
    record = same or RolloutRecord(revision=after.revision)
    last = before.rollout if before.rollout is not None and same is not None else None
    ended_at = record.ended_at
    if after.phase not in _ENDED:
        ended_at = None
    elif before.rollout is None or before.rollout.phase != after.phase:
        ended_at = now
    ended = () if last is None else ended_steps(last, after, present)
    steps = record.steps
    if last is not None and steps and not ended and has_grown(last, after):
        steps = (*steps[:-1], replace(steps[-1], observed_seconds=after.observed_seconds))
    told = replace(
        record,
        phase=after.phase,
        started_at=after.started_at,
        failure=after.failure,
        ended_at=ended_at,
        steps=(*steps, *ended)[-STEPS:],
    )
    return (told, *older)[:ROLLOUTS]


def ended_steps(before: RolloutStatus, after: RolloutStatus, present: AbstractSet[str]) -> tuple[RolloutStep, ...]:
    """Returns the restarts, of a pod and of the driver, that ended in this reconcile."""
    pod, driver = pod_step(before, after, present), after.driver
    over = driver is not None and driver.observed_seconds is not None and driver != before.driver
    return tuple(step for step in (pod, driver if over else None) if step is not None)


def has_grown(before: RolloutStatus, after: RolloutStatus) -> bool:
    """Says whether the step that ended last turned out to be longer: its pod has got tasks back since."""
    same = before.measured_from is not None and before.measured_from == after.measured_from
    over = before.current_uid is None and after.current_uid is None and after.phase != "RollingBack"
    return same and over and before.observed_seconds != after.observed_seconds


def good_before(history: Sequence[RolloutRecord], good: str | None) -> str | None:
    """Returns the revision that was good before the last good one: the operator keeps it, so that it can come back."""
    done = (record.revision for record in history if record.phase == "Complete")
    return next((revision for revision in done if revision != good), None)


def undo_target(status: AppStatus) -> str | None:
    """Returns where an undo leads: to the last good revision, or to the one before where that is what runs."""
    now, good = status.rollout, status.last_good_revision
    if now is not None and good is not None and now.revision != good:
        return good
    return good_before(status.history, good)


def is_undoable(status: AppStatus, revision: str) -> bool:
    """Says whether the operator still has a revision that is not the one that is rolled out."""
    now = None if status.rollout is None else status.rollout.revision
    return revision != now and revision in {
        status.last_good_revision,
        good_before(status.history, status.last_good_revision),
    }


def pod_step(before: RolloutStatus, after: RolloutStatus, present: AbstractSet[str]) -> RolloutStep | None:
    """Returns the restart of a pod that ended in this reconcile; ``None`` if none did."""
    ended = before.current_uid is not None and before.current_uid != after.current_uid
    if before.current is None or not ended or before.current_uid in present or after.phase == "RollingBack":
        return None
    return RolloutStep(
        pod=before.current,
        started_at=before.step_started_at,
        predicted_seconds=after.predicted_seconds,
        predicted_from=after.predicted_from,
        observed_seconds=after.observed_seconds,
    )


def _split(before: AppStatus, after: RolloutStatus) -> tuple[RolloutRecord | None, tuple[RolloutRecord, ...]]:
    """Returns the record of this rollout, if there is one, and all others. It begins anew after its check, and after
    a bootstrap; one of the same revision that had ended before is another rollout."""
    first = before.history[0] if before.history else None
    if first is None or first.revision != after.revision:
        return None, before.history
    if first.started_at != after.started_at and first.phase in _ENDED:
        return None, before.history
    return first, before.history[1:]
