"""Faults that a topology has before any record comes: records that go round for ever, topics with two forms, stores
that no processor has.

Looked for once everything was added, on the thread that builds the topology. Kafka Streams runs such a topology, and
it fails with the first record, or does nothing that its author wanted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise

from streamsapp.errors import TopologyError
from streamsapp.processor.operator import Operator
from streamsapp.serdes.kinds import other_bytes
from streamsapp.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode
from streamsapp.topology.subtopologies import TopologyDefinition


def check_known_faults(graph: TopologyDefinition, store_places: Mapping[str, str]) -> None:
    """Raises ``TopologyError`` for the first fault; ``store_places`` has the line that added each store."""
    _check_stores(graph.nodes.values(), store_places)
    _check_forms(graph.nodes.values())
    _check_circles(graph)


def _check_stores(nodes: Collection[Node], store_places: Mapping[str, str]) -> None:
    used = {store for node in nodes if isinstance(node, ProcessorNode) for store in node.stores}
    for name, place in store_places.items():
        if name not in used:
            raise TopologyError(
                f"store {name}{_added(place)}: no processor is connected to it, so that it would not exist; name it "
                f"where its processor is added, as in process(supplier, {name!r}), or leave it out"
            )


def _check_forms(nodes: Collection[Node]) -> None:
    """A topic has records of one form: what one node writes there another one reads."""
    users: dict[str, list[SourceNode | SinkNode]] = {}
    for node in nodes:
        if not isinstance(node, ProcessorNode):
            for topic in _fixed_topics(node):
                users.setdefault(topic, []).append(node)
    for topic, found in users.items():
        for first, second in pairwise(found):
            for side in ("key", "value"):
                one, other = getattr(first, f"{side}_serde"), getattr(second, f"{side}_serde")
                if other_bytes(one, other):
                    raise TopologyError(
                        f"topic {topic}: {_named(first)} has {side}s of {one.name}, and {_named(second)} of "
                        f"{other.name}; give both the same {side} serde, or each a topic of its own"
                    )


def _check_circles(graph: TopologyDefinition) -> None:
    """No record goes round for ever: a way from a topic back to it has to have a node that may end it."""
    for sink in graph.nodes.values():
        if not isinstance(sink, SinkNode) or not isinstance(sink.topic, str) or sink.topic in graph.internal_topics:
            continue
        for source in _readers(graph, sink.topic):
            way = _way(graph, source.name, sink.name)
            if way is not None:
                raise TopologyError(
                    f"topic {sink.topic}: {_named(sink)} writes what {_named(source)} reads, and nothing between them "
                    f"({' → '.join(way)}) ends it: every record would go round for ever; write to another topic"
                )


def _way(graph: TopologyDefinition, begin: str, end: str) -> list[str] | None:
    """The nodes from one to another that hand on every record, topics between sub-topologies included."""
    came_from: dict[str, str | None] = {begin: None}
    waiting = [begin]
    while waiting:
        name = waiting.pop()
        if name == end:
            way = [name]
            while (before := came_from[way[-1]]) is not None:
                way.append(before)
            return way[::-1]
        for following in _next(graph, name):
            if following not in came_from and _hands_on(graph.nodes[following]):
                came_from[following] = name
                waiting.append(following)
    return None


def _next(graph: TopologyDefinition, name: str) -> Iterator[str]:
    node = graph.nodes[name]
    if isinstance(node, SinkNode):
        if isinstance(node.topic, str):
            yield from (source.name for source in _readers(graph, node.topic))
    else:
        yield from (child for child, parents in graph.parents.items() if name in parents)


def _hands_on(node: Node) -> bool:
    """Says whether each record that comes to a node leads to another one behind it; of user code it is not known."""
    if not isinstance(node, ProcessorNode):
        return True
    made = node.supplier()
    return isinstance(made, Operator) and made.hands_on_every_record


def _readers(graph: TopologyDefinition, topic: str) -> Iterator[SourceNode]:
    for source in graph.sources():
        if topic in source.topics or (source.pattern is not None and source.pattern.fullmatch(topic)):
            yield source


def _fixed_topics(node: SourceNode | SinkNode) -> tuple[str, ...]:
    if isinstance(node, SourceNode):
        return node.topics
    return (node.topic,) if isinstance(node.topic, str) else ()


def _named(node: Node) -> str:
    return f"{'source' if isinstance(node, SourceNode) else 'sink'} {node.name}{_added(node.place)}"


def _added(place: str) -> str:
    return f" (added at {place})" if place else ""
