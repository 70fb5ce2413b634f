"""Remembers the tasks that have stores: one that no pod reports is moving, or lost. Pure.

The tasks of a sub-topology are numbered from 0, and partitions are only ever added. So a count is enough, and it is
forgotten when the application has no pods, which is when topics may be made anew.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamsapp_operator.gate import Waiver
from streamsapp_operator.model.observed_state import ObservedState, ReportedRole
from streamsapp_operator.model.status import AppStatus, RolloutStatus
from streamsapp_operator.plan.plan_input import PlanInput
from streamsapp_operator.plan.topology_compatibility import decode, stateful


def learn(known: Mapping[str, int], observed: ObservedState) -> dict[str, int]:
    """Learns the tasks that are reported now."""
    if not observed.pods:
        return {}
    counts = dict(known)
    for pod in observed.pods:
        for task in pod.report.tasks if pod.report else ():
            subtopology, _, partition = task.id.rpartition("_")
            if task.role is ReportedRole.ACTIVE and task.stores and partition.isdecimal():
                counts[subtopology] = max(counts.get(subtopology, 0), int(partition) + 1)
    return counts


def expected(status: AppStatus) -> frozenset[str]:
    """Returns the tasks that must run somewhere: those that have stores in the last good topology and in the one that
    is rolled out, as far as these are known."""
    shapes = [decode(status.shape), decode(status.rollout.shape if status.rollout else None)]
    known = [stateful(shape) for shape in shapes if shape is not None]
    return frozenset(
        f"{subtopology}_{partition}"
        for subtopology, count in status.known_tasks.items()
        if all(subtopology in {str(number) for number in numbers} for numbers in known)
        for partition in range(count)
    )


def waiver(inputs: PlanInput, rollout: RolloutStatus, target: str) -> Waiver:
    """Returns what the rollout's change of the topology excuses on the way to ``target``."""
    good, new = decode(inputs.status.shape), decode(rollout.shape)
    aim = new if target == rollout.revision else good
    staying = None if aim is None else frozenset(str(number) for number in aim.sources)
    if good is None or new is None:
        return Waiver(staying=staying)
    return Waiver(frozenset(str(number) for number in new.sources if number not in good.sources), staying)
