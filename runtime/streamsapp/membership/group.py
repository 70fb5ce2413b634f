"""The classic group protocol of one member: join, sync, heartbeat, leave, and what every answer means.

Runs on the membership's thread: one coroutine joins whenever that is due, another sends heartbeats all the time, also
while a JoinGroup waits for the others. What the member says and does with its assignment is the ``Delegate``'s.

    looking for the coordinator → joining → syncing → stable ─┐
           └──────────▲──────────────▲──────────────────────────┘ a rebalance, or somebody asked for one
"""

from __future__ import annotations

import enum
import logging
import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NoReturn, Protocol

from confluent_kafka import KafkaError

from streamsapp.clock import Clock
from streamsapp.errors import ConfigError, FencedError, StreamsError
from streamsapp.kafka.log import client_log
from streamsapp.membership import wire
from streamsapp.membership.connection import Connection, Node, RefusedError, UnreachableError
from streamsapp.membership.member_id import MemberId
from streamsapp.membership.wire import GroupSettings, Identity

log = client_log(__name__)

#: How long an answer that comes at once may take, in seconds.
REQUEST = 5.0
#: The same for what is said last.
GOODBYE = 3.0
#: First and longest pause after a failure, in seconds.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
#: Part of the session that is not counted on: clocks differ, and what is written takes time to arrive.
MARGIN = 0.1

#: The coordinator is another broker, or not ready yet.
_ELSEWHERE = frozenset({KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR})


class Delegate(Protocol):
    """What the member says and does. All but ``failed`` on the membership's thread, as is everything here."""

    async def prepare(self) -> None:
        """The member is about to join: let a commit under way come to its end."""

    def subscription(self) -> bytes:
        """What to tell the leader."""

    def joined(self) -> None:
        """All members have joined: the generation before is over."""

    async def lead(self, members: Mapping[str, bytes]) -> dict[str, bytes]:
        """Assign, given what all members said."""

    def assigned(self, identity: Identity, data: bytes) -> None:
        """What the leader answered."""

    def lost(self, reason: str) -> None:
        """The group went on without this member, or may have."""

    def failed(self, error: Exception) -> None:
        """The membership has ended for good."""


class Phase(enum.Enum):
    """Where the member stands."""

    OUT = "out"
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"


