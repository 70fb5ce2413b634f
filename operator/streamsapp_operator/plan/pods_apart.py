"""Keeps pods apart whose topologies cannot work side by side, wherever the rollout leads: also back to the last good
revision, and on to a third one. Pure.

The spec may change while pods of a revision run that was never good: from then on the rollout tells nothing of it. So
beside the topology of the last good revision the status has the revisions that cannot work beside it, while there are
pods of them. ``topologyChange`` has no say in this: it decides only whether a revision may begin.
"""

from __future__ import annotations

from streamsapp_operator.model.status import RolloutStatus
from streamsapp_operator.plan.plan_input import PlanInput
from streamsapp_operator.plan.topology_compatibility import Shape, compatibility, decode, kept_apart, with_apart


def incompatibilities(inputs: PlanInput, rollout: RolloutStatus) -> list[str]:
    """Returns why pods of this revision cannot work beside those of the last good one, in words."""
    old, new = decode(inputs.status.shape), decode(rollout.shape)
    if old is None or new is None or inputs.status.last_good_revision == rollout.revision:
        return []
    return compatibility(old, new)


def why_alone(inputs: PlanInput, rollout: RolloutStatus, target: str) -> list[str]:
    """Returns why pods of the target must not run beside those of other revisions, or of one that is there, in words;
    empty if they may."""
    apart = _apart(inputs, rollout)
    others = (apart[it] for it in sorted(_there(inputs) - {target}) if it in apart)
    return apart.get(target) or next(others, [])


def is_foreign(inputs: PlanInput, target: str) -> bool:
    """Says whether there are pods of another revision than the target, or may be at any moment."""
    return bool(_there(inputs) - {target}) or any(pod.revision is None for pod in inputs.pods)


def are_there(inputs: PlanInput, rollout: RolloutStatus) -> bool:
    """Says whether there are pods beside which none of the last good revision may be made."""
    return not _there(inputs).isdisjoint(_apart(inputs, rollout))


def remembered(inputs: PlanInput, rollout: RolloutStatus, last_good: str | None, shape: Shape | None) -> Shape | None:
    """Returns the topology of the last good revision with the revisions beside it that are to be remembered. One that
    has become good is there alone."""
    kept = {inputs.observed.children.template_revision, *(pod.revision for pod in inputs.pods)}
    became_good = last_good != inputs.status.last_good_revision
    apart = {} if became_good else {it: why for it, why in _apart(inputs, rollout).items() if it in kept}
    return with_apart(shape, apart)


def _apart(inputs: PlanInput, rollout: RolloutStatus) -> dict[str, list[str]]:
    """Returns the revisions that cannot work beside the last good one, each with the reasons: that of the rollout, that
    of the one before it, and those that are remembered."""
    found, last = kept_apart(inputs.status.shape), inputs.status.rollout
    for it in (rollout,) if last is None else (last, rollout):
        if reasons := incompatibilities(inputs, it):
            found[it.revision] = reasons
    return found


def _there(inputs: PlanInput) -> set[str]:
    """Returns the revisions of all pods, also of those that end, and of those that the StatefulSet may just make."""
    children = inputs.observed.children
    makes = children.replicas or not children.template_seen
    revisions = {pod.revision for pod in inputs.pods} | ({children.template_revision} if makes else set())
    return {it for it in revisions if it is not None}
