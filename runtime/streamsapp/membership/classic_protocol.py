"""The classic group protocol of one member: join, sync, heartbeat, leave, and what every answer means.

Runs on the membership's thread: one coroutine joins whenever that is due. Another sends heartbeats all the time, also
while a JoinGroup waits for the others. The ``Delegate`` decides what the member says and does with its assignment.

    looking for the coordinator → joining → syncing → stable ─┐
           └──────────▲──────────────▲──────────────────────────┘ a rebalance, or a caller asked for one
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Mapping
from typing import Any, Protocol

from confluent_kafka import KafkaError

from streamsapp.brokers.connection import Connection, Node
from streamsapp.brokers.errors import RefusedError, UnreachableError
from streamsapp.clock import Clock
from streamsapp.errors import StreamsError
from streamsapp.kafka.client_log import client_log
from streamsapp.membership import wire
from streamsapp.membership.coordinator import ELSEWHERE, REQUEST, GroupCoordinator
from streamsapp.membership.heartbeat import HeartbeatRequest
from streamsapp.membership.heartbeat_times import HeartbeatTimes
from streamsapp.membership.member_id import MemberId
from streamsapp.membership.session_timeout import MemberSession
from streamsapp.membership.wire import GroupSettings, Identity

log = client_log(__name__)

#: How long the answer to the last request may take, in seconds.
GOODBYE = 3.0
#: First and longest pause after a failure, in seconds.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
#: Between two looks whether a member that waits for the others is to join at once, in seconds.
WAITING = 0.01
#: So often the member tries to join at once, though the coordinator refuses it each time: it wants to give an id first,
#: or the group begins anew. From then on there is a pause before each try.
AT_ONCE = 4


class Delegate(Protocol):
    """Decides what the member says and does. All methods but ``failed`` are called on the membership's thread."""

    async def prepare(self) -> None:
        """The member is about to join: let a commit under way come to its end."""

    def subscription(self) -> bytes:
        """The message to the leader."""

    def joined(self) -> None:
        """All members have joined: the generation before is over."""

    async def lead(self, members: Mapping[str, bytes]) -> dict[str, bytes]:
        """Assign, given what all members said."""

    def assigned(self, identity: Identity, data: bytes) -> None:
        """Take the leader's answer."""

    @property
    def resting(self) -> bool:
        """True if the member has had nothing to do for a while: it may learn of a rebalance a little later."""

    @property
    def expects_rebalance(self) -> bool:
        """True if the assignment says that the next rebalance is soon: tasks are on their way, or a member leaves."""

    def lost(self, reason: str) -> None:
        """The group went on without this member, or may have."""

    def failed(self, error: Exception) -> None:
        """The membership has ended for good."""


class Phase(enum.Enum):
    """The steps of the group protocol."""

    OUT = "out"
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"
    ENDED = "ended"


