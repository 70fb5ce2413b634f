"""Finds the number of partitions of every source topic: read from the broker, or worked out for repartition topics.

Pure; called on the polling thread before tasks are assigned, and by the test driver. Topic names are full names here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from streamsapp.errors import TopicError
from streamsapp.topology.nodes import SinkNode, SubTopology


def repartition_topic(application_id: str, name: str) -> str:
    """The full name of an internal topic that a topology knows as ``name``."""
    return f"{application_id}-{name}"


def source_topics(sub_topologies: Iterable[SubTopology], application_id: str) -> dict[int, frozenset[str]]:
    """The full names of the topics that each sub-topology reads."""
    return {sub.id: frozenset(_full_names(sub, application_id).values()) for sub in sub_topologies}


def placed_by_key(sub_topologies: Iterable[SubTopology]) -> frozenset[int]:
    """The sub-topologies whose keys are where the default partitioner puts them. They read nothing but repartition
    topics, which no other application writes, and no sink of ours writes those by a partitioner of its own."""
    parts = list(sub_topologies)
    own = {
        node.topic
        for part in parts
        for node in part.nodes
        if isinstance(node, SinkNode) and node.partitioner is not None
    }
    ours = {topic.name for part in parts for topic in part.repartition_sources} - own
    return frozenset(
        part.id
        for part in parts
        if all(source.pattern is None and ours.issuperset(source.topics) for source in part.sources)
    )


def partition_counts(
    sub_topologies: Sequence[SubTopology],
    application_id: str,
    existing: Mapping[str, int],
    internal: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Partitions of every topic the sub-topologies read; ``existing`` has those of the topics on the broker.

    A repartition topic gets the count it was declared with, else the largest count that is read upstream of it. Else,
    if it is joined, it gets the count of its co-partitioned topics. A topic that is filled from topics found by a
    pattern keeps its count (``internal``, by full name): a topic that comes later changes nothing about it; it has 0
    while no topic matches. One that Kafka Streams has made with too few keeps them, too (:func:`fewer_than_upstream`).
    Raises ``TopicError`` for topics that are missing, or that must have equally many partitions and have not.
    """
    counts = _Counts(application_id, existing, internal or {})
    counts.read(sub_topologies)
    counts.derive()
    for group in _joined_groups(sub_topologies, application_id):
        counts.align(group)
    return counts.known


def fewer_than_upstream(
    sub_topologies: Sequence[SubTopology], application_id: str, counts: Mapping[str, int]
) -> dict[str, tuple[int, int]]:
    """Returns the repartition topics that have fewer partitions than a topic upstream of them, without being declared
    so: each with its partitions and the most upstream.

    Kafka Streams makes such topics where streams meet, as by ``merge``: it counts as soon as it knows the partitions of
    one topic upstream, in the order in which sub-topologies were added (KAFKA-21612).
    """
    found = _Counts(application_id, counts, {})
    found.read(sub_topologies)
    most = {
        topic: max((counts[each] for each in upstream if each in counts), default=0)
        for topic, upstream in found.upstream.items()
        if topic not in found.declared and topic not in found.by_pattern
    }
    return {topic: (counts[topic], count) for topic, count in most.items() if counts.get(topic, count) < count}


def _full_names(sub: SubTopology, application_id: str) -> dict[str, str]:
    """The sub-topology's source topics: full names by the names it knows them by."""
    internal = {topic.name for topic in sub.repartition_sources}
    topics = (topic for source in sub.sources for topic in source.topics)
    return {topic: repartition_topic(application_id, topic) if topic in internal else topic for topic in topics}


def _joined_groups(sub_topologies: Sequence[SubTopology], application_id: str) -> Iterable[frozenset[str]]:
    names: dict[str, str] = {}
    for sub in sub_topologies:
        names |= _full_names(sub, application_id)
    groups = (group for sub in sub_topologies for group in sub.copartitioned)
    return dict.fromkeys(frozenset(names[topic] for topic in group) for group in groups)


