"""A connection's settings, from the same properties that configure the clients: TLS and SASL come from one place.

Pure but for reading key files; used on the thread that makes a connection. Names are librdkafka's.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamsapp.brokers.reaching import Reaching, reaching
from streamsapp.brokers.security import Security
from streamsapp.config.client_properties import ClientProperties


@dataclass(frozen=True)
class ConnectionSettings:
    """The hosts and ports of the first brokers, the name of this client, the security of its connections, and how
    they are made."""

    bootstrap: tuple[tuple[str, int], ...]
    client_id: str
    security: Security
    reaching: Reaching


def connection_settings(properties: ClientProperties, client_id: str) -> ConnectionSettings:
    """Raises ``ConfigError`` that names the property that cannot be used."""
    servers = str(properties["bootstrap.servers"]).split(",")
    security, reached = Security.of(properties), reaching(properties)
    return ConnectionSettings(tuple(map(_address, servers)), client_id, security, reached)


def _address(server: str) -> tuple[str, int]:
    """Of ``host:port``, which ``StreamsConfig`` has checked; librdkafka also takes ``PROTOCOL://host:port``."""
    host, _, port = server.strip().rpartition("://")[2].rpartition(":")
    return host.strip("[]"), int(port)
