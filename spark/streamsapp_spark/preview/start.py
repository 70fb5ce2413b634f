"""Chooses where a preview begins: for each task of today's application a snapshot that leaves enough to read, or its
first record. Used on the driver, before Spark does anything.

Tasks of a sub-topology that reads users' topics only begin each for itself. Tasks that are joined by internal topics
begin together, at their newest snapshots: an older one of one of them would be of another moment than the others'
snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from streamsapp.errors import StreamsError
from streamsapp.record import TaskId, TopicPartition
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.object_store import ObjectStore
from streamsapp.remote.snapshot import Snapshot, milliseconds
from streamsapp_spark.replay.stages import Stages
from streamsapp_spark.snapshots.database_comparison import compared_stores
from streamsapp_spark.snapshots.download import NoSnapshotError, numbered

#: Offsets that are replayed from the first record on, at most: some seconds' work.
FROM_FIRST = 1_000_000


@dataclass(frozen=True)
class Wanted:
    """The input that is replayed at least."""

    records: int
    #: Or everything since then, in milliseconds since 1970.
    since_ms: int | None = None

    def is_met(self, records: int, snapshots: Iterable[Snapshot]) -> bool:
        """Says whether state as of these snapshots leaves enough."""
        if self.since_ms is None:
            return records >= self.records
        return all(milliseconds(each.created_at) <= self.since_ms for each in snapshots)


@dataclass(frozen=True)
class StartFacts:
    """The facts that the cluster and the object store have of an application."""

    application_id: str
    objects: ObjectStore
    committed: Mapping[TopicPartition, int]
    #: Of all source partitions.
    lows: Mapping[TopicPartition, int]
    highs: Mapping[TopicPartition, int]
    #: The first offsets since the time that is wanted; empty if a number of records is.
    since: Mapping[TopicPartition, int]


@dataclass
class Start:
    """The places at which tasks begin."""

    #: Number of the snapshot by task; tasks that begin empty have none.
    snapshots: dict[TaskId, int] = field(default_factory=dict)
    #: Offset and metadata of each input.
    positions: dict[TopicPartition, tuple[int, str]] = field(default_factory=dict)
    #: Facts that the reader of the result should know.
    notes: list[str] = field(default_factory=list)


class StartPlanner:
    """Makes one choice."""

    def __init__(self, stages: Stages, facts: StartFacts, wanted: Wanted) -> None:
        self._stages = stages
        self._facts = facts
        self._wanted = wanted
        self._start = Start()

    def choose(self) -> Start:
        """Raises ``StreamsError`` for a task that has nothing to begin with."""
        for parts in self._components():
            tasks = [task_id for part in parts for task_id in self._stages.tasks(part)]
            if len(parts) > 1 or self._stages.parts[parts[0]].repartition_sources:
                self._begin(tasks, self._newest_of(tasks))
            else:
                for task_id in tasks:
                    self._begin([task_id], self._snapshots(task_id))
        return self._start

    def _components(self) -> list[list[int]]:
        """Returns the sub-topologies by whether internal topics join them."""
        groups: list[set[int]] = []
        for part, writers in self._stages.upstream.items():
            joined = {part, *writers}
            for group in [each for each in groups if each & joined]:
                groups.remove(group)
                joined |= group
            groups.append(joined)
        return sorted(map(sorted, groups))

    # ---- one after the other -----------------------------------------------------------------------------------

    def _begin(self, tasks: list[TaskId], choices: Iterator[dict[TaskId, Snapshot]]) -> None:
        """Takes the first of the choices that leaves enough, else the first record, else the last choice."""
        inputs = [each for task_id in tasks for each in self._stages.layout.plans[task_id].inputs]
        last: dict[TaskId, Snapshot] | None = None
        for snapshots in choices:
            if self._stands_before(snapshots, inputs):
                continue
            last = snapshots
            if not snapshots or self._wanted.is_met(self._left(self._positions(snapshots, inputs)), snapshots.values()):
                self._take(snapshots, inputs)
                return
        named = f"task{'s' * (len(tasks) > 1)} {', '.join(map(str, tasks))}"
        whole = {each: (self._facts.lows[each], "") for each in inputs if each in self._facts.lows}
        if not any(low for low, _ in whole.values()) and self._left(whole) <= max(FROM_FIRST, self._wanted.records):
            self._start.positions |= whole
            self._start.notes.append(f"{named}: begin empty, at the first record")
        elif last is not None:
            left = self._left(self._positions(last, inputs))
            self._start.notes.append(f"{named}: the oldest snapshots that there are leave {left:,} records to read")
            self._take(last, inputs)
        else:
            raise StreamsError(
                f"{named}: no snapshot to begin with whose input is still there, and the topics are too long, or cut, "
                "to begin with their first record"
            )

    def _take(self, snapshots: Mapping[TaskId, Snapshot], inputs: list[TopicPartition]) -> None:
        self._start.snapshots |= {task_id: snapshot.number for task_id, snapshot in snapshots.items()}
        self._start.positions |= self._positions(snapshots, inputs)

    # ---- choices -----------------------------------------------------------------------------------------------

    def _snapshots(self, task_id: TaskId) -> Iterator[dict[TaskId, Snapshot]]:
        """Yields the snapshots of a task, the newest first; of a task without state, once an empty mapping."""
        if not compared_stores(self._stages.parts[task_id.subtopology].stores, None):
            yield {}
            return
        chain = ManifestChain(self._facts.objects, self._facts.application_id, task_id)
        for number in chain.numbers():
            try:
                yield {task_id: numbered(chain, number)}
            except NoSnapshotError:  # an instance began there
                continue

    def _newest_of(self, tasks: list[TaskId]) -> Iterator[dict[TaskId, Snapshot]]:
        """Yields the newest snapshots of all tasks, if all have some."""
        found = [next(self._snapshots(task_id), None) for task_id in tasks]
        if None not in found:
            yield {task_id: snapshot for each in found if each is not None for task_id, snapshot in each.items()}

    def _stands_before(self, snapshots: Mapping[TaskId, Snapshot], inputs: list[TopicPartition]) -> bool:
        """Says whether records after the snapshots were deleted."""
        positions, lows = self._positions(snapshots, inputs), self._facts.lows
        return any(at < lows[each] for each, (at, _) in positions.items() if each in lows)

    def _positions(
        self, snapshots: Mapping[TaskId, Snapshot], inputs: list[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, str]]:
        points = [point for each in snapshots.values() for point in each.inputs]
        found = {TopicPartition(each.topic, each.partition): (each.offset, each.metadata) for each in points}
        owners = {each: task_id for task_id, plan in self._stages.layout.plans.items() for each in plan.inputs}
        for each in inputs:
            if each not in found and each in self._facts.lows:
                nothing_read = owners[each] in snapshots
                at = self._facts.lows[each] if nothing_read else self._without_state(each, alone=not snapshots)
                found[each] = (at, "")
        return found

    def _without_state(self, partition: TopicPartition, *, alone: bool) -> int:
        """Returns where a task without state begins: where the others of its group stand, or as is wanted."""
        low, high = self._facts.lows[partition], self._facts.highs[partition]
        if not alone:
            return max(low, self._facts.committed.get(partition, low))
        return self._facts.since.get(partition, max(low, high - self._wanted.records))

    def _left(self, positions: Mapping[TopicPartition, tuple[int, str]]) -> int:
        highs = self._facts.highs
        return sum(max(0, highs[each] - at) for each, (at, _) in positions.items() if each in highs)
