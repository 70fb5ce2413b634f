"""Cuts a sub-topology to the part that history needs: nodes that lead only to unread results are left out.

Used in Spark's Python workers, before a task is made. A sink's name stays, as processors forward to it by name;
operators above that find no node below them save what they would make.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from streamsapp.processor.operator import NodeContext, Operator, Push, nowhere
from streamsapp.topology.nodes import Node, ProcessorNode, SinkNode, SubTopology


class _PrunedSink(Operator):
    """Takes the place of a sink."""

    def bind(self, context: NodeContext) -> Push:
        return nowhere


def without_external_sinks(part: SubTopology, is_read: Callable[[str], bool]) -> SubTopology:
    """Returns the same without the sinks that write to topics that are not read; the topic names are undecorated. Sinks
    that choose their topic per record stay."""
    return replace(part, nodes=tuple(_pruned(node, is_read) for node in part.nodes))


def _pruned(node: Node, is_read: Callable[[str], bool]) -> Node:
    if isinstance(node, SinkNode) and isinstance(node.topic, str) and not is_read(node.topic):
        return ProcessorNode(node.name, _PrunedSink)
    return node
