"""Asks other instances for entries of their stores, over their HTTP port. Called on threads that query, which wait for
it.

Keys and values travel serialised (``format=bytes``), so that the caller's own serdes read them.
"""

from __future__ import annotations

import http.client
import socket
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import quote, urlencode

from streamsapp.errors import InvalidQueryError, StoreNotAvailableError
from streamsapp.query.api import Found, KeyRange, Page, QuerySource, Staleness, StoreInfo, Wanted
from streamsapp.serdes.json_text import read_json
from streamsapp.state.api import ValueAndTimestamp, with_headers
from streamsapp.state.kinds.versions import VersionedRecord
from streamsapp.tasks.states import TaskRole
from streamsapp.web.connections import HEAD_BYTES
from streamsapp.web.tokens import TokenFile, bearer

T = TypeVar("T")

#: The time that another instance may take to accept and for its whole answer, in seconds.
TIMEOUT = 5.0
#: The time after which a question asks no further instance, in seconds.
QUESTION = 10.0
#: Questions that wait for other instances at a time: each may have an answer of ``MOST_BYTES`` in memory.
OUTGOING = 16
#: Of an answer: pages end long before, and a record is no larger.
MOST_BYTES = 64 << 20
#: Of a path with its parameters; the headers have the rest of a head.
_MOST_PATH = HEAD_BYTES - (4 << 10)


class PeerResponse(NamedTuple):
    """The response of another instance."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Fetch(Protocol):
    """Makes one HTTP request to ``host:port``; raises ``OSError`` or ``http.client.HTTPException``."""

    def __call__(self, endpoint: str, path: str, *, method: str = "GET", timeout: float = TIMEOUT) -> PeerResponse: ...


#: ``Authorization`` made of a token, for an endpoint and a target.
Proof = Callable[[bytes, str, str], bytes]


class HttpFetch:
    """Makes requests over a connection each. All instances of an application mount the same tokens, and see a new one
    at different times: if one is refused, the next is tried. A ``proof`` is made of it (``tokens``)."""

    def __init__(self, token_file: Path | None = None, proof: Proof = bearer) -> None:
        self._file = None if token_file is None else TokenFile(token_file)
        self._proof = proof

    def __call__(self, endpoint: str, path: str, *, method: str = "GET", timeout: float = TIMEOUT) -> PeerResponse:
        tokens = [] if self._file is None else self._file.tokens()
        proofs = [self._proof(token, endpoint, path) for token in tokens]
        reply = _request(endpoint, path, method, timeout, proofs[0] if proofs else None)
        for proof in proofs[1:]:
            if reply.status != HTTPStatus.UNAUTHORIZED:
                break
            reply = _request(endpoint, path, method, timeout, proof)
        return reply


class _Within(socket.socket):
    """A connection whose waits all end at one time, however little comes in each."""

    give_up = 0.0

    def recv_into(self, *arguments: Any) -> int:
        self.settimeout(self._left())
        return super().recv_into(*arguments)

    def sendall(self, *arguments: Any) -> None:
        self.settimeout(self._left())
        super().sendall(*arguments)

    def _left(self) -> float:
        left = self.give_up - time.monotonic()
        if left <= 0:
            raise TimeoutError("the whole answer did not come in time")
        return left


class _Connection(http.client.HTTPConnection):
    """``timeout`` is that of the whole request."""

    def connect(self) -> None:
        give_up = time.monotonic() + (self.timeout or TIMEOUT)
        plain = socket.create_connection((self.host, self.port), self.timeout)
        self.sock = _Within(plain.family, plain.type, plain.proto, plain.detach())
        self.sock.give_up = give_up


def _request(endpoint: str, path: str, method: str, timeout: float, proof: bytes | None) -> PeerResponse:
    with closing(_Connection(endpoint, timeout=timeout)) as connection:
        headers: dict[str, str | bytes] = {"Host": endpoint}
        if proof is not None:
            headers["Authorization"] = proof
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        body = response.read(MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            raise http.client.HTTPException(f"the answer has more than {MOST_BYTES} bytes")
        if response.length:  # ``read`` returns what came of an answer that was cut off
            raise http.client.IncompleteRead(body, response.length)
        return PeerResponse(response.status, dict(response.headers), body)


class Patience:
    """The time that one question has, however many partitions and instances it is about: each may be slow."""

    def __init__(self) -> None:
        self._give_up = time.monotonic() + QUESTION

    def check(self) -> None:
        """Raises ``TimeoutError`` once it is over."""
        if time.monotonic() > self._give_up:
            raise TimeoutError(f"it was not asked, as the others took {QUESTION:g} seconds; ask for one partition")


class RemoteReader:
    """Reads at other instances."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._outgoing = BoundedSemaphore(OUTGOING)

    def get(
        self,
        store: StoreInfo,
        partition: int,
        key: bytes,
        staleness: Staleness | None,
        endpoints: Iterable[str],
        patience: Patience,
    ) -> tuple[Found, QuerySource]:
        """Returns the entry of a key, from the first instance that answers."""
        parameters = _parameters(partition, staleness)

        def read(document: Any) -> tuple[Found, QuerySource]:
            return _found(store, document), _source(document)

        return self._ask(store, partition, f"/{encode(key)}", parameters, endpoints, patience, read)

    def range(
        self,
        store: StoreInfo,
        partition: int,
        keys: Wanted,
        limit: int,
        staleness: Staleness | None,
        endpoints: Iterable[str],
        patience: Patience,
    ) -> Page:
        """Returns the first entries of a range, from the first instance that answers."""
        parameters = _parameters(partition, staleness) | {"limit": str(limit), **_bounds(keys)}

        def read(document: Any) -> Page:
            following = document.get("next")
            page = Page([_found(store, each) for each in document["entries"]], following and decode(following))
            if page.next is not None and page.next <= keys.start:
                raise ValueError("its next page is not a later one")
            return page

        return self._ask(store, partition, "", parameters, endpoints, patience, read)

    def _ask(
        self,
        store: StoreInfo,
        partition: int,
        key: str,
        parameters: Mapping[str, str],
        endpoints: Iterable[str],
        patience: Patience,
        read: Callable[[Any], T],
    ) -> T:
        path = f"/state/{quote(store.name, safe='')}{key}?{urlencode(parameters)}"
        if len(path) > _MOST_PATH:
            # They would answer 431, if anything is heard of it.
            raise InvalidQueryError(
                f"the keys of this question are too long to ask other instances, which have partition {partition} of "
                f"store {store.name}; ask at the instance that has it"
            )
        told = []
        for endpoint in endpoints:
            try:
                patience.check()
                reply = self._fetched(endpoint, path)
                document = read_json(reply.body)
                if "error" not in document:
                    return read(document)
                told.append(f"{endpoint}: {document['error']}")
            except (OSError, http.client.HTTPException) as error:
                told.append(f"{endpoint} does not answer: {error}")
            except Exception as error:  # the other side may answer anything, and the serdes raise what they like
                told.append(f"{endpoint} answers with what cannot be read: {error!r}")
        why = "; ".join(told) or "no instance with an HTTP server has it (application_server); try again soon"
        raise StoreNotAvailableError(f"partition {partition} of store {store.name} cannot be had: {why}")

    def _fetched(self, endpoint: str, path: str) -> PeerResponse:
        if not self._outgoing.acquire(timeout=TIMEOUT):
            raise TimeoutError(f"{OUTGOING} questions to other instances wait for their answers here")
        try:
            return self._fetch(endpoint, path)
        finally:
            self._outgoing.release()


