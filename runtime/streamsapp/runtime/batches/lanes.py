"""The transactional ids of lanes, and the right to commit without being a member of the group.

Nobody is a member while batches are run: the broker refuses such commits while the group has members, and instances
fence the open transactions of their application when they form a group. So the broker itself keeps both apart.

``fence_all`` is called on the driver's main thread, the rest on the thread that runs lanes.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from uuid import NAMESPACE_URL, uuid5

from confluent_kafka import KafkaError

from streamsapp.clock import SystemClock
from streamsapp.config import client_properties
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.deadline import Deadline
from streamsapp.errors import StreamsError
from streamsapp.membership import fencing, wire
from streamsapp.membership.connection import Connection, UnreachableError
from streamsapp.membership.settings import connection_settings
from streamsapp.record import TopicPartition

log = logging.getLogger(__name__)

#: How long the broker may take to fence all lanes, in seconds.
_PATIENCE = 60.0
_REQUEST = 10.0
#: A member id that no group gives out. A transaction's offsets without any are taken from whoever sends them; with one
#: and without a generation they are taken as long as the group has no members.
_NOBODY = "lane"


def transactional_id(application_id: str, lane: int) -> str:
    """Always the same for a lane: whoever takes it over fences whoever had it. In the form that instances know as one
    of their application's."""
    return f"{application_id}-{uuid5(NAMESPACE_URL, f'{application_id}{chr(0)}lanes')}-{lane}"


class NoMember:
    """Commits for a group that has no members."""

    def __init__(self, group_id: str) -> None:
        fencing.check_group_metadata()
        self._metadata = fencing.group_metadata(group_id, wire.Identity(-1, _NOBODY), None)

    def begin_commit(self) -> bool:
        """The broker decides."""
        return True

    def end_commit(self) -> None:
        """Nobody waits for it."""

    def metadata(self) -> bytes:
        """Of no generation."""
        return self._metadata

    def commit(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Lanes commit by their transactions alone."""
        raise StreamsError("bug: a lane commits without a transaction")


def fence_all(config: StreamsConfig) -> None:
    """Fences every process that ran a lane of this application before: a driver that starts does not know which of
    them may be left. Raises ``StreamsError`` when the brokers do not answer."""
    properties = client_properties.main_consumer(config)
    connection = Connection(connection_settings(config, properties))
    connection.start()
    try:
        connection.run(lambda: _fence_all(connection, config.application_id), _PATIENCE, Deadline(SystemClock()))
    except UnreachableError as error:
        raise StreamsError(f"who wrote for {config.application_id} before cannot be fenced: {error}") from error
    finally:
        connection.close(1.0)


async def _fence_all(connection: Connection, application_id: str) -> None:
    known: set[str] = set()
    for node in await connection.learn_brokers(_REQUEST):
        answer = await connection.send(wire.list_transactions(()), node, _REQUEST)
        if answer.error_code:
            raise UnreachableError(f"broker {node}: {KafkaError(answer.error_code).str()}")
        known.update(each.transactional_id for each in answer.transaction_states)
    lanes = of_lanes(application_id, known)
    if lanes:
        log.debug("fencing %d lanes", len(lanes))
        await fencing.fence(connection, lanes, lambda: True)


def of_lanes(application_id: str, transactional_ids: Collection[str]) -> set[str]:
    """Those under which lanes of the application wrote."""
    lane = re.compile(re.escape(transactional_id(application_id, 0)[:-1]) + r"\d+")
    return {each for each in transactional_ids if lane.fullmatch(each)}
