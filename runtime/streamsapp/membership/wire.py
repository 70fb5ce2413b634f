"""The requests of the group protocol and the reading of their answers.

Pure; used on the membership's thread. Fields that an older broker does not know are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from streamsapp.brokers.bounds import WrongAnswerError, check_told
from streamsapp.brokers.codec import Whole, encoded, read
from streamsapp.brokers.encoding import INT16, Reader
from streamsapp.brokers.messages import consumer_protocol_assignment
from streamsapp.brokers.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from streamsapp.brokers.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from streamsapp.brokers.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from streamsapp.brokers.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from streamsapp.brokers.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from streamsapp.brokers.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from streamsapp.brokers.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from streamsapp.brokers.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from streamsapp.brokers.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from streamsapp.brokers.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from streamsapp.brokers.request import Request
from streamsapp.record import TopicPartition

#: Shown by ``kafka-consumer-groups.sh``, which can read partitions of this type of group only.
PROTOCOL_TYPE = "consumer"
#: The name of what the members agree on. Kafka Streams' own is another, so that the two never share a group.
PROTOCOL = "streamsapp"

#: How long a fenced transactional id's next transaction might take; no producer begins one.
_FENCING_TIMEOUT_MS = 60_000

#: The versions of the forms of a subscription and of an assignment, that of a plain consumer of before cooperative
#: rebalances and of after.
_SUBSCRIPTION, _ASSIGNMENT = 1, 0

#: The first versions in which several members leave at once, and in which groups have types.
_SEVERAL, _TYPES = 3, 5

M = TypeVar("M", bound=Whole)


@dataclass(frozen=True)
class GroupSettings:
    """A member's settings as the coordinator gets them; times in seconds."""

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


def join(group: GroupSettings, member_id: str, metadata: bytes, reason: str) -> Request[JoinGroupResponse]:
    return Request(
        JoinGroupRequest(
            group_id=group.group_id,
            session_timeout_ms=round(group.session_timeout * 1000),
            rebalance_timeout_ms=round(group.rebalance_timeout * 1000),
            member_id=member_id,
            group_instance_id=group.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(PROTOCOL, metadata)],
            reason=reason[:255],
        )
    )


def leads(answer: JoinGroupResponse) -> bool:
    """Return whether the answer to a JoinGroup makes this member assign. A static member that came back in time does
    not: the assignment of its group stands (KIP-814)."""
    return answer.leader == answer.member_id and not answer.skip_assignment


def sync(group: GroupSettings, identity: Identity, assignments: Mapping[str, bytes]) -> Request[SyncGroupResponse]:
    return Request(
        SyncGroupRequest(
            group_id=group.group_id,
            generation_id=identity.generation,
            member_id=identity.member_id,
            group_instance_id=group.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=[SyncGroupRequestAssignment(member, data) for member, data in assignments.items()],
        )
    )


def leave(group: GroupSettings, member_id: str, reason: str) -> Request[LeaveGroupResponse]:
    one = MemberIdentity(member_id=member_id, group_instance_id=None, reason=reason[:255])
    before = _SEVERAL, LeaveGroupRequest(group.group_id, member_id)
    return Request(LeaveGroupRequest(group.group_id, members=[one]), before=before)


