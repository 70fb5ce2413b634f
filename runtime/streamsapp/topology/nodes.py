"""The nodes of a topology and the sub-topologies they fall into: plain data, the contract between what builds a
topology (the builder and the DSL) and what runs it (tasks, internal topics, assignment).

Topic names are undecorated: internal topics carry no ``<application id>-`` prefix here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from streamsapp.processor.api import Processor, StreamPartitioner, TopicNameExtractor
from streamsapp.processor.operator import Operator
from streamsapp.processor.timestamps import TimestampExtractor
from streamsapp.serdes.api import AnySerde
from streamsapp.state.api import StoreBuilder

if TYPE_CHECKING:
    from streamsapp.topology.time_flow import TimeFlow


@dataclass(frozen=True)
class SourceNode:
    """Reads topics. ``None`` serdes and extractor mean the configured defaults."""

    name: str
    topics: tuple[str, ...]
    pattern: re.Pattern[str] | None = None
    key_serde: AnySerde | None = None
    value_serde: AnySerde | None = None
    timestamp_extractor: TimestampExtractor | None = None
    offset_reset: str | None = None
    #: The silence of a partition after which its time moves on by the clock; ``None``: never.
    idle_after_ms: int | None = None
    children: tuple[str, ...] = ()
    #: ``file:line`` where the user added it.
    place: str = field(default="", compare=False)


@dataclass(frozen=True)
class ProcessorNode:
    """Runs a user's processor or an operator of the DSL; the supplier is called once per task."""

    name: str
    supplier: Callable[[], Processor | Operator]
    stores: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    #: Says whether its parent reaches it by its name alone.
    aside: bool = False
    place: str = field(default="", compare=False)


@dataclass(frozen=True)
class SinkNode:
    """Writes a topic, fixed or chosen per record."""

    name: str
    topic: str | TopicNameExtractor
    key_serde: AnySerde | None = None
    value_serde: AnySerde | None = None
    partitioner: StreamPartitioner | None = None
    place: str = field(default="", compare=False)


Node: TypeAlias = SourceNode | ProcessorNode | SinkNode


@dataclass(frozen=True)
class RepartitionTopic:
    """An internal topic between two sub-topologies. ``partitions`` is ``None`` where it follows from co-partitioning
    or from the sources upstream of it."""

    name: str
    partitions: int | None = None


@dataclass(frozen=True)
class SubTopology:
    """A connected part of the topology; with a partition group it becomes a task.

    ``nodes`` lists parents before children. ``copartitioned`` holds groups of topics that must have equally many
    partitions.
    """

    id: int
    nodes: tuple[Node, ...]
    stores: tuple[StoreBuilder, ...] = ()
    copartitioned: tuple[frozenset[str], ...] = ()
    repartition_sources: tuple[RepartitionTopic, ...] = ()
    repartition_sinks: tuple[str, ...] = ()
    #: The way of time that moves on without records; ``None`` if no source of the topology has it.
    time: TimeFlow | None = None

    @property
    def sources(self) -> tuple[SourceNode, ...]:
        return tuple(node for node in self.nodes if isinstance(node, SourceNode))

    def with_access_to(self, global_stores: Iterable[str]) -> SubTopology:
        """Returns the same with these stores open to every processor, as global stores are."""
        names = tuple(global_stores)
        nodes = (
            replace(node, stores=(*node.stores, *names)) if isinstance(node, ProcessorNode) else node
            for node in self.nodes
        )
        return replace(self, nodes=tuple(nodes))


@dataclass(frozen=True)
class GlobalStore:
    """A store that every instance fills from a whole topic, with the processor that maintains it."""

    store: StoreBuilder
    source: SourceNode
    processor: ProcessorNode
    #: Says whether the processor sees the topic's records when the store is restored, too (KIP-813). Without, they are
    #: copied into the store as they are: the topic holds exactly what the processor would put.
    reprocess_on_restore: bool = True

    @property
    def topic(self) -> str:
        return self.source.topics[0]
