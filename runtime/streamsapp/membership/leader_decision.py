"""The leader's decision: from the members' subscriptions to a plan, and from the plan to the answer for each member.

Pure but for the log; called on the membership's thread of the member that leads.
"""

from __future__ import annotations

import logging
import struct
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import msgspec

from streamsapp.membership import member_messages, wire
from streamsapp.membership.api import GroupTasks, MatchedTopics, TaskInfo
from streamsapp.membership.assignor.exclusive_use import ExclusiveUse
from streamsapp.membership.assignor.model import AssignorSettings, MemberPlan, MemberState, Plan, TaskAssignor
from streamsapp.membership.member_messages import (
    AssignmentInfo,
    GroupView,
    MalformedError,
    PeerEntry,
    Subscription,
)
from streamsapp.record import TaskId

log = logging.getLogger(__name__)

#: Of a task that a member claims and does not define.
_UNKNOWN = TaskInfo(frozenset(), stateful=False)
#: A member's notes name at most so many tasks that it was given and does not get.
_MOST_NOTES = 20
#: Of an application that names its topics.
_NONE: Mapping[int, MatchedTopics] = MappingProxyType({})


@dataclass(frozen=True)
class MemberSubscription:
    """The subscription of one member, read."""

    state: MemberState
    tasks: Mapping[TaskId, TaskInfo]
    transactional_id: str = ""
    endpoint: str = ""
    shutdown: bool = False
    nonce: int = 0
    cuts: bool = False


@dataclass(frozen=True)
class _KnownTasks:
    """The tasks that a member knows."""

    tasks: Mapping[TaskId, TaskInfo]
    stateful: frozenset[TaskId]


class SubscriptionReader:
    """Reads what the members of one generation said. Most of them know the same tasks: these are unpacked once."""

    def __init__(self, own: GroupTasks) -> None:
        """``own``: as the leader knows the application, whose word it is which topics match a pattern."""
        self._own = own
        self._known: dict[bytes, _KnownTasks] = {}

    def read(self, member: str, metadata: bytes) -> MemberSubscription | None:
        """``None`` for what cannot be read."""
        try:
            subscription = Subscription.decode(wire.user_data_of_subscription(metadata))
            known = self._unpacked(subscription)
            state = MemberState(
                host=subscription.host,
                threads=subscription.threads,
                active=member_messages.unpack(subscription.active),
                lags=member_messages.unpack_lags(subscription.lags),
                on_disk=member_messages.unpack(subscription.on_disk),
                draining=subscription.draining,
                tags=subscription.tags,
                definitions=known.tasks,
                stateful=known.stateful,
            )
        except Exception as error:  # the bytes are not to be trusted
            log.error("member %s joined with metadata that cannot be read (%s): it gets no task", member, error)
            return None
        return MemberSubscription(
            state,
            known.tasks,
            subscription.transactional_id,
            subscription.endpoint,
            subscription.shutdown,
            subscription.nonce,
            subscription.cuts,
        )

    def _unpacked(self, subscription: Subscription) -> _KnownTasks:
        key = msgspec.msgpack.encode((subscription.definitions, subscription.by_pattern))
        if key not in self._known:
            told = member_messages.unpack_definitions(subscription.definitions)
            tasks = self._own.of_member(told, member_messages.unpack_patterns(subscription.by_pattern))
            self._known[key] = _KnownTasks(tasks, frozenset(task for task, info in tasks.items() if info.stateful))
        return self._known[key]


@dataclass(frozen=True)
class Decision:
    """The leader's message to each member."""

    answers: Mapping[str, bytes]
    #: True if it is to look again after a while.
    follow_up: bool


def decide(
    members: Collection[str],
    subscriptions: Mapping[str, MemberSubscription],
    assignor: TaskAssignor,
    settings: AssignorSettings,
    dead: Collection[str],
    matched: Mapping[int, MatchedTopics] = _NONE,
    cut: int = 0,
) -> Decision:
    """Decide the answer to each of ``members``; ``subscriptions`` lacks the ones that could not be read. ``matched``:
    the topics that the leader found for patterns, by which the subscriptions were read. ``cut``: a number that no
    earlier assignment has had.

    A member is left out, as if it could not be read, if nothing can be decided with it; the others go on. It is found
    by deciding for more and more members, first for the members whose topology most of them have. An error of the
    assignor comes through if it cannot decide for any member.
    """

    def decide_for(some: Mapping[str, MemberSubscription]) -> Decision:
        decided = plan(some, assignor, settings)
        return Decision(answers(members, some, decided, dead, matched, cut), decided.follow_up)

    try:
        return decide_for(subscriptions)
    except Exception as error:
        log.exception("nothing can be decided for all %d members of the group; trying without some", len(subscriptions))
        failure = error
    alike = Counter(id(each.tasks) for each in subscriptions.values())
    fit: dict[str, MemberSubscription] = {}
    for member in sorted(subscriptions, key=lambda name: (-alike[id(subscriptions[name].tasks)], name)):
        try:
            decide_for({**fit, member: subscriptions[member]})
        except Exception as error:
            log.error("nothing can be decided with member %s (%s): it gets no task", member, error)
        else:
            fit[member] = subscriptions[member]
    if not fit:
        raise failure
    return decide_for(fit)


