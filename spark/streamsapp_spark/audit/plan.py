"""Plans an audit: how far each task is replayed, and which tasks cannot be compared. On the driver.

A task that reads users' topics is replayed up to where its snapshot stands, whatever the application does meanwhile.
One that reads internal topics gets what those before it write: that is comparable where all of them stand still, and
everything that was written has been read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import StreamsError
from streamsapp.record import TaskId, TopicPartition
from streamsapp.remote.bootstraps import BootstrapBegun, BootstrapDone, HistoryRange
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.object_store import ObjectStore
from streamsapp.remote.snapshot import Snapshot
from streamsapp.serdes.offset_metadata import UNKNOWN_TIME, OffsetMetadata
from streamsapp_spark.history.end_offsets import PartitionOffsets
from streamsapp_spark.replay.stages import Stage, Stages
from streamsapp_spark.replay.task_inputs import from_kafka
from streamsapp_spark.snapshots.database_comparison import audited_stores
from streamsapp_spark.snapshots.download import NoSnapshotError, newest

#: The way to snapshots that have everything, by what the application does.
_STOP = "stop the application, whose last snapshots are taken then, and audit it again"
_RUN = (
    "nothing runs, and what ran last was killed before it had written its last snapshots: run the application until it "
    "has caught up, end it in good order (with trigger availableNow it ends by itself), and audit it again"
)
_RUN_OR_STOP = (
    "stop the query if it runs; if it was killed before it had written its last snapshots, start it once more, and end "
    "it in good order; then audit it again"
)


@dataclass(frozen=True)
class AuditFacts:
    """The facts that the cluster and the object store have of an application."""

    config: StreamsConfig
    objects: ObjectStore
    committed: Mapping[TopicPartition, int]
    #: The time that inputs with time markers had reached by then; -1: not known.
    times: Mapping[TopicPartition, int]
    bounds: PartitionOffsets
    begun: BootstrapBegun | None
    done: BootstrapDone | None
    #: True if the application runs; ``None`` if that cannot be seen: a driver of Spark's is no member of the group.
    runs: bool | None

    @property
    def remedy(self) -> str:
        """Says how snapshots come to have everything."""
        return _RUN_OR_STOP if self.runs is None else _STOP if self.runs else _RUN


@dataclass
class AuditPlan:
    """The tasks to replay, and the snapshots to compare them with."""

    #: To replay, writers before readers, and the tasks of them that are replayed.
    stages: list[Stage] = field(default_factory=list)
    tasks: set[TaskId] = field(default_factory=set)
    #: Number of the snapshot of each task that is compared.
    snapshots: dict[str, int] = field(default_factory=dict)
    ranges: list[HistoryRange] = field(default_factory=list)
    internal: list[HistoryRange] = field(default_factory=list)
    #: The time of each input where its task's snapshot stands.
    times: dict[TopicPartition, int] = field(default_factory=dict)
    #: The reason why tasks are not compared; a sentence each.
    faults: list[str] = field(default_factory=list)
    #: Facts that the reader of the result should know.
    notes: list[str] = field(default_factory=list)


class AuditPlanner:
    """Makes one plan. A task that cannot be compared keeps only tasks from being compared that read its records."""

    def __init__(self, stages: Stages, known: AuditFacts, store: str | None) -> None:
        self._stages = stages
        self._known = known
        self._store = store
        self._starts = {} if known.begun is None else {each.of: each.start for each in known.begun.ranges}
        self._snapshots: dict[TaskId, Snapshot] = {}
        self._known_positions: dict[TaskId, dict[TopicPartition, int]] = {}
        self._plan = AuditPlan()

    def plan(self) -> AuditPlan:
        numbers = [number for stage in self._stages.in_order for number in stage]
        parts = [each for each in numbers if audited_stores(self._stages.parts[each], self._store)]
        sound = [task_id for number in parts for task_id in self._comparable(number)]
        upstream = {above for task_id in sound for above in self._stages.above(task_id.subtopology)}
        tasks = {*sound, *(task_id for number in upstream for task_id in self._stages.tasks(number))}
        replayed = {task_id.subtopology for task_id in tasks}
        self._plan.tasks = tasks
        self._plan.stages = [each for each in self._stages.in_order if replayed.intersection(each)]
        self._plan.snapshots = {str(task_id): self._snapshots[task_id].number for task_id in sound}
        for task_id in sorted(tasks):
            self._add_ranges(task_id)
        return self._plan

    def _comparable(self, number: int) -> list[TaskId]:
        """Returns the tasks of a sub-topology that have a snapshot to which everything they read can be replayed."""
        found = [task_id for task_id in self._stages.tasks(number) if self._find_snapshot(task_id)]
        sound = [task_id for task_id in found if not self._refused(self._objections(task_id, upstream=False))]
        writers = [each for above in sorted(self._stages.above(number)) for each in self._stages.tasks(above)]
        objections = [fault for each in writers for fault in self._objections(each, upstream=True)]
        return [] if sound and self._refused(objections) else sound

    def _refused(self, objections: Iterable[str]) -> bool:
        objections = list(objections)
        self._plan.faults += [each for each in objections if each not in self._plan.faults]
        return bool(objections)

    def _find_snapshot(self, task_id: TaskId) -> bool:
        if task_id in self._snapshots:
            return True
        try:
            chain = ManifestChain(self._known.objects, self._known.config.application_id, task_id)
            self._snapshots[task_id] = newest(chain)
        except NoSnapshotError as error:
            if self._has_read_nothing(task_id):
                self._plan.notes.append(f"task {task_id}: it has read nothing yet, so there is nothing to compare")
            else:
                self._refused([f"{error}; {self._known.remedy}"])
        except StreamsError as error:
            self._refused([str(error)])
        return task_id in self._snapshots

    def _has_read_nothing(self, task_id: TaskId) -> bool:
        """Says whether a task still stands where it began. The beginning of a repartition topic moves as it is read."""
        at = self._positions(task_id)
        return all(
            at.get(each) == self._start(each)
            and (each.topic not in self._stages.layout.repartition_topics or each not in self._known.committed)
            for each in self._stages.layout.plans[task_id].inputs
        )

    def _objections(self, task_id: TaskId, *, upstream: bool) -> Iterator[str]:
        positions = self._positions(task_id)
        for partition in self._stages.layout.plans[task_id].inputs:
            position = positions.get(partition)
            if position is None:
                yield f"task {task_id}: nothing says how far it has read {partition}; has the application run?"
            elif partition.topic in self._stages.layout.repartition_topics:
                if self._has_more(partition, position):
                    yield (
                        f"task {task_id}: {partition} has records after offset {position}, where its snapshot stands; "
                        f"{self._known.remedy}"
                    )
            elif self._known.bounds.lows[partition] > self._start(partition):
                yield f"task {task_id}: records of {partition} that it was made from were deleted since"
            elif upstream and position != self._known.committed.get(partition, position):
                yield (
                    f"task {task_id}: its snapshot stands at offset {position} of {partition}, and it has gone on to "
                    f"{self._known.committed[partition]}; {self._known.remedy}"
                )
            elif upstream and self._has_later_markers(task_id, partition):
                yield (
                    f"task {task_id}: since its snapshot, time markers of {partition} have moved time on; "
                    f"{self._known.remedy}"
                )

    def _has_later_markers(self, task_id: TaskId, partition: TopicPartition) -> bool:
        """Says whether the time of an input has moved on since its task's snapshot, which stands at the same offset."""
        times = self._snapshot_times(task_id)
        return partition in times and self._known.times.get(partition, UNKNOWN_TIME) > times[partition]

    def _snapshot_times(self, task_id: TaskId) -> dict[TopicPartition, int]:
        """Returns the time of each input where a task's snapshot stands; of a task without one, nothing."""
        points = self._snapshots[task_id].inputs if task_id in self._snapshots else ()
        return {
            TopicPartition(each.topic, each.partition): OffsetMetadata.decode(each.metadata).partition_time
            for each in points
        }

    def _start(self, partition: TopicPartition) -> int:
        """Returns the offset from which on a partition is replayed: where its bootstrap began, else its first
        record."""
        return self._starts.get(partition, self._known.bounds.lows[partition])

    def _positions(self, task_id: TaskId) -> dict[TopicPartition, int]:
        """Returns how far a task has read each of its inputs; an input without a known position is left out."""
        if task_id not in self._known_positions:
            self._known_positions[task_id] = self._find_positions(task_id)
        return self._known_positions[task_id]

    def _find_positions(self, task_id: TaskId) -> dict[TopicPartition, int]:
        inputs = self._stages.layout.plans[task_id].inputs
        if task_id in self._snapshots:
            # A partition that the task had not read by then is not in its snapshot.
            points = self._snapshots[task_id].inputs
            read = {TopicPartition(each.topic, each.partition): each.offset for each in points}
            return {each: read.get(each, self._start(each)) for each in inputs}
        known = {} if self._known.done is None else _offsets(self._known.done, task_id)
        known |= self._known.committed
        empty = [each for each in inputs if each not in known and not self._has_more(each, self._start(each))]
        return {each: known[each] for each in inputs if each in known} | {each: self._start(each) for each in empty}

    def _has_more(self, partition: TopicPartition, position: int) -> bool:
        """Says whether there is a record at or after a position; control records are none."""
        low, high = self._known.bounds.lows[partition], self._known.bounds.highs[partition]
        return any(True for _ in from_kafka(HistoryRange(*partition, max(low, position), high), self._known.config))

    def _add_ranges(self, task_id: TaskId) -> None:
        inputs = self._stages.layout.plans[task_id].inputs
        committed = {each: time for each in inputs if (time := self._known.times.get(each, UNKNOWN_TIME)) >= 0}
        self._plan.times |= self._snapshot_times(task_id) if task_id in self._snapshots else committed
        positions = self._positions(task_id)
        for partition in inputs:
            self._note_lag(task_id, partition)
            low = self._known.bounds.lows[partition]
            if partition.topic in self._stages.layout.repartition_topics:
                self._plan.internal.append(HistoryRange(*partition, low, positions[partition]))
                continue
            if partition not in self._starts and low:
                self._plan.notes.append(f"{partition} begins at offset {low}; what was before cannot be recomputed")
            self._plan.ranges.append(HistoryRange(*partition, self._start(partition), positions[partition]))

    def _note_lag(self, task_id: TaskId, partition: TopicPartition) -> None:
        """Reports what is compared where a snapshot does not have all that the group has committed."""
        position, group = self._positions(task_id)[partition], self._known.committed.get(partition, 0)
        if task_id in self._snapshots and group > position:
            advice = "" if self._known.runs else f"; {self._known.remedy}"
            self._plan.notes.append(
                f"task {task_id}: its snapshot stands at offset {position} of {partition}, and the group at {group}: "
                f"it was compared up to there{advice}"
            )


def _offsets(done: BootstrapDone, task_id: TaskId) -> dict[TopicPartition, int]:
    return {TopicPartition(each.topic, each.partition): each.offset for each in done.inputs(task_id)}
