"""The requests of the group protocol and what is read from their answers, in kafka-python's classes.

Pure; used on the membership's thread. The greatest version of each request is fixed: a newer one may mean something
else. Kafka-python leaves out the fields that an older broker does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.admin.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.consumer import (
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka.protocol.producer import InitProducerIdRequest

from streamsapp.brokers.bounds import WrongAnswerError, check_told
from streamsapp.record import TopicPartition

#: Shown by ``kafka-consumer-groups.sh``, which can read partitions of this type of group only.
PROTOCOL_TYPE = "consumer"
#: The name of what the members agree on. Kafka Streams' own is another, so that the two never share a group.
PROTOCOL = "streamsapp"

#: How long a fenced transactional id's next transaction might take; nobody begins one.
_FENCING_TIMEOUT_MS = 60_000

Request: TypeAlias = Any
Response: TypeAlias = Any


@dataclass(frozen=True)
class GroupSettings:
    """A member's settings as the coordinator is told them; times in seconds."""

    group_id: str
    instance_id: str | None
    session_timeout: float
    heartbeat_interval: float
    rebalance_timeout: float
    #: The interval of heartbeats of a member that has little or nothing to do.
    resting_interval: float


@dataclass(frozen=True)
class Identity:
    """A member as the group knows it: commits are fenced by it."""

    generation: int
    member_id: str


def join(group: GroupSettings, member_id: str, metadata: bytes, reason: str) -> Request:
    return JoinGroupRequest(
        group_id=group.group_id,
        session_timeout_ms=round(group.session_timeout * 1000),
        rebalance_timeout_ms=round(group.rebalance_timeout * 1000),
        member_id=member_id,
        group_instance_id=group.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name=PROTOCOL, metadata=metadata)],
        reason=reason[:255],
        max_version=9,
    )


def leads(answer: Response) -> bool:
    """Return whether the answer to a JoinGroup makes this member assign. A static member that came back in time does
    not: the assignment of its group stands (KIP-814)."""
    return answer.leader == answer.member_id and not answer.skip_assignment


def sync(group: GroupSettings, identity: Identity, assignments: Mapping[str, bytes]) -> Request:
    one = SyncGroupRequest.SyncGroupRequestAssignment
    return SyncGroupRequest(
        group_id=group.group_id,
        generation_id=identity.generation,
        member_id=identity.member_id,
        group_instance_id=group.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=PROTOCOL,
        assignments=[one(member_id=member, assignment=data) for member, data in assignments.items()],
        max_version=5,
    )


def leave(group: GroupSettings, member_id: str, reason: str) -> Request:
    one = LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=None, reason=reason[:255])
    return LeaveGroupRequest(group_id=group.group_id, member_id=member_id, members=[one], max_version=5)


def commit(group: GroupSettings, identity: Identity, offsets: Mapping[TopicPartition, tuple[int, str]]) -> Request:
    """The request to commit offsets, by names of topics: the next version goes by their ids."""
    topic_of = OffsetCommitRequest.OffsetCommitRequestTopic
    partition_of = topic_of.OffsetCommitRequestPartition
    topics: dict[str, list[Any]] = {}
    for (topic, partition), (offset, metadata) in offsets.items():
        one = partition_of(
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=-1,
            committed_metadata=metadata,
        )
        topics.setdefault(topic, []).append(one)
    return OffsetCommitRequest(
        group_id=group.group_id,
        generation_id_or_member_epoch=identity.generation,
        member_id=identity.member_id,
        group_instance_id=group.instance_id,
        retention_time_ms=-1,
        topics=[topic_of(name=topic, partitions=partitions) for topic, partitions in topics.items()],
        max_version=9,
    )


#: Types of groups that no member of a consumer group can join, not even where they have no members (KIP-932, KIP-1071).
_OTHER_TYPES = ("share", "streams")


