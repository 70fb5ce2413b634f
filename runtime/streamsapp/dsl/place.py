"""``Place``: the place in the logical graph that a stream, a table and their grouped forms stand for.

Made by the DSL while a program is built, on the user's thread. Immutable: every operator gives a new one.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamsapp.dsl.graph import GraphNode, LogicalGraph
from streamsapp.serdes.api import AnySerde


@dataclass(frozen=True)
class Place:
    """The place of a stream or table in the logical graph, with its serdes as far as they are known.

    A serde is ``None`` if a user's function decides which types come out. ``key_changed`` says that records may be in
    the wrong partition for their key: an operator that groups them needs a repartition topic.
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
        """Appends a node, and returns the place behind it."""
        self.graph.add(node, self.node)
        return Place(self.graph, node, node.name, key_serde, value_serde, key_changed)

    def end(self, node: GraphNode) -> None:
        """Appends a node that no other node follows."""
        self.graph.add(node, self.node)
