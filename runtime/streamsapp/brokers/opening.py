"""A connection to a broker, from its address to the moment at which requests may be sent: TCP, TLS, the requests that
the broker knows, SASL.

``open_connection`` waits, and is called on a thread of its own: so a slow handshake or identity provider holds up
neither heartbeats nor records. All that comes is the network's, and is bounded in size and time.
"""

from __future__ import annotations

import math
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from streamsapp.brokers.bounds import WrongAnswerError, check_length
from streamsapp.brokers.codec import Whole
from streamsapp.brokers.errors import NotSentError, RefusedError, RefusedTlsError
from streamsapp.brokers.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from streamsapp.brokers.messages.sasl_authenticate import SaslAuthenticateRequest
from streamsapp.brokers.messages.sasl_handshake import SaslHandshakeRequest
from streamsapp.brokers.request import Request
from streamsapp.brokers.request_by_hand import number_of
from streamsapp.brokers.sasl.login import Login
from streamsapp.brokers.security import Security
from streamsapp.brokers.tls import refused_tls
from streamsapp.brokers.transport import TlsTransport, Transport

T = TypeVar("T")
A = TypeVar("A", bound=Whole)

#: A peer that vanished without a word is noticed after some ten seconds, also while a request waits for minutes.
SOCKET_OPTIONS = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *((socket.IPPROTO_TCP, getattr(socket, name), value)
      for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3)) if hasattr(socket, name)),
]  # fmt: skip

#: Bytes of an answer here, and of an error of the broker's that is repeated. Answers that a conversation of SASL has.
_MOST, _MOST_SAID, _MOST_ANSWERS = 1 << 20, 300, 8
#: The part of a session's life after which another connection is to be made.
_LIFE = 0.85
_UNSUPPORTED_MECHANISM, _NO_SASL_HERE = 33, 34


@dataclass(frozen=True)
class OpenConnection:
    """A connection on which requests may be sent."""

    transport: Transport
    #: The least and the greatest version of each request that the broker knows, by the request's number.
    versions: Mapping[int, tuple[int, int]]
    #: When the broker ends the session, and when another connection is to be made before that (KIP-368), in monotonic
    #: seconds; infinite where it does not.
    expires_at: float = math.inf
    renew_at: float = math.inf
    #: The version and the cipher of TLS that both sides have agreed on; ``None`` without TLS.
    tls: tuple[str, str] | None = None


def open_connection(
    address: tuple[str, int],
    security: Security,
    client_id: str,
    timeout: float,
    most: int = _MOST,
    options: Sequence[tuple[int, int, int]] = (),
) -> OpenConnection:
    """Open a connection to a host and port within ``timeout`` seconds, beside the time that the system takes to look up
    the name. No answer may have more than ``most`` bytes. ``options`` of the socket are set before it connects.

    Raises ``RefusedTlsError`` or ``RefusedError`` if one side does not believe the other, and ``NotSentError`` for all
    else. Each error names the address and the thing to look at.
    """
    place, give_up = f"{address[0]}:{address[1]}", time.monotonic() + timeout
    try:
        made = _connected(address, give_up, [*SOCKET_OPTIONS, *options])
    except (OSError, ValueError, OverflowError) as error:  # ValueError: of a name that cannot be one
        raise NotSentError(f"no connection to {place}: {error}") from error
    opening = _Opening(made, address[0], security, client_id, give_up, min(most, _MOST))
    try:
        return opening.opened()
    except BaseException as error:
        opening.close()
        if isinstance(error, NotSentError):
            raise type(error)(f"broker {place}: {error}") from error.__cause__
        if (refused := refused_tls(error)) is not None:
            raise RefusedTlsError(f"broker {place}: {refused}") from error
        if isinstance(error, TimeoutError):
            raise NotSentError(
                f"broker {place}: {opening.doing} took more than {timeout:g} s; {opening.hint}"
            ) from error
        if isinstance(error, OSError):
            raise NotSentError(f"broker {place}: {error} during {opening.doing}; {opening.hint}") from error
        if isinstance(error, ValueError):  # of answers as well
            raise NotSentError(f"broker {place}: {error}") from error
        raise


def _connected(address: tuple[str, int], give_up: float, options: list[tuple[int, int, int]]) -> socket.socket:
    """A socket of the first address of a name that takes a connection; each has its share of the time."""
    found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
    failure: OSError = OSError("the name has no address")
    for tried, (family, kind, protocol, _, where) in enumerate(found):
        try:
            made = socket.socket(family, kind, protocol)
        except OSError as error:  # of a family that this system lacks
            failure = error
            continue
        try:
            for option in options:
                made.setsockopt(*option)
            made.settimeout(max(0.001, (give_up - time.monotonic()) / (len(found) - tried)))
            made.connect(where)
            return made
        except OSError as error:
            made.close()
            failure = error
        except BaseException:
            made.close()
            raise
    raise failure


