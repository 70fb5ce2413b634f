"""Decides on the preview: before the first pod is restarted for a new revision, a Job runs it beside the last good one,
on copies of the state and on recent input. Too many differences hold the rollout. Pure.

The Job is in the status before it is made; its result is in the status before it is deleted. There is one at a time.
"""

from __future__ import annotations

from msgspec.structs import replace

from streamsapp_operator.model.actions import Action, DeletePreview, StartPreview
from streamsapp_operator.model.observed_state import JobState, PreviewResult, PreviewSeen
from streamsapp_operator.model.status import PreviewStatus, RolloutStatus
from streamsapp_operator.plan.plan_input import PlanInput

_APPROVE = "`kubectl streamsapp approve` lets it go on"
_REMEDY = f"{_APPROVE}, another revision is previewed anew"


def previewed(inputs: PlanInput, rollout: RolloutStatus, *, begins: bool) -> tuple[RolloutStatus, list[Action]]:
    """Returns the rollout with its preview, and the actions to do for it. ``begins`` is false where nothing leads to
    the revision now."""
    last, seen = rollout.preview, inputs.observed.preview
    attempt = _attempt(inputs, rollout) if begins else None
    if attempt is None:
        return replace(rollout, preview=last if _is_done(last) else None), _drop(seen)
    if last is None or last.attempt != attempt:
        last = PreviewStatus(attempt=attempt, message="its Job is being made")
    if last.phase == "Done":
        return replace(rollout, preview=last), _drop(seen)
    if seen is None or seen.job.attempt != attempt:
        # A failed preview is reported until there is another revision; its Job may be gone by then.
        starts = seen is None and last.phase != "Failed"
        start = StartPreview(attempt, rollout.revision, inputs.status.last_good_revision or "")
        return replace(rollout, preview=last), [start] if starts else _drop(seen)
    return replace(rollout, preview=_with(last, seen)), []


def why_held(inputs: PlanInput, rollout: RolloutStatus) -> str | None:
    """Returns why no pod may be taken for this revision; ``None`` if its preview is not against it."""
    found, asked = rollout.preview, inputs.settings.rollout.preview
    if asked is None or inputs.app.requests.approved == rollout.revision:
        return None
    if found is None:
        return "its preview starts in a moment" if _attempt(inputs, rollout) is not None else None
    if found.phase == "Failed":
        return f"its preview failed: {found.message}; {_REMEDY}"
    if found.phase != "Done":
        said = found.message or "it runs"
        return f"the new revision is previewed on a copy of the state: {said}; {_APPROVE} without its result"
    if (found.differences or 0) <= asked.max_differences:
        return None
    most = f"more than {asked.max_differences} (spec.rollout.preview.maxDifferences)"
    return f"its preview found that {outcome(found)}, {most}; {_REMEDY}"


def needs_approval(inputs: PlanInput, rollout: RolloutStatus) -> bool:
    """Says whether the preview has ended, and only a user lets the rollout go on."""
    ended = rollout.preview is not None and rollout.preview.phase in {"Done", "Failed"}
    return ended and why_held(inputs, rollout) is not None


def outcome(found: PreviewStatus) -> str:
    """Says what would change, in words; the first differences are in ``first``."""
    return f"{found.differences} of {found.keys} keys have other results or state after {found.records} records"


def _attempt(inputs: PlanInput, rollout: RolloutStatus) -> str | None:
    """Returns the name of the preview that is needed; ``None`` if none is, or not any more."""
    asked, good = inputs.settings.rollout.preview, inputs.status.last_good_revision
    if asked is None or good in {None, rollout.revision} or inputs.settings.replicas == 0:
        return None
    begun = any(pod.revision == rollout.revision for pod in inputs.pods)
    if (
        begun
        or rollout.phase not in {"Rolling", "Paused", "Blocked"}
        or inputs.app.requests.approved == rollout.revision
    ):
        return None
    return f"{good}-{rollout.revision}-{inputs.settings.preview}"


def _with(last: PreviewStatus, seen: PreviewSeen) -> PreviewStatus:
    match seen.job.state:
        case JobState.DONE if seen.result is not None:
            return _done(last, seen.result)
        case JobState.FAILED:
            return replace(last, phase="Failed", message=seen.job.message or "its Job failed and gave no reason")
        case JobState.RUNNING:
            return replace(last, phase="Running", message=seen.job.message)
        case _:
            return replace(last, phase="Pending", message=seen.job.message)


def _done(last: PreviewStatus, result: PreviewResult) -> PreviewStatus:
    return replace(
        last, phase="Done", message=None, records=result.records, keys=result.keys, differences=result.differences,
        first=result.first, notes=result.notes,
    )  # fmt: skip


def _is_done(last: PreviewStatus | None) -> bool:
    return last is not None and last.phase == "Done"


def _drop(seen: PreviewSeen | None) -> list[Action]:
    return [] if seen is None or seen.job.state is JobState.ENDING else [DeletePreview()]
