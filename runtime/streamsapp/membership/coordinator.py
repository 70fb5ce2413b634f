"""The group's coordinator: which broker it is, requests to it, and the errors with which it ends a membership.

Used by ``group``, on the membership's thread; ``outage`` is read by any thread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NoReturn, TypeVar

from confluent_kafka import KafkaError

from streamsapp.brokers import coordinators
from streamsapp.brokers.connection import Check, Connection, Node
from streamsapp.brokers.errors import PausedError, RefusedError, UnreachableError
from streamsapp.brokers.request_by_hand import RequestByHand
from streamsapp.clock import Clock
from streamsapp.errors import ConfigError, FencedError, StreamsError
from streamsapp.membership import wire
from streamsapp.membership.wire import GroupSettings

#: An answer.
A = TypeVar("A")

#: How long an answer that comes at once may take, in seconds.
REQUEST = 5.0

#: The coordinator is another broker, or not ready yet.
ELSEWHERE = frozenset({KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR})


class GroupCoordinator:
    """Finds the coordinator whenever it is not known, and talks to it."""

    def __init__(
        self, connection: Connection, settings: GroupSettings, clock: Clock, give_up: Callable[[Exception], None]
    ) -> None:
        """``give_up`` ends the membership with an error."""
        self._connection = connection
        self._settings = settings
        self._clock = clock
        self._give_up = give_up
        #: For requests that may wait for minutes, and for the others.
        self._nodes: tuple[Node, Node] | None = None
        #: The node at which a JoinGroup or SyncGroup waits for its answer.
        self._waits_at: Node | None = None
        #: Since when the coordinator is out of reach, in monotonic seconds, and why.
        self.outage: tuple[float, str] | None = None
        #: True if that is because of credentials or certificates, which waiting does not mend.
        self.refused = False

    async def nodes(self) -> tuple[Node, Node]:
        """Two ways to the coordinator: for requests that may wait for minutes, and for the others."""
        return self._nodes or await self._find()

    async def _find(self) -> tuple[Node, Node]:
        request = partial(coordinators.find_coordinator, coordinators.GROUP, self._settings.group_id)
        check = partial(coordinators.check_coordinator, key=self._settings.group_id)
        answer = coordinators.coordinator_of(await self._connection.ask_any(request, REQUEST, check))
        if answer.error_code:
            self.refuse("find the coordinator of", answer.error_code)
        self._nodes = self._connection.two_ways_to(answer, coordinators.GROUP, self._settings.group_id)
        return self._nodes

    def forget(self) -> None:
        """The coordinator is another broker, or may be: look for it before the next request."""
        self._nodes = None

    @property
    def known(self) -> bool:
        """True if the coordinator has been found."""
        return self._nodes is not None

    # ---- requests ------------------------------------------------------------------------------------------------

    async def request(self, request: RequestByHand[A], timeout: float, check: Check[A] = lambda answer: None) -> A:
        """The answer to a request that is answered at once, if it passes the ``check``."""
        nodes = await self.nodes()
        try:
            return await self._connection.send(request, nodes[1], timeout, check)
        except UnreachableError:
            self.forget()
            raise

    async def wait(
        self, request: RequestByHand[A], nodes: tuple[Node, Node], check: Check[A] = lambda answer: None
    ) -> A:
        """The answer to a request that waits for the other members, if it passes the ``check``."""
        self._waits_at = nodes[0]
        try:
            return await self._connection.send(request, nodes[0], REQUEST, check, self._settings.rebalance_timeout)
        except UnreachableError:
            self.forget()
            raise
        finally:
            self._waits_at = None

    @property
    def waiting(self) -> bool:
        """True if a request waits for the other members."""
        return self._waits_at is not None

    async def stop_waiting(self) -> None:
        """A request that waits for the other members gets ``UnreachableError``: its answer may never come."""
        if self._waits_at is not None:
            await self._connection.hang_up(self._waits_at)

    # ---- outages and errors --------------------------------------------------------------------------------------

    def reached(self) -> None:
        """The coordinator has answered."""
        self.outage = None
        self.refused = False

    def unreachable(self, error: UnreachableError) -> None:
        """The coordinator has not answered."""
        since, before = self.outage or (self._clock.monotonic(), "")
        if before and isinstance(error, PausedError):
            return
        self.outage, self.refused = (since, str(error)), isinstance(error, RefusedError)

    async def refuse_to_join(self, code: int) -> NoReturn:
        """As ``refuse``; a group of another type is named."""
        if code == KafkaError.INCONSISTENT_GROUP_PROTOCOL:
            answer = await self.request(wire.groups_of_other_types(), REQUEST)
            found = wire.type_and_state(answer, self._settings.group_id)
            self._give_up(_of_another_type(self._settings.group_id, found))
        self.refuse("join", code)

    def refuse(self, attempt: str, code: int) -> NoReturn:
        """See to an error that is no part of an ordinary rebalance: it ends the membership, or the ``attempt`` is
        repeated, which ``UnreachableError`` asks for."""
        error = self._fatal(attempt, code)
        if error is not None:
            self._give_up(error)
        if code in ELSEWHERE:
            self.forget()
        raise UnreachableError(f"cannot {attempt} group {self._settings.group_id} now: {KafkaError(code).str()}")

    def _fatal(self, attempt: str, code: int) -> Exception | None:
        group = self._settings.group_id
        if code == KafkaError.FENCED_INSTANCE_ID:
            return self.replaced()
        if code == KafkaError.INVALID_SESSION_TIMEOUT:
            return ConfigError(
                f"session.timeout.ms: the broker does not allow {self._settings.session_timeout * 1000:.0f}; choose"
                " one between its group.min.session.timeout.ms and group.max.session.timeout.ms"
            )
        if code in _FATAL:
            return StreamsError(f"cannot {attempt} group {group}: {KafkaError(code).str()}; {_FATAL[code]}")
        return None

    def replaced(self) -> FencedError:
        """The error of a static member whose place another one has taken."""
        return FencedError(
            f"another instance with group_instance_id {self._settings.instance_id!r} took this one's place; give every"
            " instance an id of its own"
        )


def _of_another_type(group: str, found: tuple[str, str] | None) -> StreamsError:
    """The error where the coordinator takes no member of ours; ``found``: the group's type and state, if known."""
    if found is None:
        return StreamsError(
            f"another kind of application runs under application id {group}, as members of its consumer group: stop it"
            " first (an instance of Kafka Streams that did not leave counts until its session times out), or choose"
            " another application id"
        )
    kind, state = found
    delete = f"kafka-{kind}-groups.sh --bootstrap-server <broker> --delete --group {group}"
    if state.lower() == "empty":
        return StreamsError(
            f"there is a {kind} group with the application id {group}; it has no members, and no consumer group can"
            f" have its name: delete it, with its offsets, by {delete}, or choose another application id"
        )
    return StreamsError(
        f"there is a {kind} group with the application id {group}, and it has members: choose another application id,"
        f" or stop them and delete the group, with its offsets, by {delete}"
    )


_FATAL = {
    KafkaError.GROUP_AUTHORIZATION_FAILED: "grant READ on the group to this user",
    KafkaError.GROUP_MAX_SIZE_REACHED: "the broker's group.max.size does not allow another member",
    KafkaError.INVALID_GROUP_ID: "choose another application_id",
    KafkaError.UNSUPPORTED_VERSION: "the broker is too old",
}
