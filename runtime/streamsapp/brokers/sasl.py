"""SASL for a connection, by librdkafka's names of properties.

``sasl_settings`` is used on the polling thread when a connection is made; tokens are fetched on the connection's.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from streamsapp.brokers.connection import UnreachableError
from streamsapp.errors import ConfigError

_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

#: How long the identity provider may take: heartbeats wait meanwhile.
_TOKEN_TIMEOUT = 3.0
#: A token is replaced when this part of its life is over.
_TOKEN_LIFE = 0.8


def sasl_settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """kafka-python's settings; raises ``ConfigError`` for a mechanism it cannot do."""
    mechanism = (properties.get("sasl.mechanism") or properties.get("sasl.mechanisms", "")).upper()
    if mechanism in _PASSWORD:
        for key in ("sasl.username", "sasl.password"):
            if key not in properties:
                raise ConfigError(f"{key}: must be set for sasl.mechanism {mechanism}")
        return {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": properties["sasl.username"],
            "sasl_plain_password": properties["sasl.password"],
        }
    if mechanism == "OAUTHBEARER":
        provider = Oidc if properties.get("sasl.oauthbearer.method", "default").lower() == "oidc" else Unsecured
        return {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": provider(properties)}
    raise ConfigError(
        f"sasl.mechanism: {mechanism or 'none'} cannot be used for the group membership; use one of"
        f" {', '.join(_PASSWORD)}, OAUTHBEARER"
    )


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """Tokens with the extensions that the user asked for."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__()
        pairs = properties.get("sasl.oauthbearer.extensions", "")
        self._extensions = dict(pair.split("=", 1) for pair in pairs.split(",") if "=" in pair)

    def extensions(self) -> dict[str, str]:
        return self._extensions


class Oidc(_Tokens):
    """Tokens by client credentials from an identity provider."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__(properties)
        keys = ("token.endpoint.url", "client.id", "client.secret")
        for key in keys:
            if f"sasl.oauthbearer.{key}" not in properties:
                raise ConfigError(f"sasl.oauthbearer.{key}: must be set for sasl.oauthbearer.method oidc")
        self._url, self._id, self._secret = (properties[f"sasl.oauthbearer.{key}"] for key in keys)
        if not self._url.startswith(("https://", "http://")):
            raise ConfigError("sasl.oauthbearer.token.endpoint.url: expected a URL that begins with https://")
        self._scope = properties.get("sasl.oauthbearer.scope")
        self._authorities = {key: properties[key] for key in ("https.ca.location", "https.ca.pem") if key in properties}
        self._context()  # says now what is wrong with them
        self._token = ""
        self._renew_at = 0.0

    def token(self) -> str:
        if time.monotonic() >= self._renew_at:
            answer = self._ask()
            self._token = str(answer["access_token"])
            self._renew_at = time.monotonic() + _TOKEN_LIFE * float(answer.get("expires_in", 60))
        return self._token

    def _ask(self) -> dict[str, Any]:
        form = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
        credentials = base64.b64encode(f"{self._id}:{self._secret}".encode()).decode()
        request = urllib.request.Request(  # noqa: S310 (the scheme is checked above)
            self._url,
            urllib.parse.urlencode(form).encode(),
            {"Authorization": f"Basic {credentials}", "Accept": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=_TOKEN_TIMEOUT, context=self._context()) as answer:  # noqa: S310
                found: dict[str, Any] = json.load(answer)
        except (OSError, ValueError, ConfigError) as error:
            remedy = "; see https.ca.location" if "CERTIFICATE_VERIFY_FAILED" in str(error) else ""
            raise UnreachableError(f"no token from {self._url}: {error}{remedy}") from error
        if "access_token" not in found:
            raise UnreachableError(f"no token from {self._url}: the answer has no access_token")
        return found

    def _context(self) -> ssl.SSLContext | None:
        """TLS to the identity provider, with the authorities as they are now: files may have been renewed."""
        if not self._url.startswith("https://"):
            return None
        if len(self._authorities) == 2:
            raise ConfigError("https.ca.location and https.ca.pem: set one of them")
        location, text = self._authorities.get("https.ca.location", "probe"), self._authorities.get("https.ca.pem")
        try:
            if text is not None:
                return ssl.create_default_context(cadata=text)
            if location == "probe":
                return ssl.create_default_context()
            if Path(location).is_dir():
                return ssl.create_default_context(capath=location)
            return ssl.create_default_context(cafile=location)
        except (OSError, ValueError) as error:  # ssl.SSLError is the former
            raise ConfigError(
                f"{next(iter(self._authorities), 'https.ca.location')}: cannot be used: {error}"
            ) from error


class Unsecured(_Tokens):
    """Tokens that prove nothing, for development: librdkafka's ``enable.sasl.oauthbearer.unsecure.jwt``."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__(properties)
        if properties.get("enable.sasl.oauthbearer.unsecure.jwt", "false").lower() != "true":
            raise ConfigError(
                "sasl.oauthbearer.method: use oidc, or set enable.sasl.oauthbearer.unsecure.jwt for development"
            )
        pairs = dict(
            pair.split("=", 1) for pair in properties.get("sasl.oauthbearer.config", "").split() if "=" in pair
        )
        self._claim = pairs.get("principalClaimName", "sub")
        self._principal = pairs.get("principal", "")
        self._life = int(pairs.get("lifeSeconds", "3600"))
        if not self._principal:
            raise ConfigError("sasl.oauthbearer.config: name a principal=")

    def token(self) -> str:
        now = int(time.time())  # noqa: TID251 (the broker compares it with its own clock)
        claims = {self._claim: self._principal, "iat": now, "exp": now + self._life}
        parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
        return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."
