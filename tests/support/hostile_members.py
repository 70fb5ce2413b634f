"""A member of a group that says things which no instance of ours ever says.

Called by the tests of the membership, with and without a broker.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Mapping

import msgspec

from streamsapp import StreamsConfig
from streamsapp.brokers.connection import Connection
from streamsapp.brokers.settings import connection_settings
from streamsapp.clock import SystemClock
from streamsapp.config import client_properties
from streamsapp.deadline import Deadline
from streamsapp.membership import member_messages, wire
from streamsapp.membership.classic_protocol import GroupMembership
from streamsapp.membership.member_id import MemberId
from streamsapp.membership.member_messages import Definition, Subscription
from streamsapp.membership.settings import group_settings
from streamsapp.membership.wire import Identity

#: How long a broker may take, in seconds.
TIMEOUT = 100.0


def metadata(**changes: object) -> bytes:
    """A subscription like any other but for the changes, which nothing checks."""
    usual = Subscription(1, 7, "", "host:80", "pod", {}, 1, False, False, {}, {}, {}, [])
    return wire.subscription(["in"], msgspec.structs.replace(usual, **changes).encode())


def defined(*tasks: int, subtopology: int = 0, topics: tuple[str, ...] = ("in",)) -> Definition:
    """A definition of tasks that are given as runs."""
    return Definition(subtopology, "hostile", True, list(topics), list(tasks))


def _nested(depth: int) -> bytes:
    fields = msgspec.msgpack.encode(msgspec.structs.astuple(Subscription.decode(_plain())))
    # One more field than there is: fourteen of them, the last an array in an array, and so on.
    return bytes([0x90 | 14]) + fields[1:] + b"\x91" * depth + b"\xc0"


def _plain() -> bytes:
    return wire.user_data_of_subscription(metadata())


_LONG = "t" * 40_000

#: Each was found to kill or to hang the leader of a group, or is a sibling of what did.
SUBSCRIPTIONS: Mapping[str, bytes] = {
    "nothing": b"",
    "rubbish": wire.subscription(["in"], b"\xff" * 100),
    "a partition of 32 bits": metadata(definitions=[defined(2**31, 1)]),
    "a partition that ends above 31 bits": metadata(definitions=[defined(2**31 - 1, 2)]),
    "a sub-topology of 32 bits": metadata(definitions=[defined(0, 1, subtopology=2**31)]),
    "a topic that is too long": metadata(definitions=[defined(0, 1, topics=(_LONG,))]),
    "a topic with a line break": metadata(definitions=[defined(0, 1, topics=("in\n",))]),
    "counts that cancel each other": metadata(active={0: [0, 10**12], 1: [0, -(10**12)]}),
    "counts of definitions that cancel each other": metadata(definitions=[defined(0, 10**12, 0, -(10**12))]),
    "more tasks than there are": metadata(definitions=[defined(0, member_messages.MAX_TASKS + 1)]),
    "many definitions of the same tasks": metadata(definitions=[defined(0, 40_000)] * 5_000),
    "many topics for many tasks": metadata(
        definitions=[defined(0, 40_000, topics=tuple(f"t{number}" for number in range(5_000)))]
    ),
    "many replicas": metadata(lags={each: [(0, 0)] * 1_000 for each in range(200)}),
    "a lag below zero": metadata(lags={0: [(0, -1)]}),
    "any number of threads": metadata(threads=2**40),
    "no thread": metadata(threads=0),
    "an endpoint with a header in it": metadata(endpoint="host:80/\r\nSet-Cookie: a=b"),
    "an endpoint that is an address of its own": metadata(endpoint="user@host:80/path?"),
    "a host with a line break": metadata(host="pod\nERROR all is lost"),
    "nested without end": wire.subscription(["in"], zlib.compress(_nested(100_000))),
}


class Stranger:
    """A member of a group that says what it likes; the ``Delegate`` of its own membership."""

    def __init__(self, config: StreamsConfig, says: bytes) -> None:
        self._says = says
        properties = client_properties.main_consumer(config)
        self._connection = Connection(connection_settings(properties, f"{config.client_id}-member"))
        settings = group_settings(config, properties)
        self._group = GroupMembership(self._connection, settings, MemberId(None), self, SystemClock())
        #: The assignment that it was given.
        self.told: bytes | None = None
        self.heard = threading.Event()
        self._connection.start()
        for work in (self._group.joins, self._group.heartbeats):
            self._connection.spawn(work)

    def leave(self) -> None:
        self._connection.run(lambda: self._group.leave("enough"), TIMEOUT, Deadline(SystemClock()))
        self._connection.close(5.0)

    async def prepare(self) -> None:
        pass

    def subscription(self) -> bytes:
        return self._says

    def joined(self) -> None:
        pass

    async def lead(self, members: Mapping[str, bytes]) -> dict[str, bytes]:
        raise AssertionError("the good members were there before")

    @property
    def resting(self) -> bool:
        return False

    @property
    def expects_rebalance(self) -> bool:
        return False

    def assigned(self, identity: Identity, data: bytes) -> None:
        self.told = data
        self.heard.set()

    def lost(self, reason: str) -> None:
        pass

    def failed(self, error: Exception) -> None:
        pass
