"""Reports what the driver says of an executor: which tasks it has open. Pure.

Called by the observer. Executors are Spark's own programs, which are not asked. Tasks are given without their stores:
no standby follows them and the driver reports no snapshots, so the gate has nothing to compare. The executor that takes
them over restores them, and until then the batch waits.
"""

from __future__ import annotations

from dataclasses import replace

from streamsapp_operator.kube.kinds import Object
from streamsapp_operator.model.observed_state import JOINING, PodReport, PodSeen

#: Executors are in no group; the gate compares generations among pods that are.
_GENERATION = 0
_RUNNING = "RUNNING"


def word_of_driver(driver: PodSeen | None, executor: Object) -> PodReport | str:
    """Returns the report of an executor, a pod, or why there is none. One that is made anew is another one, by its
    uid."""
    if driver is None:
        return "its query has no driver"
    if driver.report is None:
        return f"the driver of its query could not be asked: {driver.unreachable}"
    report, name, uid = driver.report, executor["metadata"]["name"], executor["metadata"]["uid"]
    joins = report.state == _RUNNING and report.executors is not None and uid not in report.executors
    own = [task for task in report.tasks if (task.worker or "").partition(":")[0] == name]
    return PodReport(
        state=JOINING if joins else report.state,
        generation=_GENERATION,
        tasks=tuple(replace(task, stores=()) for task in own),
        fetched_at=report.fetched_at,
        clock_offset=report.clock_offset,
    )