class _Opening:
    """A connection that is being opened."""

    def __init__(
        self, made: socket.socket, host: str, security: Security, client_id: str, give_up: float, most: int
    ) -> None:
        self._security, self._client_id, self._give_up, self._most = security, client_id, give_up, most
        self._made, self._host = made, host
        self._transport: Transport | None = None
        self._requests = 0
        #: The step that is being made, and what to look at when the other side hangs up meanwhile.
        self.doing = "the TLS handshake"
        self.hint = "if it happens again, the port may be one without TLS: check security.protocol"

    def close(self) -> None:
        (self._transport or self._made).close()

    def opened(self) -> OpenConnection:
        tls, login = self._security.tls, self._security.login
        self._transport = transport = (
            Transport(self._made) if tls is None else TlsTransport(self._made, tls.current(), self._host)
        )
        self._until(transport.shake_hands)
        self.doing = "the first request"
        self.hint = (
            "if it happens again, the port may be one with TLS: check security.protocol"
            if tls is None
            else "if it happens again, it may want another certificate: check ssl.certificate.location"
        )
        # Each broker answers version 0.
        versions = _versions(self._ask(Request(ApiVersionsRequest()), {ApiVersionsRequest.API_KEY: (0, 0)}))
        if login is None:
            return OpenConnection(transport, versions, tls=transport.tls)
        self.doing, self.hint = f"the login by {login.mechanism}", login.remedy
        lifetime = self._log_in(login, versions)
        now = time.monotonic()
        return OpenConnection(transport, versions, now + lifetime, now + _LIFE * lifetime, transport.tls)

    def _log_in(self, login: Login, versions: Mapping[int, tuple[int, int]]) -> float:
        """Returns the seconds after which the broker ends the session."""
        chosen = self._ask(Request(SaslHandshakeRequest(login.mechanism), least=1), versions)
        code = chosen.error_code
        if code == _UNSUPPORTED_MECHANISM:
            named = ", ".join(chosen.mechanisms)[:_MOST_SAID] or "none"
            raise RefusedError(f"it has no sasl.mechanism {login.mechanism}; it has {named}")
        if code:
            why = "its port wants no SASL: check security.protocol" if code == _NO_SASL_HERE else "check sasl.mechanism"
            raise RefusedError(f"it refuses the handshake of SASL (error {code}); {why}")
        conversation = login.converse(max(0.001, self._give_up - time.monotonic()))
        try:
            says = next(conversation)
            for _ in range(_MOST_ANSWERS):
                answer = self._ask(Request(SaslAuthenticateRequest(says), greatest=1), versions)
                if answer.error_code:
                    error = (answer.error_message or "")[:_MOST_SAID] or f"error {answer.error_code}"
                    raise RefusedError(f"it refuses the credentials: {error}; {login.remedy}")
                try:
                    says = conversation.send(answer.auth_bytes)
                except StopIteration:
                    return answer.session_lifetime_ms / 1000 if answer.session_lifetime_ms > 0 else math.inf
        finally:
            conversation.close()
        raise WrongAnswerError(f"the login by {login.mechanism} does not end")

    def _ask(self, request: Request[A], versions: Mapping[int, tuple[int, int]]) -> A:
        """The answer to a request in the newest version that both sides know."""
        version = request.newest(versions)
        self._requests += 1
        self._send(request.encoded(version, self._requests, self._client_id))
        answer = self._exactly(check_length(self._exactly(4), self._most))
        if number_of(answer) != self._requests:
            raise WrongAnswerError("it answers another request than the one that was sent; is it a Kafka broker?")
        try:
            return request.decoded(answer, version)
        except WrongAnswerError:
            raise
        except Exception as error:
            raise WrongAnswerError(f"its answer to {request.name} cannot be read: {error}") from error

    def _send(self, data: bytes) -> None:
        assert self._transport is not None
        rest = memoryview(data)
        while rest:
            rest = rest[self._until(partial(self._transport.send, rest)) :]

    def _exactly(self, size: int) -> bytes:
        assert self._transport is not None
        data = bytearray(size)
        rest = memoryview(data)
        while rest:
            more = self._until(partial(self._transport.recv_into, rest))
            if not more:
                raise ConnectionError("closed by the broker")
            rest = rest[more:]
        return bytes(data)

    def _until(self, step: Callable[[], T]) -> T:
        """The result of a step that may have to wait for the other side."""
        assert self._transport is not None
        while True:
            try:
                return step()
            except BlockingIOError:
                watched = select.poll()
                watched.register(self._transport, select.POLLOUT if self._transport.wants_room else select.POLLIN)
                left = self._give_up - time.monotonic()
                if left <= 0 or not watched.poll(left * 1000):
                    raise TimeoutError from None


def _versions(answer: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    """The least and the greatest version of each request that a broker knows, by its number."""
    if answer.error_code:
        raise WrongAnswerError(f"it does not report the requests that it supports (error {answer.error_code})")
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
