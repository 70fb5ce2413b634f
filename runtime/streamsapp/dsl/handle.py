"""What a stream, a table and their grouped forms have in common: a place in the logical graph.

Made by the DSL while a program is built, on the user's thread. Immutable: every operator gives a new one.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamsapp.dsl.graph import GraphNode, LogicalGraph
from streamsapp.serdes.api import AnySerde


@dataclass(frozen=True)
class Place:
    """Where a stream or table stands, and its serdes as far as they are known.

    A serde is ``None`` where a user's function decides what comes out. ``key_changed`` says that records may be in the
    wrong partition for their key: what groups them needs a repartition topic.
    """

    graph: LogicalGraph
    node: GraphNode
    #: The name of the node that pushes the records.
    name: str
    key_serde: AnySerde | None = None
    value_serde: AnySerde | None = None
    key_changed: bool = False

    def then(
        self, node: GraphNode, key_serde: AnySerde | None, value_serde: AnySerde | None, *, key_changed: bool
    ) -> Place:
        """Append a node; returns the place behind it."""
        self.graph.add(node, self.node)
        return Place(self.graph, node, node.name, key_serde, value_serde, key_changed)

    def end(self, node: GraphNode) -> None:
        """Append a node that nothing comes after."""
        self.graph.add(node, self.node)
