"""The console: a page that shows what an application does, and the events that it lives on.

Called on threads of the HTTP server, which remembers nothing of its callers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

from streamsapp.http.graph_layout import graph_document
from streamsapp.http.instance_view import InstanceView
from streamsapp.query import Queries
from streamsapp.query.api import StoreInfo
from streamsapp.web.event_streams import EventStreams
from streamsapp.web.history import HistoryReader, MomentHistory, history_document
from streamsapp.web.pages import page_routes
from streamsapp.web.request_routing import HttpRequest, HttpResponse, Route, Routes, json_response

#: Streams at a time, and the seconds between two events.
STREAMS, PERIOD = 4, 1.0
#: Characters of a node's name.
_LONGEST_NAME = 1000
#: A time in milliseconds has fewer.
_DIGITS = 16

#: The documents of the instances behind a port; the node whose records are wanted may be named.
Look = Callable[[str | None], list[dict[str, Any]]]
#: The figures of the last hour of the instances behind a port.
Histories = Callable[[], Iterable[MomentHistory]]


def console_routes(
    look: Look,
    histories: Histories = list,
    failures: Callable[[], list[dict[str, Any]]] = list,
    over: threading.Event | None = None,
) -> Routes:
    """The routes of the page, and of what it shows. ``failures`` has those of instances that are away, and ``over``
    ends the events: the server of the page leaves it to others."""
    over = over or threading.Event()

    def events(request: HttpRequest) -> Generator[dict[str, Any], None, None]:
        tapped, reader = _tapped(request), HistoryReader()
        while not over.is_set():
            news = history_document(reader.news(histories()))
            yield {"instances": look(tapped), "failures": failures(), "history": news}
            over.wait(PERIOD)

    return {
        **page_routes("streamsapp.http"),
        "/console/events": Route(EventStreams(events, STREAMS)),
        "/console/topics": Route(lambda _: json_response({"topics": []})),
        "/console/history": Route(lambda request: _history(request, histories())),
        "/console/figures": Route(lambda request: json_response({"instances": look(_tapped(request))})),
    }


def instance_console(view: InstanceView, queries: Queries) -> Routes:
    """The console of one instance."""
    return {
        **console_routes(lambda tapped: [{**view.status(), "figures": view.figures(tapped)}], lambda: [view.history]),
        "/console/graph": Route(lambda _: json_response(graph_document(view.describe()))),
        "/console/stores": Route(lambda _: json_response({"stores": _stores(queries)})),
    }


def _history(request: HttpRequest, histories: Iterable[MomentHistory]) -> HttpResponse:
    """``GET /console/history?after=MS``: the figures of the last hour, or those after a time in milliseconds."""
    after = parse_qs(request.query).get("after", ["0"])[-1]
    if not (after.isascii() and after.isdigit() and len(after) < _DIGITS):
        error = {"error": f"after: expected milliseconds since 1970, got {after[:50]!r}"}
        return json_response(error, HTTPStatus.BAD_REQUEST)
    return json_response(history_document({each.instance: each.after(int(after)) for each in histories}))


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
