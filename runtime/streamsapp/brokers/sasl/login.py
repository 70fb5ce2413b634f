"""The login of a client's connections, by librdkafka's names of properties.

Made where a client is made; a conversation is had on the thread that opens a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from streamsapp.brokers.sasl.conversations import Conversation, bearer, plain
from streamsapp.brokers.sasl.scram import DIGESTS, scram
from streamsapp.brokers.sasl.tokens import Oidc, Tokens, Unsecured
from streamsapp.errors import ConfigError

_PASSWORD = ("PLAIN", *DIGESTS)
MECHANISMS = (*_PASSWORD, "OAUTHBEARER")
#: The properties that are known, beside the mechanism.
LOGIN_PROPERTIES = frozenset({
    "sasl.username", "sasl.password", "sasl.oauthbearer.method", "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret", "sasl.oauthbearer.scope", "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.config", "enable.sasl.oauthbearer.unsecure.jwt",
    "https.ca.location", "https.ca.pem",
})  # fmt: skip
_LOOK_AT_USER = "check sasl.username and sasl.password, and that the user is known for this sasl.mechanism"
_LOOK_AT_PROVIDER = "check the sasl.oauthbearer.* properties, and that the brokers believe the tokens of this provider"


@dataclass(frozen=True)
class Login:
    """The way in which a client proves its identity."""

    mechanism: str
    #: Begins a conversation, in which the client may wait so many seconds for a token.
    converse: Callable[[float], Conversation]
    #: The answer to a broker that does not believe it.
    remedy: str

    def __repr__(self) -> str:
        return f"Login({self.mechanism})"  # and no secret


def login_of(properties: Mapping[str, str]) -> Login:
    """Raises ``ConfigError`` for a mechanism that is not known, and for what it lacks."""
    mechanism = mechanism_of(properties)
    if mechanism == "OAUTHBEARER":
        tokens = tokens_of(properties)
        return Login(mechanism, lambda timeout: bearer(tokens, timeout), _LOOK_AT_PROVIDER)
    username, password = password_of(properties, mechanism)
    if mechanism == "PLAIN":
        return Login(mechanism, lambda _: plain(username, password), _LOOK_AT_USER)
    return Login(mechanism, lambda _: scram(mechanism, username, password), _LOOK_AT_USER)


def mechanism_of(properties: Mapping[str, str]) -> str:
    """Raises ``ConfigError`` for an unknown mechanism."""
    mechanism = (properties.get("sasl.mechanism") or properties.get("sasl.mechanisms", "")).upper()
    if mechanism not in MECHANISMS:
        raise ConfigError(f"sasl.mechanism: {mechanism or 'none'} cannot be used; use one of {', '.join(MECHANISMS)}")
    return mechanism


def password_of(properties: Mapping[str, str], mechanism: str) -> tuple[str, str]:
    """Name and password. Raises ``ConfigError`` without them."""
    for key in ("sasl.username", "sasl.password"):
        if key not in properties:
            raise ConfigError(f"{key}: must be set for sasl.mechanism {mechanism}")
    return properties["sasl.username"], properties["sasl.password"]


def tokens_of(properties: Mapping[str, str]) -> Tokens:
    """The source of tokens. Raises ``ConfigError`` for what it lacks."""
    oidc = properties.get("sasl.oauthbearer.method", "default").lower() == "oidc"
    return Oidc(properties) if oidc else Unsecured(properties)
