"""How many pods others may take away: what the PodDisruptionBudget allows. Pure.

It is open while any pod may go, so that a drain of a node waits for the same rule as everything else. The operator's
own evictions pass it too, and it admits one of both. It is shut before a pod is taken by having fewer replicas, which
no budget watches.
"""

from __future__ import annotations

from streamsapp_operator.plan.view import View


def max_unavailable(view: View, *, evicting: bool, shrinking: bool) -> int:
    """1 or 0. A pod that holds nothing may be evicted although the others are not safe: the budget lets a pod that is
    not ready go only while it is open, and lets no healthy one follow while that one is away."""
    return int(not shrinking and (view.restart.safe or evicting))


def is_shut(view: View) -> bool:
    """Whether nobody else can be taking a pod now."""
    return not view.observed.children.max_unavailable
