"""``TopologyDescription``: what a topology consists of, in Kafka's text, as Mermaid, as SVG and as JSON.

Made by ``Topology.describe()``, printed by the command line and served in ``/status``; on any thread.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamsapp.processor.api import TopicNameExtractor
from streamsapp.topology.drawing import draw
from streamsapp.topology.java_order import TreeSet, hash_set_copy_order, hash_set_order, utf16
from streamsapp.topology.nodes import Node, ProcessorNode, SourceNode

if TYPE_CHECKING:
    from streamsapp.topology.subtopologies import TopologyDefinition


@dataclass(frozen=True)
class DescribedNode:
    """A node with its neighbours, all lists in the order in which Kafka prints them.

    ``topics`` is empty for a source with a ``pattern`` and for a sink with an ``extractor``.
    """

    kind: str
    name: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    extractor: str | None = None
    stores: tuple[str, ...] = ()
    successors: tuple[str, ...] = ()
    predecessors: tuple[str, ...] = ()


@dataclass(frozen=True)
class DescribedGroup:
    """A sub-topology, or the two nodes that fill a global store (which share the numbering)."""

    id: int
    nodes: tuple[DescribedNode, ...]
    is_global: bool = False


@dataclass(frozen=True)
class TopologyDescription:
    """A described topology; ``str()`` is Kafka's text."""

    groups: tuple[DescribedGroup, ...]

    @classmethod
    def of(cls, graph: TopologyDefinition) -> TopologyDescription:
        """Describe what a builder collected."""
        global_sources = {store.source.name for store in graph.global_stores.values()}
        return cls(
            tuple(
                DescribedGroup(group_id, _describe_nodes(graph, names), is_global=not global_sources.isdisjoint(names))
                for group_id, names in enumerate(graph.node_groups())
            )
        )

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self) -> str:
        """Kafka's ``TopologyDescription.toString()``, byte for byte."""
        return "Topologies:\n " + "".join("  " + _group_text(group) for group in self.groups)

    def to_json(self) -> str:
        """Returns the same facts as one JSON document."""
        document = {
            "subTopologies": [_group_json(group) for group in self.groups if not group.is_global],
            "globalStores": [_group_json(group) for group in self.groups if group.is_global],
        }
        return json.dumps(document, indent=2) + "\n"

    def to_svg(self) -> str:
        """Returns a picture, in the colour of the text around it: topics round, stores bold, with dashed lines."""
        return draw(self.groups)

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def to_mermaid(self) -> str:
        """A Mermaid flowchart: sub-topologies as boxes, topics as pills, stores as cylinders."""
        return _Mermaid().draw(self.groups)


# ---- order ---------------------------------------------------------------------------------------------------------


