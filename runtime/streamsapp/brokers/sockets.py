"""Connections that leave no open socket behind when they fail, and no last word unread, that end with whatever goes
wrong on them, and take few turns of the event loop for a request; kafka-python's own do none of this.

While a broker is away, sockets would pile up by several a second; and a broker that refuses credentials says so and
hangs up at once, which a busy machine reads together. A heartbeat would take six turns, two for the time, two to send
it and two for the answer; ten heartbeats a second are most of what an idle instance costs. Part of ``connection``,
which imports this after it has checked that kafka-python is the release that both know. Runs on the connection's
thread.
"""

from __future__ import annotations

import inspect
import logging
import socket
import time
from contextlib import suppress
from selectors import EVENT_READ
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any

from kafka.errors import InvalidReceiveError, KafkaConnectionError, KafkaError, KafkaProtocolError, KafkaTimeoutError
from kafka.future import Future
from kafka.net.connection import KafkaConnection
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import MAX_TIMEOUT, KernelEvent, NetworkSelector, Task, TaskState, yield_callback
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.parser import KafkaProtocol

from streamsapp.brokers.bounds import WrongAnswerError, check_length, throttle

log = logging.getLogger(__name__)

#: Bytes that are taken from a socket at a time.
_MOST = 64 << 10

_OVER = (TaskState.DONE, TaskState.CANCELLED)
_FUNCTIONS = (FunctionType, MethodType)
_COROUTINES = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE | inspect.CO_ASYNC_GENERATOR


class WatchingLoop(NetworkSelector):  # type: ignore[misc]
    """kafka-python's event loop, in which a task may go on watching a socket while it works on what came."""

    def watch(self, sock: socket.socket) -> None:
        """Wake the task that runs whenever the socket has something to read, until ``unregister_event``."""
        self.register_event(sock, EVENT_READ, self._current)

    def watched(self) -> KernelEvent:
        """Awaited by a task that watches a socket."""
        return KernelEvent("_await_watched")

    def _await_watched(self) -> None:
        self._current.state = TaskState.WAIT_IO

    def call_soon(self, task: object) -> Task:
        return super().call_soon(_task_of(task))

    def call_at(self, when: float, task: object) -> Task:
        return super().call_at(when, _task_of(task))

    def _poll_once(self, timeout: float | None = None) -> None:
        """One turn: as kafka-python's own, but for messages at a level of its own, and for locks against other threads,
        of which there are none here. These were most of what a turn cost."""
        if self._ready:
            timeout = 0.0
        elif self._scheduled:
            due = max(0.0, self._scheduled[0][0] - time.monotonic())
            timeout = min(MAX_TIMEOUT, due if timeout is None else min(timeout, due))
        self._process_events(self._selector.select(timeout))
        self._schedule_tasks()
        for _ in range(len(self._ready)):
            task = self._current = self._ready.popleft()
            if task.state not in _OVER:
                task.state = TaskState.RUNNING
                self._step(task)
                if task.state is TaskState.RUNNING:
                    task.state = TaskState.UNSCHEDULED
        self._current = None

    def _step(self, task: Task) -> None:
        """Let a task run until it waits for something."""
        try:
            awaited = task()
        except BaseException as error:
            if not isinstance(error, StopIteration):
                log.exception("a task of the connection failed")
            self._task_done(task)
            return
        if task.state is TaskState.CANCELLED:
            self._pending_tasks.discard(task)
            task.close()
        elif isinstance(awaited, KernelEvent):
            try:
                getattr(self, awaited.method)(*awaited.args)
            except BaseException as error:
                task.inject_exc(error)
                self._add_ready_task(task)
        else:
            task.state = TaskState.WAIT_FUTURE
            awaited.add_both(lambda _: self.call_soon(task))


def _task_of(given: object) -> object:
    """The same, for kafka-python, which takes a while to find out that a function is a plain one."""
    plain = isinstance(given, _FUNCTIONS) and not given.__code__.co_flags & _COROUTINES
    return yield_callback(given) if plain else given


class _DirectTransport(KafkaTCPTransport):  # type: ignore[misc]
    """Sends at once what the socket takes, and watches it for answers all the time."""

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        if self._write and not (self._writing or self._closed):
            # A failure is left to the task that sends the rest: it meets it again.
            with suppress(OSError):
                rest = rest[self._sock.send(rest) :]
                self.last_write = time.monotonic()
        if rest:
            super().write(rest)

    async def _read_from_sock(self) -> None:
        sock = self._sock
        self._net.watch(sock)
        try:
            while self._read and not self._closed:
                await self._net.watched()
                data, error = self._sock_recv()
                if error:
                    self.abort(error=error)
                    return
                self.last_read = time.monotonic()
                try:
                    self._protocol.data_received(data)
                except Exception as wrong:  # of the decoder, whatever it is: nothing on this connection can follow
                    if not isinstance(wrong, KafkaProtocolError):
                        wrong = KafkaProtocolError(f"its answer cannot be read: {wrong!r}")
                    log.warning("%s: %s; the connection is closed", self._protocol, wrong)
                    self.abort(error=wrong)
                    return
        finally:
            self._net.unregister_event(sock, EVENT_READ)


