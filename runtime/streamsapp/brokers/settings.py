"""A connection's settings, from the same properties that configure the clients: TLS and SASL come from one place.

Pure but for reading key files; used on the polling thread when a connection is made. Names are librdkafka's; what
kafka-python cannot do is a ``ConfigError`` that says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from streamsapp.brokers.sasl.login import mechanism_of, password_of, tokens_of
from streamsapp.brokers.sasl.tokens import Tokens
from streamsapp.brokers.security import protocol_of
from streamsapp.brokers.tls import RenewedTls
from streamsapp.config.client_properties import ClientProperties

#: The seconds that an identity provider may take: heartbeats wait meanwhile.
_TOKEN_TIMEOUT = 3.0


def connection_settings(properties: ClientProperties, client_id: str) -> dict[str, Any]:
    """kafka-python's settings."""
    protocol = protocol_of(properties)
    settings: dict[str, Any] = {
        "bootstrap_servers": [_address(each) for each in str(properties["bootstrap.servers"]).split(",")],
        "client_id": client_id,
        "security_protocol": protocol,
    }
    text: Mapping[str, str] = {key: str(value) for key, value in properties.items()}
    if protocol.startswith("SASL"):
        settings |= _sasl_settings(text)
    if protocol.endswith("SSL"):
        settings["ssl_context"] = RenewedTls(text)
    return settings


def _sasl_settings(properties: Mapping[str, str]) -> dict[str, Any]:
    mechanism = mechanism_of(properties)
    if mechanism == "OAUTHBEARER":
        return {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": _TokenProvider(tokens_of(properties))}
    username, password = password_of(properties, mechanism)
    return {"sasl_mechanism": mechanism, "sasl_plain_username": username, "sasl_plain_password": password}


class _TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Tokens for kafka-python."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def token(self) -> str:
        return self._tokens.token(_TOKEN_TIMEOUT)

    def extensions(self) -> dict[str, str]:
        return self._tokens.extensions


def _address(server: str) -> str:
    """``host:port``; librdkafka also takes ``PROTOCOL://host:port``."""
    return re.sub(r"^\w+://", "", server.strip())
