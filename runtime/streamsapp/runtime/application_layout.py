"""The layout of an application: its tasks, made from its topology and the topics that exist.

Runs on the polling thread when an instance starts; afterwards the layout is fixed. ``changes`` tells later whether the
source topics still have the partitions that the layout was made from.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from hashlib import sha256

from streamsapp.config.client_properties import producer
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import MissingTopicError
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.membership.api import TaskInfo
from streamsapp.record import TaskId, TopicPartition
from streamsapp.tasks.dead_letters import DeadLetters
from streamsapp.tasks.stream_task import TaskPlan
from streamsapp.topology.builder import Topology
from streamsapp.topology.internal_topics import InternalTopic, changelog_topic, internal_topics, missing_topics
from streamsapp.topology.nodes import SinkNode, SourceNode, SubTopology
from streamsapp.topology.partition_grouper import group_by_partition
from streamsapp.topology.partitioning import partition_counts, repartition_topic, source_topics

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ApplicationLayout:
    """All tasks of an application, and the topics they were derived from."""

    plans: Mapping[TaskId, TaskPlan]
    #: Source topics (user's, not internal; those of global stores too) with the number of partitions each had.
    sources: Mapping[str, int]
    #: Repartition topics, whose consumed records are deleted.
    repartition_topics: frozenset[str]
    dead_letters: DeadLetters = field(default_factory=lambda: DeadLetters(None))

    @property
    def task_infos(self) -> dict[TaskId, TaskInfo]:
        """The description of every task that the group is given."""
        parts = {plan.sub_topology.id: plan.sub_topology for plan in self.plans.values()}
        definitions = {number: fingerprint(part) for number, part in parts.items()}
        stores = {number: frozenset((each.name, each.type.name) for each in it.stores) for number, it in parts.items()}
        return {
            task_id: TaskInfo(
                frozenset(plan.inputs),
                bool(plan.all_changelogs),
                definitions[task_id.subtopology],
                stores[task_id.subtopology],
            )
            for task_id, plan in self.plans.items()
        }

    def changes(self, existing: Mapping[str, int]) -> str | None:
        """A sentence that says how the source topics have changed since; ``None`` if they have not."""
        for topic, count in self.sources.items():
            now = existing.get(topic)
            if now is None:
                return f"source topic {topic} is gone: create it again with {count} partitions, then restart"
            if now != count:
                return (
                    f"source topic {topic} had {count} partitions when the application started and now has {now}: "
                    "keys have moved between partitions, so state would be wrong; restart to read the new partitions "
                    "(stateless), or use a new application id or `streamsapp reset` to rebuild the state"
                )
        return None


def make_layout(topology: Topology, config: StreamsConfig, admin: TopicAdmin) -> ApplicationLayout:
    """Check the source topics, create what internal topics are missing, and derive the tasks."""
    layout, missing = plan_layout(topology, config, admin)
    admin.create(missing, config.replication_factor)
    return layout


def plan_layout(
    topology: Topology, config: StreamsConfig, admin: TopicAdmin
) -> tuple[ApplicationLayout, tuple[InternalTopic, ...]]:
    """Check the source topics and derive the tasks. Return the internal topics that are missing, too: nothing is
    created."""
    existing = admin.partition_counts()
    layout, needed = lay_out(topology, config, existing, admin.why_missing)
    _check_written(topology, config, existing, admin.why_missing)
    missing = missing_topics(needed, existing)
    topic, limit = config.dead_letter_queue_topic, layout.dead_letters.limit
    if topic is None or topic not in existing:
        return layout, missing
    letters = DeadLetters(topic, min(limit, admin.max_message_bytes(topic) or limit))
    plans = {task_id: replace(plan, dead_letters=letters) for task_id, plan in layout.plans.items()}
    return replace(layout, plans=plans, dead_letters=letters), missing


def _check_written(
    topology: Topology, config: StreamsConfig, existing: Mapping[str, int], why_missing: Callable[[str], str]
) -> None:
    """Sinks and dead letters: a producer would find out at the first record, after a minute."""
    written = {
        node.topic: f"sink {node.name}{f' (added at {node.place})' if node.place else ''}"
        for node in topology.nodes
        if isinstance(node, SinkNode) and isinstance(node.topic, str)
    }
    for part in topology.sub_topologies(existing):
        for topic in part.repartition_sinks:
            written.pop(topic, None)
    if config.dead_letter_queue_topic is not None:
        written[config.dead_letter_queue_topic] = "dead_letter_queue_topic"
    missing = sorted(written.keys() - existing.keys())
    if missing:
        raise MissingTopicError("; ".join(f"{why_missing(topic)}, {written[topic]} writes to it" for topic in missing))


def lay_out(
    topology: Topology, config: StreamsConfig, existing: Mapping[str, int], why_missing: Callable[[str], str]
) -> tuple[ApplicationLayout, tuple[InternalTopic, ...]]:
    """The tasks that follow from the topics there are, and the internal topics they need; nothing is created."""
    topology.validate()
    global_stores = {each.store.name: each.topic for each in topology.global_stores()}
    parts = tuple(part.with_access_to(global_stores) for part in topology.sub_topologies(existing))
    application_id = config.application_id
    names = _Names(application_id, parts)
    sources = _source_counts(parts, names, global_stores.values(), existing, why_missing)
    counts = partition_counts(parts, application_id, sources)
    grouper = config.partition_grouper or group_by_partition
    groups = grouper(source_topics(parts, application_id), counts)
    if parts and not groups:
        raise MissingTopicError("no topic matches the topology's patterns yet, so there is nothing to read")
    needed = internal_topics(parts, application_id, counts, groups, config.topic_properties)
    by_id = {part.id: part for part in parts}
    plans = {
        task_id: _plan(task_id, by_id[task_id.subtopology], partitions, names, {**existing, **counts})
        for task_id, partitions in groups.items()
    }
    repartition_topics = frozenset(names.full(topic) for topic in names.internal)
    letters = DeadLetters(config.dead_letter_queue_topic, int(producer(config)["message.max.bytes"]))
    return ApplicationLayout(plans, sources, repartition_topics, letters), needed


def fingerprint(part: SubTopology) -> str:
    """The same for sub-topologies with the same nodes, edges, topics and stores. User code is not looked into."""
    nodes = [
        (type(each).__name__, each.name, getattr(each, "children", ()), getattr(each, "topics", ()))
        for each in part.nodes
    ]
    stores = [(each.name, each.type.name) for each in part.stores]
    return sha256(repr((nodes, stores)).encode()).hexdigest()[:16]


class _Names:
    """Full names of topics: internal ones carry the application id."""

    def __init__(self, application_id: str, parts: tuple[SubTopology, ...]) -> None:
        self.application_id = application_id
        self.internal = {topic.name for part in parts for topic in part.repartition_sources}

    def full(self, topic: str) -> str:
        return repartition_topic(self.application_id, topic) if topic in self.internal else topic


def _source_counts(
    parts: tuple[SubTopology, ...],
    names: _Names,
    global_topics: Iterable[str],
    existing: Mapping[str, int],
    why_missing: Callable[[str], str],
) -> dict[str, int]:
    wanted = {topic for part in parts for node in part.sources for topic in node.topics} - names.internal
    wanted |= set(global_topics)
    missing = sorted(wanted - existing.keys())
    if missing:
        raise MissingTopicError("; ".join(why_missing(topic) + _similar(topic, existing) for topic in missing))
    return {topic: existing[topic] for topic in sorted(wanted)}


def _similar(topic: str, existing: Iterable[str]) -> str:
    close = get_close_matches(topic, existing, n=1)
    return f" (there is a topic {close[0]})" if close else ""


def _plan(
    task_id: TaskId,
    part: SubTopology,
    partitions: frozenset[TopicPartition],
    names: _Names,
    counts: Mapping[str, int],
) -> TaskPlan:
    owners: dict[str, SourceNode] = {names.full(topic): node for node in part.sources for topic in node.topics}
    # In the order of the sources: at equal timestamps, that is the order in which inputs are read.
    ranks = {topic: rank for rank, topic in enumerate(owners)}
    ordered = sorted(partitions, key=lambda each: (ranks[each.topic], each.partition))
    changelogs = {
        store.name: TopicPartition(changelog_topic(names.application_id, store), task_id.partition)
        for store in part.stores
        if store.logging or store.changelog_topic is not None
    }
    shared = {store.name for store in part.stores if store.changelog_topic is not None}
    return TaskPlan(
        id=task_id,
        sub_topology=part,
        inputs={each: owners[each.topic] for each in ordered},
        changelogs={store: each for store, each in changelogs.items() if store not in shared},
        source_changelogs={store: each for store, each in changelogs.items() if store in shared},
        topic_name=names.full,
        partition_count=lambda topic: counts[topic],
    )
