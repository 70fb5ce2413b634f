"""Tokens for OAUTHBEARER, by librdkafka's names of properties. Asked for on the threads that open connections."""

from __future__ import annotations

import base64
import json
import math
import ssl
import time
import urllib.parse
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from threading import Lock
from typing import IO, Any

from streamsapp.brokers.errors import NotSentError
from streamsapp.errors import ConfigError

#: A token is replaced when this part of its life is over.
_TOKEN_LIFE = 0.8
#: The life of a token, in seconds, where the provider names none; and bytes of its answer.
_UNTOLD_LIFE, _MOST = 60.0, 1 << 20


class Tokens(ABC):
    """Tokens with the extensions that the user asked for."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        pairs = properties.get("sasl.oauthbearer.extensions", "")
        self.extensions = dict(pair.split("=", 1) for pair in pairs.split(",") if "=" in pair)

    @abstractmethod
    def token(self, timeout: float) -> str:
        """A token that is valid now; raises ``NotSentError`` if there is none within so many seconds."""

    def forget(self) -> None:  # noqa: B027 (tokens that prove nothing need not)
        """A broker has refused the last one."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The client's secret goes to the provider that the user has named, and nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        """An answer that leads elsewhere is an error."""


class Oidc(Tokens):
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
        self._lock = Lock()  # connections to several brokers are opened at a time
        self._token = ""
        self._renew_at = 0.0

    def token(self, timeout: float) -> str:
        with self._lock:
            if time.monotonic() >= self._renew_at:
                self._token, life = self._ask(timeout)
                self._renew_at = time.monotonic() + _TOKEN_LIFE * life
            return self._token

    def forget(self) -> None:
        self._renew_at = 0.0

    def _ask(self, timeout: float) -> tuple[str, float]:
        """A token, and its life in seconds."""
        form = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
        credentials = base64.b64encode(f"{self._id}:{self._secret}".encode()).decode()
        request = urllib.request.Request(  # noqa: S310 (the scheme is checked above)
            self._url,
            urllib.parse.urlencode(form).encode(),
            {"Authorization": f"Basic {credentials}", "Accept": "application/json"},
        )
        give_up = time.monotonic() + timeout
        try:
            opener = urllib.request.build_opener(_NoRedirects, urllib.request.HTTPSHandler(context=self._context()))
            with opener.open(request, timeout=timeout) as answer:
                return _token_and_life(json.loads(_whole(answer, give_up)))
        except (OSError, ValueError, RecursionError, HTTPException, ConfigError) as error:
            remedy = "; see https.ca.location" if "CERTIFICATE_VERIFY_FAILED" in str(error) else ""
            raise NotSentError(f"no token from {self._url}: {error}{remedy}") from error

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


class Unsecured(Tokens):
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

    def token(self, timeout: float) -> str:
        now = int(time.time())  # noqa: TID251 (the broker compares it with its own clock)
        claims = {self._claim: self._principal, "iat": now, "exp": now + self._life}
        parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
        return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."


def _whole(answer: IO[bytes], give_up: float) -> bytes:
    """An answer that is neither endless nor drawn out beyond a time (monotonic seconds)."""
    read = bytearray()
    while part := answer.read1(_MOST):  # type: ignore[attr-defined]
        read += part
        if len(read) > _MOST:
            raise ValueError(f"the answer has more than {_MOST} bytes")
        if time.monotonic() > give_up:
            raise TimeoutError("the answer takes too long")
    return bytes(read)


def _token_and_life(answer: object) -> tuple[str, float]:
    """Of an answer (RFC 6749, section 5.1)."""
    token = answer.get("access_token") if isinstance(answer, dict) else None
    if (
        not isinstance(answer, dict)
        or not isinstance(token, str)
        or not (token.isascii() and token.isprintable() and token)
    ):
        raise ValueError("the answer has no access_token")
    life = answer.get("expires_in", _UNTOLD_LIFE)
    try:
        seconds = float(life)
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not seconds >= 0:
        raise ValueError(f"the answer has no number of seconds as expires_in, but {str(life)[:100]!r}")
    return token, seconds
