"""The requests with which a connection begins: those that a broker knows, and SASL's. Pure; used where connections are
opened. Answers are the network's: all is read, or it is an error."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from streamsapp.brokers.bounds import WrongAnswerError
from streamsapp.brokers.encoding import INT16, INT32, Reader, encoded_text
from streamsapp.brokers.request_by_hand import RequestByHand

_LIFETIME, _RANGE = struct.Struct(">q"), struct.Struct(">hhh")

#: No version of these requests that is sent here is compact.
_NEVER = 0x7FFF


class ApiVersions(RequestByHand):
    """Asks for the requests that a broker knows; each broker answers version 0."""

    name, API_KEY, first_compact = "ApiVersions", 18, _NEVER

    def __init__(self) -> None:
        super().__init__((0, 0))

    def parts(self, version: int, *, compact: bool) -> Iterable[bytes]:
        return ()

    def read(self, reader: Reader, version: int) -> dict[int, tuple[int, int]]:
        """The least and the greatest version of each request, by its number."""
        (code,) = reader.read(INT16)
        if code:
            raise WrongAnswerError(f"it does not say which requests it knows (error {code})")
        told = [reader.read(_RANGE) for _ in range(reader.count())]
        return {key: (least, greatest) for key, least, greatest in told}


class Handshake(NamedTuple):
    code: int
    #: The mechanisms that the broker has.
    mechanisms: list[str]


class SaslHandshake(RequestByHand):
    """Chooses a mechanism."""

    name, API_KEY, first_compact = "SaslHandshake", 17, _NEVER

    def __init__(self, mechanism: str) -> None:
        super().__init__((1, 1))
        self._mechanism = mechanism

    def parts(self, version: int, *, compact: bool) -> Iterable[bytes]:
        return (encoded_text(self._mechanism, compact=compact),)

    def read(self, reader: Reader, version: int) -> Handshake:
        (code,) = reader.read(INT16)
        return Handshake(code, [reader.text() for _ in range(reader.count())])


class Authenticated(NamedTuple):
    code: int
    error: str
    said: bytes
    #: The seconds after which the broker ends the session; 0: never (KIP-368).
    lifetime: float


class SaslAuthenticate(RequestByHand):
    """Carries what the client says in the conversation of a mechanism."""

    name, API_KEY, first_compact = "SaslAuthenticate", 36, _NEVER

    def __init__(self, said: bytes) -> None:
        super().__init__((0, 1))
        self._said = said

    def parts(self, version: int, *, compact: bool) -> Iterable[bytes]:
        return INT32.pack(len(self._said)), self._said

    def read(self, reader: Reader, version: int) -> Authenticated:
        (code,) = reader.read(INT16)
        error, said = reader.text_or_none() or "", reader.data()
        lifetime = reader.read(_LIFETIME)[0] if version else 0
        return Authenticated(code, error, said, max(0, lifetime) / 1000)
