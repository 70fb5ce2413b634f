"""Requests to any broker of the cluster: the group protocol, batches of records, transactions; and the thread on which
coroutines wait for the answers.

Made and closed by the parts that send requests (``membership``, ``kafka/producing``, ``runtime/micro_batches``).
Everything named ``async`` runs on the thread that ``start`` begins, as do ``go_on``, ``learn``, ``brokers`` and
``two_ways_to``; the rest may be called from any thread.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from functools import partial
from threading import Event, Thread
from typing import Any, TypeAlias, TypeVar

from streamsapp.brokers.bounds import wrong
from streamsapp.brokers.broker import Broker
from streamsapp.brokers.channel import MOST
from streamsapp.brokers.coordinators import brokers_of_the_cluster
from streamsapp.brokers.errors import NotSentError, RefusedError, UnreachableError
from streamsapp.brokers.event_loop import EventLoop, WakeUp
from streamsapp.brokers.link import Address, Background, Opener, Opens, on_a_thread
from streamsapp.brokers.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from streamsapp.brokers.messages.metadata import MetadataResponse
from streamsapp.brokers.opening import OpenConnection, open_connection
from streamsapp.brokers.request_by_hand import RequestByHand
from streamsapp.brokers.settings import ConnectionSettings
from streamsapp.deadline import Deadline

log = logging.getLogger(__name__)

T = TypeVar("T")
#: An answer.
A = TypeVar("A")
#: A broker as the connection knows it: its number, or a name for another connection to one.
Node: TypeAlias = int | str
#: Raises ``WrongAnswerError`` for an answer that no broker gives.
Check: TypeAlias = Callable[[A], None]


def _anything(answer: object) -> None:
    """No answer is wrong."""


class Connection:
    """Connections to the brokers, one for each node that is asked."""

    def __init__(
        self,
        settings: ConnectionSettings,
        loop: EventLoop | None = None,
        opens: Opens | None = None,
        background: Background = on_a_thread,
    ) -> None:
        """Tests give all but the settings: a loop with its own time, what opens connections, and on which thread."""
        self._loop = loop or EventLoop()
        #: The time in monotonic seconds. Any thread.
        self.now = self._loop.now
        self._client_id = settings.client_id
        options = settings.reaching.socket_options()
        self._open = opens or (
            lambda at, timeout: open_connection(at, settings.security, settings.client_id, timeout, MOST, options)
        )
        self._opener = Opener(settings.reaching, self._opened, self._loop.post, self.now, background)
        #: The version and the cipher of TLS that the last connection has; ``None`` before, and without TLS. Any thread.
        self.tls: tuple[str, str] | None = None
        self._named: dict[Node, Address] = {f"bootstrap-{at}": each for at, each in enumerate(settings.bootstrap)}
        #: The addresses of all brokers that were named, and the nodes of the last answer about the whole cluster.
        self._addresses: dict[Node, Address] = dict(self._named)
        self._cluster: list[Node] = []
        self._brokers: dict[Node, Broker] = {}
        self._thread = Thread(target=self._serve, name=f"kafka-io-{settings.client_id}", daemon=True)
        self._closed = False

    # ---- the thread ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin the thread."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """True if the thread runs."""
        return self._thread.is_alive()

    def spawn(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run a coroutine on the thread; it handles its own errors. Does nothing once the connection is closed."""
        self._loop.post(partial(self.go_on, work))

    def go_on(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """As ``spawn``, on the thread itself, which needs not be woken."""
        self._loop.start(work())

    def run(self, work: Callable[[], Coroutine[Any, Any, T]], timeout: float, deadline: Deadline) -> T:
        """The result of a coroutine, for another thread; raises ``UnreachableError`` when it takes longer, when the
        deadline passes, or when the connection is closed."""
        outcome: Future[T] = Future()
        ended = Event()
        outcome.add_done_callback(lambda _: ended.set())

        async def carried() -> None:
            try:
                outcome.set_result(await work())
            except GeneratorExit:
                outcome.set_exception(UnreachableError("the connection was closed"))
                raise
            except Exception as error:
                outcome.set_exception(error)

        if not self._loop.post(lambda: self._loop.start(carried())):
            raise UnreachableError("the connection is closed")
        if not deadline.wait(ended.wait, timeout):
            raise UnreachableError(f"no answer within {timeout:g} s, or before the end")
        return outcome.result()

    def wake_up(self) -> WakeUp:
        """A wake-up for which a coroutine of this connection can wait."""
        return WakeUp(self._loop)

    async def together(self, works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """The results of coroutines that do not wait for each other; raises the first one's error."""
        outcomes = [self._loop.carry(work) for work in works]
        return [await outcome for outcome in outcomes]

    async def sleep(self, seconds: float) -> None:
        await self._loop.sleep(seconds)

    def close(self, timeout: float) -> None:
        """Close all connections and end the thread, waiting for it up to ``timeout`` seconds; it ends later where it is
        busy for longer. A coroutine that waits for an answer ends with it, and reports nothing."""
        if not self._closed:
            self._closed = True
            self._loop.post(self._loop.stop)
            self._thread.join(timeout)

    def _serve(self) -> None:
        """The thread closes what is its own: while an assignor keeps it busy, no other thread may."""
        try:
            self._loop.run()
        finally:
            self._loop.end()
            for broker in self._brokers.values():
                broker.hang_up("the connection is closed")
            self._loop.close()

    # ---- requests ------------------------------------------------------------------------------------------------

    async def send(
        self, request: RequestByHand[A], node: Node, timeout: float, check: Check[A] = _anything, held: float = 0.0
    ) -> A:
        """The broker's answer; raises ``UnreachableError`` if there is none within ``timeout`` seconds, beside the time
        for which the broker may have ``held`` it. It raises the same, and closes the connection, for an answer that
        does not pass the ``check``, which raises ``WrongAnswerError``."""
        answer = await self._answer(request, node, timeout, held)
        try:
            check(answer)
        except Exception as error:  # whatever the check stumbles over, no broker gives
            why = wrong(error)
            log.warning("broker %s: %s; the connection is closed", node, why)
            await self.hang_up(node)
            raise UnreachableError(f"broker {node}: {why}") from error
        return answer

    async def _answer(self, request: RequestByHand[A], node: Node, timeout: float, held: float) -> A:
        return await self._broker(node).ask(request, timeout, held)

    def _broker(self, node: Node) -> Broker:
        broker = self._brokers.get(node)
        if broker is None:
            if node not in self._addresses:
                raise NotSentError(f"broker {node}: its address is not known")
            address = self._addresses[node]
            broker = self._brokers[node] = Broker(self._loop, str(node), address, self._client_id, self._opener)
        return broker

    def _opened(self, address: Address, timeout: float) -> OpenConnection:
        """On a thread of its own."""
        opened = self._open(address, timeout)
        if opened.tls != self.tls:
            self.tls = opened.tls
            log.info("%s: brokers are reached by %s", self._client_id, " with ".join(opened.tls or ("no TLS",)))
        return opened

    async def ask_any(
        self,
        request: Callable[[], RequestByHand[A]],
        timeout: float,
        check: Check[A] = _anything,
        *,
        apart: bool = False,
    ) -> A:
        """The answer of the first broker that gives one. The brokers known by now are asked first, then those the user
        named. With ``apart`` it is the other way round, on a connection where no other request is waited for. Brokers
        that were out of reach come last: a cluster that has moved is found by the names that the user gave
        (KIP-899)."""
        failure: UnreachableError | None = None
        ways = [random.sample(nodes, len(nodes)) for nodes in (self.brokers(), list(self._named))]
        nodes = [node for way in (reversed(ways) if apart else ways) for node in way]
        for node in sorted(nodes, key=self._is_away):
            try:
                return await self.send(request(), node, timeout, check)
            except UnreachableError as error:
                failure = failure if isinstance(failure, RefusedError) else error
        raise failure or UnreachableError("no broker is known; see bootstrap_servers")

    def _is_away(self, node: Node) -> bool:
        return node in self._brokers and self._brokers[node].is_away

    async def hang_up(self, node: Node) -> None:
        """Close the connection to a broker: a caller that waits for an answer gets ``UnreachableError``."""
        if node in self._brokers:
            self._brokers[node].hang_up("the connection was closed")

    # ---- brokers -------------------------------------------------------------------------------------------------

    async def learn_brokers(self, timeout: float) -> list[Node]:
        """All brokers of the cluster."""
        self.learn(await self.ask_any(brokers_of_the_cluster, timeout))
        return self.brokers()

    def learn(self, metadata: MetadataResponse) -> None:
        """Take the brokers from an answer to a MetadataRequest."""
        told: dict[Node, Address] = {each.node_id: (each.host, each.port) for each in metadata.brokers}
        if not told:
            return  # a broker that has just begun knows of none
        for gone in set(self._cluster) - told.keys():
            self._addresses.pop(gone, None)
            if gone in self._brokers:
                self._brokers.pop(gone).hang_up("it has left the cluster")
        self._cluster = list(told)
        for node, address in told.items():
            self._find(node, address)

    def brokers(self) -> list[Node]:
        """The brokers known by now."""
        return list(self._cluster)

    def two_ways_to(self, coordinator: Coordinator | FindCoordinatorResponse, kind: int, key: str) -> tuple[Node, Node]:
        """Two nodes that stand for the broker that an answer to FindCoordinator names, each with a connection of its
        own. A broker serves the requests of one connection one after the other, and a JoinGroup may wait for minutes.
        """
        number = coordinator.node_id
        ways = f"coordinator-{number}", number
        for node in ways:
            self._find(node, (coordinator.host, coordinator.port))
        return ways

    def _find(self, node: Node, address: Address) -> None:
        """A broker is found at an address."""
        self._addresses[node] = address
        if node in self._brokers:
            self._brokers[node].move(address)


class Turns:
    """Coroutines that take turns, in the order in which they came: ``async with``. The connection's thread."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._taken = False
        self._waiting: deque[WakeUp] = deque()

    async def __aenter__(self) -> None:
        if not self._taken:
            self._taken = True
            return
        called = self._connection.wake_up()
        self._waiting.append(called)
        await called.wait()

    async def __aexit__(self, *_: object) -> None:
        if self._waiting:
            self._waiting.popleft().notify_here()
        else:
            self._taken = False
