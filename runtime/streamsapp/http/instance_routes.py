"""The HTTP routes of one instance.

Made by the command line; called on the threads of the HTTP server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import parse_qs

from streamsapp.errors import StreamsError, UserInputError
from streamsapp.http.console_routes import instance_console
from streamsapp.http.instance_view import EngineView, InstanceView
from streamsapp.http.state_routes import StateRoute
from streamsapp.manifest.member_notice import LONGEST
from streamsapp.metrics.prometheus import CONTENT_TYPE, Exporter
from streamsapp.query import Queries
from streamsapp.topology.description import TopologyDescription
from streamsapp.web.request_routing import (
    JSON,
    QUERIES,
    AtMost,
    HttpRequest,
    HttpResponse,
    Route,
    Routes,
    json_response,
    probe,
)

#: Seconds.
_LONGEST_DRAIN = 86_400.0
_MOST_MEMBERS = 256
_LONGEST_TOPIC = 249
SNAPSHOT_SECONDS = 60.0

_TEXT = "text/plain; charset=utf-8"
_TOPOLOGY = {
    "text": (TopologyDescription.to_text, _TEXT),
    "mermaid": (TopologyDescription.to_mermaid, _TEXT),
    "json": (TopologyDescription.to_json, JSON),
}


def instance_routes(view: InstanceView, queries: Queries, drain: Drain) -> Routes:
    """The routes of an instance."""
    return {
        **driver_routes(view),
        **instance_console(view, queries),
        "/state/": Route(AtMost(QUERIES, StateRoute(queries))),
        "/drain": Route(drain, method="POST"),
        "/ended": Route(lambda request: take_out(request, view), method="POST"),
        "/pause": Route(lambda request: to_sub_topology(request, view.pause), method="POST"),
        "/resume": Route(lambda request: to_sub_topology(request, view.resume), method="POST"),
        "/snapshot": Route(lambda request: take_snapshots(request, view), method="POST"),
    }


def driver_routes(view: EngineView) -> Routes:
    """The routes of whatever runs an application, be it an instance or the driver of another engine."""
    exporter = Exporter(view.samples)
    return {
        "/healthz": Route(lambda _: probe(view.healthy()), open=True),
        "/readyz": Route(lambda _: probe(view.ready()), open=True),
        "/metrics": Route(lambda _: HttpResponse(HTTPStatus.OK, exporter.render(), CONTENT_TYPE), open=True),
        "/status": Route(lambda _: json_response(view.status())),
        "/topology": Route(lambda request: show_topology(request, view)),
    }


def show_topology(request: HttpRequest, view: EngineView) -> HttpResponse:
    """``GET /topology?format=text|mermaid|json``: what ``streamsapp describe`` prints, of what runs here."""
    asked = parse_qs(request.query, keep_blank_values=True).get("format", ["text"])[-1]
    if asked not in _TOPOLOGY:
        error = f"format: expected {', '.join(_TOPOLOGY)}, got {asked!r}"
        return json_response({"error": error}, HTTPStatus.BAD_REQUEST)
    write, content_type = _TOPOLOGY[asked]
    return HttpResponse(HTTPStatus.OK, write(view.describe()).encode(), content_type)


class Drain:
    """``POST /drain?timeout=SECONDS``: hands everything over, then answers. A second request gets the same answer. The
    process stays, so that no supervisor starts it again before it is taken away."""

    def __init__(self, drain: Callable[[float], bool], timeout: float) -> None:
        self._drain = drain
        self._timeout = timeout
        #: Set from the first request on.
        self.asked = threading.Event()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        timeout = drain_timeout(request, self._timeout)
        if timeout is None:
            return json_response({"error": "timeout: expected seconds, 0 or more"}, HTTPStatus.BAD_REQUEST)
        self.asked.set()
        if self._drain(timeout):
            return json_response({"drained": True})
        error = f"not everything was taken over within {timeout:g} s; the rest was committed and left"
        return json_response({"drained": False, "error": error}, HTTPStatus.GATEWAY_TIMEOUT)


def take_out(request: HttpRequest, view: InstanceView) -> HttpResponse:
    """``POST /ended?member=ID&member=ID...``: takes members whose processes have ended out of the group. The caller has
    seen them end; an id of a living member makes it lose its tasks, and join again."""
    members = parse_qs(request.query).get("member", [])
    if not 0 < len(members) <= _MOST_MEMBERS or any(len(each) > LONGEST for each in members):
        error = f"member: expected 1 to {_MOST_MEMBERS} ids of at most {LONGEST} characters"
        return json_response({"error": error}, HTTPStatus.BAD_REQUEST)
    try:
        for each in members:
            view.take_out(each)
    except StreamsError as error:
        return json_response({"error": str(error)}, HTTPStatus.SERVICE_UNAVAILABLE)
    return json_response({"ended": members})


def to_sub_topology(request: HttpRequest, do: Callable[[str], None]) -> HttpResponse:
    """``POST /pause?subTopology=NAME`` and ``/resume``: a sub-topology of this instance stops or goes on."""
    names = parse_qs(request.query).get("subTopology", [])
    if len(names) != 1 or len(names[0]) > _LONGEST_TOPIC:
        error = "subTopology: expected the number of one sub-topology, or a topic that it reads"
        return json_response({"error": error}, HTTPStatus.BAD_REQUEST)
    try:
        do(names[0])
    except UserInputError as error:
        return json_response({"error": str(error)}, HTTPStatus.BAD_REQUEST)
    except StreamsError as error:
        return json_response({"error": str(error)}, HTTPStatus.SERVICE_UNAVAILABLE)
    return json_response({"subTopology": names[0]})


def take_snapshots(request: HttpRequest, view: InstanceView) -> HttpResponse:
    """``POST /snapshot?timeout=SECONDS``: a snapshot of every active task, then the answer."""
    timeout = drain_timeout(request, SNAPSHOT_SECONDS)
    if timeout is None:
        return json_response({"error": "timeout: expected seconds, 0 or more"}, HTTPStatus.BAD_REQUEST)
    try:
        taken = view.snapshot(timeout)
    except StreamsError as error:
        return json_response({"error": str(error)}, HTTPStatus.CONFLICT)
    if taken:
        return json_response({"taken": True})
    error_text = f"not every task got a snapshot within {timeout:g} s; the log says why"
    return json_response({"taken": False, "error": error_text}, HTTPStatus.GATEWAY_TIMEOUT)


def drain_timeout(request: HttpRequest, default: float) -> float | None:
    """The seconds a request may take; ``None`` if they cannot be read."""
    try:
        seconds = float(parse_qs(request.query).get("timeout", [str(default)])[-1])
    except ValueError:
        return None
    return seconds if 0 <= seconds <= _LONGEST_DRAIN else None
