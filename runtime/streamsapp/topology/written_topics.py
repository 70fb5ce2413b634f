"""The topics that a topology writes under names of their own. Pure."""

from __future__ import annotations

from streamsapp.topology.builder import Topology
from streamsapp.topology.nodes import SinkNode


def written_topics(topology: Topology) -> dict[str, SinkNode]:
    """Returns by topic the node that writes it; topics that a function chooses for each record are left out."""
    return {node.topic: node for node in topology.nodes if isinstance(node, SinkNode) and isinstance(node.topic, str)}
