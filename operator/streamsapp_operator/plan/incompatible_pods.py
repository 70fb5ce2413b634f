"""Keeps pods apart whose topologies cannot work side by side, wherever the rollout leads: also back to the last good
revision, and on to a third one. Pure.

The spec may change while pods of a revision run that was never good, more than once: from then on the rollout says
nothing of them. So beside the topology of the last good revision the status has the topologies of all revisions that
have pods. Two that both fit the last good one need not fit each other. ``topologyChange`` has no say in what may run
side by side: it decides only whether a revision waits for the others, or all end before it begins.
"""

from __future__ import annotations

import json

from streamsapp_operator.model.status import RolloutStatus
from streamsapp_operator.plan.plan_input import PlanInput
from streamsapp_operator.plan.topology_compatibility import (
    Shape,
    compatibility,
    conflicts,
    decode,
    encode,
    kept_apart,
)

#: No more topologies are remembered beside that of the last good revision, and no more bytes of them: an object has a
#: megabyte. Beside pods whose topology is not known nothing is begun.
MOST_SHAPES, MOST_BYTES = 16, 1 << 18
_UNKNOWN = "the topology of {} is not known"


def incompatibilities(inputs: PlanInput, rollout: RolloutStatus) -> list[str]:
    """Returns why pods of this revision cannot work beside those of the last good one, in words."""
    good, known = inputs.status.last_good_revision, _known(inputs, rollout)
    if good in {None, rollout.revision}:
        return []
    old, new = decode(known.get(good)), decode(rollout.shape)
    if old is None or new is None:
        return [_UNKNOWN.format(good if old is None else rollout.revision)]
    return compatibility(old, new)


def lacking(inputs: PlanInput, rollout: RolloutStatus) -> list[str]:
    """Returns the revisions beside which this one is about to run, and whose topology is not known: the status was
    lost, or is older than what it should have."""
    known, apart = _known(inputs, rollout), kept_apart(inputs.status.shape)
    there = (_there(inputs) | {inputs.status.last_good_revision}) - {rollout.revision}
    return sorted(it for it in there if it is not None and it not in apart and decode(known.get(it)) is None)


def shape_of_good(inputs: PlanInput, rollout: RolloutStatus) -> Shape | None:
    """Returns the topology of the last good revision: as the status has it, or as a check has just reported."""
    return _known(inputs, rollout).get(inputs.status.last_good_revision or "")


def in_the_way(inputs: PlanInput, rollout: RolloutStatus) -> list[str]:
    """Returns why pods of this revision cannot work beside pods of other revisions than the last good one, in words;
    the way back to the last good one does not wait."""
    good = inputs.status.last_good_revision
    if good == rollout.revision:
        return []
    return _beside_others(inputs, rollout, rollout.revision, _there(inputs) - {good, rollout.revision})


def why_alone(inputs: PlanInput, rollout: RolloutStatus, target: str) -> list[str]:
    """Returns why pods of the target, or of a revision that is there, must not run beside those of other revisions, in
    words; empty if they may. Any pod may come back as one of the last good revision, so that one counts as there."""
    good, there = inputs.status.last_good_revision, sorted(_there(inputs) - {target})
    apart = incompatibilities(inputs, rollout) if target == rollout.revision else []
    apart = apart or next(filter(None, (_beside_good(inputs, rollout, it) for it in there if it != good)), [])
    return apart or ([] if target == good else _beside_others(inputs, rollout, target, set(there) - {good}))


def is_foreign(inputs: PlanInput, target: str) -> bool:
    """Says whether there are pods of another revision than the target, or may be at any moment."""
    return bool(_there(inputs) - {target}) or any(pod.revision is None for pod in inputs.pods)


def are_there(inputs: PlanInput, rollout: RolloutStatus) -> bool:
    """Says whether there are pods beside which none of the last good revision may be made."""
    others = _there(inputs) - {inputs.status.last_good_revision}
    return any(_beside_good(inputs, rollout, it) for it in others)


def remembered(inputs: PlanInput, rollout: RolloutStatus, last_good: str | None) -> dict[str, Shape]:
    """Returns the topologies of the revisions that have pods, or may have some at any moment; those of the last good
    revision and of the rollout are in the status already."""
    kept = {inputs.observed.children.template_revision, *(pod.revision for pod in inputs.pods)}
    known, found, size = _known(inputs, rollout), dict[str, Shape](), 0
    others = sorted(it for it in kept if it is not None and it not in {last_good, rollout.revision})
    for revision in sorted(others, key=lambda it: not _beside_good(inputs, rollout, it)):
        shape = known.get(revision)
        size += 0 if shape is None else len(json.dumps(shape))
        if shape is not None and size <= MOST_BYTES and len(found) < MOST_SHAPES:
            found[revision] = shape
    return found


def _beside_others(inputs: PlanInput, rollout: RolloutStatus, target: str, others: set[str]) -> list[str]:
    """Returns why a revision cannot work beside these, by name."""
    known = _known(inputs, rollout)
    new, reasons = decode(known.get(target)), list[str]()
    for revision in sorted(others):
        there = decode(known.get(revision))
        if there is None or new is None:
            found = [_UNKNOWN.format(revision if there is None else target)]
        else:
            found = conflicts(there, new)
        reasons += (f"beside revision {revision}, which has pods: {it}" for it in found)
    return reasons


def _beside_good(inputs: PlanInput, rollout: RolloutStatus, revision: str) -> list[str]:
    """Returns why pods of a revision that are there cannot work beside those of the last good one, as far as is
    known: nothing that runs is ended for what is not."""
    known = _known(inputs, rollout)
    good, there = decode(known.get(inputs.status.last_good_revision or "")), decode(known.get(revision))
    if there is None:
        return kept_apart(inputs.status.shape).get(revision, [])
    return [] if good is None else compatibility(good, there)


def _known(inputs: PlanInput, rollout: RolloutStatus) -> dict[str, Shape | None]:
    """Returns the topologies that are known, by revision: topologies that checks have reported, remembered ones, those
    of the rollout and of the one before it, and that of the last good revision."""
    status = inputs.status
    found: dict[str, Shape | None] = {it.revision: encode(it.shape) for it in inputs.observed.checks.values()}
    found |= status.shapes
    found |= {it.revision: it.shape for it in (status.rollout, rollout) if it is not None and it.shape is not None}
    if status.last_good_revision is not None and decode(status.shape) is not None:
        found[status.last_good_revision] = status.shape
    return found


def _there(inputs: PlanInput) -> set[str]:
    """Returns the revisions of all pods, also of pods that end, and of pods that the StatefulSet may just make."""
    children = inputs.observed.children
    makes = children.replicas or not children.template_seen
    revisions = {pod.revision for pod in inputs.pods} | ({children.template_revision} if makes else set())
    return {it for it in revisions if it is not None}
