"""Keeps former members from writing, by their transactional ids. The membership's thread."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection
from functools import partial
from uuid import NAMESPACE_URL, uuid4, uuid5

from confluent_kafka import KafkaError

from streamsapp.brokers import coordinators
from streamsapp.brokers.connection import Connection, Node
from streamsapp.brokers.errors import UnreachableError
from streamsapp.brokers.messages.init_producer_id import InitProducerIdResponse
from streamsapp.membership import wire

log = logging.getLogger(__name__)

#: Between two tries while the coordinator aborts what the dead member left open, in seconds.
_RETRY = 0.005
#: Between two tries while the coordinator is out of reach, in seconds.
_AWAY = 0.2
#: How long one request may take, in seconds.
_REQUEST = 5.0

#: The broker's own limit of ``transaction.timeout.ms``, in seconds.
_LONGEST_TRANSACTION = 900.0

#: Fenced, by this request or by another member's.
_FENCED = frozenset({KafkaError.NO_ERROR, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
#: It is another broker, or not ready.
_ELSEWHERE = frozenset(
    {
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.REQUEST_TIMED_OUT,
    }
)

_UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def transactional_id(application_id: str, instance_id: str | None) -> str:
    """A static member's stays the same, so that its next start fences the last. Others get one of their own each time:
    an id that was once dead never comes back to life.

    Always the application's id and a UUID: nothing else distinguishes the instance ``b-1`` of ``a`` from the instance
    ``1`` of ``a-b``.
    """
    unique = uuid4() if instance_id is None else uuid5(NAMESPACE_URL, f"{application_id}\0{instance_id}")
    return f"{application_id}-{unique}"


def belongs_to(application_id: str, transactional_id: str) -> bool:
    """Return whether an instance of the application wrote under this id, be it one of Kafka Streams'."""
    return re.fullmatch(rf"{re.escape(application_id)}-{_UUID}(-\d+)?", transactional_id) is not None


class DepartedMembers:
    """Finds the former members, by transactional id."""

    def __init__(self) -> None:
        self._members: frozenset[str] = frozenset()
        self._dead: dict[str, float] = {}

    @property
    def first(self) -> bool:
        """True if nothing is known of an earlier generation."""
        return not self._members

    @property
    def dead(self) -> frozenset[str]:
        """The ids to be fenced before their tasks are taken over."""
        return frozenset(self._dead)

    def missing(self, present: Collection[str]) -> frozenset[str]:
        """The ids that would be dead if just those were members."""
        return (self._members | frozenset(self._dead)) - frozenset(present)

    def update(self, present: Collection[str], told_dead: Collection[str], now: float) -> None:
        """A generation begins with the members ``present``; ``now`` is in monotonic seconds."""
        members = frozenset(present)
        # By then the coordinator itself has aborted what they left open, and fenced them.
        forgotten = {each for each, since in self._dead.items() if now - since > _LONGEST_TRANSACTION}
        dead = (self._members | frozenset(told_dead) | frozenset(self._dead)) - members - forgotten
        self._dead = {each: self._dead.get(each, now) for each in dead}
        self._members = members

    def fenced(self, done: Collection[str]) -> None:
        for each in done:
            self._dead.pop(each, None)


async def open_transactions(connection: Connection, application_id: str) -> set[str]:
    """The transactional ids of the application under which a transaction is open, on all brokers that answer."""
    found: set[str] = set()
    for node in await connection.learn_brokers(_REQUEST):
        try:
            answer = await connection.send(wire.list_transactions(["Ongoing"]), node, _REQUEST)
        except UnreachableError as error:
            log.warning("open transactions on broker %s are not known: %s", node, error)
            continue
        if answer.error_code:
            log.warning("broker %s does not list its transactions: %s", node, KafkaError(answer.error_code).str())
        found.update(each.transactional_id for each in answer.transaction_states)
    return {each for each in found if belongs_to(application_id, each)}


async def fence(connection: Connection, dead: Collection[str], wanted: Callable[[], bool]) -> set[str]:
    """Fence the transactional ids of dead members, and wait until what they left open is aborted.

    Returns the ids that are fenced. Before each request ``wanted`` is called: once this instance may be out of the
    group, others decide which members are dead.
    """
    done = set()
    for each in dead:
        if await take_over(connection, each, wanted) is not None:
            done.add(each)
    return done


async def take_over(
    connection: Connection, transactional_id: str, wanted: Callable[[], bool]
) -> InitProducerIdResponse | None:
    """Fence one id; the broker's last answer, or ``None`` if it is not wanted any more."""
    coordinator: Node | None = None
    while wanted():
        try:
            if coordinator is None:
                coordinator = await transaction_coordinator(connection, transactional_id)
            if coordinator is not None and wanted():
                answer = await connection.send(wire.fence(transactional_id), coordinator, _REQUEST, wire.check_fenced)
                code = answer.error_code
                if code in _ELSEWHERE:
                    coordinator = None
                elif code == KafkaError.CONCURRENT_TRANSACTIONS:
                    await connection.sleep(_RETRY)  # it is aborting
                else:
                    _tell(transactional_id, code)
                    return answer
        except UnreachableError as error:
            log.warning("cannot fence %s yet: %s", transactional_id, error)
            coordinator = None
        if coordinator is None:
            await connection.sleep(_AWAY)
    return None


async def transaction_coordinator(connection: Connection, transactional_id: str) -> Node | None:
    """The broker that has the id; ``None`` while there is none."""
    request = partial(coordinators.find_coordinator, coordinators.TRANSACTION, transactional_id)
    check = partial(coordinators.check_coordinator, key=transactional_id)
    answer = coordinators.coordinator_of(await connection.ask_any(request, _REQUEST, check))
    if answer.error_code:
        return None
    return connection.two_ways_to(answer, coordinators.TRANSACTION, transactional_id)[1]


def _tell(transactional_id: str, code: int) -> None:
    if code not in _FENCED:
        log.error(
            "%s, which belongs to a dead member, cannot be fenced: %s; what it left open delays its tasks until the"
            " transaction times out",
            transactional_id,
            KafkaError(code).str(),
        )
    else:
        log.info("fenced %s, which belongs to no member any more", transactional_id)
