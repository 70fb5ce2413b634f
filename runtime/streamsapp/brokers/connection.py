"""A connection to the brokers for what this project says itself, the group protocol and batches of records; and the
thread it runs on.

With ``sockets`` the only module that touches what kafka-python keeps to itself: its event loop and its connections. It
is used for that alone; what is said over the connections is said elsewhere (``membership``, ``kafka/batches``). The
release is pinned, and checked together with the private parts before the first use, so that an upgrade fails at once
and not in the middle of a rebalance.

Everything named ``async`` runs on the thread that ``start`` begins; the rest may be called from any thread.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import random
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from threading import Event, Thread
from typing import Any, TypeAlias, TypeVar

from streamsapp.brokers.bounds import WrongAnswerError
from streamsapp.brokers.errors import NotSentError, PausedError, RefusedError, RefusedTlsError, UnreachableError
from streamsapp.brokers.opening import SOCKET_OPTIONS
from streamsapp.brokers.tls import refused_tls
from streamsapp.deadline import Deadline
from streamsapp.errors import StreamsError

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Said by whoever finds another kafka-python than this.
PINNED = "3.0.12"
REMEDY = f"install kafka-python=={PINNED}, which the connections to the brokers are built on"

#: The private parts that are used: module, name, parameters.
_PARTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("kafka.net.selector", "NetworkSelector.__init__", ("self", "configs")),
    ("kafka.net.selector", "NetworkSelector.run_forever", ("self",)),
    ("kafka.net.selector", "NetworkSelector.close", ("self",)),
    ("kafka.net.selector", "NetworkSelector.drain", ("self", "scheduled")),
    ("kafka.net.selector", "NetworkSelector.sleep", ("self", "delay")),
    ("kafka.net.selector", "NetworkSelector.call_at", ("self", "when", "task")),
    ("kafka.net.selector", "yield_callback", ("callback",)),
    ("kafka.net.selector", "NetworkSelector.call_soon_threadsafe", ("self", "callback")),
    ("kafka.net.selector", "NetworkSelector.call_soon", ("self", "task")),
    ("kafka.net.selector", "NetworkSelector.register_event", ("self", "fileobj", "event", "task")),
    ("kafka.net.selector", "NetworkSelector.unregister_event", ("self", "fileobj", "event")),
    ("kafka.net.selector", "NetworkSelector._poll_once", ("self", "timeout")),
    ("kafka.net.selector", "NetworkSelector._process_events", ("self", "event_list")),
    ("kafka.net.selector", "NetworkSelector._schedule_tasks", ("self",)),
    ("kafka.net.selector", "NetworkSelector._task_done", ("self", "task")),
    ("kafka.net.selector", "NetworkSelector._add_ready_task", ("self", "task")),
    ("kafka.net.selector", "Task.__call__", ("self", "arg")),
    ("kafka.net.selector", "Task.inject_exc", ("self", "exc")),
    ("kafka.net.selector", "Task.close", ("self",)),
    ("kafka.net.selector", "KernelEvent.__init__", ("self", "method", "args")),
    ("kafka.net.manager", "KafkaConnectionManager.__init__", ("self", "net", "configs")),
    ("kafka.net.manager", "KafkaConnectionManager.close", ("self", "node_id", "timeout_ms")),
    (
        "kafka.net.manager",
        "KafkaConnectionManager.get_connection",
        ("self", "node_id", "timeout_ms", "pop_on_close", "refresh_metadata_on_err", "reset_backoff_on_connect"),
    ),
    ("kafka.net.manager", "KafkaConnectionManager._build_transport", ("self", "node", "timeout_at")),
    ("kafka.net.inet", "KafkaNetSocket.dns_lookup", ("self", "host", "port", "raise_error")),
    ("kafka.net.inet", "KafkaNetSocket.connect", ("self", "net", "addrinfo", "socket_options", "timeout_at")),
    ("kafka.net.inet", "KafkaNetSocket.sock_connect", ("self", "net", "sock", "sockaddr", "timeout_at")),
    ("kafka.net.transport", "KafkaTCPTransport.__init__", ("self", "net", "sock", "host")),
    ("kafka.net.transport", "KafkaSSLTransport.__init__", ("self", "net", "sock", "host", "configs")),
    ("kafka.net.transport", "KafkaTCPTransport.abort", ("self", "error")),
    ("kafka.net.transport", "KafkaSSLTransport._sock_recv", ("self",)),
    ("kafka.net.transport", "KafkaTCPTransport.write", ("self", "data")),
    ("kafka.net.transport", "KafkaTCPTransport._read_from_sock", ("self",)),
    ("kafka.net.connection", "KafkaConnection.send_request", ("self", "request", "request_timeout_ms")),
    ("kafka.protocol.parser", "KafkaProtocol.send_request", ("self", "request", "correlation_id")),
    ("kafka.protocol.parser", "KafkaProtocol._process_response", ("self", "read_buffer")),
    ("kafka.net.connection", "KafkaConnection.close", ("self", "error")),
    ("kafka.net.connection", "KafkaConnection.connection_made", ("self", "transport")),
    ("kafka.net.connection", "KafkaConnection.connection_lost", ("self", "exc")),
    ("kafka.net.connection", "KafkaConnection._maybe_throttle", ("self", "response")),
    ("kafka.protocol.parser", "KafkaProtocol._validate_frame_size", ("self", "nbytes")),
    ("kafka.future", "Future.failure", ("self", "e")),
    ("kafka.net.selector", "NetworkSelector.cancel", ("self", "task")),
    ("kafka.net.wakeup_notifier", "WakeupNotifier.__init__", ("self", "net")),
    ("kafka.net.wakeup_notifier", "WakeupNotifier.__call__", ("self", "timeout_secs")),
    ("kafka.net.wakeup_notifier", "WakeupNotifier.notify", ("self",)),
    ("kafka.net.wakeup_notifier", "WakeupNotifier._wakeup", ("self",)),
    ("kafka.cluster", "ClusterMetadata.bootstrap_brokers", ("self",)),
    ("kafka.cluster", "ClusterMetadata.brokers", ("self",)),
    ("kafka.cluster", "ClusterMetadata.metadata_request", ("self",)),
    ("kafka.cluster", "ClusterMetadata.update_metadata", ("self", "metadata")),
    ("kafka.cluster", "ClusterMetadata.add_coordinator", ("self", "response", "key_type", "key", "synthesize_node_id")),
)

_SETTINGS: dict[str, Any] = {
    # A broker that restarts is back within seconds: the client's own 30 s would be most of the outage.
    "reconnect_backoff_ms": 50,
    "reconnect_backoff_max_ms": 500,
    "socket_connection_setup_timeout_ms": 5000,
    "socket_connection_setup_timeout_max_ms": 10_000,
    "socket_options": SOCKET_OPTIONS,
    # The leader is told about all members at once.
    "receive_message_max_bytes": 100 << 20,
    # An assignor is allowed its time.
    "slow_task_threshold_secs": 0,
}

_FOREVER = 86_400.0

#: A broker as the connection knows it.
Node: TypeAlias = int | str
#: Raises ``WrongAnswerError`` for an answer that no broker gives.
Check: TypeAlias = Callable[[Any], None]


def _anything(answer: object) -> None:
    """No answer is wrong."""


class Connection:
    """Requests to any broker of the cluster, and the thread on which coroutines wait for the answers."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        check_client()
        _quieten()
        # Not before they were checked.
        from streamsapp.brokers.sockets import ConnectionManager, WatchingLoop

        settings = {**_SETTINGS, **settings}
        self._loop = WatchingLoop(**settings)
        self._manager = ConnectionManager(self._loop, **settings)
        self._thread = Thread(target=self._serve, name=f"kafka-io-{self._loop.config['client_id']}", daemon=True)
        self._closed = False

    def start(self) -> None:
        """Begin the thread."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """True if the thread runs."""
        return self._thread.is_alive()

    def spawn(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run a coroutine on the thread; it handles its own errors. Does nothing once the connection is closed."""
        coroutine = work()
        try:
            self._loop.call_soon_threadsafe(coroutine)
        except Exception as error:
            coroutine.close()
            if not (self._closed and isinstance(error, RuntimeError)):
                raise

    def go_on(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """As ``spawn``, on the thread itself, which needs not be woken."""
        self._loop.call_soon(work())

    def run(self, work: Callable[[], Coroutine[Any, Any, T]], timeout: float, deadline: Deadline) -> T:
        """The result of a coroutine, for another thread; raises ``UnreachableError`` when it takes longer, or when the
        deadline passes."""
        outcome: Future[T] = Future()
        ended = Event()
        outcome.add_done_callback(lambda _: ended.set())

        async def carried() -> None:
            try:
                outcome.set_result(await work())
            except Exception as error:
                outcome.set_exception(error)

        if self._closed:
            raise UnreachableError("the connection is closed")
        self.spawn(carried)
        if not deadline.wait(ended.wait, timeout):
            raise UnreachableError(f"no answer within {timeout:g} s, or before the end")
        return outcome.result()

    def wake_up(self) -> WakeUp:
        """A wake-up for which a coroutine of this connection can wait."""
        return WakeUp(self._loop)

    async def sleep(self, seconds: float) -> None:
        await self._loop.sleep(seconds)

    async def send(self, request: Any, node: Node, timeout: float, check: Check = _anything) -> Any:
        """The broker's answer; raises ``UnreachableError`` if there is none within ``timeout`` seconds, or none that
        passes the ``check``, which raises ``WrongAnswerError``: the connection is closed then."""
        answer = await self._answer(request, node, timeout)
        try:
            check(answer)
        except WrongAnswerError as error:
            log.warning("broker %s: %s; the connection is closed", node, error)
            await self.hang_up(node)
            raise UnreachableError(f"broker {node}: {error}") from error
        return answer

    async def _answer(self, request: Any, node: Node, timeout: float) -> Any:
        from kafka import errors

        connection = None
        try:
            connection = self._manager.get_connection(node, refresh_metadata_on_err=False)
            return await connection.send_request(request, request_timeout_ms=timeout * 1000)
        except (errors.KafkaError, OSError, RuntimeError) as error:
            if self._closed:
                await self._loop.sleep(_FOREVER)  # whoever asked ends with the thread, and says nothing about it
            if isinstance(error, errors.SaslAuthenticationFailedError | errors.UnsupportedSaslMechanismError):
                remedy = "check the sasl.* properties"
                raise RefusedError(f"broker {node} refuses the credentials: {error}; {remedy}") from error
            if (refused := refused_tls(error)) is not None:
                raise RefusedTlsError(f"broker {node}: {refused}") from error
            if isinstance(error, errors.NodeNotReadyError):
                raise PausedError(f"broker {node}: {error}") from error
            # One that was never made has sent none.
            unsent = connection is None or connection.init_future.failed()
            raise (NotSentError if unsent else UnreachableError)(f"broker {node}: {error}") from error

    async def ask_any(
        self, request: Callable[[], Any], timeout: float, check: Check = _anything, *, apart: bool = False
    ) -> Any:
        """The answer of the first broker that gives one, those known by now and those the user named; the other way
        round if it is to be asked ``apart``, on a connection where no other request is waited for."""
        failure: UnreachableError | None = None
        ways = [self.brokers(), [broker.node_id for broker in self._manager.cluster.bootstrap_brokers()]]
        for nodes in reversed(ways) if apart else ways:
            random.shuffle(nodes)
            for node in nodes:
                try:
                    return await self.send(request(), node, timeout, check)
                except UnreachableError as error:
                    failure = failure if isinstance(failure, RefusedError) else error
        raise failure or UnreachableError("no broker is known; see bootstrap_servers")

    async def learn_brokers(self, timeout: float) -> list[Node]:
        """All brokers of the cluster."""
        self.learn(await self.ask_any(self._manager.cluster.metadata_request, timeout))
        return self.brokers()

    def learn(self, metadata: Any) -> None:
        """Take the brokers from an answer to a MetadataRequest."""
        self._manager.cluster.update_metadata(metadata)

    def brokers(self) -> list[Node]:
        """The brokers known by now."""
        return [broker.node_id for broker in self._manager.cluster.brokers()]

    def two_ways_to(self, coordinator: Any, kind: int, key: str) -> tuple[Node, Node]:
        """Two nodes that stand for the broker that an answer to FindCoordinator names, each with a connection of its
        own: a broker serves the requests of one connection one after the other, and a JoinGroup may wait for minutes.
        """
        cluster = self._manager.cluster
        return (
            cluster.add_coordinator(coordinator, kind, key),
            cluster.add_coordinator(coordinator, kind, key, synthesize_node_id=False),
        )

    async def hang_up(self, node: Node) -> None:
        """Close the connection to a broker: whoever waits for an answer gets ``UnreachableError``."""
        self._manager.close(node_id=node)

    def close(self, timeout: float) -> None:
        """Close all connections and end the thread, waiting for it up to ``timeout`` seconds; it ends later where it
        is busy for longer."""
        if self._closed:
            return
        self._closed = True

        async def hang_up() -> None:
            self._manager.close()
            self._loop._stop = True

        with suppress(Exception):  # the thread has failed, and has closed what it had
            self._loop.call_soon_threadsafe(hang_up)
        self._thread.join(timeout)

    def _serve(self) -> None:
        """The thread closes what is its own: while an assignor keeps it busy, nobody else may."""
        try:
            self._loop.run_forever()
        finally:
            # Of connections that were just being made or had something left to send.
            sockets = [key.fileobj for key in self._loop._selector.get_map().values()]
            self._loop.close()
            for each in sockets:
                each.close()


class WakeUp:
    """Wakes one coroutine, from any thread; a notification that nobody waits for is kept."""

    def __init__(self, loop: Any) -> None:
        from kafka.net.wakeup_notifier import WakeupNotifier

        self._notifier = WakeupNotifier(loop)

    def notify(self) -> None:
        try:
            self._notifier.notify()
        except RuntimeError:
            log.debug("the connection's thread has ended; nobody is woken")

    def notify_here(self) -> None:
        """As ``notify``, on the thread itself."""
        self._notifier._wakeup()

    async def wait(self, timeout: float | None = None) -> None:
        """Return when notified, or when ``timeout`` seconds have passed."""
        await self._notifier(timeout)


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


def check_client() -> None:
    """Raise ``StreamsError`` unless kafka-python is the release whose private parts this module knows."""
    found = importlib.import_module("kafka.version").__version__
    if found != PINNED:
        raise StreamsError(f"kafka-python {found} is installed; {REMEDY}")
    for module, path, parameters in _PARTS:
        part: Any = importlib.import_module(module)
        for name in path.split("."):
            part = getattr(part, name, None)
        if part is None or tuple(inspect.signature(part).parameters) != parameters:
            raise StreamsError(f"{module}.{path} of kafka-python {found} is not what it was; {REMEDY}")


class _Demoted(logging.Filter):
    """Makes debug messages of kafka-python's warnings: whatever matters reaches us as an exception, and
    is told in our words, except for the end of its event loop. Its own debug messages are never written: they have each
    request and its bytes, passwords and tokens included."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno <= logging.DEBUG:
            return False
        if record.exc_info and record.name == "kafka.net.selector":
            return True
        record.levelno, record.levelname = logging.DEBUG, "DEBUG"
        return logging.getLogger().isEnabledFor(logging.DEBUG)


_demoted = _Demoted()


def _quieten() -> None:
    for module in ("kafka.net.manager", "kafka.net.selector", "kafka.net.sasl.oauth"):
        importlib.import_module(module)
    logging.getLogger("kafka").setLevel(logging.INFO)  # of those that are made later, too
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("kafka."):
            logging.getLogger(name).addFilter(_demoted)
