"""The console: a page that shows what an application does, and the events that it lives on.

Called on threads of the HTTP server. The page is files of this package and asks nobody else for anything. It is open,
as it tells nothing; what it shows it asks for with a token, where there are tokens. Whoever looks has a stream of
events of his own; the server remembers nothing of him.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from http import HTTPStatus
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs

import orjson

from streamsapp.http.graph_layout import graph_document
from streamsapp.http.instance_view import InstanceView
from streamsapp.http.request_routing import HttpRequest, HttpResponse, Route, Routes, json_response
from streamsapp.query import Queries
from streamsapp.query.api import StoreInfo

#: Streams at a time, and the seconds between two events.
STREAMS, PERIOD = 4, 1.0
#: Characters of a node's name.
_LONGEST_NAME = 1000

_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
#: The page runs its own scripts only, loads nothing from elsewhere, and is in nobody's frame.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}

#: The documents of the instances behind a port; the node whose records are wanted may be named.
Look = Callable[[str | None], list[dict[str, Any]]]


def console_routes(look: Look) -> Routes:
    """The routes of the page, and of what it shows."""
    streams = EventStreams(look)
    return {
        "/console": Route(lambda _: HttpResponse(HTTPStatus.TEMPORARY_REDIRECT, b"", headers=_TO_PAGE), open=True),
        "/console/": Route(_Pages(), open=True),
        "/console/events": Route(streams),
        "/console/topics": Route(lambda _: json_response({"topics": []})),
        "/console/figures": Route(lambda request: json_response({"instances": look(_tapped(request))})),
    }


def instance_console(view: InstanceView, queries: Queries) -> Routes:
    """The console of one instance."""
    return {
        **console_routes(lambda tapped: [{**view.status(), "figures": view.figures(tapped)}]),
        "/console/graph": Route(lambda _: json_response(graph_document(view.describe()))),
        "/console/stores": Route(lambda _: json_response({"stores": _stores(queries)})),
    }


class EventStreams:
    """Sends the documents of all instances, once a second, as server-sent events."""

    def __init__(self, look: Look, most: int = STREAMS, period: float = PERIOD) -> None:
        self._look = look
        self._room = threading.BoundedSemaphore(most)
        self._period = period

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not self._room.acquire(blocking=False):
            error = {"error": f"{STREAMS} pages look at this port already; close one"}
            return json_response(error, HTTPStatus.SERVICE_UNAVAILABLE, **{"Retry-After": "5"})
        stream = self._events(_tapped(request))
        next(stream)  # from here on closing it gives the room back
        headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        return HttpResponse(HTTPStatus.OK, b"", "text/event-stream", headers, stream)

    def _events(self, tapped: str | None) -> Generator[bytes, None, None]:
        pause = threading.Event()
        try:
            yield b""
            while True:
                document = orjson.dumps({"instances": self._look(tapped)}, option=orjson.OPT_NON_STR_KEYS)
                yield b"data: %s\n\n" % document
                pause.wait(self._period)
        finally:
            self._room.release()


class _Pages:
    """The files of the page, each read once."""

    def __init__(self) -> None:
        folder = files("streamsapp.http").joinpath("console")
        self._files = {
            each.name: (each.read_bytes(), _TYPES[suffix])
            for each in folder.iterdir()
            if (suffix := each.name[each.name.rfind(".") :]) in _TYPES
        }

    def __call__(self, request: HttpRequest) -> HttpResponse:
        found = self._files.get(request.path.removeprefix("/console/") or "index.html")
        if found is None:
            return json_response({"error": "not found"}, HTTPStatus.NOT_FOUND)
        body, content_type = found
        return HttpResponse(HTTPStatus.OK, body, f"{content_type}; charset=utf-8", _HEADERS)


_TO_PAGE = {"Location": "console/"}


def _tapped(request: HttpRequest) -> str | None:
    """The node that a request names, if it names one."""
    named = parse_qs(request.query).get("tap", [""])[-1]
    return named[:_LONGEST_NAME] or None


def _stores(queries: Queries) -> list[dict[str, Any]]:
    return [_store(info) for _, info in sorted(queries.host.stores().items())]


def _store(info: StoreInfo) -> dict[str, Any]:
    kind = "windows" if info.window_of is not None else "keys" if info.key_of is None else "versions"
    return {
        "name": info.name,
        "kind": kind,
        "partitions": info.partitions,
        "key": info.key_serde.name,
        "value": info.value_serde.name,
    }
