"""The security of a client's connections, from librdkafka's names of properties: one for each client, made where that
is made. Pure but for reading the files of TLS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streamsapp.brokers.sasl.login import Login, login_of
from streamsapp.brokers.tls import RenewedTls
from streamsapp.config.client_properties import ClientProperties
from streamsapp.errors import ConfigError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True)
class Security:
    """Says what a connection begins with."""

    protocol: str
    tls: RenewedTls | None = None
    login: Login | None = None

    @classmethod
    def of(cls, properties: ClientProperties) -> Security:
        """Raises ``ConfigError`` that names the property that cannot be used."""
        protocol = protocol_of(properties)
        text: Mapping[str, str] = {key: str(value) for key, value in properties.items()}
        return cls(
            protocol,
            RenewedTls(text) if protocol.endswith("SSL") else None,
            login_of(text) if protocol.startswith("SASL") else None,
        )


def protocol_of(properties: ClientProperties) -> str:
    """Raises ``ConfigError`` for a protocol that does not exist."""
    protocol = str(properties.get("security.protocol", "PLAINTEXT")).upper()
    if protocol not in PROTOCOLS:
        raise ConfigError(f"security.protocol: expected one of {', '.join(PROTOCOLS)}, got {protocol!r}")
    return protocol