class _TcpTransport(_DirectTransport):
    """Takes what there is in one call: the loop tells whether there is more, or the other side has hung up."""

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        try:
            received = self._sock.recv(_MOST)
        except (BlockingIOError, InterruptedError):
            return b"", None
        except OSError as error:
            return b"", KafkaConnectionError(error)
        return received, None if received else KafkaConnectionError("socket disconnected")


class _TlsTransport(_DirectTransport, KafkaSSLTransport):  # type: ignore[misc]
    """Delivers what was sent before the other side hung up: the end is read with the next call."""

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        received, error = super()._sock_recv()
        return received, None if received else error


class _Sockets(KafkaNetSocket):  # type: ignore[misc]
    """Closes a socket that did not get its connection."""

    SCHEMES = ()  # kafka-python reads it: the schemes of proxies that this class talks to

    async def sock_connect(
        self, net: Any, sock: socket.socket, sockaddr: Any, timeout_at: float | None = None
    ) -> socket.socket:
        try:
            await super().sock_connect(net, sock, sockaddr, timeout_at=timeout_at)
        except BaseException:  # also when the thread ends in the middle of it
            sock.close()
            raise
        return sock


class _Protocol(KafkaProtocol):  # type: ignore[misc]
    """Says what the other side may be if no answer has such a length."""

    def _validate_frame_size(self, nbytes: int) -> None:
        try:
            check_length(nbytes.to_bytes(4, "big", signed=True), self._max_frame_size)
        except WrongAnswerError as error:
            raise InvalidReceiveError(str(error)) from error


class _Connection(KafkaConnection):  # type: ignore[misc]
    """Believes a broker only so far."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.parser.__class__ = _Protocol

    def connection_lost(self, exc: BaseException | None) -> None:
        if exc is not None and not isinstance(exc, KafkaError | OSError):
            exc = KafkaConnectionError(repr(exc))  # those who wait for answers know of such alone
        super().connection_lost(exc)

    def _maybe_throttle(self, response: Any) -> None:
        if wanted := getattr(response, "throttle_time_ms", 0):
            super()._maybe_throttle(SimpleNamespace(throttle_time_ms=round(1000 * throttle(wanted, self.node_id))))


class ConnectionManager(KafkaConnectionManager):  # type: ignore[misc]
    """kafka-python's own, but for how a connection begins, and what is believed on it."""

    def get_connection(self, node_id: Any, *arguments: Any, **options: Any) -> Any:
        connection = super().get_connection(node_id, *arguments, **options)
        connection.__class__ = _Connection  # which kafka-python makes itself, and has just begun
        return connection

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        sock = await self._connected(node, timeout_at)
        transport: Any
        try:
            if self.ssl_enabled:
                context = self.config["ssl_context"].context()
                transport = _TlsTransport(self._net, sock, host=node.host, ssl_context=context)
            else:
                transport = _TcpTransport(self._net, sock, host=node.host)
        except BaseException:
            sock.close()
            raise
        try:
            await self._shaken(transport, timeout_at)
        except BaseException as error:
            transport.abort()
            if isinstance(error, OSError | KafkaConnectionError):
                raise KafkaConnectionError(f"no TLS connection to {node.host}:{node.port}: {error}") from error
            raise
        return transport

    async def _shaken(self, transport: Any, timeout_at: float | None) -> None:
        """The handshake, which a peer that says nothing, or next to nothing, does not draw out."""
        done, timer = Future(), None

        async def shake() -> None:
            try:
                done.success(await transport.handshake())
            except Exception as error:
                done.failure(error)

        task = self._net.call_soon(shake)
        if timeout_at is not None:
            late = KafkaTimeoutError("the handshake takes too long")
            timer = self._net.call_at(timeout_at, lambda: done.is_done or done.failure(late))
        try:
            await done
        finally:
            for each in (task, timer):
                if each is not None and not each.is_done:
                    self._net.cancel(each)

    async def _connected(self, node: Any, timeout_at: float | None) -> socket.socket:
        sockets = _Sockets()
        failure: Exception = KafkaConnectionError(f"{node.host} has no address")
        for address in sockets.dns_lookup(node.host, node.port):
            try:
                connected: socket.socket = await sockets.connect(
                    self._net, address, self.config["socket_options"], timeout_at=timeout_at
                )
                return connected
            except Exception as error:
                failure = error
        raise KafkaConnectionError(f"no connection to {node.host}:{node.port}: {failure}") from failure
