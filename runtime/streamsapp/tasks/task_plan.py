"""The parts of a task before it exists, and how far it has read of each input. Pure; used on every thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from streamsapp.record import UNKNOWN_TOPIC, TaskId, TopicIdentity, TopicPartition
from streamsapp.serdes.offset_metadata import OffsetMetadata
from streamsapp.state.task_stores import TaskStores
from streamsapp.tasks.dead_letters import DeadLetters
from streamsapp.topology.nodes import SourceNode, SubTopology


@dataclass(frozen=True)
class TaskPlan:
    """The parts of a task, with full topic names."""

    id: TaskId
    sub_topology: SubTopology
    #: Every input partition with the source node that reads it.
    inputs: Mapping[TopicPartition, SourceNode]
    #: Store name to changelog partition, for logged stores.
    changelogs: Mapping[str, TopicPartition]
    #: Store name to the input partition that serves as its changelog (topology optimisation).
    source_changelogs: Mapping[str, TopicPartition]
    #: Undecorated to full topic name.
    topic_name: Callable[[str], str]
    partition_count: Callable[[str], int]
    #: The form in which records that a handler gives up are written; by default as far as the configuration says.
    dead_letters: DeadLetters | None = None

    @property
    def all_changelogs(self) -> dict[str, TopicPartition]:
        """Store name to the partition that restores it, for every store that can be restored."""
        return {**self.changelogs, **self.source_changelogs}

    @property
    def changelog_topics(self) -> dict[str, str]:
        """Store name to the topic that restores it."""
        return {store: each.topic for store, each in self.all_changelogs.items()}

    @cached_property
    def repartition_topics(self) -> frozenset[str]:
        """The task's inputs that the application itself writes."""
        return frozenset(self.topic_name(each.name) for each in self.sub_topology.repartition_sources)

    def has_snapshots(self, stores: TaskStores) -> bool:
        """Return whether anything of ``stores``, the task's, is on disk and continued by a changelog."""
        return not stores.families.keys().isdisjoint(self.all_changelogs)


@dataclass(frozen=True)
class ConsumedOffset:
    """The position of a task in one input partition, as it is committed."""

    offset: int
    partition_time: int
    #: The metadata that the task's processors want kept; each partition carries all of it.
    processor_metadata: Mapping[str, int] = field(default_factory=dict)
    #: The topic that the offset belongs to.
    topic: TopicIdentity = UNKNOWN_TOPIC
    #: False for the position of a snapshot, which stands in for a position that the group does not have.
    in_group: bool = True

    @cached_property
    def metadata(self) -> str:
        """The committed offset's metadata string, in Kafka Streams' format."""
        return self.metadata_with(0)

    def metadata_with(self, cut: int) -> str:
        """The same of an owner's last commit, with the number of its cut; 0: of any other."""
        return OffsetMetadata(self.partition_time, self.processor_metadata, self.topic, cut).encode()

    @classmethod
    def committed(cls, offset: int, metadata: str | None, *, in_group: bool = True) -> ConsumedOffset:
        """The position that was committed with this offset and metadata string."""
        read = OffsetMetadata.decode(metadata)
        return cls(offset, read.partition_time, read.processor_metadata, read.topic, in_group)
