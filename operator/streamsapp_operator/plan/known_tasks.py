"""Remembers the tasks that have stores: a task that no pod reports is moving, or lost. Pure.

The tasks of a sub-topology are numbered from 0, and partitions are only ever added. So a count is enough, and it is
forgotten when the application has no pods, which is when topics may be made anew.

Counts come from pods, whose word is untrusted, and from the status, which any user may have written: nothing here costs
more for a large one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from streamsapp_operator.gate import Waiver
from streamsapp_operator.model.observed_state import ObservedState, ReportedRole
from streamsapp_operator.model.status import AppStatus, RolloutStatus
from streamsapp_operator.plan.plan_input import PlanInput
from streamsapp_operator.plan.topology_compatibility import decode, stateful

#: More sub-topologies than this are not remembered, and no higher partition: a pod's answer has none either.
MOST_SUBTOPOLOGIES, MOST_PARTITIONS = 1000, 100_000


@dataclass(frozen=True, slots=True)
class ExpectedTasks(Iterable[str]):
    """The tasks that must run somewhere, made while they are asked for: a caller that has enough of them stops."""

    #: By sub-topology.
    counts: Mapping[str, int]

    def __iter__(self) -> Iterator[str]:
        for subtopology, count in self.counts.items():
            for partition in range(count):
                yield f"{subtopology}_{partition}"


def learn(status: AppStatus, observed: ObservedState) -> dict[str, int]:
    """Returns the tasks that were known, and the tasks that are reported now. Where topologies are known, only their
    sub-topologies have any: no pod can make the status larger by others."""
    if not observed.pods:
        return {}
    shapes = _stateful(status)
    parts = frozenset[str]().union(*shapes) if shapes else None
    counts: dict[str, int] = {}
    for subtopology, count in (*status.known_tasks.items(), *_reported(observed)):
        is_known = subtopology in counts or len(counts) < MOST_SUBTOPOLOGIES
        if is_known and (parts is None or subtopology in parts):
            counts[subtopology] = max(counts.get(subtopology, 0), min(count, MOST_PARTITIONS))
    return counts


def expected(status: AppStatus) -> ExpectedTasks:
    """Returns the tasks that must run somewhere: the ones that have stores in the last good topology and in the one
    that is rolled out, as far as these are known."""
    known = _stateful(status)
    return ExpectedTasks({part: count for part, count in status.known_tasks.items() if all(part in it for it in known)})


def _reported(observed: ObservedState) -> Iterator[tuple[str, int]]:
    """Yields the sub-topology of each task with stores that runs, and how many tasks it has at least."""
    for pod in observed.pods:
        for task in pod.report.tasks if pod.report else ():
            subtopology, _, partition = task.id.rpartition("_")
            if task.role is ReportedRole.ACTIVE and task.stores and partition.isdecimal():
                yield subtopology, int(partition) + 1


def _stateful(status: AppStatus) -> list[frozenset[str]]:
    """Returns the sub-topologies with stores of the last good topology and of the one that is rolled out, as far as
    these are known."""
    shapes = [decode(status.shape), decode(status.rollout.shape if status.rollout else None)]
    return [frozenset(map(str, stateful(shape))) for shape in shapes if shape is not None]


def waiver(inputs: PlanInput, rollout: RolloutStatus, target: str) -> Waiver:
    """Returns what the rollout's change of the topology excuses on the way to ``target``."""
    good, new = decode(inputs.status.shape), decode(rollout.shape)
    aim = new if target == rollout.revision else good
    staying = None if aim is None else frozenset(str(number) for number in aim.sources)
    if good is None or new is None:
        return Waiver(staying=staying)
    return Waiver(frozenset(str(number) for number in new.sources if number not in good.sources), staying)
