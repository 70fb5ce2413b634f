"""Decides how often an application is reconciled. Pure, except for its memory of the others.

Something happened: at once, whatever is returned here. In motion (a rollout, pods that come or go): every second. At
rest with pods: every second too while they are few, and more seldom the more work they are together, as their pods are
asked in each reconcile. Without pods: now and then, in case a watch missed something.

There is one for all loops, called on their threads.
"""

from __future__ import annotations

import threading
from typing import Literal, TypeAlias

from streamsapp_operator.model.status import AppStatus

#: Seconds between two reconciles of an application in motion, of an application without pods, and at most of any other.
PERIOD, IDLE_SECONDS, LONGEST_QUIET = 1.0, 60.0, 10.0
#: Share of one core, for reconciles of applications at rest; asking pods takes about as much again.
SHARE = 0.25

Motion: TypeAlias = Literal["moving", "quiet", "idle"]
_MOVING = frozenset({"Checking", "Bootstrapping", "Rolling", "Blocked", "RollingBack"})


def motion(status: AppStatus) -> Motion:
    """Says whether anything may happen that no watch reports."""
    phase = None if status.rollout is None else status.rollout.phase
    failed = status.bootstrap is not None and status.bootstrap.phase == "Failed"
    if status.draining_since is not None or (phase in {"Checking", "Bootstrapping"} and not failed):
        return "moving"
    if status.replicas == 0 and not status.target_replicas:
        return "idle"
    settled = status.replicas == status.ready_replicas == status.target_replicas and not status.tasks.restoring
    return "quiet" if settled and phase not in _MOVING else "moving"


class Pace:
    """Shares the time there is among the applications at rest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: The seconds of a core that a reconcile takes, of applications at rest.
        self._costs: dict[object, float] = {}
        self._total = 0.0

    def next_reconcile(self, app: object, now: Motion, cost: float) -> float:
        """Returns the seconds until the next reconcile; ``cost`` is the time that the last one took of a core."""
        with self._lock:
            self._set(app, cost if now == "quiet" else None)
            if now == "quiet":
                return min(max(PERIOD, self._total / SHARE), LONGEST_QUIET)
        return PERIOD if now == "moving" else IDLE_SECONDS

    def forget(self, app: object) -> None:
        """Forgets an application that is gone."""
        with self._lock:
            self._set(app, None)

    def _set(self, app: object, cost: float | None) -> None:
        self._total = max(0.0, self._total - self._costs.pop(app, 0.0))
        if cost is not None:
            self._costs[app] = cost
            self._total += cost


class WriteLimit:
    """Admits so many writes a second that are not urgent, for all applications together."""

    def __init__(self, per_second: float) -> None:
        self._lock = threading.Lock()
        self._per_second = per_second
        self._free_at = float("-inf")

    def admits(self, now: float) -> bool:
        """Says whether one may be done now; up to a second's worth of them at once."""
        with self._lock:
            free_at = max(self._free_at, now - 1.0) + 1.0 / self._per_second
            if free_at > now:
                return False
            self._free_at = free_at
            return True
