"""A connection's settings, from the same properties that configure the clients: TLS and SASL come from one place.

Pure but for reading key files; used on the polling thread when a connection is made. Names are librdkafka's; what
kafka-python cannot do is a ``ConfigError`` that says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from streamsapp.brokers.sasl import sasl_settings
from streamsapp.brokers.tls import RenewedTls
from streamsapp.config.client_properties import ClientProperties
from streamsapp.errors import ConfigError

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def connection_settings(properties: ClientProperties, client_id: str) -> dict[str, Any]:
    """kafka-python's settings."""
    protocol = str(properties.get("security.protocol", "PLAINTEXT")).upper()
    if protocol not in _PROTOCOLS:
        raise ConfigError(f"security.protocol: expected one of {', '.join(_PROTOCOLS)}, got {protocol!r}")
    settings: dict[str, Any] = {
        "bootstrap_servers": [_address(each) for each in str(properties["bootstrap.servers"]).split(",")],
        "client_id": client_id,
        "security_protocol": protocol,
    }
    text: Mapping[str, str] = {key: str(value) for key, value in properties.items()}
    if protocol.startswith("SASL"):
        settings |= sasl_settings(text)
    if protocol.endswith("SSL"):
        settings["ssl_context"] = RenewedTls(text)
    return settings


def _address(server: str) -> str:
    """``host:port``; librdkafka also takes ``PROTOCOL://host:port``."""
    return re.sub(r"^\w+://", "", server.strip())