def groups_of_other_types() -> Request:
    """Asks a broker for the groups that it coordinates and that cannot be joined. An older one, which knows no such
    groups, tells no types."""
    return ListGroupsRequest(types_filter=list(_OTHER_TYPES), max_version=5)


def type_and_state(answer: Response, group_id: str) -> tuple[str, str] | None:
    """Returns the type of a group that cannot be joined, ``share`` or ``streams``, and its state; ``None`` if it is not
    among those that are told."""
    found = next((each for each in answer.groups or () if each.group_id == group_id), None)
    return None if found is None or found.group_type not in _OTHER_TYPES else (found.group_type, found.group_state)


def check_joined(answer: Response) -> None:
    """Raises ``WrongAnswerError`` for an answer to JoinGroup that makes nobody a member, and tells no error."""
    if answer.error_code:
        return
    members = [each.member_id for each in answer.members]
    if not answer.member_id or answer.generation_id < 0 or answer.protocol_name != PROTOCOL:
        raise WrongAnswerError(
            f"the answer to JoinGroup names member {answer.member_id!r} in generation {answer.generation_id} of"
            f" protocol {answer.protocol_name!r}"
        )
    if leads(answer):
        check_told("JoinGroup", {*members, answer.member_id}, members)


def check_committed(answer: Response, offsets: Iterable[TopicPartition]) -> None:
    """Raises ``WrongAnswerError`` unless an answer to OffsetCommit tells of each of these."""
    told = [
        TopicPartition(topic.name, partition.partition_index)
        for topic in answer.topics
        for partition in topic.partitions
    ]
    check_told("OffsetCommit", list(offsets), told)


def check_fenced(answer: Response) -> None:
    """Raises ``WrongAnswerError`` for an answer to InitProducerId without an error and without a producer."""
    if not answer.error_code and min(answer.producer_id, answer.producer_epoch) < 0:
        raise WrongAnswerError(f"the answer to InitProducerId names no producer, but {answer.producer_id}")


def commit_errors(answer: Response) -> dict[TopicPartition, int]:
    """The partitions whose offset was not committed, with the broker's error code."""
    return {
        TopicPartition(topic.name, partition.partition_index): partition.error_code
        for topic in answer.topics
        for partition in topic.partitions
        if partition.error_code
    }


def fence(transactional_id: str) -> Request:
    """Whoever used this id before cannot write any more, and what it left open is aborted."""
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=_FENCING_TIMEOUT_MS,
        producer_id=-1,
        producer_epoch=-1,
        max_version=4,
    )


def describe_transaction(transactional_id: str) -> Request:
    """Ask for the id and epoch of the producer that may write under this id."""
    return DescribeTransactionsRequest(transactional_ids=[transactional_id], max_version=0)


def list_transactions(states: Sequence[str]) -> Request:
    """Of transactional ids in these states; of all if none is named."""
    return ListTransactionsRequest(state_filters=list(states), producer_id_filters=[], max_version=1)


def subscription(topics: Iterable[str], user_data: bytes) -> bytes:
    """A member's subscription, in the form of a plain consumer's."""
    data: bytes = ConsumerProtocolSubscription(
        version=1, topics=sorted(topics), user_data=user_data, owned_partitions=[]
    ).encode()
    return data


def user_data_of_subscription(metadata: bytes) -> bytes:
    """Raises whatever a damaged one makes the decoder raise."""
    return bytes(ConsumerProtocolSubscription.decode(metadata).user_data or b"")


def assignment(partitions: Iterable[TopicPartition], user_data: bytes) -> bytes:
    """A member's assignment, in the form of a plain consumer's, so that tools see its partitions."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    data: bytes = ConsumerProtocolAssignment(
        version=0, assigned_partitions=list(topics.items()), user_data=user_data
    ).encode()
    return data


def user_data_of_assignment(data: bytes) -> bytes:
    """Raises whatever a damaged one makes the decoder raise."""
    return bytes(ConsumerProtocolAssignment.decode(data).user_data or b"")
