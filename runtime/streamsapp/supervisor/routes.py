"""The HTTP routes of a pod, which answer for its instances at one port.

Called on the threads of the HTTP server.
"""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlencode

import orjson
from prometheus_client.core import CounterMetricFamily, Metric

from streamsapp.http.console_routes import console_routes
from streamsapp.http.instance_routes import SNAPSHOT_SECONDS, drain_timeout
from streamsapp.metrics.prometheus import CONTENT_TYPE
from streamsapp.query.remote_reader import PeerResponse
from streamsapp.supervisor.merge_responses import merge_metrics, merge_probes, merge_status
from streamsapp.supervisor.pod_supervisor import TIMEOUT, PodSupervisor
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

#: No instance here has it, or none can say now.
_NOT_HERE = {HTTPStatus.MISDIRECTED_REQUEST, HTTPStatus.SERVICE_UNAVAILABLE}
_SERVER_ERRORS = 500
_PASSED_ON = ("Location", "Retry-After")


def pod_routes(pod: PodSupervisor, application_id: str, name: str, drain_seconds: float) -> Routes:
    """The routes of a pod."""
    joined = _Joined(pod, application_id, name, drain_seconds)
    return {
        "/healthz": Route(lambda _: probe((True, "the supervisor watches its instances")), open=True),
        "/readyz": Route(joined.ready, open=True),
        "/metrics": Route(joined.metrics, open=True),
        "/status": Route(joined.status),
        "/topology": Route(joined.topology),
        "/state/": Route(AtMost(QUERIES, joined.state)),
        **console_routes(joined.console, pod.histories.values, joined.failures),
        "/console/graph": Route(joined.topology),
        "/console/stores": Route(joined.topology),
        "/drain": Route(joined.drain, method="POST"),
        "/ended": Route(joined.ended, method="POST"),
        "/pause": Route(joined.to_sub_topology, method="POST"),
        "/resume": Route(joined.to_sub_topology, method="POST"),
        "/snapshot": Route(joined.snapshot, method="POST"),
    }


