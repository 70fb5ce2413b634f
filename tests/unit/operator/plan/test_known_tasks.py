"""Known tasks come from pods and from the status. The operator trusts neither: large numbers cost nothing."""

from __future__ import annotations

import itertools
import tracemalloc

from msgspec.structs import replace

from observed_builders import SHAPE, active, observed, passed, pod, wanted
from planned_reconciles import RUNS, Reconciles, three
from streamsapp_operator.model.status import AppStatus
from streamsapp_operator.plan.known_tasks import MOST_PARTITIONS, MOST_SUBTOPOLOGIES, expected, learn
from streamsapp_operator.plan.topology_compatibility import encode


def test_learns_the_largest_partition_and_keeps_it() -> None:
    known = learn(RUNS, observed([pod(0, active("0_4")), pod(1, active("0_1"))]))
    assert known == {"0": 5}
    assert learn(replace(RUNS, known_tasks=known), observed([pod(0, active("0_1"))])) == {"0": 5}
    assert learn(replace(RUNS, known_tasks=known), observed([])) == {}


def test_learns_no_sub_topology_that_the_topologies_do_not_have_and_forgets_such() -> None:
    seen = observed([pod(0, active("0_0"), *(active(f"{it}_0") for it in range(5, 900)))])
    assert learn(replace(RUNS, known_tasks={"77": 3}), seen) == {"0": 1}


def test_learns_only_so_many_sub_topologies_while_no_topology_is_known() -> None:
    seen = observed([pod(0, *(active(f"{it}_0") for it in range(MOST_SUBTOPOLOGIES + 50)))])
    assert len(learn(AppStatus(), seen)) == MOST_SUBTOPOLOGIES


def test_an_absurd_number_that_was_saved_is_bounded_and_costs_nothing() -> None:
    saved = replace(RUNS, known_tasks={"0": 1_000_000_000})
    assert learn(saved, observed([pod(0, active("0_0"))])) == {"0": MOST_PARTITIONS}
    assert list(itertools.islice(iter(expected(saved)), 2)) == ["0_0", "0_1"]


def test_a_task_is_expected_only_if_all_topologies_that_are_known_have_it() -> None:
    assert list(expected(replace(RUNS, known_tasks={"0": 1, "5": 1}))) == ["0_0"]
    assert list(expected(AppStatus(shape=encode(SHAPE), known_tasks={"5": 1}))) == []
    assert list(expected(AppStatus(known_tasks={"5": 1}))) == ["5_0"]


def test_a_number_of_pods_or_tasks_that_cannot_be_true_takes_no_memory() -> None:
    reconciles = Reconciles(wanted("two", replicas=300_000), replace(RUNS, known_tasks={"0": 300_000}))
    reconciles.plan(three(), checks=passed("two"), replicas=300_000)
    tracemalloc.start()
    try:
        reconciles.plan(three(), checks=passed("two"), replicas=300_000, template_revision="two")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000_000
