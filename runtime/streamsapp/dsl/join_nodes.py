"""The nodes that joins add to the logical graph.

Made by the DSL's operators, written by ``StreamsBuilder.build``, on the user's thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsapp.dsl.graph import GraphNode
from streamsapp.dsl.nodes import ProcessorGraphNode
from streamsapp.dsl.operators.stateless import PassThrough
from streamsapp.topology.suppliers import NodeSupplier

if TYPE_CHECKING:
    from streamsapp.topology.builder import Topology


class StreamJoinNode(GraphNode):
    """Joins two streams behind the nodes that keep their records. It writes one node for each side and a merging one,
    or a single node if a stream is joined with itself and the optimisation is on."""

    drops_late = True

    def __init__(
        self,
        name: str,
        windowed: tuple[ProcessorGraphNode, ProcessorGraphNode],
        sides: tuple[tuple[str, NodeSupplier], tuple[str, NodeSupplier]],
        itself: NodeSupplier,
        *,
        takes_null_keys: bool,
    ) -> None:
        """Takes ``windowed`` and ``sides`` (name and supplier) as left and right; ``itself`` joins a stream with
        itself."""
        super().__init__(name)
        self.windowed = windowed
        self._sides = sides
        self._itself = itself
        self.takes_null_keys = takes_null_keys
        #: Set by the optimisation "single store self join".
        self.one_store = False

    def write(self, topology: Topology) -> None:
        if self.one_store:
            topology.add_processor(self.name, self._itself, self.windowed[0].name)
            return
        for (name, supplier), windowed in zip(self._sides, self.windowed, strict=True):
            topology.add_processor(name, supplier, windowed.name)
        topology.add_processor(self.name, PassThrough, *(name for name, _ in self._sides))
