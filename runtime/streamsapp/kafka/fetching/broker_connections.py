"""The connections of a fetcher to the leaders of partitions, one for each, which are watched for answers.

Used on the thread that a consumer belongs to.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator

from streamsapp.brokers.errors import UnreachableError
from streamsapp.kafka.client_log import client_log
from streamsapp.kafka.fetching.broker import BrokerConnection
from streamsapp.kafka.fetching.settings import FetchSettings
from streamsapp.kafka.wakeup import Wakeup

log = client_log(__name__)


class BrokerConnections:
    """BrokerConnections by the number of the broker."""

    def __init__(self, settings: FetchSettings, wakeup: Wakeup) -> None:
        """The ``wakeup`` ends its wait when an answer comes, and when a connection was made or could not be."""
        self._settings = settings
        self._wakeup = wakeup
        self._brokers: dict[int, BrokerConnection] = {}
        #: When brokers that were lost are tried again, in monotonic seconds, and how often they were in a row.
        self._lost: dict[int, tuple[float, int]] = {}
        #: True once a broker has given an answer that makes sense.
        self.answered = False
        self._sockets = select.poll()
        #: Those that are watched, by their sockets.
        self._watched: dict[int, int] = {}

    def to(self, leader: int, address: tuple[str, int]) -> BrokerConnection | None:
        """The connection to a broker, or ``None``: then it is being made, or it is too early to try again."""
        broker = self._brokers.get(leader)
        if broker is not None and broker.address != address:
            log.info("broker %d: it is at %s:%d now, and not at %s any more", leader, *address, broker)
            self._hang_up(leader)  # what it was asked is asked anew, of whoever is there
            broker = None
        if broker is not None and broker.has_expired:
            self._hang_up(leader)
            broker = None
        if broker is None and time.monotonic() >= self._lost.get(leader, (0.0, 0))[0]:
            self._brokers[leader] = BrokerConnection(address, self._settings, self._wakeup.notify)
        return broker if broker is not None and broker.connected else None

    def with_something_to_read(self) -> Iterator[tuple[int, BrokerConnection]]:
        """Those that have an answer, or a part of it."""
        for descriptor, _ in self._sockets.poll(0) if self._watched else ():
            leader = self._watched[descriptor]
            yield leader, self._brokers[leader]

    def free(self) -> list[BrokerConnection]:
        """Those that have answered all that they were asked."""
        return [broker for broker in self._brokers.values() if broker.asked is None]

    def late(self, seconds: float) -> list[tuple[int, BrokerConnection]]:
        """Those whose answer is due for so long."""
        return [(leader, broker) for leader, broker in self._brokers.items() if broker.late > seconds]

    def failed(self) -> Iterator[tuple[int, Exception]]:
        """Those that could not be made, and why; those that were are watched from now on."""
        if len(self._watched) == len(self._brokers):
            return
        for leader in self._brokers.keys() - self._watched.values():
            broker = self._brokers[leader]
            if broker.failure is not None:
                yield leader, broker.failure
            elif broker.connected:
                descriptor = broker.fileno()
                self._watched[descriptor] = leader
                self._sockets.register(descriptor, select.POLLIN)
                self._wakeup.watch(descriptor)

    def lose(self, leader: int, error: Exception) -> None:
        """Forget a connection, until the broker is tried again."""
        place = "" if isinstance(error, UnreachableError) else f"broker {self._brokers[leader]}: "
        log.warning("%s%s (goes on by itself)", place, error)
        failures = 1 + self._lost.get(leader, (0.0, 0))[1]
        self._lost[leader] = time.monotonic() + self._settings.reaching.pause(failures), failures
        self._hang_up(leader)

    def well(self, leader: int) -> None:
        """A broker has given an answer that makes sense."""
        self._lost.pop(leader, None)
        self.answered = True

    def close(self) -> None:
        """Close all."""
        for leader in list(self._brokers):
            self._hang_up(leader)

    def _hang_up(self, leader: int) -> None:
        for descriptor in [each for each, of in self._watched.items() if of == leader]:
            self._sockets.unregister(descriptor)
            self._wakeup.unwatch(descriptor)
            del self._watched[descriptor]
        self._brokers.pop(leader).close()
