"""Tells of an executor what its driver says: which tasks it has open. Pure.

Called by the observer. Executors are Spark's own programs, which nobody asks. Tasks are given without their stores: no
standby follows them and the driver tells of no snapshots, so the gate has nothing to compare. Whoever takes them over
restores them, and until then the batch waits.
"""

from __future__ import annotations

from dataclasses import replace

from streamsapp_operator.model.observed_state import PodReport, PodSeen

#: Executors are in no group; the gate compares generations among pods that are.
_GENERATION = 0


def word_of_driver(driver: PodSeen | None, executor: str) -> PodReport | str:
    """Returns the report of an executor, by the name of its pod, or why there is none."""
    if driver is None:
        return "its query has no driver"
    if driver.report is None:
        return f"the driver of its query could not be asked: {driver.unreachable}"
    own = [task for task in driver.report.tasks if (task.worker or "").partition(":")[0] == executor]
    tasks = tuple(replace(task, stores=()) for task in own)
    return replace(driver.report, generation=_GENERATION, tasks=tasks, ready=None, peers=(), outages=(), query=None)
