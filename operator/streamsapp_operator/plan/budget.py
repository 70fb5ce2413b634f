"""Decides ``maxUnavailable`` of the PodDisruptionBudget: how many pods others may take away. Pure.

It is open while any pod may go, so that a drain of a node waits for the same rule as everything else. The operator's
own evictions pass it too, and it admits one of both. It is shut before a pod is taken by having fewer replicas, which
no budget watches.
"""

from __future__ import annotations

from streamsapp_operator.model.observed_state import PodSeen
from streamsapp_operator.plan.plan_input import PlanInput


def max_unavailable(inputs: PlanInput, *, evicted: PodSeen | None, shrinking: bool) -> int:
    """Returns 1 or 0; 0 while a pod that is not ready is ``evicted``, which passes the budget by a rule of its own."""
    if evicted is not None:
        return int(evicted.ready)
    return int(inputs.restart.safe and not shrinking)


def is_shut(inputs: PlanInput) -> bool:
    """Says whether no other client can be taking a pod now."""
    return not inputs.observed.children.max_unavailable
