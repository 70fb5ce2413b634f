"""Warns of what faults of Kafka Streams leave behind in the topics and tasks of an application, with a way to go on.

Called on the polling thread, once an instance knows the topics that there are.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from streamsapp.topology.nodes import ProcessorNode, SubTopology
from streamsapp.topology.partitioning import fewer_than_upstream

log = logging.getLogger(__name__)


def tell_of_faults(parts: Sequence[SubTopology], application_id: str, existing: Mapping[str, int]) -> None:
    """Logs a warning for each topic and each store that is concerned. ``existing`` has the partitions of all topics."""
    for topic, (count, most) in fewer_than_upstream(parts, application_id, existing).items():
        log.warning(
            "repartition topic %s has %d partitions, and a topic that flows into it has %d: Kafka Streams makes it so "
            "where streams meet (KAFKA-21612). It is kept, with so many tasks behind it. For more, reset the "
            "application (`streamsapp reset`), or give it another name: Repartitioned(name, partitions=%d)",
            topic, count, most, most,
        )  # fmt: skip
    for store, nodes in _brought_apart(parts).items():
        log.warning(
            "processors of several sub-topologies bring store %s (%s): each has a store of its own, and all write one "
            "changelog. Kafka Streams 4.5 makes one sub-topology of them, and tasks get other ids (KAFKA-20464). Add "
            "the store once, with add_state_store(builder), and connect it by its name",
            store, "; ".join(f"{number}: {', '.join(names)}" for number, names in nodes.items()),
        )  # fmt: skip


def _brought_apart(parts: Sequence[SubTopology]) -> dict[str, dict[int, list[str]]]:
    """Returns the stores that several sub-topologies have, each with its processors by sub-topology. As in Kafka
    Streams up to 4.4, suppliers that bring one builder do not tie their processors together."""
    users: dict[str, dict[int, list[str]]] = {}
    for part in parts:
        for store in part.stores:
            nodes = [each.name for each in part.nodes if isinstance(each, ProcessorNode) and store.name in each.stores]
            users.setdefault(store.name, {})[part.id] = nodes
    return {name: nodes for name, nodes in users.items() if len(nodes) > 1}
