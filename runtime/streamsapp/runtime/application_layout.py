"""The layout of an application: its tasks, made from its topology and the topics that exist.

Runs on the polling thread when an instance starts, and later on the threads of ``layouts`` when topics that match a
pattern come or go. ``changes`` says whether the other source topics still have the partitions that they had.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from hashlib import sha256

from streamsapp.config.client_properties import producer
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import MissingTopicError
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.membership.api import GroupTasks, MatchedTopics, TaskInfo
from streamsapp.record import TaskId, TopicPartition
from streamsapp.runtime.takeovers import tell_of_faults
from streamsapp.tasks.dead_letters import DeadLetters
from streamsapp.tasks.task_plan import TaskPlan
from streamsapp.topology.builder import Topology
from streamsapp.topology.internal_topics import InternalTopic, changelog_topic, internal_topics, missing_topics
from streamsapp.topology.nodes import SinkNode, SourceNode, SubTopology
from streamsapp.topology.partition_grouper import group_by_partition
from streamsapp.topology.partitioning import (
    partition_counts,
    repartition_topic,
    source_topics,
)

log = logging.getLogger(__name__)

#: Topics that no pattern matches, as consumers leave them out (``exclude.internal.topics``), and how the names of the
#: application's own end.
_KAFKAS_OWN = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_INTERNAL = ("-changelog", "-repartition")


@dataclass(frozen=True)
class ApplicationLayout:
    """All tasks of an application, and the topics they were derived from."""

    plans: Mapping[TaskId, TaskPlan]
    #: Source topics (user's, not internal; those of global stores too) with the number of partitions each had.
    sources: Mapping[str, int]
    #: Repartition topics, whose consumed records are deleted.
    repartition_topics: frozenset[str]
    dead_letters: DeadLetters = field(default_factory=lambda: DeadLetters(None))
    #: The matching topics of each sub-topology that reads topics by pattern.
    matched: Mapping[int, MatchedTopics] = field(default_factory=dict)
    #: The description of the tasks of such a sub-topology, without their partitions.
    by_pattern: Mapping[int, TaskInfo] = field(default_factory=dict)
    #: All topics that were there, internal ones that were made included, with their partitions.
    existing: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def group_tasks(self) -> GroupTasks:
        """Everything that this instance reports to the group."""
        return GroupTasks(self.task_infos, self.matched, self.by_pattern)

    @property
    def found_by_pattern(self) -> frozenset[str]:
        """The source topics that no source names."""
        return frozenset(topic for each in self.matched.values() for topic in each.topics)

    @property
    def late(self) -> frozenset[str]:
        """Topics that came after the application had started."""
        return frozenset().union(*(each.late for each in self.matched.values()))

    def agrees(self, matched: Mapping[int, MatchedTopics]) -> bool:
        """Return whether the leader found the same topics, as far as it leads the same program."""
        return all(each == self._shared(number, each, matched) for number, each in self.matched.items())

    def with_topics(self, matched: Mapping[int, MatchedTopics]) -> dict[str, int]:
        """The existing topics, with the leader's matches of the patterns in place of our own."""
        topics = {name: count for name, count in self.existing.items() if name not in self.found_by_pattern}
        for number, each in self.matched.items():
            topics |= self._shared(number, each, matched).topics
        return topics

    @staticmethod
    def _shared(number: int, own: MatchedTopics, matched: Mapping[int, MatchedTopics]) -> MatchedTopics:
        told = matched.get(number, own)
        return told if told.sources == own.sources else own

    @property
    def task_infos(self) -> dict[TaskId, TaskInfo]:
        """The description of every task that the group is given."""
        parts = {plan.sub_topology.id: plan.sub_topology for plan in self.plans.values()}
        infos = {number: _info(part) for number, part in parts.items()}
        return {
            task_id: replace(infos[task_id.subtopology], partitions=frozenset(plan.inputs))
            for task_id, plan in self.plans.items()
        }

    def with_dead_letters(self, letters: DeadLetters) -> ApplicationLayout:
        """Returns the same with dead letters of this form."""
        plans = {task_id: replace(plan, dead_letters=letters) for task_id, plan in self.plans.items()}
        return replace(self, plans=plans, dead_letters=letters)

    def changes(self, existing: Mapping[str, int]) -> str | None:
        """A sentence that says how the source topics have changed since; ``None`` if they have not, or if a pattern had
        found the topics that are gone."""
        found_by_pattern = self.found_by_pattern
        for topic, count in self.sources.items():
            now = existing.get(topic)
            if now is None and topic in found_by_pattern:
                continue
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


def laid_out_again(
    topology: Topology,
    config: StreamsConfig,
    before: ApplicationLayout,
    existing: Mapping[str, int],
    matched: Mapping[int, MatchedTopics] | None = None,
) -> tuple[ApplicationLayout, tuple[InternalTopic, ...]]:
    """The layout that follows from other topics, which were found here or ``matched`` by the leader, and the internal
    topics it needs; nothing is created. Topics that were not there before are late."""
    late = frozenset(before.late).union(*(each.late for each in (matched or {}).values()))
    if matched is None:
        late |= match_patterns(topology, config, existing) - before.found_by_pattern
    layout, needed = lay_out(topology, config, existing, _missing, late)
    return layout.with_dead_letters(before.dead_letters), needed


def match_patterns(topology: Topology, config: StreamsConfig, existing: Iterable[str]) -> frozenset[str]:
    """The topics that match the patterns of sources. Raises ``TopologyError`` for a topic that matches two of them."""
    parts = topology.sub_topologies(_readable(existing, config))
    return frozenset(topic for part in parts for node in part.sources if node.pattern for topic in node.topics)