@dataclass
class _Counts:
    """Fills in ``known`` step by step. ``declared`` has the repartition topics that were given a count, ``upstream``
    the topics read by the sub-topologies that write a repartition topic."""

    application_id: str
    existing: Mapping[str, int]
    internal: Mapping[str, int]
    known: dict[str, int] = field(default_factory=dict)
    declared: dict[str, int] = field(default_factory=dict)
    upstream: dict[str, set[str]] = field(default_factory=dict)
    #: Repartition topics that are filled from topics found by a pattern.
    by_pattern: set[str] = field(default_factory=set)

    def read(self, sub_topologies: Sequence[SubTopology]) -> None:
        """Take over what the topology declares and what the broker knows."""
        for sub in sub_topologies:
            for topic in sub.repartition_sources:
                name = repartition_topic(self.application_id, topic.name)
                self.upstream.setdefault(name, set())
                if topic.partitions is not None:
                    self.declared[name] = self.known[name] = topic.partitions
        for sub in sub_topologies:
            topics = set(_full_names(sub, self.application_id).values())
            for sink in sub.repartition_sinks:
                name = repartition_topic(self.application_id, sink)
                self.upstream.setdefault(name, set()).update(topics)
                if any(source.pattern is not None for source in sub.sources):
                    self.by_pattern.add(name)
            self._look_up(topics - self.upstream.keys())

    def _look_up(self, topics: Iterable[str]) -> None:
        missing = sorted(topic for topic in topics if topic not in self.existing)
        if missing:
            raise TopicError(
                f"source topics are missing: {', '.join(missing)}; create them before the application runs"
            )
        self.known.update((topic, self.existing[topic]) for topic in topics)

    def derive(self) -> None:
        """Work out the repartition topics from what is read upstream, along chains of them."""
        while open_topics := [topic for topic in self.upstream if topic not in self.known]:
            ready = [
                topic for topic in open_topics if self.upstream[topic] and self.upstream[topic] <= self.known.keys()
            ]
            # Only a loop of repartition topics leaves none ready: it goes by what enters it from outside.
            ready = ready or [topic for topic in open_topics if self.upstream[topic] & self.known.keys()]
            if not ready and self.by_pattern.intersection(open_topics):
                self.known.update({topic: self.internal.get(topic, 0) for topic in self.by_pattern & {*open_topics}})
                continue
            if not ready:
                raise TopicError(
                    f"the partitions of repartition topics cannot be worked out: {', '.join(sorted(open_topics))}; "
                    "nothing upstream of them reads an existing topic"
                )
            derived = {topic: self._derived(topic) for topic in ready}
            kept = {topic: self.internal[topic] for topic in self.by_pattern & self.internal.keys() & {*ready}}
            self.known.update(derived | kept)

    def _derived(self, topic: str) -> int:
        """Returns the most partitions that there are upstream; or those that the topic has, if Kafka Streams may have
        counted before it knew the others: keys find their partition among fewer just as well."""
        counts = {self.known[each] for each in self.upstream[topic] if each in self.known}
        meets_others = not self.upstream.keys().isdisjoint(self.upstream[topic])
        made = self.internal.get(topic, 0)
        return made if meets_others and made in counts else max(counts)

    def align(self, group: frozenset[str]) -> None:
        """Give co-partitioned topics equally many partitions, or refuse."""
        fixed = {topic: self.known[topic] for topic in group if topic not in self.upstream}
        fixed |= {topic: count for topic, count in self.declared.items() if topic in group}
        if len(set(fixed.values())) > 1:
            listed = ", ".join(f"{topic}: {count}" for topic, count in sorted(fixed.items()))
            raise TopicError(
                f"topics that are joined are not co-partitioned ({listed}); they need the same number of partitions: "
                f"recreate those that do not have {max(fixed.values())} partitions with as many, or send one side of "
                "the join through repartition(Repartitioned(partitions=...)), with as many as the other side has"
            )
        count = max((fixed or self.known)[topic] for topic in (fixed or group))
        self.known.update(dict.fromkeys(group, count))
