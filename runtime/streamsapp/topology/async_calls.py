"""Refuses topologies that call coroutine functions where nothing makes such calls.

Asked on the thread that builds the topology, or that is about to run it.
"""

from __future__ import annotations

from streamsapp.errors import TopologyError
from streamsapp.processor.async_calls import NOT_HERE
from streamsapp.state.kinds.waiting_records import WAITING_RECORDS
from streamsapp.topology.builder import Topology
from streamsapp.topology.nodes import ProcessorNode


def refuse_calls(topology: Topology) -> None:
    """Raises ``TopologyError`` that names the first node with calls, if there is any."""
    for part in topology.sub_topologies():
        waiting = {store.name for store in part.stores if store.type == WAITING_RECORDS}
        for node in part.nodes:
            if isinstance(node, ProcessorNode) and not waiting.isdisjoint(node.stores):
                raise TopologyError(f"node {node.name}: {NOT_HERE}")
