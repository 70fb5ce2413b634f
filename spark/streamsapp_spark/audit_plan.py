"""What an audit can compare: how far each task has to be replayed, and where that would prove nothing. On the driver.

A task that reads users' topics is replayed up to where its snapshot stands, whatever the application does meanwhile.
One that reads internal topics gets what those before it write: that is comparable where all of them stand still, and
everything that was written has been read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import StreamsError
from streamsapp.record import TaskId, TopicPartition
from streamsapp.remote.bootstraps import Begun, Done, Range
from streamsapp.remote.chain import Chain
from streamsapp.remote.objects import ObjectStore
from streamsapp.remote.snapshot import Snapshot
from streamsapp_spark.audit_task import audited_stores
from streamsapp_spark.feeds import from_kafka
from streamsapp_spark.snapshots import newest
from streamsapp_spark.stages import Stages
from streamsapp_spark.until import Bounds

_STOP = "stop the application, whose last snapshots are taken then, and audit it again"


@dataclass(frozen=True)
class Known:
    """What the cluster and the object store say of an application."""

    config: StreamsConfig
    objects: ObjectStore
    committed: Mapping[TopicPartition, int]
    bounds: Bounds
    begun: Begun | None
    done: Done | None


@dataclass
class AuditPlan:
    """What is replayed and compared."""

    #: Sub-topologies to replay, writers before readers.
    parts: list[int] = field(default_factory=list)
    snapshots: dict[str, int] = field(default_factory=dict)
    ranges: list[Range] = field(default_factory=list)
    internal: list[Range] = field(default_factory=list)
    #: What keeps tasks from being compared; a sentence each.
    faults: list[str] = field(default_factory=list)
    #: What the reader of the result should know.
    notes: list[str] = field(default_factory=list)


class Planner:
    """Makes one plan."""

    def __init__(self, stages: Stages, known: Known, store: str | None) -> None:
        self._stages = stages
        self._known = known
        self._store = store
        self._starts = {} if known.begun is None else {each.of: each.start for each in known.begun.ranges}
        self._snapshots: dict[TaskId, Snapshot] = {}
        self._plan = AuditPlan()

    def plan(self) -> AuditPlan:
        parts = [each for each in self._stages.in_order if audited_stores(self._stages.parts[each].stores, self._store)]
        for number in parts:
            self._find_snapshots(number)
        sound = [number for number in parts if self._is_comparable(number)]
        replayed = set().union(*(self._above(number) for number in sound)) if sound else set()
        self._plan.parts = [each for each in self._stages.in_order if each in replayed]
        self._plan.snapshots = {
            str(task_id): found.number for task_id, found in self._snapshots.items() if task_id.subtopology in sound
        }
        for number in self._plan.parts:
            self._add_ranges(number)
        return self._plan

    def _above(self, number: int) -> set[int]:
        """A sub-topology and all that it gets records from."""
        return {number}.union(*(self._above(each) for each in self._stages.upstream[number]))

    def _find_snapshots(self, number: int) -> None:
        for task_id in self._stages.tasks(number):
            try:
                chain = Chain(self._known.objects, self._known.config.application_id, task_id)
                self._snapshots[task_id] = newest(chain)
            except StreamsError as error:
                self._plan.faults.append(str(error))

    def _is_comparable(self, number: int) -> bool:
        faults = list(self._objections(number))
        self._plan.faults += faults
        return not faults and all(task_id in self._snapshots for task_id in self._stages.tasks(number))

    def _objections(self, number: int) -> Iterator[str]:
        upstream = self._above(number) - {number}
        for part in sorted(upstream | {number}):
            for task_id in self._stages.tasks(part):
                yield from self._of_task(task_id, upstream=part in upstream)

    def _of_task(self, task_id: TaskId, *, upstream: bool) -> Iterator[str]:
        positions = self._positions(task_id)
        for partition in self._stages.layout.plans[task_id].inputs:
            position = positions.get(partition)
            if position is None:
                yield f"task {task_id}: nothing says how far it has read {partition}; has the application run?"
            elif partition.topic in self._stages.layout.repartition_topics:
                if self._has_more(partition, position):
                    yield f"task {task_id}: {partition} has records after offset {position}, where it stands; {_STOP}"
            elif self._known.bounds.lows[partition] > self._starts.get(partition, self._known.bounds.lows[partition]):
                yield f"task {task_id}: records of {partition} that it was made from were deleted since"
            elif upstream and position != self._known.committed.get(partition, position):
                yield (
                    f"task {task_id}: its snapshot stands at offset {position} of {partition}, and it has gone on to "
                    f"{self._known.committed[partition]}; {_STOP}"
                )

    def _positions(self, task_id: TaskId) -> dict[TopicPartition, int]:
        """How far a task has read: as its snapshot says, the group, or its bootstrap."""
        known = {} if self._known.done is None else _offsets(self._known.done, task_id)
        known |= self._known.committed
        if task_id in self._snapshots:
            inputs = self._snapshots[task_id].inputs
            known |= {TopicPartition(each.topic, each.partition): each.offset for each in inputs}
        return known

    def _has_more(self, partition: TopicPartition, position: int) -> bool:
        """Whether there is a record at or after a position; control records are none."""
        low, high = self._known.bounds.lows[partition], self._known.bounds.highs[partition]
        return any(True for _ in from_kafka(Range(*partition, max(low, position), high), self._known.config))

    def _add_ranges(self, number: int) -> None:
        for task_id in self._stages.tasks(number):
            positions = self._positions(task_id)
            for partition in self._stages.layout.plans[task_id].inputs:
                low = self._known.bounds.lows[partition]
                if partition.topic in self._stages.layout.repartition_topics:
                    self._plan.internal.append(Range(*partition, low, positions[partition]))
                    continue
                start = self._starts.get(partition, low)
                if partition not in self._starts and low:
                    self._plan.notes.append(f"{partition} begins at offset {low}; what was before cannot be recomputed")
                self._plan.ranges.append(Range(*partition, start, positions[partition]))


def _offsets(done: Done, task_id: TaskId) -> dict[TopicPartition, int]:
    return {TopicPartition(each.topic, each.partition): each.offset for each in done.inputs(task_id)}