def plan(subscriptions: Mapping[str, MemberSubscription], assignor: TaskAssignor, settings: AssignorSettings) -> Plan:
    """The assignor's plan, without what would let two members run one task, or two tasks use one partition or store."""
    states = {member: each.state for member, each in sorted(subscriptions.items())}
    wanted = assignor.assign(states, settings)
    shares = {member: wanted.members.get(member, MemberPlan()) for member in states}
    allowed, refused = _allowed(states, shares)
    members: dict[str, MemberPlan] = {}
    for member, share in shares.items():
        left_out = refused[member]
        if left_out:
            log.error(
                "%s gave %s tasks that others have or that it does not know (%s): they are left out",
                type(assignor).__name__,
                member,
                "; ".join(left_out),
            )
        for note in share.notes:
            log.warning("member %s: %s", member, note)
        known = states[member].definitions.keys()
        members[member] = replace(
            share,
            active=frozenset(allowed[member]),
            standby=share.standby & known,
            warmup=share.warmup & known,
            notes=(*share.notes, *left_out[:_MOST_NOTES]),
        )
    return replace(wanted, members=members)


def _allowed(
    states: Mapping[str, MemberState], shares: Mapping[str, MemberPlan]
) -> tuple[dict[str, set[TaskId]], dict[str, list[str]]]:
    """Returns for each member the tasks that it may run, and in words the tasks that it may not. A member that keeps a
    task comes first; what others have is theirs until they have given it up; the rest is new."""
    use = ExclusiveUse[tuple[str, TaskId]]()
    allowed: dict[str, set[TaskId]] = {member: set() for member in states}
    refused: dict[str, list[str]] = {member: [] for member in states}

    def admit(member: str, tasks: Collection[TaskId]) -> None:
        for task in sorted(tasks):
            info = states[member].definitions.get(task)
            if info is None:
                refused[member].append(f"{task}, which it does not know")
            elif (rival := use.rival((member, task), task, info)) is not None:
                other, theirs = rival.holder
                why = f"which {other} has" if theirs == task else f"as {other} has {theirs}, which uses {rival.what}"
                refused[member].append(f"{task}, {why}")
            else:
                use.hold((member, task), task, info)
                allowed[member].add(task)

    for member, state in states.items():
        admit(member, shares[member].active & state.active)
    for member, state in states.items():
        for task in state.active:
            use.hold((member, task), task, state.definitions.get(task, _UNKNOWN))
    for member, state in states.items():
        admit(member, shares[member].active - state.active)
    return allowed, refused


def answers(
    members: Collection[str],
    subscriptions: Mapping[str, MemberSubscription],
    decided: Plan,
    dead: Collection[str],
    matched: Mapping[int, MatchedTopics] = _NONE,
    cut: int = 0,
) -> dict[str, bytes]:
    """The message to each of ``members``; ``subscriptions`` lacks the ones that could not be read. Raises
    ``MalformedError`` for what they could not read."""
    group = _group_view(subscriptions, decided, dead, matched, cut).encode()
    GroupView.decode(group)
    return {
        member: _encoded_share(subscriptions[member], decided.members[member], group)
        if member in subscriptions
        else _no_tasks(group)
        for member in members
    }


def _group_view(
    subscriptions: Mapping[str, MemberSubscription],
    decided: Plan,
    dead: Collection[str],
    matched: Mapping[int, MatchedTopics],
    cut: int,
) -> GroupView:
    coming = _by_cut(subscriptions, decided) if cut else {}
    peers = [
        PeerEntry(
            member,
            each.endpoint,
            each.transactional_id,
            member_messages.pack(decided.members[member].active),
            member_messages.pack(decided.members[member].standby),
            each.state.draining,
            member_messages.pack(coming.get(member, ())),
        )
        for member, each in sorted(subscriptions.items())
    ]
    held_back = member_messages.pack(decided.held_back)
    shutdown = any(each.shutdown for each in subscriptions.values())
    topics = member_messages.pack_matched(matched)
    return GroupView(member_messages.VERSION, peers, sorted(dead), shutdown, held_back, topics, cut if coming else 0)


def _by_cut(subscriptions: Mapping[str, MemberSubscription], decided: Plan) -> dict[str, set[TaskId]]:
    """The tasks that come to each member by a cut: one member alone has such a task, which is to give it up, and both
    know how. Whatever the assignor says, there is one heir, and it knows the task."""
    run = frozenset[TaskId]().union(*(share.active for share in decided.members.values()))
    coming: dict[str, set[TaskId]] = {}
    for task, heir in decided.heirs.items():
        owners = [each for each in subscriptions.values() if task in each.state.active]
        if task in run or len(owners) != 1 or heir not in subscriptions:
            continue
        if subscriptions[heir].cuts and owners[0].cuts and task in subscriptions[heir].tasks:
            coming.setdefault(heir, set()).add(task)
    return coming


def _encoded_share(subscription: MemberSubscription, share: MemberPlan, group: bytes) -> bytes:
    partitions = {partition for task in share.active for partition in subscription.tasks[task].partitions}
    active, standby, warmup = (member_messages.pack(each) for each in (share.active, share.standby, share.warmup))
    notes = [member_messages.readable(note) for note in share.notes]
    told = AssignmentInfo(active, standby, warmup, group, subscription.nonce, notes)
    return wire.assignment(partitions, told.encode())


def _no_tasks(group: bytes) -> bytes:
    return wire.assignment((), AssignmentInfo({}, {}, {}, group, 0).encode())


def read_assignment(data: bytes) -> tuple[AssignmentInfo, GroupView]:
    """Raises ``MalformedError``."""
    try:
        user_data = wire.user_data_of_assignment(data)
    except (ValueError, struct.error) as error:
        raise MalformedError(str(error)) from error
    share = AssignmentInfo.decode(user_data)
    return share, GroupView.decode(share.group)
