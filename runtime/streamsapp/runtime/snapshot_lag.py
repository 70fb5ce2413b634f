"""Compares the newest snapshots of an application with what it has committed.

Asked by the driver of ``engine: spark`` before a run ends, by readers of stores and by ``streamsapp snapshots list``,
each on its own thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from streamsapp.clock import Clock
from streamsapp.config import StreamsConfig, client_properties
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.kafka.first_records import FirstRecords, first_records
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import TaskId, TopicPartition
from streamsapp.remote.snapshot import Snapshot
from streamsapp.state.api import Engine
from streamsapp.tasks.task_plan import TaskPlan


@dataclass(frozen=True)
class SnapshotTask:
    """A task with its newest snapshot, and the changelogs of the stores that its snapshots hold."""

    id: TaskId
    snapshot: Snapshot | None
    changelogs: Mapping[str, TopicPartition]
    #: Inputs that it has, where they are known; a snapshot names only those with a record that the task had read.
    inputs: Collection[TopicPartition] = ()


@dataclass(frozen=True)
class SnapshotLag:
    """The distance of a task's newest snapshot. Without a snapshot offsets count from 0."""

    task: SnapshotTask
    #: Of inputs in which the group is further: the snapshot's offset, and the group's.
    inputs: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    #: Of stores whose changelog has a record after the snapshot: the snapshot's offset, and the changelog's end.
    stores: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def is_behind(self) -> bool:
        """True if a newer snapshot would be another one."""
        return bool(self.inputs or self.stores)

    def __str__(self) -> str:
        snapshot = self.task.snapshot
        which = "it has no snapshot" if snapshot is None else f"snapshot {snapshot.number} of {snapshot.created_at}"
        places = [
            *(f"at offset {at} of {each}, and the group at {group}" for each, (at, group) in self.inputs.items()),
            *(
                f"at offset {at} of the changelog of {store}, which goes on to {end}"
                for store, (at, end) in self.stores.items()
            ),
        ]
        return f"task {self.task.id}: {which}{' stands ' if snapshot else ': '}{'; '.join(places)}"


def snapshot_changelogs(plan: TaskPlan) -> dict[str, TopicPartition]:
    """Returns the changelogs of the stores that a task's snapshots hold: those on disk."""
    on_disk = {each.name for each in plan.sub_topology.stores if each.engine is Engine.ROCKSDB}
    return {store: each for store, each in plan.all_changelogs.items() if store in on_disk}


def snapshot_lags(
    config: StreamsConfig,
    admin: TopicAdmin,
    clock: Clock,
    tasks: Sequence[SnapshotTask],
    committed: Mapping[TopicPartition, int],
) -> list[SnapshotLag]:
    """Returns the distance of each task's snapshot; ``committed`` are the group's offsets. Raises ``KafkaException``
    when the broker does not answer."""
    starts = {each: at for task in tasks for each, at in _positions(task).values()}
    # Only committed records of a source topic that is a changelog count.
    read = {each for task in tasks for each in _points(task)}
    ends = {each: committed.get(each, 0) for each in starts if each in read or each in committed}
    if changelogs := starts.keys() - ends.keys():
        ends |= admin.request_offsets(changelogs, stable=True).result()
    beyond = {each: at for each, at in starts.items() if ends[each] > at}
    first = _looked_up(config, clock, beyond)
    return [SnapshotLag(task, _inputs(task, committed), dict(_stores(task, ends, first))) for task in tasks]


def _looked_up(config: StreamsConfig, clock: Clock, starts: Mapping[TopicPartition, int]) -> FirstRecords:
    if not starts:
        return FirstRecords()
    # Lanes of Spark's write in transactions, whatever the guarantee.
    properties = client_properties.main_consumer(config) | {"isolation.level": "read_committed"}
    with closing(PartitionConsumer(properties)) as consumer:
        return first_records(consumer, starts, clock)


def _positions(task: SnapshotTask) -> dict[str, tuple[TopicPartition, int]]:
    points = {} if task.snapshot is None else task.snapshot.stores
    return {store: (each, points[store].offset if store in points else 0) for store, each in task.changelogs.items()}


def _points(task: SnapshotTask) -> dict[TopicPartition, int]:
    """The offset in each input at which the snapshot stands."""
    read = () if task.snapshot is None else task.snapshot.inputs
    return dict.fromkeys(task.inputs, 0) | {TopicPartition(each.topic, each.partition): each.offset for each in read}


def _inputs(task: SnapshotTask, committed: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
    if task.snapshot is None:
        return {}
    return {each: (at, committed[each]) for each, at in _points(task).items() if committed.get(each, at) > at}


def _stores(
    task: SnapshotTask, ends: Mapping[TopicPartition, int], first: FirstRecords
) -> Iterator[tuple[str, tuple[int, int]]]:
    for store, (partition, at) in _positions(task).items():
        end = ends[partition]
        # Where the broker names neither a record nor an end, records after the snapshot were deleted, or it was slow.
        if end > at and partition not in first.ends and first.found.get(partition, at) < end:
            yield store, (at, end)
