"""The annotations by which users order what the operator is to do beside the spec. Pure.

Made by the plugin and by the console; ``spec_reader`` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias

from streamsapp_operator.children.names import APPROVED, PAUSED, RESTART_POD, RESTARTED_AT, UNDONE
from streamsapp_operator.kube.kinds import Object, annotation
from streamsapp_operator.model.status import RolloutStatus

#: Annotations to set, or to remove (``None``).
Annotations: TypeAlias = Mapping[str, str | None]

_WAITS = {"Checking", "Rolling", "Paused", "Blocked"}


def restart(now: datetime) -> Annotations:
    """All pods, one after the other, each when that is safe."""
    return {RESTARTED_AT: now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}


def restart_pod(uid: str) -> Annotations:
    """One pod, once that is safe; a pod that was replaced meanwhile is not replaced again."""
    return {RESTART_POD: uid}


def pause() -> Annotations:
    """No pod is taken for a rollout."""
    return {PAUSED: "true"}


def undo(app: Object, revision: str) -> Annotations:
    """An earlier revision runs in place of the one of this generation of the spec."""
    return {UNDONE: f"{app['metadata']['generation']}/{revision}"}


def approve(app: Object, rollout: RolloutStatus | None) -> Annotations | None:
    """The rollout goes on, past a pause and past ``spec.rollout.partition``; ``None`` if nothing waits for that."""
    waits = rollout is not None and rollout.phase in _WAITS
    if not waits and annotation(app, PAUSED) is None:
        return None
    return {PAUSED: None} | ({APPROVED: rollout.revision} if rollout is not None and waits else {})
