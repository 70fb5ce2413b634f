"""The topics an application needs besides its users': repartition and changelog topics, configured as Kafka Streams
configures them.

Pure; called on the polling thread before tasks start, by ``reset`` and by the test driver.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from streamsapp.errors import TopicError, TopologyError
from streamsapp.record import TaskId
from streamsapp.state.api import StoreBuilder
from streamsapp.state.kinds.store_type import KEPT_FOR
from streamsapp.topology.nodes import SubTopology
from streamsapp.topology.partitioning import repartition_topic

_CREATE_TIME = {"message.timestamp.type": "CreateTime"}
_REPARTITION = {"cleanup.policy": "delete", "segment.bytes": "52428800", "retention.ms": "-1"}
_CHANGELOG = {"cleanup.policy": "compact"}
#: Settings by which the broker deletes records whose keys a store still has; only a store's own settings have them.
_DELETING = frozenset({"cleanup.policy", "retention.bytes"})
#: The retention of a topic that keeps everything.
FOR_EVER = "-1"

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class InternalTopicKind(Enum):
    """The purpose of an internal topic."""

    REPARTITION = "repartition"
    CHANGELOG = "changelog"


@dataclass(frozen=True)
class InternalTopic:
    """A topic that the application creates, by its full name."""

    name: str
    kind: InternalTopicKind
    partitions: int
    config: Mapping[str, str]


def changelog_topic(application_id: str, store: StoreBuilder) -> str:
    """The full name of the topic that restores a store: its own, or the source topic that serves as one."""
    return store.changelog_topic or f"{application_id}-{store.name}-changelog"


def internal_topics(
    sub_topologies: Iterable[SubTopology],
    application_id: str,
    partitions: Mapping[str, int],
    tasks: Iterable[TaskId],
    overrides: Mapping[str, str] | None = None,
) -> tuple[InternalTopic, ...]:
    """Returns every internal topic, with as many partitions as it needs.

    ``partitions`` counts those of the repartition topics, ``tasks`` those of the changelogs. ``overrides`` are the
    configured defaults of internal topics: they win over the library's settings, and a store's own win over both. Of
    the defaults, which are meant for all topics, those do not count by which the broker would delete from a changelog
    what its store has: a cleanup policy, a limit of bytes, and less time than windows, sessions and versions are kept.
    """
    task_counts: dict[int, int] = {}
    for task in tasks:
        task_counts[task.subtopology] = max(task_counts.get(task.subtopology, 0), task.partition + 1)
    topics: dict[str, InternalTopic] = {}
    for sub in sub_topologies:
        for source in sub.repartition_sources:
            name = repartition_topic(application_id, source.name)
            config = _CREATE_TIME | _REPARTITION | dict(overrides or {})
            if partitions[name]:  # none while no topic matches the patterns upstream of it
                topics[name] = _checked(InternalTopic(name, InternalTopicKind.REPARTITION, partitions[name], config))
        for store in sub.stores:
            if store.logging and sub.id in task_counts:
                name = changelog_topic(application_id, store)
                defaults = {**_CREATE_TIME, **_CHANGELOG, **store.type.changelog_settings}
                config = {**defaults, **_keeping(overrides or {}, defaults), **store.log_config}
                changelog = InternalTopic(name, InternalTopicKind.CHANGELOG, task_counts[sub.id], config)
                topics[name] = _checked(changelog)
    return tuple(topics.values())


def _keeping(overrides: Mapping[str, str], defaults: Mapping[str, str]) -> Mapping[str, str]:
    """The overrides without the ones that would make a changelog lose records that the store still has."""

    def kept(name: str) -> bool:
        if name in _DELETING:
            return False
        if name not in KEPT_FOR or name not in defaults or overrides[name] == FOR_EVER:
            return True
        return overrides[name].isdecimal() and int(overrides[name]) > int(defaults[name])

    return {name: value for name, value in overrides.items() if kept(name)}


def missing_topics(needed: Sequence[InternalTopic], existing: Mapping[str, int]) -> tuple[InternalTopic, ...]:
    """The topics still to be created; raises ``TopicError`` where one exists with another number of partitions."""
    for topic in needed:
        actual = existing.get(topic.name, topic.partitions)
        if actual != topic.partitions:
            raise TopicError(
                f"internal topic {topic.name} has {actual} partitions and needs {topic.partitions}: the source topics "
                "or the topology have changed; reset the application, or give it another application id"
            )
    return tuple(topic for topic in needed if topic.name not in existing)


def _checked(topic: InternalTopic) -> InternalTopic:
    if _LEGAL_NAME.fullmatch(topic.name) is None:
        raise TopologyError(
            f"internal topic {topic.name!r} cannot be created: stores and repartitions that get a topic are named with "
            "letters, digits, '.', '_' and '-' only, 249 characters at most with the application id"
        )
    return topic
