"""The decisions of the cluster's soak by its seeds."""

from __future__ import annotations

from cluster_soak import make_plan


def test_a_seed_is_the_same_plan_whenever_it_is_asked_for() -> None:
    assert make_plan(7) == make_plan(7)
    assert make_plan(7).faults != make_plan(8).faults


def test_twenty_seeds_have_every_kind_of_fault_and_restarts_without_a_long_list_of_them() -> None:
    plans = [make_plan(seed) for seed in range(1, 21)]

    kinds = {fault.kind for plan in plans for fault in plan.faults}
    assert kinds == {"kill", "freeze", "delete", "operator", "api server"}
    assert all(1 <= len(plan.faults) <= 4 for plan in plans)
