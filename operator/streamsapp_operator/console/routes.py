"""The routes of the cluster's console. Called on threads of the HTTP server, which keeps nothing of its viewers.

The page is open, as it holds no data. Everything else wants a token of the API server, which judges it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

from kubernetes import client

from streamsapp.web.event_streams import EventStreams
from streamsapp.web.pages import page_routes
from streamsapp.web.request_routing import HttpRequest, HttpResponse, Route, Routes, json_response
from streamsapp_operator import annotation_requests
from streamsapp_operator.console.streams import LookTools, application, applications
from streamsapp_operator.console.viewer import viewer_of, words
from streamsapp_operator.kube.errors import ApiError, Forbidden, Gone, Rejected, Unauthorized
from streamsapp_operator.kube.kinds import STREAMS_APP, Object
from streamsapp_operator.observe import PodAsker
from streamsapp_operator.plugin.documents import read_app
from streamsapp_operator.steady_clock import SteadyClock

#: Pages that look at a time; each has a thread, and a watch at the API server.
STREAMS = 16
#: Names of namespaces and objects in Kubernetes, and uids.
_NAME = re.compile(r"[A-Za-z0-9]([-.A-Za-z0-9]{0,251}[A-Za-z0-9])?")


def console_routes(operator: client.Configuration, watched: Sequence[str], clock: SteadyClock) -> Routes:
    """Returns the routes; ``watched`` are the namespaces of the operator, none stands for all."""
    console = _Console(operator, watched, LookTools(PodAsker(clock), clock))
    return {
        **page_routes("streamsapp_operator"),
        "/console/scope": Route(console.answered(console.scope), open=True),
        "/console/events": Route(console.answered(EventStreams(console.events, STREAMS)), open=True),
        "/console/order": Route(console.answered(console.order), method="POST", open=True),
    }


class _Console:
    def __init__(self, operator: client.Configuration, watched: Sequence[str], tools: LookTools) -> None:
        self._operator = operator
        self._watched = watched
        self._tools = tools

    def answered(self, answer: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
        """Turns errors of the API server into answers in its words."""

        def checked(request: HttpRequest) -> HttpResponse:
            try:
                return answer(request)
            except Unauthorized as error:
                challenge = {"WWW-Authenticate": "Bearer"}
                return json_response({"error": words(error)}, HTTPStatus.UNAUTHORIZED, **challenge)
            except ApiError as error:
                return json_response({"error": words(error)}, _status_of(error))

        return checked

    def scope(self, request: HttpRequest) -> HttpResponse:
        """``GET /console/scope``: the namespaces that the operator watches, and whether the viewer sees all of them at
        once."""
        with viewer_of(self._operator, request.authorization) as viewer:
            everywhere = viewer.client.may("list", STREAMS_APP, None)
        return json_response({"namespaces": list(self._watched), "everywhere": everywhere})

    def events(self, request: HttpRequest) -> Generator[dict[str, Any] | None, None, None]:
        """``GET /console/events?namespace=&app=``: all applications, of one namespace or of all; or one of them."""
        given = _parameters(request)
        namespace, name = given.get("namespace"), given.get("app")
        if name and not namespace:
            raise Rejected("namespace: name that of the application")
        self._check(namespace)
        with viewer_of(self._operator, request.authorization) as viewer:
            right = "get" if name else "list"
            if not viewer.client.may(right, STREAMS_APP, namespace):
                where = "in all namespaces; choose one" if namespace is None else f"in namespace {namespace}"
                raise Forbidden(f"you may not {right} streamsapps {where}")
        return self._stream(request.authorization, namespace, name)

    def _stream(
        self, authorization: str, namespace: str | None, name: str | None
    ) -> Generator[dict[str, Any] | None, None, None]:
        with viewer_of(self._operator, authorization) as viewer:
            if name and namespace:
                documents = application(viewer, namespace, name, self._tools)
            else:
                documents = applications(viewer, namespace, self._watched)
            with closing(documents):
                yield from documents

    def order(self, request: HttpRequest) -> HttpResponse:
        """``POST /console/order?namespace=&app=&order=&uid=``: sets the annotations of an order."""
        given = _parameters(request)
        namespace, name = given.get("namespace"), given.get("app")
        if not (namespace and name):
            raise Rejected("namespace and app: name the application that the order is for")
        self._check(namespace)
        with viewer_of(self._operator, request.authorization) as viewer:
            annotations = self._annotations(viewer.app(namespace, name), given)
            viewer.annotate(namespace, name, annotations)
        return json_response({"told": f"{name}: {_TOLD[given['order']]}"})

    def _annotations(self, app: Object, given: dict[str, str]) -> annotation_requests.Annotations:
        match given.get("order"):
            case "restart":
                return annotation_requests.restart(self._tools.clock.utc())
            case "restartPod" if given.get("uid"):
                return annotation_requests.restart_pod(given["uid"])
            case "pause":
                return annotation_requests.pause()
            case "approve":
                found = annotation_requests.approve(app, read_app(app).status.rollout)
                if found is None:
                    raise Rejected("no rollout waits and none is paused, so there is nothing to approve")
                return found
        raise Rejected(f"order: expected one of {', '.join(_TOLD)} (restartPod with a uid)")

    def _check(self, namespace: str | None) -> None:
        """The operator asks pods where it watches, and nowhere else for any viewer."""
        if namespace is not None and self._watched and namespace not in self._watched:
            raise Rejected(f"the operator does not watch namespace {namespace!r}, but {', '.join(self._watched)}")


_TOLD = {
    "restart": "is restarted, pod after pod, each when that is safe",
    "restartPod": "the pod is restarted as soon as that is safe",
    "pause": "is paused: no pod is taken for a rollout; approve lets it go on",
    "approve": "the rollout goes on",
}


def _parameters(request: HttpRequest) -> dict[str, str]:
    found = {name: values[-1] for name, values in parse_qs(request.query, max_num_fields=10).items()}
    for name, value in found.items():
        if not _NAME.fullmatch(value):
            raise Rejected(f"{name}: expected letters, digits, '-' and '.', at most 253; got {value[:100]!r}")
    return found


def _status_of(error: ApiError) -> HTTPStatus:
    if isinstance(error, Forbidden):
        return HTTPStatus.FORBIDDEN
    if isinstance(error, Gone):
        return HTTPStatus.NOT_FOUND
    return HTTPStatus.BAD_REQUEST if isinstance(error, Rejected) else HTTPStatus.BAD_GATEWAY
