"""Judges whether the pods of a new revision stay well and get on: many faults show only after a while. Pure.

Called once per reconcile. The containers that are well, and since when, are in the status: whatever restarts, is
replaced or is not ready begins the time anew, also while no operator runs.
"""

from __future__ import annotations

import hashlib

from msgspec.structs import replace

from streamsapp_operator.model.status import RolloutStatus
from streamsapp_operator.plan import progress
from streamsapp_operator.plan.plan_input import PlanInput

_DIGITS = 10


def followed(inputs: PlanInput, rollout: RolloutStatus) -> RolloutStatus:
    """Returns the rollout with the time since when the pods of its revision are well, while that matters."""
    mark = None if _is_known_good(inputs, rollout) else _mark(inputs, rollout.revision)
    if mark == rollout.soaking:
        return rollout
    return replace(rollout, soaking=mark, soaking_since=None if mark is None else inputs.time)


def waits(inputs: PlanInput, rollout: RolloutStatus, target: str) -> str | None:
    """Returns why the next pod is not taken yet; ``None`` if the pods of the revision were well for long enough."""
    there = [pod for pod in inputs.pods if pod.revision == rollout.revision]
    if target != rollout.revision or not there or _is_known_good(inputs, rollout):
        return None
    seconds, lasted = inputs.settings.rollout.soak_seconds, inputs.since(rollout.soaking_since)
    if seconds == 0:
        return None
    if rollout.soaking is not None and lasted >= seconds:
        why = progress.waits(inputs, rollout.revision)
        return None if why is None else f"the new pods are ready and make no progress: {why}"
    return f"the new pods have been well for {lasted:.0f} of {seconds} s (spec.rollout.soakSeconds)"


def _is_known_good(inputs: PlanInput, rollout: RolloutStatus) -> bool:
    """Says whether the revision is known as good. If none was good before, there is nothing to go back to, and nothing
    to wait for."""
    return inputs.status.last_good_revision in {None, rollout.revision}


def _mark(inputs: PlanInput, revision: str) -> str | None:
    """Returns the identity of the containers of its pods; ``None`` while one of them is not well. A driver counts
    whatever its revision is: what its executors do shows there."""
    own, driver = [pod for pod in inputs.pods if pod.revision == revision], inputs.observed.driver
    pods = [*own, *(() if driver is None else [driver])]
    if not own or not all(pod.ready and not pod.terminating for pod in pods):
        return None
    containers = ",".join(sorted(f"{pod.uid}/{progress.restarts(pod)}" for pod in pods))
    return hashlib.sha256(containers.encode()).hexdigest()[:_DIGITS]
