"""The tasks that a test driver runs: one that holds the whole topology, or those that partitions make of it.

Called by ``TopologyTestDriver`` on the test's thread. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import TopologyError, UserInputError
from streamsapp.record import TaskId, TopicPartition
from streamsapp.runtime.application_layout import lay_out
from streamsapp.serdes.murmur2 import partition_for
from streamsapp.tasks.task_plan import TaskPlan
from streamsapp.testing.given import unknown
from streamsapp.topology.builder import Topology
from streamsapp.topology.nodes import SinkNode, SubTopology
from streamsapp.topology.time_flow import with_time_flow

#: The number of partitions of every topic, or that of some topics by name; the others have one.
Partitions = int | Mapping[str, int]

_WHOLE = TaskId(0, 0)


class TopicPartitions:
    """The number of partitions of each topic, and the partition that a record without one goes to."""

    def __init__(self, given: Partitions) -> None:
        """Raises ``UserInputError`` for anything but whole numbers of at least 1."""
        self.named = dict(given) if isinstance(given, Mapping) else {}
        self._default = 1 if isinstance(given, Mapping) else given
        for count in (self._default, *self.named.values()):
            if type(count) is not int or count < 1:
                raise UserInputError(
                    f"partitions={given!r:.200}: {count!r} is no number of partitions; give a whole number of at "
                    'least 1, or one for each topic, such as partitions={"orders": 4}'
                )
        #: False: one task holds the whole topology, with all partitions of each topic.
        self.make_tasks = isinstance(given, Mapping) or given > 1
        self._counts = dict(self.named)
        self._dealt = Counter[str]()

    def fixed(self, counts: Mapping[str, int]) -> None:
        """Takes over the numbers that the topology works out, those of its repartition topics."""
        self._counts.update(counts)

    def of(self, topic: str) -> int:
        """Returns the number of partitions of a topic."""
        return self._counts.get(topic, self._default)

    def require(self, topic: str, partition: int) -> None:
        """Raises ``UserInputError`` for a partition that the topic does not have."""
        if self.make_tasks and not 0 <= partition < self.of(topic):
            raise UserInputError(
                f"topic {topic} has {self.of(topic)} partitions, and {partition!r:.50} is none of them; count from 0, "
                "or give the driver more partitions"
            )

    def chosen(self, topic: str, key: bytes | None) -> int:
        """Returns the partition that Kafka's producer chooses: by murmur2 of the key. Records without a key, which it
        deals at random, are dealt in turn, so that a test always sees the same."""
        count = self.of(topic)
        if key is not None:
            return partition_for(key, count)
        self._dealt[topic] += 1
        return (self._dealt[topic] - 1) % count


def whole(topology: Topology) -> SubTopology:
    """Returns all sub-topologies as one, so that they share one task and one stream time, as in Kafka's test driver."""
    topology.validate()
    parts = topology.sub_topologies()
    order = {node.name: position for position, node in enumerate(topology.nodes)}
    nodes = sorted((node for part in parts for node in part.nodes), key=lambda node: order[node.name])
    together = SubTopology(
        id=_WHOLE.subtopology,
        nodes=tuple(nodes),
        stores=tuple(store for part in parts for store in part.stores),
        repartition_sources=tuple(topic for part in parts for topic in part.repartition_sources),
        repartition_sinks=tuple(topic for part in parts for topic in part.repartition_sinks),
    )
    return with_time_flow([together])[0]


def whole_plan(
    part: SubTopology, application_id: str, global_stores: Iterable[str], full_name: Callable[[str], str]
) -> TaskPlan:
    """Returns the plan of the one task of a topology in one part."""
    return TaskPlan(
        id=_WHOLE,
        sub_topology=part.with_access_to(global_stores),
        inputs={TopicPartition(full_name(topic), 0): node for node in part.sources for topic in node.topics},
        changelogs={
            store.name: TopicPartition(f"{application_id}-{store.name}-changelog", 0)
            for store in part.stores
            if store.logging and store.changelog_topic is None
        },
        source_changelogs={
            store.name: TopicPartition(store.changelog_topic, 0)
            for store in part.stores
            if store.changelog_topic is not None
        },
        topic_name=full_name,
        partition_count=lambda topic: 1,
    )


def plans_by_partition(topology: Topology, config: StreamsConfig, partitions: TopicPartitions) -> list[TaskPlan]:
    """Returns the plans of the tasks that an application has whose topics have these partitions, in the order of their
    ids. Raises ``TopicError`` for topics that are joined and are not co-partitioned, and ``TopologyError`` for a number
    that is given for a topic of another name."""
    topology.validate()
    topics = _topics(topology, partitions.named)
    layout, internal = lay_out(topology, config, {topic: partitions.of(topic) for topic in topics}, str)
    partitions.fixed({**layout.existing, **{each.name: each.partitions for each in internal}})
    return [replace(layout.plans[each], partition_count=partitions.of) for each in sorted(layout.plans)]


def _topics(topology: Topology, named: Iterable[str]) -> set[str]:
    """Returns the topics that the topology names, and those that only ``named`` names: a pattern may match them, and a
    sink that chooses by record may write them."""
    parts = topology.sub_topologies(named)
    internal = {each.name for part in parts for each in part.repartition_sources}
    read = {topic for part in parts for node in part.sources for topic in node.topics} - internal
    read |= {each.topic for each in topology.global_stores()}
    sinks = [node.topic for node in topology.nodes if isinstance(node, SinkNode)]
    known = read | {topic for topic in sinks if isinstance(topic, str) and topic not in internal}
    strange = sorted(set(named) - known)
    if strange and all(isinstance(topic, str) for topic in sinks):
        raise TopologyError(
            f"partitions: the topology neither reads nor writes topic {strange[0]}; it has: "
            f"{unknown(strange[0], known)}"
        )
    return known | set(strange)