def _missing(topic: str) -> str:
    return f"topic {topic} does not exist"


def plan_layout(
    topology: Topology, config: StreamsConfig, admin: TopicAdmin
) -> tuple[ApplicationLayout, tuple[InternalTopic, ...]]:
    """Check the source topics and derive the tasks. Return the internal topics that are missing, too: nothing is
    created."""
    existing = admin.partition_counts()
    layout, needed = lay_out(topology, config, existing, admin.why_missing)
    _check_written(topology, config, existing, admin.why_missing)
    missing = missing_topics(needed, existing)
    tell_of_faults(topology.sub_topologies(_readable(existing, config)), config.application_id, existing)
    topic, limit = config.dead_letter_queue_topic, layout.dead_letters.limit
    if topic is None or topic not in existing:
        return layout, missing
    letters = DeadLetters(topic, min(limit, admin.max_message_bytes(topic) or limit))
    return layout.with_dead_letters(letters), missing


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
    topology: Topology,
    config: StreamsConfig,
    existing: Mapping[str, int],
    why_missing: Callable[[str], str],
    late: Collection[str] = (),
) -> tuple[ApplicationLayout, tuple[InternalTopic, ...]]:
    """The tasks that follow from the topics there are, and the internal topics they need; nothing is created. Topics
    that came ``late`` and are found by a pattern are read from their beginning where the policy is ``latest``: they
    have nothing from before the application's start, and what was written before they were found would be lost."""
    topology.validate()
    global_stores = {each.store.name: each.topic for each in topology.global_stores()}
    parts = tuple(part.with_access_to(global_stores) for part in topology.sub_topologies(_readable(existing, config)))
    application_id = config.application_id
    names = _Names(application_id, parts)
    sources = _source_counts(parts, names, global_stores.values(), existing, why_missing)
    internal = {full: existing[full] for full in map(names.full, names.internal) if full in existing}
    counts = partition_counts(parts, application_id, sources, internal)
    grouper = config.partition_grouper or group_by_partition
    groups = grouper(source_topics(parts, application_id), counts)
    matched = _matched(parts, existing, late)
    for topics in matched.values():
        if not topics.topics:
            log.warning("no topic matches the topology's patterns yet; they are looked for again and again")
    needed = internal_topics(parts, application_id, counts, groups, config.topic_properties)
    by_id = {part.id: part for part in parts}
    there = {**existing, **counts}
    plans = {
        task_id: _plan(task_id, by_id[task_id.subtopology], partitions, names, there, late)
        for task_id, partitions in groups.items()
    }
    repartition_topics = frozenset(names.full(topic) for topic in names.internal)
    letters = DeadLetters(config.dead_letter_queue_topic, int(producer(config)["message.max.bytes"]))
    by_pattern = {number: _info(by_id[number]) for number in matched}
    return ApplicationLayout(plans, sources, repartition_topics, letters, matched, by_pattern, there), needed


def _readable(existing: Iterable[str], config: StreamsConfig) -> list[str]:
    """The topics that a pattern may match: not those of Kafka itself, nor the application's internal topics and dead
    letters, which would be read as its input."""
    own = config.application_id + "-"
    return [
        topic
        for topic in existing
        if topic not in _KAFKAS_OWN
        and topic != config.dead_letter_queue_topic
        and not (topic.startswith(own) and topic.endswith(_INTERNAL))
    ]


def _matched(
    parts: Iterable[SubTopology], existing: Mapping[str, int], late: Collection[str]
) -> dict[int, MatchedTopics]:
    matched = {}
    for part in parts:
        found = sorted(topic for node in part.sources if node.pattern is not None for topic in node.topics)
        if any(node.pattern is not None for node in part.sources):
            written = sorted(repr(_as_written(node)) for node in part.sources)
            sources = sha256(repr(written).encode()).hexdigest()[:16]
            topics = {topic: existing[topic] for topic in found}
            matched[part.id] = MatchedTopics(sources, topics, frozenset(found).intersection(late))
    return matched


def _as_written(node: SourceNode) -> tuple[object, ...]:
    """The topics of a source as the program names them: which of them match a pattern changes."""
    return node.topics if node.pattern is None else (node.pattern.pattern, node.pattern.flags)


def _info(part: SubTopology) -> TaskInfo:
    stateful = any(store.logging or store.changelog_topic is not None for store in part.stores)
    stores = frozenset((each.name, each.type.name) for each in part.stores)
    return TaskInfo(frozenset(), stateful, fingerprint(part), stores)


def fingerprint(part: SubTopology) -> str:
    """The same for sub-topologies with the same nodes, edges, topics and stores, patterns as such. User code is not
    looked into."""
    nodes = [
        (
            type(each).__name__,
            each.name,
            getattr(each, "children", ()),
            _as_written(each) if isinstance(each, SourceNode) else (),
        )
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


def _reading(node: SourceNode, topic: str, late: Collection[str]) -> SourceNode:
    whole = node.pattern is not None and node.offset_reset == "latest" and topic in late
    return replace(node, offset_reset="earliest") if whole else node


def _plan(
    task_id: TaskId,
    part: SubTopology,
    partitions: frozenset[TopicPartition],
    names: _Names,
    counts: Mapping[str, int],
    late: Collection[str],
) -> TaskPlan:
    owners = {names.full(topic): _reading(node, topic, late) for node in part.sources for topic in node.topics}
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
