"""Splits a topology into its sub-topologies: pure functions over what the builder collected.

Called by the topology builder, on the thread that builds the topology or (patterns resolved) the polling thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from streamsapp.errors import TopologyError
from streamsapp.state.api import StoreBuilder
from streamsapp.topology.nodes import (
    GlobalStore,
    Node,
    ProcessorNode,
    RepartitionTopic,
    SinkNode,
    SourceNode,
    SubTopology,
)
from streamsapp.topology.time_flow import with_time_flow
from streamsapp.topology.union_find import UnionFind


@dataclass
class TopologyDefinition:
    """Everything that was added to a topology: nodes in the order in which they were added, and what connects them.

    ``source_changelogs`` maps stores to the source topics that restore them, ``copartitioned`` holds groups of source
    names, ``groups`` joins the nodes of each sub-topology.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    parents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    stores: dict[str, StoreBuilder] = field(default_factory=dict)
    global_stores: dict[str, GlobalStore] = field(default_factory=dict)
    source_changelogs: dict[str, str] = field(default_factory=dict)
    internal_topics: dict[str, RepartitionTopic] = field(default_factory=dict)
    copartitioned: list[frozenset[str]] = field(default_factory=list)
    groups: UnionFind = field(default_factory=UnionFind)

    def sources(self) -> Iterator[SourceNode]:
        """The sources, those of global stores included."""
        return (node for node in self.nodes.values() if isinstance(node, SourceNode))

    def node_groups(self) -> list[list[str]]:
        """Node names by sub-topology id. A sub-topology's id is the rank of its first node in the order of adding,
        which is also how Kafka Streams numbers them."""
        by_root: dict[str, list[str]] = {}
        for name in self.nodes:
            by_root.setdefault(self.groups.root(name), []).append(name)
        return list(by_root.values())


def split(graph: TopologyDefinition, existing_topics: Iterable[str] = ()) -> tuple[SubTopology, ...]:
    """The sub-topologies that become tasks; patterns are resolved against ``existing_topics``."""
    nodes = _resolve_patterns(graph, existing_topics)
    copartitioned = _copartitioned_topics(graph, nodes)
    global_sources = {store.source.name for store in graph.global_stores.values()}
    return with_time_flow(
        [
            _sub_topology(graph, sub_topology_id, [nodes[name] for name in names], copartitioned)
            for sub_topology_id, names in enumerate(graph.node_groups())
            if global_sources.isdisjoint(names)
        ]
    )


def check_explicit_partitions(graph: TopologyDefinition) -> None:
    """Raises where co-partitioned repartition topics were all given partition counts, and different ones."""
    for topics in _copartitioned_topics(graph, graph.nodes):
        counts = {topic: graph.internal_topics[topic].partitions for topic in topics if topic in graph.internal_topics}
        if len(counts) == len(topics) and None not in counts.values() and len(set(counts.values())) > 1:
            listed = ", ".join(f"{topic}: {count}" for topic, count in sorted(counts.items()))
            raise TopologyError(
                f"these topics are joined and need the same number of partitions: {listed}; "
                "give the same partitions=... to both calls of repartition, or to one of them only"
            )


def _sub_topology(
    graph: TopologyDefinition, sub_topology_id: int, nodes: list[Node], copartitioned: list[frozenset[str]]
) -> SubTopology:
    children: dict[str, list[str]] = {node.name: [] for node in nodes}
    for node in nodes:
        for parent in graph.parents[node.name]:
            children[parent].append(node.name)
    store_names = dict.fromkeys(name for node in nodes if isinstance(node, ProcessorNode) for name in node.stores)
    topics = [topic for node in nodes if isinstance(node, SourceNode) for topic in node.topics]
    return SubTopology(
        id=sub_topology_id,
        nodes=tuple(_with_children(node, tuple(children[node.name])) for node in nodes),
        stores=tuple(_store(graph, name) for name in store_names),
        copartitioned=tuple(group for group in copartitioned if not group.isdisjoint(topics)),
        repartition_sources=tuple(graph.internal_topics[topic] for topic in topics if topic in graph.internal_topics),
        repartition_sinks=tuple(_repartition_sinks(graph, nodes)),
    )


def _store(graph: TopologyDefinition, name: str) -> StoreBuilder:
    """The store's builder; a store that its source topic restores logs nothing."""
    topic = graph.source_changelogs.get(name)
    return graph.stores[name] if topic is None else replace(graph.stores[name], logging=False, changelog_topic=topic)


def _with_children(node: Node, children: tuple[str, ...]) -> Node:
    return node if isinstance(node, SinkNode) else replace(node, children=children)


def _repartition_sinks(graph: TopologyDefinition, nodes: list[Node]) -> Iterator[str]:
    topics = (node.topic for node in nodes if isinstance(node, SinkNode) and isinstance(node.topic, str))
    yield from dict.fromkeys(topic for topic in topics if topic in graph.internal_topics)


def _resolve_patterns(graph: TopologyDefinition, existing_topics: Iterable[str]) -> dict[str, Node]:
    """The nodes, with the matching topics filled in where a source has a pattern."""
    nodes = dict(graph.nodes)
    topics = sorted(existing_topics)
    owner: dict[str, str] = {}
    for source in graph.sources():
        if source.pattern is None:
            continue
        matching = tuple(topic for topic in topics if source.pattern.fullmatch(topic))
        for topic in matching:
            if owner.setdefault(topic, source.name) != source.name:
                raise TopologyError(
                    f"topic {topic} matches the patterns of the sources {owner[topic]} and {source.name}; "
                    "make the patterns exclude each other"
                )
        nodes[source.name] = replace(source, topics=matching)
    return nodes


def _copartitioned_topics(graph: TopologyDefinition, nodes: dict[str, Node]) -> list[frozenset[str]]:
    """Groups of topics that need equally many partitions; groups that overlap are one group."""
    merged: list[frozenset[str]] = []
    for sources in graph.copartitioned:
        group = frozenset(topic for name in sources for topic in _topics_of(nodes[name]))
        overlapping = [other for other in merged if not other.isdisjoint(group)]
        merged = [other for other in merged if other.isdisjoint(group)]
        if group:
            merged.append(group.union(*overlapping))
    return merged


def _topics_of(node: Node) -> tuple[str, ...]:
    return node.topics if isinstance(node, SourceNode) else ()