class GroupMembership:
    """One member's state in its group."""

    def __init__(
        self, connection: Connection, settings: GroupSettings, member_id: MemberId, delegate: Delegate, clock: Clock
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._delegate = delegate
        self._clock = clock
        self._wake = connection.bell()
        self._beat = connection.bell()
        self._phase = Phase.OUT
        self._member_id = member_id
        self._identity: Identity | None = None
        #: For requests that may wait for minutes, and for the others.
        self._coordinator: tuple[Node, Node] | None = None
        #: Where a JoinGroup or SyncGroup waits for its answer.
        self._waits_at: Node | None = None
        self._rejoin: str | None = "the instance starts"
        self._absent = False
        self._ended = False
        self._known = False
        #: When the last request was sent that the coordinator answered as a member's, in monotonic seconds.
        self._confirmed = -math.inf
        #: When a JoinGroup was answered: the coordinator counts the session from there.
        self._joined = -math.inf
        #: Since when the coordinator is out of reach, in monotonic seconds, and why.
        self.outage: tuple[float, str] | None = None

    # ---- any thread ----------------------------------------------------------------------------------------------

    @property
    def safe_until(self) -> float:
        """Until when the coordinator surely counts this as a member, in monotonic seconds."""
        return self._confirmed + (1 - MARGIN) * self._settings.session_timeout

    def rejoin(self, reason: str) -> None:
        """Join anew as soon as possible; several requests become one."""
        self._rejoin = reason
        self._wake.ring()

    # ---- membership's thread -------------------------------------------------------------------------------------

    @property
    def identity(self) -> Identity | None:
        """Generation and member id while the member has them."""
        return self._identity

    @property
    def ended(self) -> bool:
        return self._ended

    async def joins(self) -> None:
        """Join whenever that is due, until the end."""
        pause = FIRST_PAUSE
        while not self._ended:
            if self._rejoin is None or self._absent:
                await self._wake.heard()
                continue
            try:
                await self._join_and_sync()
                pause, self.outage = FIRST_PAUSE, None
            except UnreachableError as error:
                self._unreachable(error)
                if isinstance(error, RefusedError) and not self._known:
                    self.end(StreamsError(f"{error}; check the sasl.* properties"))
                if self._ended:
                    return
                # The first member of a group is often there before its coordinator.
                level = logging.WARNING if self._known or pause == LONGEST_PAUSE else logging.INFO
                log.log(level, "group %s: %s; trying again", self._settings.group_id, error)
                self._rejoin = self._rejoin or "the coordinator was out of reach"
                await self._connection.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    async def heartbeats(self) -> None:
        """Show signs of life, until the end."""
        while not self._ended:
            await self._beat.heard(self._settings.heartbeat_interval)
            identity = self._identity
            if identity is None or self._ended:
                continue
            if self._clock.monotonic() > max(self._confirmed, self._joined) + self._settings.session_timeout:
                await self._expire()
                continue
            try:
                await self._heartbeat(identity)
                self.outage = None
            except UnreachableError as error:
                self._unreachable(error)
                log.warning("group %s: no answer to a heartbeat: %s", self._settings.group_id, error)
                if self._phase is Phase.STABLE:
                    self._coordinator = None

    def _unreachable(self, error: UnreachableError) -> None:
        since = self._clock.monotonic() if self.outage is None else self.outage[0]
        self.outage = since, str(error)

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

    async def leave(self, reason: str, *, stay: bool = False) -> None:
        """The end. A static member stays until its session ends, as does who is to ``stay``: it may be back before."""
        self._ended = True
        if not stay:
            await self._say_goodbye(reason)
            self._member_id.set("")
        self._identity, self._confirmed = None, -math.inf
        self._wake.ring()
        self._beat.ring()

    def end(self, error: Exception) -> None:
        """The membership cannot go on."""
        if not self._ended:
            self._ended = True
            self._identity, self._confirmed = None, -math.inf
            self._delegate.failed(error)

    async def request(self, request: Any, timeout: float) -> Any:
        """The coordinator's answer to a request that it answers at once."""
        coordinator = self._coordinator or await self._find_coordinator()
        try:
            return await self._connection.send(request, coordinator[1], timeout)
        except UnreachableError:
            self._coordinator = None
            raise

    def coordinator_moved(self) -> None:
        """Somebody was told that the coordinator is another broker."""
        self._coordinator = None

    # ---- joining -------------------------------------------------------------------------------------------------

    async def _join_and_sync(self) -> None:
        await self._delegate.prepare()
        coordinator = self._coordinator or await self._find_coordinator()
        if self._ended or self._absent:
            return  # it has left meanwhile
        self._phase = Phase.JOINING
        answer = await self._join(coordinator)
        if answer is None or self._ended:
            return
        self._delegate.joined()
        self._identity = identity = Identity(answer.generation_id, answer.member_id)
        self._joined = self._clock.monotonic()
        self._phase = Phase.SYNCING
        assignments: dict[str, bytes] = {}
        if wire.leads(answer):
            assignments = await self._delegate.lead({each.member_id: bytes(each.metadata) for each in answer.members})
        await self._sync(coordinator, identity, assignments)

    async def _join(self, coordinator: tuple[Node, Node]) -> Any:
        """The answer, or ``None`` if it is to be tried again at once."""
        reason, self._rejoin = self._rejoin or "", None
        log.info("group %s: joining (%s)", self._settings.group_id, reason)
        request = wire.join(self._settings, self._member_id.value, self._delegate.subscription(), reason)
        try:
            answer = await self._wait(request, coordinator[0])
        except UnreachableError:
            self._rejoin = self._rejoin or reason
            raise
        code = answer.error_code
        if code in (KafkaError.NO_ERROR, KafkaError.MEMBER_ID_REQUIRED):
            self._member_id.set(answer.member_id)
        if code == KafkaError.NO_ERROR or self._ended:
            return answer
        self._rejoin = self._rejoin or reason
        if code == KafkaError.UNKNOWN_MEMBER_ID:
            self._lose("the coordinator does not know this member any more", keep_id=False)
        elif code != KafkaError.MEMBER_ID_REQUIRED:
            self._refused("join", code)
        return None

    async def _sync(self, coordinator: tuple[Node, Node], identity: Identity, assignments: dict[str, bytes]) -> None:
        sent = self._clock.monotonic()
        request = wire.sync(self._settings, identity, assignments)
        try:
            answer = await self._wait(request, coordinator[0])
        except UnreachableError:
            self._rejoin = self._rejoin or "the assignment did not arrive"
            raise
        if self._ended or self._identity != identity:
            return
        code = answer.error_code
        if code == KafkaError.NO_ERROR:
            self._phase = Phase.STABLE
            self._known = True
            self._confirmed = max(self._confirmed, sent)
            self._delegate.assigned(identity, bytes(answer.assignment))
            return
        self._rejoin = self._rejoin or "the group began anew"
        if code == KafkaError.REBALANCE_IN_PROGRESS:
            return
        if code in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION):
            self._lose("the group went on without this member", keep_id=code == KafkaError.ILLEGAL_GENERATION)
        else:
            self._refused("sync", code)

    async def _wait(self, request: Any, node: Node) -> Any:
        """The answer to a request that waits for the other members."""
        self._waits_at = node
        try:
            return await self._connection.send(request, node, self._settings.rebalance_timeout + REQUEST)
        except UnreachableError:
            self._coordinator = None
            raise
        finally:
            self._waits_at = None

    def _refused(self, what: str, code: int) -> NoReturn:
        """An error that is no part of an ordinary rebalance: ends the membership, or is tried again."""
        error = self._fatal(what, code)
        if error is not None:
            self.end(error)
        if code in _ELSEWHERE:
            self._coordinator = None
        raise UnreachableError(f"cannot {what} group {self._settings.group_id} now: {KafkaError(code).str()}")

    def _fatal(self, what: str, code: int) -> Exception | None:
        group = self._settings.group_id
        if code == KafkaError.FENCED_INSTANCE_ID:
            return self._replaced()
        if code == KafkaError.INCONSISTENT_GROUP_PROTOCOL:
            return StreamsError(
                f"another kind of application runs under application id {group}, as members of its consumer group:"
                " stop it first (an instance of Kafka Streams that did not leave counts until its session times out)"
            )
        if code == KafkaError.INVALID_SESSION_TIMEOUT:
            return ConfigError(
                f"session.timeout.ms: the broker does not allow {self._settings.session_timeout * 1000:.0f}; choose"
                " one between its group.min.session.timeout.ms and group.max.session.timeout.ms"
            )
        if code in _FATAL:
            return StreamsError(f"cannot {what} group {group}: {KafkaError(code).str()}; {_FATAL[code]}")
        return None

    def _replaced(self) -> FencedError:
        return FencedError(
            f"another instance with group_instance_id {self._settings.instance_id!r} took this one's place; give every"
            " instance an id of its own"
        )

    async def _find_coordinator(self) -> tuple[Node, Node]:
        request = partial(wire.find_coordinator, wire.GROUP, self._settings.group_id)
        answer = wire.coordinator_of(await self._connection.ask_any(request, REQUEST))
        if answer.error_code:
            self._refused("find the coordinator of", answer.error_code)
        self._coordinator = self._connection.two_ways_to(answer, wire.GROUP, self._settings.group_id)
        return self._coordinator

    # ---- staying -------------------------------------------------------------------------------------------------

    async def _heartbeat(self, identity: Identity) -> None:
        sent = self._clock.monotonic()
        # Less than the session, so that a connection that went silent is given up while there is time to try another.
        answer = await self.request(wire.heartbeat(self._settings, identity), self._settings.session_timeout / 3)
        if self._identity != identity or self._ended:
            return
        code = answer.error_code
        if code in (KafkaError.NO_ERROR, KafkaError.REBALANCE_IN_PROGRESS):
            self._confirmed = max(self._confirmed, sent)
        elif code in _ELSEWHERE:
            self._coordinator = None
        if self._phase is not Phase.STABLE:
            return  # the generation may be another by now, which the answer to JoinGroup or SyncGroup will tell
        if code == KafkaError.REBALANCE_IN_PROGRESS:
            self.rejoin("the group is rebalancing")
        elif code in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION):
            reason = f"the group went on without this member: {KafkaError(code).str()}"
            self._lose(reason, keep_id=code == KafkaError.ILLEGAL_GENERATION)
        elif code == KafkaError.FENCED_INSTANCE_ID:
            self.end(self._replaced())

    async def _expire(self) -> None:
        """Nothing was heard of the coordinator for a session: others may have taken over."""
        self._lose(f"no answer from the coordinator for {self._settings.session_timeout:g} s", keep_id=True)
        self._coordinator = None
        if self._waits_at is not None:
            await self._connection.hang_up(self._waits_at)  # the answer may never come

    def _lose(self, reason: str, *, keep_id: bool) -> None:
        """``keep_id``: the coordinator may still count this member; under another id it would count it twice."""
        if not keep_id:
            self._member_id.set("")
        self._identity, self._confirmed = None, -math.inf
        self._phase = Phase.OUT
        self._delegate.lost(reason)
        self.rejoin(reason)

    async def _say_goodbye(self, reason: str) -> None:
        give_up = self._clock.monotonic() + GOODBYE
        while self._waits_at is not None and not self._member_id.value and self._clock.monotonic() < give_up:
            await self._connection.sleep(FIRST_PAUSE)  # it is about to get an id, whose owner the others would wait for
        if not self._member_id.value or self._settings.instance_id is not None or self._coordinator is None:
            return
        request = wire.leave(self._settings, self._member_id.value, reason)
        try:
            answer = await self._connection.send(request, self._coordinator[1], GOODBYE)
        except UnreachableError as error:
            log.warning("group %s: the others learn later that this member left: %s", self._settings.group_id, error)
        else:
            log.info("group %s: left (%s) %s", self._settings.group_id, reason, KafkaError(answer.error_code).str())


_FATAL = {
    KafkaError.GROUP_AUTHORIZATION_FAILED: "grant READ on the group to this user",
    KafkaError.GROUP_MAX_SIZE_REACHED: "the broker's group.max.size does not allow another member",
    KafkaError.INVALID_GROUP_ID: "choose another application_id",
    KafkaError.UNSUPPORTED_VERSION: "the broker is too old",
}
