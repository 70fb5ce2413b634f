"""Connections that leave no open socket behind when they fail, and no last word unread, which kafka-python's own do.

While a broker is away, sockets would pile up by several a second; and a broker that refuses credentials says so and
hangs up at once, which a busy machine reads together. Part of ``connection``, which imports this after it has
checked that kafka-python is the release that both know. Runs on the membership's thread.
"""

from __future__ import annotations

import socket
from typing import Any

from kafka.errors import KafkaConnectionError
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport


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


class _HearsLastWord:
    """A transport that delivers what was sent before the other side hung up: the end is read with the next call."""

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        received, error = super()._sock_recv()  # type: ignore[misc]
        return received, None if received else error


class _TcpTransport(_HearsLastWord, KafkaTCPTransport):  # type: ignore[misc]
    pass


class _TlsTransport(_HearsLastWord, KafkaSSLTransport):  # type: ignore[misc]
    pass


class ConnectionManager(KafkaConnectionManager):  # type: ignore[misc]
    """kafka-python's own, but for how a connection begins."""

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        sock = await self._connected(node, timeout_at)
        transport: Any
        try:
            if self.ssl_enabled:
                context = self.config["ssl_context"]
                transport = _TlsTransport(self._net, sock, host=node.host, ssl_context=context)
            else:
                transport = _TcpTransport(self._net, sock, host=node.host)
        except BaseException:
            sock.close()
            raise
        try:
            await transport.handshake()
        except BaseException as error:
            transport.abort()
            if isinstance(error, OSError | KafkaConnectionError):
                raise KafkaConnectionError(f"no TLS connection to {node.host}:{node.port}: {error}") from error
            raise
        return transport

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
