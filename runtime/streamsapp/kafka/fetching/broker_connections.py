"""The connections of a fetcher to the brokers that it asks, one for each, which are watched for answers.

Used on the thread that a consumer belongs to; ``brokers.link`` opens them on other ones.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from threading import Lock

from streamsapp.brokers.errors import UnreachableError
from streamsapp.brokers.link import Address, Background, Link, Opener, on_a_thread
from streamsapp.brokers.opening import OpenConnection, open_connection
from streamsapp.kafka.client_log import client_log
from streamsapp.kafka.fetching.broker import BrokerConnection, TooOldError
from streamsapp.kafka.fetching.requests import FETCH_VERSION, lacks
from streamsapp.kafka.fetching.settings import FetchSettings
from streamsapp.kafka.wakeup import Wakeup

log = client_log(__name__)

#: Seconds for the rest of an answer that is partly there, and for a request to be written. No other thread of the
#: interpreter waits meanwhile.
_REST_OF_ANSWER, _WRITE = 0.02, 5.0


class BrokerConnections:
    """BrokerConnections by the number of the broker."""

    def __init__(
        self,
        settings: FetchSettings,
        wakeup: Wakeup,
        now: Callable[[], float],
        background: Background = on_a_thread,
    ) -> None:
        """The ``wakeup`` ends its wait when an answer comes, and when a connection was made or could not be."""
        self._settings = settings
        self._wakeup = wakeup
        self._now = now
        self._opener = Opener(settings.reaching, self._open, self._post, now, background)
        self._links: dict[int, Link] = {}
        self._asked: dict[int, BrokerConnection] = {}
        #: Connections that take the place of others, once no request is open on those.
        self._next: dict[int, BrokerConnection] = {}
        self._failures: deque[tuple[int, Exception]] = deque()
        #: True once a broker has given an answer that makes sense.
        self.answered = False
        self._sockets = select.poll()
        #: The brokers whose connections are watched, by their sockets.
        self._watched: dict[int, int] = {}
        #: Calls of other threads, in their order.
        self._posted: deque[Callable[[], object]] = deque()
        self._lock, self._closed = Lock(), False

    # ---- other threads -----------------------------------------------------------------------------------------

    def _open(self, address: Address, timeout: float) -> OpenConnection:
        settings = self._settings
        options = settings.reaching.socket_options()
        made = open_connection(address, settings.security, settings.client_id, timeout, settings.most, options)
        try:
            if lacks(made.versions):
                place = "{}:{}".format(*address)
                raise TooOldError(f"broker {place} does not know Fetch requests of version {FETCH_VERSION} (KIP-516)")
            made.transport.wait_in_system(_REST_OF_ANSWER, _WRITE)
        except BaseException:
            made.transport.close()
            raise
        return made

    def _post(self, call: Callable[[], object]) -> bool:
        with self._lock:
            if taken := not self._closed:
                self._posted.append(call)
        self._wakeup.notify()
        return taken

    # ---- the consumer's thread ---------------------------------------------------------------------------------

    def to(self, source: int, address: Address) -> BrokerConnection | None:
        """The connection to a broker, or ``None``: then it is being made, or it is too early to try again."""
        link = self._links.get(source)
        if link is None:
            report = partial(self._opened, source), partial(self._not_opened, source)
            link = self._links[source] = Link(address, self._opener, *report)
        if link.address != address:
            log.info("broker %d: it is at %s:%d now, and not at %s:%d any more", source, *address, *link.address)
            link.move(address)
            self._hang_up(source)  # what it was asked is asked anew, of the broker that is there then
        broker = self._asked.get(source)
        if broker is not None and broker.asked is not None:
            return broker
        if (successor := self._next.pop(source, None)) is not None:
            self._hang_up(source)
            self._watch(source, successor)
        elif broker is not None and link.is_over(broker.times.asked_at):
            self._hang_up(source)
        broker = self._asked.get(source)
        if broker is None or self._now() >= link.renew_at:
            link.open()
        return broker

    def with_something_to_read(self) -> Iterator[tuple[int, BrokerConnection]]:
        """The connections that have an answer, or a part of it."""
        for descriptor, _ in self._sockets.poll(0) if self._watched else ():
            source = self._watched[descriptor]
            yield source, self._asked[source]

    def busy(self) -> list[BrokerConnection]:
        """The connections that have not answered their request."""
        return [broker for broker in self._asked.values() if broker.asked is not None]

    def late(self, seconds: float) -> list[tuple[int, BrokerConnection]]:
        """The connections whose answer is due for so long."""
        return [(source, broker) for source, broker in self._asked.items() if broker.late > seconds]

    def failed(self) -> Iterator[tuple[int, Exception]]:
        """The connections that could not be made, and why."""
        while self._posted:
            self._posted.popleft()()
        while self._failures:
            yield self._failures.popleft()

    def lose(self, source: int, error: Exception) -> None:
        """Forget a connection, until the broker is tried again."""
        place = "" if isinstance(error, UnreachableError) else "broker {}:{}: ".format(*self._links[source].address)
        log.warning("%s%s (goes on by itself)", place, error)
        if source in self._asked:  # or it has failed already
            self._links[source].failed(error)
        self._hang_up(source)

    def well(self, source: int) -> None:
        """A broker has given an answer that makes sense."""
        self._links[source].well()
        self.answered = True

    def close(self) -> None:
        """Close all."""
        with self._lock:
            self._closed = True
        for _ in self.failed():
            pass
        for source in self._links:
            self._hang_up(source)

    def _opened(self, source: int, opened: OpenConnection) -> None:
        place = "{}:{}".format(*self._links[source].address)
        self._next[source] = BrokerConnection(opened.transport, place, self._settings.most, self._now)

    def _not_opened(self, source: int, error: Exception) -> None:
        if source in self._asked:  # which is used until its session ends
            log.debug("broker %d: %s", source, error)
        else:
            self._failures.append((source, error))

    def _watch(self, source: int, broker: BrokerConnection) -> None:
        self._asked[source] = broker
        descriptor = broker.fileno()
        self._watched[descriptor] = source
        self._sockets.register(descriptor, select.POLLIN)
        self._wakeup.watch(descriptor)

    def _hang_up(self, source: int) -> None:
        if (successor := self._next.pop(source, None)) is not None:
            successor.close()
        if (broker := self._asked.pop(source, None)) is not None:
            descriptor = broker.fileno()
            self._sockets.unregister(descriptor)
            self._wakeup.unwatch(descriptor)
            del self._watched[descriptor]
            broker.close()
