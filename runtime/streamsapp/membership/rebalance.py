"""One member's side of a rebalance: it prepares to join, subscribes, leads where it is to, and follows its assignment.

Runs on the membership's thread, called by ``group``; made by ``member``, on the polling thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from streamsapp.brokers.connection import Connection
from streamsapp.brokers.errors import UnreachableError
from streamsapp.clock import Clock
from streamsapp.errors import StreamsAppError, StreamsError
from streamsapp.membership import cut, fencing, member_messages
from streamsapp.membership.api import Assignment, Lost, MatchedTopics, Peer, ShutdownRequested
from streamsapp.membership.classic_protocol import GroupMembership
from streamsapp.membership.fencing import DepartedMembers
from streamsapp.membership.group_leader import GroupLeader
from streamsapp.membership.leader_decision import read_assignment
from streamsapp.membership.mailbox import MembershipMailbox
from streamsapp.membership.member_id import MemberId
from streamsapp.membership.member_messages import AssignmentInfo, GroupView, MalformedError
from streamsapp.membership.own_subscription import OwnSubscription
from streamsapp.membership.wire import GroupSettings, Identity
from streamsapp.record import TaskId

log = logging.getLogger(__name__)

#: How often it is looked whether the polling thread is alive and whether a follow-up is due, in seconds.
WATCH = 0.5
#: Between two looks whether the polling thread has taken over what it was handed, in seconds.
SETTLING = 0.02
#: How long a join waits for a commit that is to come first, in seconds; a busy instance commits afterwards.
COMMIT_FIRST = 0.1
#: Before another try, after an assignment that cannot be used, in seconds.
AGAIN = 1.0
#: Between two looks for a cut, at first and after so many seconds without one: then the owner is late.
LOOK, LATE_LOOK, LATE = 0.005, 0.05, 1.0
#: How long an heir is left alone with its first results, before the group is to know who runs what, in seconds.
BEGUN = 0.2


class RebalanceHandler:
    """One member's part in the group."""

    def __init__(
        self,
        settings: GroupSettings,
        member_id: MemberId,
        clock: Clock,
        connection: Connection,
        mailbox: MembershipMailbox,
        subscription: OwnSubscription,
        leader: GroupLeader,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._connection = connection
        self._mailbox = mailbox
        self.own = subscription
        self._leader = leader
        self.group = GroupMembership(connection, settings, member_id, self, clock)
        self._commit_ended = connection.wake_up()
        mailbox.on_commit_ended = self._commit_ended.notify
        #: Of the present life: the next begins with a loss.
        self._transactional_id = mailbox.transactional_id
        self._departed = DepartedMembers()
        #: Counts the times that this member joined: a decision for an earlier join is void.
        self._joins = 0
        self._in_group = False
        self._asked_to_stop = False
        #: The next rebalance is soon: tasks are on their way, or a member that drains has none left.
        self.expects_rebalance = False
        #: And it follows at once on the one before, for which this member has committed.
        self.committed_lately = False

    def start(self) -> None:
        """Begin to join, to show signs of life, and to watch the polling thread."""
        for work in (self.group.joins, self.group.heartbeats, self.watch):
            self._connection.spawn(partial(self._guarded, work))

    # ---- what the group asks for (``group.Delegate``) ---------------------------------------------------------------

    async def prepare(self) -> None:
        if self.own.commits_first and not self.committed_lately:
            await self._commit_first()
        self._mailbox.joining()
        # The coordinator removes a member that takes longer than the rebalance time-out: then the commit is refused.
        give_up = self._clock.monotonic() + self._settings.rebalance_timeout / 2
        while self._mailbox.committing is not None and self._clock.monotonic() < give_up:
            await self._commit_ended.wait(0.5)

    async def _commit_first(self) -> None:
        """No result counts until all have joined: the ones that there are need not wait for that."""
        self._mailbox.want_commit()
        give_up = self._clock.monotonic() + COMMIT_FIRST
        while self._mailbox.commit_wanted and (left := give_up - self._clock.monotonic()) > 0:
            await self._commit_ended.wait(left)

    def joined(self) -> None:
        self._mailbox.close()

    def subscription(self) -> bytes:
        self._joins += 1
        self._leader.forget_follow_up()
        return self.own.write(self._transactional_id)

    async def lead(self, members: Mapping[str, bytes]) -> dict[str, bytes]:
        return await self._leader.lead(members, self._departed)

    @property
    def resting(self) -> bool:
        return self._mailbox.resting

    def assigned(self, identity: Identity, data: bytes) -> None:
        try:
            share, view = read_assignment(data)
            assignment = self._read(identity, share, view)
        except MalformedError as error:
            log.error("the leader's assignment cannot be read: %s; joining again", error)
            self._connection.spawn(self._again)
            return
        # A member that is called dead is fenced: a message that names another application's id must not do that to it.
        ours = partial(fencing.belongs_to, self._settings.group_id)
        present = filter(ours, (peer.transactional_id for peer in view.peers))
        self._departed.update(set(present), set(filter(ours, view.dead)), self._clock.monotonic())
        self._in_group = True
        leave = any(each.draining and not each.active for each in assignment.peers.values())
        self.expects_rebalance = leave or bool(assignment.moving)
        self.committed_lately = self.expects_rebalance and not assignment.by_cut
        self._mailbox.open(identity)
        log.info(
            "group %s, generation %d: this instance runs tasks %s, keeps %d standbys and %d warm-up replicas; "
            "the group has %d members",
            self._settings.group_id,
            identity.generation,
            ", ".join(map(str, sorted(assignment.active))) or "none",
            len(assignment.standby),
            len(assignment.warmup),
            len(assignment.peers),
        )
        for note in assignment.notes:
            log.warning("%s", note)
        if assignment.active - self.own.held.active and self._departed.dead:
            self._connection.spawn(partial(self._guarded, partial(self._fence_and_hand_over, assignment, self._joins)))
        else:
            self._hand_out(assignment)
        if self._settings.instance_id is not None and share.nonce not in (0, self.own.nonce):
            self._connection.spawn(partial(self._take_place, self._joins))
        elif view.shutdown and not self._asked_to_stop:
            self._asked_to_stop = True
            self._mailbox.put(ShutdownRequested(), self._transactional_id)

    def _read(self, identity: Identity, share: AssignmentInfo, view: GroupView) -> Assignment:
        assignment = Assignment(
            active=member_messages.unpack(share.active),
            standby=member_messages.unpack(share.standby),
            warmup=member_messages.unpack(share.warmup),
            generation=identity.generation,
            peers={
                each.name: Peer(
                    each.endpoint,
                    member_messages.unpack(each.active),
                    member_messages.unpack(each.standby),
                    each.draining,
                )
                for each in view.peers
            },
            notes=tuple(share.notes),
            held_back=member_messages.unpack(view.held_back),
            matched=member_messages.unpack_matched(view.matched),
        )
        coming = {each.name: member_messages.unpack(each.coming) for each in view.peers if view.cut}
        known = self._known(assignment.matched)
        unknown = (assignment.active | assignment.standby | assignment.warmup) - known
        if unknown:
            named = ", ".join(str(task) for task in sorted(unknown)[:10])
            raise MalformedError(f"it has {len(unknown)} tasks that this application does not have ({named})")
        run = assignment.held_back.union(*(peer.active for peer in assignment.peers.values()))
        by_cut = frozenset[TaskId]().union(*coming.values())
        if by_cut - known or by_cut & run or len(by_cut) < sum(map(len, coming.values())):
            raise MalformedError(
                "tasks come to members by a cut that there are not, that members run, or that are two's"
            )
        mine = coming.get(identity.member_id, frozenset())
        return replace(assignment, moving=known - run, cut=view.cut, by_cut=by_cut, coming=mine)

    def _known(self, matched: Mapping[int, MatchedTopics]) -> frozenset[TaskId]:
        """The tasks that there are with the topics that the leader found."""
        try:
            return frozenset(self.own.catalogue.decided(matched).tasks)
        except StreamsAppError as error:
            raise MalformedError(f"no tasks follow from the topics it has for patterns: {error}") from error

    def lost(self, reason: str) -> None:
        self._joins += 1
        self._leader.forget_follow_up()
        if not self._in_group:
            return
        self._in_group = False
        self._transactional_id = fencing.transactional_id(self._settings.group_id, self._settings.instance_id)
        log.warning("out of group %s: %s", self._settings.group_id, reason)
        self._mailbox.put(Lost(reason), self._transactional_id)

    def failed(self, error: Exception) -> None:
        self._joins += 1
        self._mailbox.fail(error)

    # ---- dead members ------------------------------------------------------------------------------------------------

    async def _fence_and_hand_over(self, assignment: Assignment, join: int) -> None:
        """Fence the earlier writers for the new active tasks, then hand the tasks to the polling thread."""

        def holds() -> bool:
            return self._joins == join

        def certain() -> bool:
            return holds() and self._clock.monotonic() < self.group.session.safe_until

        while holds():
            self._departed.fenced(await fencing.fence(self._connection, self._departed.dead, certain))
            if not self._departed.dead:
                break
            await self._connection.sleep(self._settings.heartbeat_interval)
        if holds():
            self._hand_out(assignment)

    # ---- cuts --------------------------------------------------------------------------------------------------------

    def _hand_out(self, assignment: Assignment) -> None:
        self._mailbox.put(assignment, self._transactional_id)
        if assignment.coming:
            self._connection.spawn(partial(self._guarded, partial(self._take_over, assignment, self._joins)))

    async def _take_over(self, assignment: Assignment, join: int) -> None:
        """Give the polling thread each task that comes here once its owner has committed the cut. It is over with the
        generation: from when this member joins anew, the next assignment says whose the tasks are."""
        tasks = self.own.catalogue.decided(assignment.matched).tasks
        began = self._clock.monotonic()
        while assignment.coming and self._joins == join:
            reads = {task: tasks[task].partitions for task in assignment.coming}
            try:
                found = await cut.find(self.group.coordinator, self._settings.group_id, reads, assignment.cut)
            except UnreachableError as error:
                log.debug("group %s: the cut is not known now: %s", self._settings.group_id, error)
                found = frozenset()
            if found and self._joins == join and self._clock.monotonic() < self.group.session.safe_until:
                assignment = replace(
                    assignment,
                    active=assignment.active | found,
                    standby=assignment.standby - found,
                    warmup=assignment.warmup - found,
                    moving=assignment.moving - found,
                    coming=assignment.coming - found,
                )
                self._mailbox.put(assignment, self._transactional_id)
            late = self._clock.monotonic() - began > LATE
            await self._connection.sleep(LATE_LOOK if late else LOOK)

    def handed_over(self) -> None:
        """Tasks of this member go on at their heirs. Any thread."""
        self._connection.spawn(partial(self._guarded, partial(self._begin_anew, self._joins)))

    async def _begin_anew(self, join: int) -> None:
        await self._connection.sleep(BEGUN)
        if self._joins == join:
            self.group.rejoin("tasks were handed over")

    # ---- the polling thread ------------------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Leave while the polling thread does nothing, so that others can; look again when the leader wanted to."""
        limit = self._settings.rebalance_timeout  # max_poll_interval_ms
        present = True
        while not self.group.ended:
            await self._connection.sleep(min(WATCH, limit / 4))
            now = self._clock.monotonic()
            if self._leader.take_follow_up():
                self.group.rejoin("the leader looks again")
            elif self._leader.topics_changed:
                self.group.rejoin("topics that match the patterns have come or gone")
            alive = now - self._mailbox.polled_at < limit
            if present and not alive:
                await self.group.step_out(f"the polling thread did nothing for {limit:g} s (max_poll_interval_ms)")
            elif alive and not present:
                self.group.step_in()
            present = alive

    async def _take_place(self, join: int) -> None:
        """A static member that came back with its predecessor's tasks: what that one said is replaced once these tasks
        are taken over. Before, the member would say that it has none."""
        while self._joins == join and not self._mailbox.settled:
            await self._connection.sleep(SETTLING)
        if self._joins == join:
            self.group.rejoin("this instance takes its predecessor's place")

    async def _again(self) -> None:
        await self._connection.sleep(AGAIN)
        self.group.rejoin("the assignment could not be read")

    async def _guarded(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """An unexpected error ends the membership, where it can be seen."""
        try:
            await work()
        except Exception as error:
            log.exception("the membership failed")
            failure = StreamsError(f"the membership failed: {error!r}")
            failure.__cause__ = error
            self.group.end(failure)
