"""Rewrites the logical graph before it is written: it always merges duplicate sources, and does the rest when asked
for.

Called by ``StreamsBuilder.build``, on the user's thread.
"""

from __future__ import annotations

import re

from streamsapp.dsl.graph import GraphNode, LogicalGraph, find_upstream
from streamsapp.dsl.join_nodes import StreamJoinNode
from streamsapp.dsl.names import repartition_names
from streamsapp.dsl.nodes import RepartitionNode, StreamSourceNode, TableSourceNode
from streamsapp.errors import TopologyError


def merge_duplicate_sources(graph: LogicalGraph) -> None:
    """Makes streams of the same topics, or of the same pattern, share one source, so that a topic is read once."""
    by_subscription: dict[object, StreamSourceNode] = {}
    for node in graph.root.children:
        if not isinstance(node, StreamSourceNode):
            continue
        first = node
        for key in _subscription_keys(node):
            first = by_subscription.setdefault(key, node)
            if _subscription(first) != _subscription(node):
                raise TopologyError(
                    f"sources {first.name} and {node.name} both read {key} but not the same topics; "
                    "read the same set of topics in both, or each topic in one"
                )
        if first is not node:
            _merge_source(graph, first, node)


def _subscription_keys(node: StreamSourceNode) -> list[object]:
    return [_subscription(node)] if isinstance(node.topics, re.Pattern) else list(node.topics)


def _subscription(node: StreamSourceNode) -> object:
    if isinstance(node.topics, re.Pattern):
        return (node.topics.pattern, node.topics.flags)
    return frozenset(node.topics)


def _merge_source(graph: LogicalGraph, first: StreamSourceNode, other: StreamSourceNode) -> None:
    if first.consumed.offset_reset != other.consumed.offset_reset:
        raise TopologyError(
            f"sources {first.name} and {other.name} read the same topics with different offset_reset: "
            f"{first.consumed.offset_reset} and {other.consumed.offset_reset}; use the same in both"
        )
    if first.consumed.idle_after != other.consumed.idle_after:
        raise TopologyError(
            f"sources {first.name} and {other.name} read the same topics with different idle_after: "
            f"{first.consumed.idle_after} and {other.consumed.idle_after}; use the same in both"
        )
    for side in ("key", "value"):
        serdes = [getattr(each.consumed, f"{side}_serde") for each in (first, other)]
        if None not in serdes and serdes[0].name != serdes[1].name:
            raise TopologyError(
                f"sources {first.name} (added at {first.place}) and {other.name} (added at {other.place}) read the "
                f"same topics with different {side} serdes: {serdes[0].name} and {serdes[1].name}; use the same in "
                "both, and turn the values of one with map_values"
            )
    for child in other.children:
        other.remove_child(child)
        first.add_child(child)
    graph.root.remove_child(other)


def join_over_one_store(graph: LogicalGraph) -> None:
    """Makes a stream that is joined with itself keep its records once."""
    for join in graph.nodes:
        if isinstance(join, StreamJoinNode) and len(join.parents) == 1:
            join.one_store = True
            join.parents[0].remove_child(join.windowed[1])


def reuse_table_source_topics(graph: LogicalGraph, enabled: bool) -> None:
    """Makes a table's source topic its changelog, for it holds the same records."""
    for node in graph.nodes:
        if isinstance(node, TableSourceNode):
            node.reuse_source_topic = enabled


def merge_repartition_topics(graph: LogicalGraph) -> None:
    """Makes one node of the repartition nodes below the same change of key, right below it."""
    for key_changer, nodes in _repartitions_by_key_changer(graph).items():
        if nodes:
            _move_up(graph, key_changer, nodes)


def _repartitions_by_key_changer(graph: LogicalGraph) -> dict[GraphNode, list[RepartitionNode]]:
    nodes = graph.nodes
    by_key_changer: dict[GraphNode, list[RepartitionNode]] = {node: [] for node in nodes if node.changes_key}
    for node in nodes:
        if isinstance(node, RepartitionNode) and node.optimizable:
            changer = _key_changer_above(node)
            if changer is not None:
                by_key_changer[changer].append(node)
    return _move_to_merges(nodes, by_key_changer)


def _key_changer_above(node: GraphNode) -> GraphNode | None:
    """Returns the change of key that this repartition stems from; none if values change in between, for then it could
    not move above."""
    changer = find_upstream(node, lambda n: n.changes_key)
    either = find_upstream(node, lambda n: n.changes_key or n.changes_value)
    return changer if changer is either else None


def _move_to_merges(
    nodes: list[GraphNode], by_key_changer: dict[GraphNode, list[RepartitionNode]]
) -> dict[GraphNode, list[RepartitionNode]]:
    """Moves a repartition below a merge of streams whose keys changed up to the merge."""
    moved: dict[GraphNode, list[RepartitionNode]] = {}
    replaced: set[GraphNode] = set()
    for merge in nodes:
        if not merge.merges:
            continue
        changers = [
            changer
            for changer, repartitions in by_key_changer.items()
            if all(_is_below(node, merge) for node in repartitions) and _is_below(merge, changer)
        ]
        moved[merge] = list(dict.fromkeys(node for changer in changers for node in by_key_changer[changer]))
        replaced.update(changers)
    kept = {changer: found for changer, found in by_key_changer.items() if changer not in replaced}
    return kept | moved


def _is_below(node: GraphNode, ancestor: GraphNode) -> bool:
    return find_upstream(node, lambda n: ancestor in n.parents) is not None


def _move_up(graph: LogicalGraph, key_changer: GraphNode, nodes: list[RepartitionNode]) -> None:
    merged = RepartitionNode(
        repartition_names(graph.names, nodes[0].names.topic, given=True),  # or it is noted already
        next((node.key_serde for node in nodes if node.key_serde), None),
        next((node.value_serde for node in nodes if node.value_serde), None),
        optimizable=True,
    )
    # Right after the change of key, before everything else that hangs on it.
    merged.priority = key_changer.priority
    merged.place = nodes[0].place
    for node in nodes:
        branch = find_upstream(node, lambda n: key_changer in n.parents)
        if branch is not None:
            key_changer.remove_child(branch)
            merged.add_child(branch)
        _bypass(node)
    if merged.children:
        key_changer.add_child(merged)


def _bypass(node: GraphNode) -> None:
    """Takes a node out; its children go to its parents."""
    for child in node.children:
        node.remove_child(child)
        for parent in node.parents:
            parent.add_child(child)
    for parent in node.parents:
        parent.remove_child(node)