class GroupMembership:
    """One member's state in its group."""

    def __init__(
        self, connection: Connection, settings: GroupSettings, member_id: MemberId, delegate: Delegate, clock: Clock
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._delegate = delegate
        self._clock = clock
        self.coordinator = GroupCoordinator(connection, settings, clock, self.end)
        self.session = MemberSession(settings.session_timeout, clock)
        self._times = HeartbeatTimes(settings, clock, connection.wake_up())
        self._join_due = connection.wake_up()
        self._phase = Phase.OUT
        self._member_id = member_id
        #: Generation and member id while the member has them.
        self._identity: Identity | None = None
        #: Why to join anew, if that is to be done.
        self._rejoin: str | None = "the instance starts"
        #: True if others wait for it to join, or tasks do.
        self._hurries = False
        #: True if the member stays out for the time being.
        self._absent = False
        #: True if the member was in the group once.
        self._known = False

    # ---- any thread ----------------------------------------------------------------------------------------------

    def rejoin(self, reason: str, *, at_once: bool = False) -> None:
        """Join anew soon, when the others notice it at once; several requests become one. ``at_once``: others join
        already, or tasks stand still."""
        self._rejoin = reason
        self._hurries = self._hurries or at_once
        self._join_due.notify()

    # ---- membership's thread -------------------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """True if the membership is over."""
        return self._phase is Phase.ENDED

    async def joins(self) -> None:
        """Join whenever that is due, until the end."""
        pause, in_vain = FIRST_PAUSE, 0
        while not self.ended:
            if self._rejoin is None or self._absent:
                await self._join_due.wait()
                continue
            await self._wait_for_others()
            try:
                await self._join_and_sync()
                self.coordinator.reached()
                in_vain = 0 if self._phase is Phase.STABLE else in_vain + 1
                if in_vain < AT_ONCE:
                    pause = FIRST_PAUSE
                    continue
                log.info("group %s: others join or leave meanwhile; this was try %d", self._settings.group_id, in_vain)
                await self._connection.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            except UnreachableError as error:
                self.coordinator.unreachable(error)
                if isinstance(error, RefusedError) and not self._known:
                    self.end(StreamsError(str(error)))
                if self.ended:
                    return
                # The first member of a group is often there before its coordinator.
                level = logging.WARNING if self._known or pause == LONGEST_PAUSE else logging.INFO
                log.log(level, "group %s: %s; trying again", self._settings.group_id, error)
                self._rejoin = self._rejoin or "the coordinator was out of reach"
                await self._connection.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _wait_for_others(self) -> None:
        """Until they are about to beat: a member that joins commits nothing before all have joined."""
        left = self._times.join_in()
        while left > 0 and self._phase is Phase.STABLE and not self._hurries:
            await self._connection.sleep(min(left, WAITING))
            left -= WAITING

    async def heartbeats(self) -> None:
        """Show signs of life, until the end."""
        while not self.ended:
            resting = self._phase is Phase.STABLE and self._delegate.resting
            await self._times.wait(resting=resting)
            identity = self._identity
            if identity is None or self.ended:
                continue
            if self.session.expired:
                await self._expire()
                continue
            try:
                await self._heartbeat(identity)
                self.coordinator.reached()
            except UnreachableError as error:
                self.coordinator.unreachable(error)
                log.warning("group %s: no answer to a heartbeat: %s", self._settings.group_id, error)
                if self._phase is Phase.STABLE:
                    self.coordinator.forget()

    async def step_out(self, reason: str) -> None:
        """Leave without ending the membership, until ``step_in``."""
        self._absent = True
        await self._say_goodbye(reason)
        self._lose(reason, keep_id=False)

    def step_in(self) -> None:
        """Join again after ``step_out``."""
        if self._absent:
            self._absent = False
            self.rejoin("processing goes on")

    async def take_out(self, member_id: str) -> None:
        """Take a member whose process has ended out of the group, which would wait for its session otherwise, and join
        anew: its tasks are free. Raises ``UnreachableError`` if the coordinator does not do it now, and
        ``StreamsError`` for this member's own id."""
        if member_id == self._member_id.value:
            raise StreamsError(f"member {member_id} is this instance, whose process has not ended")
        if await self._take_out(member_id, "its process has ended") and self._phase is Phase.STABLE:
            self.rejoin(f"the process of member {member_id} has ended", at_once=True)

    async def leave(self, reason: str, *, stay: bool = False) -> None:
        """The end.

        A static member stays until its session ends, as does a member that is to ``stay``: it may be back before.
        """
        self._phase = Phase.ENDED
        if not stay:
            await self._say_goodbye(reason)
            self._member_id.set("")
        self._become(Phase.ENDED)
        self._join_due.notify()

    def end(self, error: Exception) -> None:
        """The membership cannot go on."""
        if not self.ended:
            self._become(Phase.ENDED)
            self._delegate.failed(error)

    # ---- joining -------------------------------------------------------------------------------------------------

    async def _join_and_sync(self) -> None:
        await self._delegate.prepare()
        nodes = await self.coordinator.nodes()
        if self.ended or self._absent:
            return  # it has left meanwhile
        if self._member_id.value:  # from now on the group waits for this member before it begins a generation
            await self._take_predecessors_out()
        self._phase = Phase.JOINING
        answer = await self._join(nodes)
        if answer is None or self.ended:
            return
        self._delegate.joined()
        self._identity = identity = Identity(answer.generation_id, answer.member_id)
        self.session.joined()
        self._phase = Phase.SYNCING
        assignments: dict[str, bytes] = {}
        if wire.leads(answer):
            assignments = await self._delegate.lead({each.member_id: bytes(each.metadata) for each in answer.members})
        await self._sync(nodes, identity, assignments)

    async def _take_predecessors_out(self) -> None:
        """Of the processes that ended in this one's state directory. The group has not begun a generation without them
        meanwhile, as it waits for this member."""
        for member_id in list(self._member_id.predecessors):
            await self._take_out(member_id, "another process is in its state directory")
            self._member_id.forget(member_id)

    async def _take_out(self, member_id: str, reason: str) -> bool:
        """Return whether the group still counted the member."""
        answer = await self.coordinator.request(wire.leave(self._settings, member_id, reason), REQUEST)
        code = answer.error_code or next((each.error_code for each in answer.members), KafkaError.NO_ERROR)
        if code not in (KafkaError.NO_ERROR, KafkaError.UNKNOWN_MEMBER_ID):
            self.coordinator.refuse(f"take member {member_id} out of", code)
        log.info(
            "group %s: member %s %s: %s",
            self._settings.group_id,
            member_id,
            "counts no more" if code else "is taken out",
            reason,
        )
        return not code

    async def _join(self, nodes: tuple[Node, Node]) -> Any:
        """The answer, or ``None`` if it is to be tried again at once."""
        reason, self._rejoin, self._hurries = self._rejoin or "", None, False
        log.info("group %s: this instance asks for its tasks: %s", self._settings.group_id, reason or "it starts")
        request = wire.join(self._settings, self._member_id.value, self._delegate.subscription(), reason)
        try:
            answer = await self.coordinator.wait(request, nodes, wire.check_joined)
        except UnreachableError:
            self._rejoin = self._rejoin or reason
            raise
        code = answer.error_code
        if code in (KafkaError.NO_ERROR, KafkaError.MEMBER_ID_REQUIRED):
            self._member_id.set(answer.member_id)
        if code == KafkaError.NO_ERROR or self.ended:
            return answer
        self._rejoin = self._rejoin or reason
        if code == KafkaError.UNKNOWN_MEMBER_ID:
            self._lose("the coordinator does not know this member any more", keep_id=False)
        elif code != KafkaError.MEMBER_ID_REQUIRED:
            await self.coordinator.refuse_to_join(code)
        return None

    async def _sync(self, nodes: tuple[Node, Node], identity: Identity, assignments: dict[str, bytes]) -> None:
        sent = self._clock.monotonic()
        request = wire.sync(self._settings, identity, assignments)
        try:
            answer = await self.coordinator.wait(request, nodes)
        except UnreachableError:
            self._rejoin = self._rejoin or "the assignment did not arrive"
            raise
        if self.ended or self._identity != identity:
            return
        code = answer.error_code
        if code == KafkaError.NO_ERROR:
            self._phase = Phase.STABLE
            self._known = True
            self.session.confirm(sent)
            self._delegate.assigned(identity, bytes(answer.assignment))
            self._times.begin(expecting=self._delegate.expects_rebalance)
            return
        self._rejoin = self._rejoin or "the group started again"
        if code == KafkaError.REBALANCE_IN_PROGRESS:
            return
        if code in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION):
            self._lose("the group went on without this member", keep_id=code == KafkaError.ILLEGAL_GENERATION)
        else:
            self.coordinator.refuse("sync", code)

    # ---- staying -------------------------------------------------------------------------------------------------

    async def _heartbeat(self, identity: Identity) -> None:
        sent = self._clock.monotonic()
        # Less than the session, so that a connection that went silent is given up while there is time to try another.
        answer = await self.coordinator.request(
            HeartbeatRequest(self._settings, identity), self._settings.session_timeout / 3
        )
        if self._identity != identity or self.ended:
            return
        code = answer.error_code
        if code in (KafkaError.NO_ERROR, KafkaError.REBALANCE_IN_PROGRESS):
            self.session.confirm(sent)
        elif code in ELSEWHERE:
            self.coordinator.forget()
        if self._phase is not Phase.STABLE:
            return  # the generation may be another by now, as the answer to JoinGroup or SyncGroup will say
        if code == KafkaError.REBALANCE_IN_PROGRESS:
            self.rejoin("the group is rebalancing", at_once=True)
        elif code in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION):
            reason = f"the group went on without this member: {KafkaError(code).str()}"
            self._lose(reason, keep_id=code == KafkaError.ILLEGAL_GENERATION)
        elif code == KafkaError.FENCED_INSTANCE_ID:
            self.end(self.coordinator.replaced())

    async def _expire(self) -> None:
        """Leave the group unasked: the coordinator was silent for a session, and others may have taken over."""
        self._lose(f"no answer from the coordinator for {self._settings.session_timeout:g} s", keep_id=True)
        self.coordinator.forget()
        await self.coordinator.stop_waiting()

    def _become(self, phase: Phase) -> None:
        """Be a member no more, for now or for good."""
        self._phase = phase
        self._identity = None
        self.session.end()

    def _lose(self, reason: str, *, keep_id: bool) -> None:
        """``keep_id``: the coordinator may still count this member; under another id it would count it twice."""
        if self.ended:
            return
        if not keep_id:
            self._member_id.set("")
        self._become(Phase.OUT)
        self._delegate.lost(reason)
        self.rejoin(reason)

    async def _say_goodbye(self, reason: str) -> None:
        give_up = self._clock.monotonic() + GOODBYE
        while self.coordinator.waiting and not self._member_id.value and self._clock.monotonic() < give_up:
            await self._connection.sleep(FIRST_PAUSE)  # it is about to get an id, whose owner the others would wait for
        if not self._member_id.value or self._settings.instance_id is not None or not self.coordinator.known:
            return
        request = wire.leave(self._settings, self._member_id.value, reason)
        try:
            answer = await self.coordinator.request(request, GOODBYE)
        except UnreachableError as error:
            log.warning("group %s: the others learn later that this member left: %s", self._settings.group_id, error)
        else:
            refused = f"; the broker says {KafkaError(answer.error_code).str()}" if answer.error_code else ""
            log.info("group %s: this instance has left: %s%s", self._settings.group_id, reason, refused)
