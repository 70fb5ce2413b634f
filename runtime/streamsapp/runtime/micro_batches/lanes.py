"""The transactional ids of lanes, and the right to commit without being a member of the group.

The group has no members while batches are run: the broker refuses such commits while the group has members, and
instances fence the open transactions of their application when they form a group. So the broker itself keeps both
apart.

``DriverClaim`` belongs to the driver, which may ask it on any thread, the rest is used on the thread that runs lanes.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Collection, Mapping
from uuid import NAMESPACE_URL, uuid5

from confluent_kafka import KafkaError

from streamsapp.brokers.connection import Connection
from streamsapp.brokers.errors import UnreachableError
from streamsapp.brokers.settings import connection_settings
from streamsapp.clock import SystemClock
from streamsapp.config import client_properties
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.deadline import Deadline
from streamsapp.errors import StreamsError
from streamsapp.kafka import group_member
from streamsapp.membership import fencing, wire
from streamsapp.record import TopicPartition

log = logging.getLogger(__name__)

#: How long the broker may take to fence all lanes, in seconds.
_PATIENCE = 60.0
_REQUEST = 10.0
#: TRANSACTIONAL_ID_NOT_FOUND, which the client has no name for (KIP-664).
_ID_NOT_FOUND = 105
#: The pause after which the driver asks again which one holds the claim, in seconds.
_RETRY = 0.5
#: A member id that no group gives out. A transaction's offsets without any are taken from any sender. With a member id
#: and without a generation, they are taken as long as the group has no members.
_NOBODY = "lane"


def transactional_id(application_id: str, lane: int) -> str:
    """Always the same for a lane: the process that takes it over fences the one before. Its form is one that instances
    know as their application's."""
    return f"{application_id}-{uuid5(NAMESPACE_URL, f'{application_id}{chr(0)}lanes')}-{lane}"


class NoMember:
    """Commits for a group that has no members."""

    def __init__(self, group_id: str) -> None:
        self._member = group_member.Member(group_id, -1, _NOBODY, None)

    def begin_commit(self) -> bool:
        """The broker decides."""
        return True

    def cuts(self, number: int) -> bool:
        """No task of a batch goes to another instance."""
        return False

    def end_commit(self) -> None:
        """No thread waits for it."""

    def metadata(self) -> group_member.Member:
        """Of no generation."""
        return self._member

    def commit(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Lanes commit by their transactions alone."""
        raise StreamsError("bug: a lane commits without a transaction")


class DriverClaim:
    """The right to run batches, which the driver that started last has: a transactional id of its own, whose epoch
    shows which driver took it last. Nothing is ever written under it.

    Otherwise a driver that hung, or was cut off, while another one started would go on. Each would take its lanes back
    from the other for ever.
    """

    def __init__(self, config: StreamsConfig) -> None:
        self._application_id = config.application_id
        self._id = f"{transactional_id(config.application_id, 0)[:-1]}driver"
        self._connection = Connection(
            connection_settings(client_properties.main_consumer(config), f"{config.client_id}-member")
        )
        self._deadline = Deadline(SystemClock())
        #: Id and epoch of the producer that took it.
        self._mine = (-1, -1)
        self._connection.start()

    def take(self) -> None:
        """Take it from the driver that had it, and fence every process that ran a lane before: a driver that starts
        does not know which of them may be left. Raises ``StreamsError`` when the brokers do not answer, or refuse."""
        try:
            self._connection.run(self._take, _PATIENCE, self._deadline)
        except UnreachableError as error:
            raise StreamsError(f"who wrote for {self._application_id} before cannot be fenced: {error}") from error

    def fence_lanes(self) -> None:
        """Fence every process that ran a lane before; raises as ``take`` does."""
        try:
            self._connection.run(self._fence_lanes, _PATIENCE, self._deadline)
        except UnreachableError as error:
            raise StreamsError(f"lanes of {self._application_id} cannot be fenced: {error}") from error

    def held(self) -> bool:
        """False once another driver has taken it; true as well while the broker does not answer."""
        try:
            return self._told()
        except UnreachableError as error:
            log.debug("who is the driver is not known: %s", error)
            return True

    def proven(self) -> bool:
        """As ``held``, but waits until the broker answers: a driver that was frozen, or cut off, finds its connections
        gone when it is back, just when another one may have taken over. Raises ``StreamsError`` when that takes too
        long."""
        give_up_at = time.monotonic() + _PATIENCE
        while True:
            try:
                return self._told()
            except UnreachableError as error:
                if time.monotonic() > give_up_at:
                    raise StreamsError(f"which driver is the right one is not known: {error}") from error
                log.debug("who is the driver is not known yet: %s", error)
                time.sleep(_RETRY)

    def _told(self) -> bool:
        return self._connection.run(self._holder, _REQUEST, self._deadline) in (None, self._mine)

    def close(self) -> None:
        """End the connection; the claim stays, as no driver needs to wait for it."""
        self._connection.close(1.0)

    async def _take(self) -> None:
        answer = await fencing.take_over(self._connection, self._id, lambda: True)
        if answer is None or answer.error_code:
            raise UnreachableError(KafkaError(answer.error_code).str() if answer else "no answer")
        self._mine = (answer.producer_id, answer.producer_epoch)
        await self._fence_lanes()

    async def _fence_lanes(self) -> None:
        known: set[str] = set()
        for node in await self._connection.learn_brokers(_REQUEST):
            answer = await self._connection.send(wire.list_transactions(()), node, _REQUEST)
            if answer.error_code:
                raise UnreachableError(f"broker {node}: {KafkaError(answer.error_code).str()}")
            known.update(each.transactional_id for each in answer.transaction_states)
        lanes = of_lanes(self._application_id, known)
        if lanes:
            log.debug("fencing %d lanes", len(lanes))
            await fencing.fence(self._connection, lanes, lambda: True)

    async def _holder(self) -> tuple[int, int] | None:
        """Id and epoch of the producer that has it; ``None`` if the broker has forgotten all of them, as it does a week
        after the last one."""
        coordinator = await fencing.transaction_coordinator(self._connection, self._id)
        if coordinator is None:
            raise UnreachableError("no broker is in charge of it yet")
        answer = await self._connection.send(wire.describe_transaction(self._id), coordinator, _REQUEST)
        [state] = answer.transaction_states
        if state.error_code == _ID_NOT_FOUND:
            return None
        if state.error_code:
            raise UnreachableError(KafkaError(state.error_code).str())
        return state.producer_id, state.producer_epoch


def of_lanes(application_id: str, transactional_ids: Collection[str]) -> set[str]:
    """The ids under which lanes of the application wrote."""
    lane = re.compile(re.escape(transactional_id(application_id, 0)[:-1]) + r"\d+")
    return {each for each in transactional_ids if lane.fullmatch(each)}
