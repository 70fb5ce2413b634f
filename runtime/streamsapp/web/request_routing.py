"""Requests, answers, and the routes between them. Pure.

Made by the server for each request; routes are made by the code that starts a server.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from threading import BoundedSemaphore
from typing import Any, TypeAlias

import orjson

JSON = "application/json"
#: Queries that are answered at a time at one port: half of the connections that it has.
QUERIES = 32


@dataclass(frozen=True)
class HttpRequest:
    """A request, undecoded."""

    method: str
    #: Path and query as they came.
    target: str
    #: The header of that name.
    authorization: str = ""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]


@dataclass(frozen=True)
class HttpResponse:
    """A response."""

    status: HTTPStatus
    body: bytes
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    #: The pieces that come after the body, until the client is gone; the response then has no length.
    stream: Generator[bytes, None, None] | None = None


@dataclass(frozen=True)
class Route:
    """The function that answers a path."""

    answer: Callable[[HttpRequest], HttpResponse]
    method: str = "GET"
    #: The port asks for no token: the kubelet and Prometheus have none, or the route wants one of its own.
    open: bool = False

    @property
    def allowed(self) -> str:
        """The methods it takes, as a header."""
        return "GET, HEAD" if self.method == "GET" else self.method

    def takes(self, method: str) -> bool:
        """Says whether a method may be used."""
        return method in self.allowed.split(", ")


class AtMost:
    """Answers so many requests at a time, and refuses the others at once: they may wait long for other instances, and
    leave room at the port for the probes of the kubelet."""

    def __init__(self, most: int, answer: Callable[[HttpRequest], HttpResponse]) -> None:
        self._most = most
        self._answer = answer
        self._free = BoundedSemaphore(most)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not self._free.acquire(blocking=False):
            error = {"error": f"{self._most} queries are being answered at this port; try again soon"}
            return json_response(error, HTTPStatus.SERVICE_UNAVAILABLE, **{"Retry-After": "1"})
        try:
            return self._answer(request)
        finally:
            self._free.release()


#: By path; a path that ends in ``/`` takes all paths below it.
Routes: TypeAlias = Mapping[str, Route]


def find_route(routes: Routes, path: str) -> Route | None:
    """The route of a path."""
    return routes.get(path) or routes.get(path[: path.find("/", 1) + 1])


def json_response(document: Any, status: HTTPStatus = HTTPStatus.OK, **headers: str) -> HttpResponse:
    """A JSON document; raises ``TypeError`` for what JSON cannot express."""
    options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS
    return HttpResponse(status, orjson.dumps(document, option=options), headers=headers)


def probe(verdict: tuple[bool, str]) -> HttpResponse:
    """Returns the answer of ``/healthz`` and ``/readyz``."""
    good, reason = verdict
    status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
    return json_response({"ok": good, "reason": reason}, status)