class _Joined:
    """Asks the instances and makes one answer of theirs."""

    def __init__(self, pod: PodSupervisor, application_id: str, name: str, drain_seconds: float) -> None:
        self._pod = pod
        self._application_id = application_id
        self._name = name
        self._drain_seconds = drain_seconds

    def ready(self, request: HttpRequest) -> HttpResponse:
        return probe(merge_probes({name: _complaint(reply) for name, reply in self._pod.ask_all("/readyz").items()}))

    def metrics(self, request: HttpRequest) -> HttpResponse:
        replies = self._pod.ask_all("/metrics")
        answered = ((name, reply) for name, reply in replies.items() if reply is not None)
        texts = {name: reply.body.decode() for name, reply in answered if reply.status == HTTPStatus.OK}
        return HttpResponse(HTTPStatus.OK, merge_metrics(texts, [self._restarts()]), CONTENT_TYPE)

    def status(self, request: HttpRequest) -> HttpResponse:
        documents = {name: _document(reply) for name, reply in self._pod.ask_all("/status").items()}
        return json_response(merge_status(self._application_id, self._name, documents) | self._started_again())

    def topology(self, request: HttpRequest) -> HttpResponse:
        """Answers with the topology or the stores of one instance: all have the same."""
        return _passed_on(self._first(request.target))

    def console(self, tapped: str | None) -> list[dict[str, Any]]:
        """The documents of the instances that answer."""
        query = "" if tapped is None else f"?{urlencode({'tap': tapped})}"
        replies = self._pod.ask_all(f"/console/figures{query}").values()
        documents = map(_document, replies)
        return [each for document in documents if document is not None for each in document["instances"]]

    def failures(self) -> list[dict[str, Any]]:
        """The last failures of instances that do not answer."""
        away = [each for each in self._pod.members if each.endpoint is None and each.failure is not None]
        return [{"instance": each.instance, **each.failure.as_data()} for each in away if each.failure is not None]

    def drain(self, request: HttpRequest) -> HttpResponse:
        timeout = drain_timeout(request, self._drain_seconds)
        if timeout is None:
            return json_response({"error": "timeout: expected seconds, 0 or more"}, HTTPStatus.BAD_REQUEST)
        replies = self._pod.drain(f"/drain?timeout={timeout}", timeout + TIMEOUT)
        left = {name: _complaint(reply) for name, reply in replies.items() if not self._gone(name, reply)}
        if all(complaint is None for complaint in left.values()):
            return json_response({"drained": True})
        document = {"drained": False, "error": merge_probes(left)[1]}
        return json_response(document, HTTPStatus.GATEWAY_TIMEOUT)

    def ended(self, request: HttpRequest) -> HttpResponse:
        """Any of the instances can do it."""
        return _passed_on(self._pod.take_out(request.query))

    def to_sub_topology(self, request: HttpRequest) -> HttpResponse:
        """Passes on a request about a sub-topology to all instances; the answer is the worst of theirs."""
        replies = self._pod.ask_all(request.target, method="POST")
        bad = {name: reply for name, reply in replies.items() if reply is None or reply.status != HTTPStatus.OK}
        if not bad:
            return _passed_on(next(iter(replies.values())))
        refused = next((each for each in bad.values() if each is not None and each.status < _SERVER_ERRORS), None)
        if refused is not None:
            return _passed_on(refused)
        error = "; ".join(f"{name}: {_complaint(reply)}" for name, reply in bad.items())
        return json_response({"error": error}, HTTPStatus.SERVICE_UNAVAILABLE)

    def snapshot(self, request: HttpRequest) -> HttpResponse:
        """Answers as an instance does, but for all of them."""
        timeout = drain_timeout(request, SNAPSHOT_SECONDS)
        if timeout is None:
            return json_response({"error": "timeout: expected seconds, 0 or more"}, HTTPStatus.BAD_REQUEST)
        replies = self._pod.ask_all(f"/snapshot?timeout={timeout}", method="POST", timeout=timeout + TIMEOUT)
        complaints = {name: _complaint(reply) for name, reply in replies.items()}
        if not any(complaints.values()):
            return json_response({"taken": True})
        refused = any(reply is not None and reply.status == HTTPStatus.CONFLICT for reply in replies.values())
        document = {"taken": False, "error": merge_probes(complaints)[1]}
        return json_response(document, HTTPStatus.CONFLICT if refused else HTTPStatus.GATEWAY_TIMEOUT)

    def state(self, request: HttpRequest) -> HttpResponse:
        """A key or a partition is with one of the instances; a range is gathered by any of them."""
        parameters = parse_qs(request.query, keep_blank_values=True)
        last: PeerResponse | None = None
        if "/" in request.path.removeprefix("/state/") or "partition" in parameters:
            separator = "&" if request.query else "?"
            last = self._first(request.target if "local" in parameters else f"{request.target}{separator}local=1")
            if last is None or last.status not in _NOT_HERE or "local" in parameters:
                return _passed_on(last)
        return _passed_on(self._first(request.target) or last)

    def _first(self, path: str) -> PeerResponse | None:
        """The first answer of an instance that has what is asked for, else the last."""
        reply = None
        for member in self._pod.members:
            answered = self._pod.ask(member, path)
            reply = answered or reply
            if answered is not None and answered.status not in _NOT_HERE:
                return answered
        return reply

    def _gone(self, name: str, reply: PeerResponse | None) -> bool:
        """An instance that does not run has nothing to hand over: its member is taken out, and others take over."""
        return reply is None and all(member.pid is None for member in self._pod.members if member.instance == name)

    def _started_again(self) -> dict[str, Any]:
        """Reports what Kubernetes cannot see: how often the worst instance was started again, and when that was
        last."""
        again = [member for member in self._pod.members if member.starts > 1]
        last = max((member.began_at for member in again), default=None)
        return {
            "instanceRestarts": max((member.starts - 1 for member in again), default=0),
            "restartedSecondsAgo": None if last is None else round(time.monotonic() - last, 1),
            "failures": self.failures(),
        }

    def _restarts(self) -> Metric:
        family = CounterMetricFamily(
            "streamsapp_instance_starts", "How often an instance was started", labels=["instance"]
        )
        for member in self._pod.members:
            family.add_metric([member.instance], member.starts)
        return family


def _document(reply: PeerResponse | None) -> dict[str, Any] | None:
    if reply is None or reply.status != HTTPStatus.OK:
        return None
    document: dict[str, Any] = orjson.loads(reply.body)
    return document


def _complaint(reply: PeerResponse | None) -> str | None:
    """Returns the complaint of an answer like that of ``/readyz`` or ``/drain``."""
    if reply is None:
        return "does not answer"
    if reply.status == HTTPStatus.OK:
        return None
    document = orjson.loads(reply.body)
    return str(document.get("reason") or document.get("error"))


def _passed_on(reply: PeerResponse | None) -> HttpResponse:
    if reply is None:
        error = {"error": "no instance of this pod answers; try again soon", "owner": None}
        return json_response(error, HTTPStatus.SERVICE_UNAVAILABLE, **{"Retry-After": "1"})
    headers = {name: reply.headers[name] for name in _PASSED_ON if name in reply.headers}
    return HttpResponse(HTTPStatus(reply.status), reply.body, reply.headers.get("Content-Type", JSON), headers)