def commit(
    group: GroupSettings, identity: Identity, offsets: Mapping[TopicPartition, tuple[int, str]]
) -> Request[OffsetCommitResponse]:
    """The request to commit offsets, by names of topics: the next version goes by their ids."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), (offset, metadata) in offsets.items():
        one = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        topics.setdefault(topic, []).append(one)
    return Request(
        OffsetCommitRequest(
            group_id=group.group_id,
            generation_id_or_member_epoch=identity.generation,
            member_id=identity.member_id,
            group_instance_id=group.instance_id,
            topics=[OffsetCommitRequestTopic(topic, partitions) for topic, partitions in topics.items()],
        )
    )


#: Types of groups that no member of a consumer group can join, not even where they have no members (KIP-932, KIP-1071).
_OTHER_TYPES = ("share", "streams")


def groups_of_other_types() -> Request[ListGroupsResponse]:
    """Asks a broker for the groups that it coordinates and that cannot be joined. An older broker knows no such groups,
    and reports no types."""
    return Request(ListGroupsRequest(types_filter=list(_OTHER_TYPES)), before=(_TYPES, ListGroupsRequest()))


def type_and_state(answer: ListGroupsResponse, group_id: str) -> tuple[str, str] | None:
    """Returns the type of a group that cannot be joined, ``share`` or ``streams``, and its state; ``None`` if it is not
    in the answer."""
    found = next((each for each in answer.groups if each.group_id == group_id), None)
    return None if found is None or found.group_type not in _OTHER_TYPES else (found.group_type, found.group_state)


def check_joined(answer: JoinGroupResponse) -> None:
    """Raises ``WrongAnswerError`` for an answer to JoinGroup that makes no client a member, and has no error."""
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


def check_committed(answer: OffsetCommitResponse, offsets: Iterable[TopicPartition]) -> None:
    """Raises ``WrongAnswerError`` unless an answer to OffsetCommit names each of these."""
    told = [
        TopicPartition(topic.name, partition.partition_index)
        for topic in answer.topics
        for partition in topic.partitions
    ]
    check_told("OffsetCommit", list(offsets), told)


def check_fenced(answer: InitProducerIdResponse) -> None:
    """Raises ``WrongAnswerError`` for an answer to InitProducerId without an error and without a producer."""
    if not answer.error_code and min(answer.producer_id, answer.producer_epoch) < 0:
        raise WrongAnswerError(f"the answer to InitProducerId has an impossible producer id: {answer.producer_id}")


def commit_errors(answer: OffsetCommitResponse) -> dict[TopicPartition, int]:
    """The partitions whose offset was not committed, with the broker's error code."""
    return {
        TopicPartition(topic.name, partition.partition_index): partition.error_code
        for topic in answer.topics
        for partition in topic.partitions
        if partition.error_code
    }


def fence(transactional_id: str) -> Request[InitProducerIdResponse]:
    """The producer that used this id before cannot write any more, and its open transaction is aborted."""
    return Request(InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=_FENCING_TIMEOUT_MS))


def describe_transaction(transactional_id: str) -> Request[DescribeTransactionsResponse]:
    """Ask for the id and epoch of the producer that may write under this id."""
    return Request(DescribeTransactionsRequest(transactional_ids=[transactional_id]))


def list_transactions(states: Sequence[str]) -> Request[ListTransactionsResponse]:
    """Of transactional ids in these states; of all if none is named."""
    return Request(ListTransactionsRequest(state_filters=list(states)))


def subscription(topics: Iterable[str], user_data: bytes) -> bytes:
    """A member's subscription, in the form of a plain consumer's."""
    said = ConsumerProtocolSubscription(topics=sorted(topics), user_data=user_data)
    return INT16.pack(_SUBSCRIPTION) + encoded(said, _SUBSCRIPTION)


def user_data_of_subscription(metadata: bytes) -> bytes:
    """Raises ``ValueError`` or ``struct.error`` for a damaged one."""
    return _said(ConsumerProtocolSubscription, metadata).user_data or b""


def assignment(partitions: Iterable[TopicPartition], user_data: bytes) -> bytes:
    """A member's assignment, in the form of a plain consumer's, so that tools see its partitions."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    assigned = [consumer_protocol_assignment.TopicPartition(topic, numbers) for topic, numbers in topics.items()]
    said = ConsumerProtocolAssignment(assigned_partitions=assigned, user_data=user_data)
    return INT16.pack(_ASSIGNMENT) + encoded(said, _ASSIGNMENT)


def user_data_of_assignment(data: bytes) -> bytes:
    """Raises ``ValueError`` or ``struct.error`` for a damaged one."""
    return _said(ConsumerProtocolAssignment, data).user_data or b""


def _said(kind: type[M], data: bytes) -> M:
    """A message that says its version.

    The additional fields of a newer message follow at its end, and are left alone.
    """
    reader = Reader(data, compact=False)
    (version,) = reader.read(INT16)
    return read(kind, reader, min(version, kind.VERSIONS[1]))
