"""Topics as brokers describe them: the topic that a name stands for (KIP-516), and the leaders of its partitions with
their epochs (KIP-320). Pure; the message is sent and read on the thread of a connection.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from streamsapp.brokers.bounds import WrongAnswerError, check_told
from streamsapp.brokers.codec import NO_UUID
from streamsapp.brokers.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from streamsapp.brokers.request import Request
from streamsapp.record import UNKNOWN_TOPIC, TopicIdentity

#: In place of a broker's number, or of an epoch.
NONE = -1


class Node(NamedTuple):
    """The address of a broker, and its rack, if it has one (KIP-36)."""

    host: str
    port: int
    rack: str | None = None


class Leader(NamedTuple):
    """The number of the broker that leads a partition, ``NONE`` while there is none. And the epoch of its election,
    ``NONE`` where the brokers report no epochs."""

    node: int
    epoch: int


class TopicLeaders(NamedTuple):
    """A topic: the code of its error, the topic that its name stands for, and the leader of each partition."""

    error: int
    topic: TopicIdentity
    leaders: Mapping[int, Leader]


class Described(NamedTuple):
    """The topics that were asked for, by name, and the brokers that there are, by number."""

    topics: Mapping[str, TopicLeaders]
    brokers: Mapping[int, Node]


NOTHING = Described({}, {})


def topics_request(names: Collection[str]) -> Request[MetadataResponse]:
    """Ask for topics, and make none."""
    wanted = [MetadataRequestTopic(name=name) for name in sorted(names)]
    return Request(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), least=4, greatest=12)


def check_described(answer: MetadataResponse, names: Collection[str]) -> None:
    """Raises ``WrongAnswerError`` for an answer that names other topics, or a partition twice."""
    check_told("Metadata", names, [each.name or "" for each in answer.topics])
    for topic in answer.topics:
        numbers = {each.partition_index for each in topic.partitions}
        if len(numbers) < len(topic.partitions) or min(numbers, default=0) < 0:
            raise WrongAnswerError(f"the answer to Metadata has impossible partitions of topic {topic.name}")


def described(answer: MetadataResponse) -> Described:
    """The content of an answer."""
    brokers = {each.node_id: Node(each.host, each.port, each.rack) for each in answer.brokers}
    cluster = answer.cluster_id or ""
    return Described(
        {
            each.name: TopicLeaders(each.error_code, _identity(each, cluster), _leaders(each, brokers))
            for each in answer.topics
            if each.name is not None
        },
        brokers,
    )


def _identity(topic: MetadataResponseTopic, cluster: str) -> TopicIdentity:
    if topic.error_code:
        return UNKNOWN_TOPIC
    return TopicIdentity(cluster_id=cluster) if topic.topic_id == NO_UUID else TopicIdentity.of(topic.topic_id, cluster)


def _leaders(topic: MetadataResponseTopic, brokers: Collection[int]) -> dict[int, Leader]:
    """A leader that is away does not count as one."""
    return {
        each.partition_index: Leader(each.leader_id if each.leader_id in brokers else NONE, each.leader_epoch)
        for each in topic.partitions
    }