class _Measured:
    """A node while its sub-topology is described: neighbours, and the size of the sub-tree below, both growing."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.name = node.name
        self.size = 1
        self.predecessors: TreeSet[_Measured] = TreeSet(_compare)
        self.successors: TreeSet[_Measured] = TreeSet(_compare)

    def grow(self, delta: int) -> None:
        self.size += delta
        for predecessor in self.predecessors:
            predecessor.grow(delta)


def _compare(left: _Measured, right: _Measured) -> int:
    """Larger sub-trees first, then by name."""
    if left is right:
        return 0
    if left.size != right.size:
        return right.size - left.size
    return -1 if utf16(left.name) < utf16(right.name) else 1


def _describe_nodes(graph: TopologyDefinition, names: list[str]) -> tuple[DescribedNode, ...]:
    # Kafka keeps the names in one hash set and then fills a hash map from it; nodes are linked in the map's order.
    measured = {name: _Measured(graph.nodes[name]) for name in hash_set_order(hash_set_order(names))}
    for node in measured.values():
        for parent in graph.parents[node.name]:
            predecessor = measured[parent]
            node.predecessors.add(predecessor)
            predecessor.successors.add(node)
            predecessor.grow(node.size)
    ordered = sorted(measured.values(), key=lambda node: (-node.size, utf16(node.name)))
    return tuple(_described(node) for node in ordered)


def _described(measured: _Measured) -> DescribedNode:
    node = measured.node
    successors = tuple(successor.name for successor in measured.successors)
    predecessors = tuple(predecessor.name for predecessor in measured.predecessors)
    if isinstance(node, SourceNode):
        if node.pattern is not None:
            return DescribedNode("source", node.name, pattern=node.pattern.pattern, successors=successors)
        topics = tuple(hash_set_copy_order(node.topics))
        return DescribedNode("source", node.name, topics=topics, successors=successors)
    if isinstance(node, ProcessorNode):
        stores = tuple(hash_set_copy_order(hash_set_order(node.stores)))
        return DescribedNode("processor", node.name, stores=stores, successors=successors, predecessors=predecessors)
    if isinstance(node.topic, str):
        return DescribedNode("sink", node.name, topics=(node.topic,), predecessors=predecessors)
    return DescribedNode("sink", node.name, extractor=_extractor_text(node.topic), predecessors=predecessors)


def _extractor_text(extractor: TopicNameExtractor) -> str:
    """Returns the text of an extractor, as Java's ``toString`` gives it; functions and classes without one are given by
    their name."""
    if hasattr(extractor, "__qualname__"):
        return f"{extractor.__module__}.{extractor.__qualname__}"
    kind: type[object] = type(extractor)
    says_nothing = all(base.__dict__.keys().isdisjoint({"__str__", "__repr__"}) for base in kind.__mro__[:-1])
    return f"{kind.__module__}.{kind.__qualname__}" if says_nothing else str(extractor)


# ---- text ----------------------------------------------------------------------------------------------------------


def _group_text(group: DescribedGroup) -> str:
    title = f"Sub-topology: {group.id}"
    nodes = "".join(f"    {_node_text(node)}\n" for node in group.nodes)
    if group.is_global:
        return f"{title} for global store (will not generate tasks)\n{nodes}"
    return f"{title}\n{nodes}\n"


def _node_text(node: DescribedNode) -> str:
    successors = f"\n      --> {', '.join(node.successors) or 'none'}"
    predecessors = f"\n      <-- {', '.join(node.predecessors) or 'none'}"
    match node.kind:
        case "source":
            topics = node.pattern if node.pattern is not None else f"[{', '.join(node.topics)}]"
            return f"Source: {node.name} (topics: {topics}){successors}"
        case "processor":
            return f"Processor: {node.name} (stores: [{', '.join(node.stores)}]){successors}{predecessors}"
        case _:
            target = f"extractor class: {node.extractor}" if node.extractor is not None else f"topic: {node.topics[0]}"
            return f"Sink: {node.name} ({target}){predecessors}"


# ---- JSON ----------------------------------------------------------------------------------------------------------


def _group_json(group: DescribedGroup) -> dict[str, Any]:
    return {"id": group.id, "nodes": [_node_json(node) for node in group.nodes]}


def _node_json(node: DescribedNode) -> dict[str, Any]:
    described: dict[str, Any] = {"type": node.kind, "name": node.name}
    if node.pattern is not None:
        described["pattern"] = node.pattern
    elif node.extractor is not None:
        described["extractor"] = node.extractor
    elif node.kind == "processor":
        described["stores"] = list(node.stores)
    else:
        described["topics"] = list(node.topics)
    return described | {"successors": list(node.successors), "predecessors": list(node.predecessors)}


# ---- Mermaid -------------------------------------------------------------------------------------------------------

_MERMAID_TOPIC = '{id}(["{label}"])'
_MERMAID_STORE = '{id}[("{label}")]'
_MERMAID_NODE = '{id}["{label}"]'


class _Mermaid:
    """Draws one flowchart; names become labels, since Mermaid's own ids may not hold every character."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str], str] = {}
        self._outside: list[str] = []
        self._edges: list[str] = []

    def draw(self, groups: tuple[DescribedGroup, ...]) -> str:
        boxes = [line for group in groups for line in self._box(group)]
        return "\n".join(["flowchart TD", *self._outside, *boxes, *self._edges]) + "\n"

    def _box(self, group: DescribedGroup) -> list[str]:
        title = f"Global store {group.id}" if group.is_global else f"Sub-topology {group.id}"
        lines = [f'  subgraph group{group.id}["{title}"]']
        for node in group.nodes:
            lines.append("    " + _shape(_MERMAID_NODE, self._id("node", node.name), node.name))
            self._connect(node, lines)
        return [*lines, "  end"]

    def _connect(self, node: DescribedNode, box: list[str]) -> None:
        own = self._id("node", node.name)
        for topic in (*node.topics, *filter(None, (node.pattern, node.extractor))):
            other = self._topic(topic)
            self._edges.append(f"  {other} --> {own}" if node.kind == "source" else f"  {own} --> {other}")
        for store in node.stores:
            if ("store", store) not in self._ids:
                box.append("    " + _shape(_MERMAID_STORE, self._id("store", store), store))
            self._edges.append(f"  {own} <--> {self._id('store', store)}")
        self._edges.extend(f"  {own} --> {self._id('node', successor)}" for successor in node.successors)

    def _topic(self, name: str) -> str:
        if ("topic", name) not in self._ids:
            self._outside.append("  " + _shape(_MERMAID_TOPIC, self._id("topic", name), name))
        return self._id("topic", name)

    def _id(self, kind: str, name: str) -> str:
        return self._ids.setdefault((kind, name), f"{kind}{len(self._ids)}")


def _shape(form: str, node_id: str, label: str) -> str:
    return form.format(id=node_id, label=label.replace('"', "#quot;"))