def encode(data: bytes) -> str:
    """Returns bytes as text for URLs and JSON."""
    return urlsafe_b64encode(data).decode("ascii")


def decode(text: str) -> bytes:
    """Returns the bytes of base64, of either alphabet, padded or not; raises ``ValueError``."""
    plain = text.rstrip("=").replace("+", "-").replace("/", "_")
    return b64decode(plain + "=" * (-len(plain) % 4), altchars=b"-_", validate=True)


def _parameters(partition: int, staleness: Staleness | None) -> dict[str, str]:
    parameters = {"partition": str(partition), "format": "bytes", "local": "1"}
    if staleness is not None:
        parameters["standby"] = "ok"
        if staleness.max_lag is not None:
            parameters["maxLag"] = str(staleness.max_lag)
        if staleness.max_age is not None:
            parameters["maxAgeMs"] = str(int(staleness.max_age.total_seconds() * 1000))
    return parameters


def _bounds(keys: Wanted) -> dict[str, str]:
    if isinstance(keys, KeyRange):
        bounds = {"from": encode(keys.start)}
        return bounds if keys.end is None else bounds | {"before": encode(keys.end)}
    times = {"fromTime": str(keys.from_ms), "toTime": str(keys.to_ms)}
    bounds = {"position": encode(keys.start), "from": encode(keys.low), **times}
    # No text is an open end; base64 of the empty key is no text, but its padding alone is read as it.
    return bounds if keys.high is None else bounds | {"to": encode(keys.high) or "="}


def _found(store: StoreInfo, document: Mapping[str, Any]) -> Found:
    raw = None if document["value"] is None else decode(document["value"])
    value = None if raw is None else store.value_serde.deserialize(raw)
    timestamp = document["timestamp"]
    if value is not None and store.key_of is not None:
        value = VersionedRecord(value, timestamp, document["validTo"])
    elif value is not None and "headers" in document:
        headers = [_header(name, data) for name, data in document["headers"]]
        value = with_headers(value, timestamp, headers)
    elif value is not None and timestamp is not None:
        value = ValueAndTimestamp(value, timestamp)
    return Found(decode(document["key"]), value, raw)


def _header(name: object, data: str | None) -> tuple[str, bytes | None]:
    if not isinstance(name, str):
        raise ValueError(f"{name!r:.100} is not the name of a header")
    return name, None if data is None else decode(data)


def _source(document: Mapping[str, Any]) -> QuerySource:
    return QuerySource(document["partition"], TaskRole(document["role"]), document["lag"])
