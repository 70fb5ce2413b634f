"""Lists the topics that a topology reads, writes and owns. Pure; for ``local``, which creates them, and ``reset``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streamsapp.topology.builder import Topology
from streamsapp.topology.nodes import SinkNode


@dataclass(frozen=True)
class TopologyTopics:
    """Topics by role; internal ones carry the application's id."""

    sources: frozenset[str]
    sinks: frozenset[str]
    internal: frozenset[str]
    #: Those of them that have time markers, which belong to the records of the sources.
    time_markers: frozenset[str] = frozenset()


def topics_of(topology: Topology, application_id: str, existing: Iterable[str] = ()) -> TopologyTopics:
    """Sources with a pattern read those of ``existing`` that match; sinks that choose per record are not known."""
    subs = topology.sub_topologies(existing)
    repartition = {topic.name for sub in subs for topic in sub.repartition_sources}
    repartition |= {topic for sub in subs for topic in sub.repartition_sinks}
    read = {topic for sub in subs for source in sub.sources for topic in source.topics}
    read |= {topic for store in topology.global_stores() for topic in store.source.topics}
    written = {node.topic for node in topology.nodes if isinstance(node, SinkNode) and isinstance(node.topic, str)}
    changelogs = {
        f"{store.name}-changelog"
        for sub in subs
        for store in sub.stores
        if store.logging and store.changelog_topic is None
    }
    marked = {f"{sub.time.store}-changelog" for sub in subs if sub.time is not None and sub.time.idle_after_ms}
    return TopologyTopics(
        sources=frozenset(read - repartition),
        sinks=frozenset(written - repartition),
        internal=frozenset(f"{application_id}-{name}" for name in repartition | changelogs),
        time_markers=frozenset(f"{application_id}-{name}" for name in marked),
    )
