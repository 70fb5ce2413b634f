"""Holds a rollout whose next restart would let tasks stand still for longer than ``spec.rollout.maxGap``. Pure.

A user approves a revision in spite of it. A gap of a kind that was never observed is no reason to hold: only a restart
can show how long it is, and the first one does. A restore is held all the same if it alone takes longer, as pods have
measured their rates. Going back to the last good revision is never held: it mends.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamsapp_operator.gap_prediction import gap_text, predicted_from
from streamsapp_operator.model.observed_state import PodSeen
from streamsapp_operator.model.status import ExpectedGap, RolloutStatus
from streamsapp_operator.plan.plan_input import PlanInput

FIELD = "(spec.rollout.maxGap)"
_REMEDY = (
    "`kubectl streamsapp approve` lets this revision go on, a larger maxGap lets all; it goes on by itself once a "
    "shorter gap is predicted"
)


def why_held(inputs: PlanInput, rollout: RolloutStatus, target: str, pods: Sequence[PodSeen]) -> str | None:
    """Returns why none of these pods may be taken next; ``None`` if one of them may, as far as this goes."""
    limit = _limit(inputs, rollout, target)
    found = [(gap, pod.name) for pod in pods if pod.ready and (gap := inputs.gate.predicted(pod)) is not None]
    if limit is None or not found or not all(_is_longer(gap, limit) for gap, _ in found):
        return None
    gap, pod = min(found, key=lambda it: it[0].seconds)
    seconds = gap.seconds if gap.observed else gap.work_seconds
    told = f"a restart of {pod} would let tasks stand still for {gap_text(seconds)} ({predicted_from(gap)})"
    return f"{told}, longer than {_named(inputs)}; {_REMEDY}"


def admits(inputs: PlanInput, rollout: RolloutStatus, target: str, pod: PodSeen) -> bool:
    """Says whether this pod may be taken, as far as its gap is known."""
    limit, gap = _limit(inputs, rollout, target), inputs.gate.predicted(pod)
    return limit is None or gap is None or not _is_longer(gap, limit)


def why_all_held(inputs: PlanInput, rollout: RolloutStatus, target: str) -> str | None:
    """Returns why all pods may not end before the first of the target starts."""
    if _limit(inputs, rollout, target) is None:
        return None
    told = "all pods would end before the first of this revision starts, and tasks stand still until it runs"
    return f"{told}, longer than {_named(inputs)}; `kubectl streamsapp approve` lets it go on"


def told(inputs: PlanInput, gap: ExpectedGap) -> str:
    """Says from what the gap of a restart that begins is predicted."""
    words = predicted_from(gap)
    unjudged = inputs.settings.rollout.max_gap is not None and gap.observed == 0 and gap.kind != "none"
    return f"{words}, so this one is not judged by spec.rollout.maxGap" if unjudged else words


def _limit(inputs: PlanInput, rollout: RolloutStatus, target: str) -> float | None:
    approved = inputs.app.requests.approved == rollout.revision
    return None if approved or target != rollout.revision else inputs.settings.rollout.max_gap_seconds


def _is_longer(gap: ExpectedGap, limit: float) -> bool:
    if gap.observed == 0:
        return gap.kind == "snapshot" and gap.work_seconds > limit
    return gap.seconds > limit


def _named(inputs: PlanInput) -> str:
    return f"{inputs.settings.rollout.max_gap} {FIELD}"
