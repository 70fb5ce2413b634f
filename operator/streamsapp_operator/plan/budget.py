"""Decides ``maxUnavailable`` of the PodDisruptionBudget: how many pods others may take away. Pure.

It is open while any pod may go, so that a drain of a node waits for the same rule as everything else. The operator's
own evictions pass it too, and it admits one of both. It is shut before a pod is taken by having fewer replicas, which
no budget watches.
"""

from __future__ import annotations

from streamsapp_operator.plan.plan_input import PlanInput


def max_unavailable(inputs: PlanInput, *, evicting: bool, shrinking: bool) -> int:
    """Returns 1 or 0; more only while a pod is evicted that holds nothing and others are not ready either. A budget
    admits pods that are not ready as long as enough others are, so it must count those; it lets no healthy one go all
    the same."""
    if evicting:
        ready = sum(pod.ready and not pod.terminating for pod in inputs.pods)
        return max(1, (inputs.observed.children.replicas or 0) - ready)
    return int(inputs.restart.safe and not shrinking)


def is_shut(inputs: PlanInput) -> bool:
    """Says whether nobody else can be taking a pod now."""
    return not inputs.observed.children.max_unavailable
