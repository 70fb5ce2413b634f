"""Reads and changes the cluster for the plugin: with the user's kubeconfig, rights and network.

Made once by ``main``; pods are asked on threads of a pool, all else is called on the main thread.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from io import TextIOWrapper
from typing import Any

import urllib3
from kubernetes import client, config

from streamsapp_operator.children.names import CONTAINER, EXECUTOR, NAME_LABEL, PORT, http_secret_name
from streamsapp_operator.kube.client import Client
from streamsapp_operator.kube.errors import ApiError, Forbidden, Gone, error_of
from streamsapp_operator.kube.kinds import EVENT, POD, SECRET, STATEFUL_SET, STREAMS_APP, ResourceKind
from streamsapp_operator.plugin import gathering
from streamsapp_operator.plugin.api_errors import told
from streamsapp_operator.plugin.documents import PodAnswer, is_ready, read_report, role_of
from streamsapp_operator.plugin.errors import WRONG_INPUT, PluginError
from streamsapp_operator.plugin.gathering import ReportPart, part
from streamsapp_operator.plugin.pod_exec import execute
from streamsapp_operator.plugin.port_forward import PodResponse, PodUnreachableError, ask, forwarded
from streamsapp_operator.plugin.session import Document, OperatorSeen, PageServer, Streams
from streamsapp_operator.plugin.text import clean
from streamsapp_operator.pod_tokens import read_tokens

_MANAGER = "kubectl-streamsapp"
_DEPLOYMENT = ResourceKind("apps/v1", "Deployment", "deployments")
_OPERATORS = "app.kubernetes.io/name=streamsapp-operator"
#: Of its container, whatever port its Service has.
_OPERATOR_PORT = 8081
_BY_HAND = """of the one that you trust:
  kubectl port-forward -n NAMESPACE deployment/streamsapp-operator 8081
  http://localhost:8081/console/"""
#: Pods that are asked at the same time.
_AT_ONCE = 8
#: Seconds for which a pod's answer is waited for.
_ANSWER_SECONDS = 10.0


def connect(kubeconfig: str | None, context: str | None, namespace: str | None) -> KubeCluster:
    """Logs in as kubectl does."""
    found = client.Configuration()
    try:
        config.load_kube_config(config_file=kubeconfig, context=context, client_configuration=found)
        _, active = config.list_kube_config_contexts(config_file=kubeconfig)
        contexts, _ = config.list_kube_config_contexts(config_file=kubeconfig)
    except (config.ConfigException, OSError) as error:
        where = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
        raise PluginError(
            f"{where}: no cluster to talk to: {error}; set KUBECONFIG or --kubeconfig, and --context", WRONG_INPUT
        ) from error
    chosen = next((each for each in contexts if each["name"] == context), active)
    return KubeCluster(found, namespace or (chosen.get("context") or {}).get("namespace") or "default")


@dataclass(frozen=True, slots=True)
class _Login:
    """The tokens that pods are shown, and the message if they do not accept them."""

    tokens: tuple[str, ...]
    fault: str


class KubeCluster:
    """One namespace of a real cluster."""

    def __init__(self, configuration: client.Configuration, namespace: str) -> None:
        self.namespace = namespace
        self._configuration = configuration
        self._client = Client(configuration)

    def app(self, name: str) -> Document:
        with self._told("get streamsapps"):
            found = self._client.get(STREAMS_APP, self.namespace, name)
            if found is not None:
                return found
            try:
                others = self._client.list(STREAMS_APP, self.namespace, metadata_only=True)
            except Gone as error:
                raise PluginError(
                    "this cluster does not know StreamsApps: install the chart charts/streamsapp"
                ) from error
        names = ", ".join(sorted(each["metadata"]["name"] for each in others))
        there = f"there are: {names}" if names else "there is none; try another one with -n"
        raise PluginError(f"no StreamsApp {name!r} in namespace {self.namespace}; {there}", WRONG_INPUT)

    def pods(self, name: str) -> list[Document]:
        with self._told("list pods"):
            found = self._client.list(POD, self.namespace, f"{NAME_LABEL}={name}")
        return sorted(found, key=lambda pod: _ordinal(pod["metadata"]["name"]))

    def reports(self, name: str, pods: Sequence[Document]) -> dict[str, PodAnswer]:
        login = self._login(name)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            answers = list(pool.map(lambda pod: self._report(pod, login), pods))
        return {pod["metadata"]["name"]: answer for pod, answer in zip(pods, answers, strict=True)}

    def _report(self, pod: Document, login: _Login) -> PodAnswer:
        if not _runs(pod) or role_of(pod) == EXECUTOR:  # its driver speaks for it
            return PodAnswer(fault="")
        try:
            reply = self._ask(pod, "/status", login)
        except PodUnreachableError as error:
            return PodAnswer(fault=str(error))
        return read_report(reply.body, reply.at)

    def take_snapshots(self, name: str, pods: Sequence[Document], seconds: float) -> dict[str, str | None]:
        login = self._login(name)
        path, wait = f"/snapshot?timeout={seconds:g}", seconds + _ANSWER_SECONDS

        def take(pod: Document) -> str | None:
            try:
                self._ask(pod, path, login, method="POST", timeout=wait)
            except PodUnreachableError as error:
                return str(error)
            return None

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return {pod["metadata"]["name"]: said for pod, said in zip(pods, pool.map(take, pods), strict=True)}

    def gather(self, name: str, *, tail: int) -> Iterator[ReportPart]:
        app, pods = self.app(name), self.pods(name)
        yield ReportPart("streamsapp.json", app)
        yield ReportPart("pods.json", pods)
        yield from gathering.children(self._client, self.namespace, name)
        login = self._login(name)
        for pod in pods:
            each = pod["metadata"]["name"]
            for path, form in (("/status", "json"), ("/metrics", "txt")):
                yield part(f"{each}{path}.{form}", partial(self._text, pod, path, login))
            yield from self._logs_of(pod, each, tail)
        for operator in self.operators() or ():
            if operator.watched is None or self.namespace in operator.watched:
                yield from self._operator_parts(operator, tail)

    def _text(self, pod: Document, path: str, login: _Login) -> str:
        return self._ask(pod, path, login).body.decode("utf-8", errors="replace")

    def _operator_parts(self, operator: OperatorSeen, tail: int) -> Iterator[ReportPart]:
        found = part("operator/pods.json", lambda: self._client.list(POD, operator.namespace, _OPERATORS))
        yield found
        for pod in found.content or ():
            yield from self._logs_of(pod, f"operator/{pod['metadata']['name']}", tail)

    def _logs_of(self, pod: Document, folder: str, tail: int) -> Iterator[ReportPart]:
        """Yields the logs of each container, and of the one before where it was started again."""
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        restarted = {each["name"] for each in statuses if each.get("restartCount")}
        for container in (each["name"] for each in pod["spec"]["containers"]):
            for previous in (False, True) if container in restarted else (False,):
                name = f"{folder}/{container}{'.previous' if previous else ''}.log"
                yield part(name, partial(self._log, pod, container, tail, previous))

    def _log(self, pod: Document, container: str, tail: int, previous: bool) -> str:
        place = pod["metadata"]["namespace"], pod["metadata"]["name"], container
        return "\n".join(self._lines(*place, tail=tail, follow=False, previous=previous))

    def secrets(self, name: str) -> Sequence[str]:
        return list(gathering.secret_values(self._client, self.namespace, self.app(name), self.pods(name)))

    def topology(self, name: str, pods: Sequence[Document], form: str) -> str:
        login = self._login(name)
        faults = []
        for pod in sorted(pods, key=lambda each: not is_ready(each)):
            try:
                return self._ask(pod, f"/topology?format={form}", login).body.decode(errors="replace")
            except PodUnreachableError as error:
                faults.append(f"  {pod['metadata']['name']}: {error}")
        raise PluginError("\n".join(["no pod reports its topology:", *faults]))

    def logs(self, pod: str, *, tail: int, follow: bool, previous: bool) -> Iterator[str]:
        return self._lines(self.namespace, pod, CONTAINER, tail=tail, follow=follow, previous=previous)

    def _lines(
        self, namespace: str, pod: str, container: str, *, tail: int, follow: bool, previous: bool
    ) -> Iterator[str]:
        api = client.CoreV1Api(client.ApiClient(self._configuration))
        with self._told("get pods/log"):
            try:
                answer: Any = api.read_namespaced_pod_log(
                    pod,
                    namespace,
                    container=container,
                    tail_lines=tail,
                    follow=follow,
                    previous=previous,
                    _preload_content=False,
                )
                with closing(answer), TextIOWrapper(answer, "utf-8", errors="replace") as lines:
                    yield from (line.rstrip("\n") for line in lines)
            except client.ApiException as error:
                raise error_of(error.status or 0, _document(error.body), "reading the log") from error
            except urllib3.exceptions.HTTPError as error:
                raise error_of(0, {"message": str(error)}, "reading the log") from error

    def annotate(self, name: str, annotations: Mapping[str, str | None]) -> Document:
        return self._patch("patch streamsapps", "", name, {"metadata": {"annotations": dict(annotations)}})

    def scale(self, name: str, replicas: int) -> None:
        self._patch("patch streamsapps/scale", "_scale", name, {"spec": {"replicas": replicas}})

    def stateful_set(self, name: str) -> Document:
        with self._told("get statefulsets"):
            found = self._client.get(STATEFUL_SET, self.namespace, name)
        if found is None:
            raise PluginError(f"{name}: no operator has made its pods yet; see: kubectl streamsapp status {name}")
        return found

    def create_pod(self, document: Document) -> None:
        with self._told("create pods"):
            self._client.create(document)

    def pod(self, name: str) -> Document | None:
        with self._told("get pods"):
            return self._client.get(POD, self.namespace, name)

    def warnings(self, pod: str) -> list[str]:
        try:
            events = self._client.list(EVENT, self.namespace)
        except ApiError:
            return []
        found = [each for each in events if each.get("type") == "Warning" and each["involvedObject"].get("name") == pod]
        return [str(each.get("message") or each.get("reason")) for each in found]

    def delete_pod(self, name: str) -> None:
        with self._told("delete pods"):
            self._client.delete(POD, self.namespace, name)

    def execute(self, pod: str, command: Sequence[str], streams: Streams) -> int:
        return execute(self._configuration, self.namespace, pod, command, streams)

    def page_of(self, name: str, pod: str) -> PageServer:
        return PageServer(self.namespace, pod, PORT, next(iter(self._login(name).tokens), None))

    def operators_page(self) -> PageServer:
        found = self.operators()
        if found is None:
            raise PluginError(f"you may not look for the operator (list on deployments of all namespaces); {_BY_HAND}")
        watching = [it for it in found if it.running and (it.watched is None or self.namespace in it.watched)]
        if not watching:
            raise PluginError(f"no operator that runs watches namespace {self.namespace}; try another one with -n")
        if len(watching) > 1:  # users can make a Deployment that looks like one, and take tokens that are shown to it
            names = ", ".join(f"{it.namespace}/{it.name}" for it in watching)
            raise PluginError(
                f"several operators say that they watch namespace {self.namespace}: {clean(names)}; {_BY_HAND}"
            )
        return PageServer(watching[0].namespace, self._ready_pod(watching[0]), _OPERATOR_PORT, None)

    def _ready_pod(self, operator: OperatorSeen) -> str:
        try:
            pods = self._client.list(POD, operator.namespace, _OPERATORS)
        except ApiError as error:
            raise PluginError(f"the operator's pods cannot be listed: {clean(error.said or str(error))}") from error
        ready = [str(pod["metadata"]["name"]) for pod in pods if is_ready(pod)]
        if not ready:
            raise PluginError(f"no pod of operator {operator.name} in namespace {operator.namespace} is ready")
        return ready[0]

    def forwarded(self, page: PageServer) -> AbstractContextManager[socket.socket]:
        return forwarded(self._configuration, page.namespace, page.pod, page.port)

    def operators(self) -> list[OperatorSeen] | None:
        try:
            found = self._client.list(_DEPLOYMENT, None, _OPERATORS)
        except ApiError:
            return None
        return [_operator(each) for each in found]

    def _patch(self, doing: str, subresource: str, name: str, changes: Document) -> Document:
        api = client.CustomObjectsApi(client.ApiClient(self._configuration))
        group, version = STREAMS_APP.api_version.split("/")
        patch = getattr(api, f"patch_namespaced_custom_object{subresource}")
        with self._told(doing):
            try:
                answer: Document = patch(
                    group,
                    version,
                    self.namespace,
                    STREAMS_APP.plural,
                    name,
                    changes,
                    field_manager=_MANAGER,
                    _content_type="application/merge-patch+json",
                )
            except client.ApiException as error:
                raise error_of(error.status or 0, _document(error.body), doing) from error
            except urllib3.exceptions.HTTPError as error:
                raise error_of(0, {"message": str(error)}, doing) from error
        return answer

    def _login(self, name: str) -> _Login:
        """Returns the application's tokens, the newest first; or none, and why."""
        secret = http_secret_name(name)
        try:
            found = self._client.get(SECRET, self.namespace, secret)
        except Forbidden:
            return _Login((), f"you may not read its token (get on Secret {secret})")
        except ApiError as error:
            return _Login((), f"its token cannot be read: {error}")
        return _Login(read_tokens(found), f"it does not accept the token in Secret {secret}")

    def _ask(
        self, pod: Document, path: str, login: _Login, *, method: str = "GET", timeout: float = _ANSWER_SECONDS
    ) -> PodResponse:
        """Returns a pod's answer. A token of today may not have reached it yet, so that of yesterday is tried too."""
        for token in login.tokens or (None,):
            place = self.namespace, pod["metadata"]["name"], PORT, path, token
            reply = ask(self._configuration, *place, method=method, timeout=timeout)
            if reply.status == HTTPStatus.OK:
                return reply
            if reply.status != HTTPStatus.UNAUTHORIZED:
                raise PodUnreachableError(f"answers with HTTP {reply.status}: {_said(reply.body)}")
        raise PodUnreachableError(login.fault)

    def _told(self, doing: str) -> AbstractContextManager[None]:
        return told(doing, self._configuration.host, self.namespace)


def _runs(pod: Document) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any("running" in (each.get("state") or {}) for each in statuses)


def _ordinal(name: str) -> tuple[int, str]:
    number = name.rpartition("-")[2]
    return (int(number) if number.isdigit() else -1, name)


def _operator(deployment: Document) -> OperatorSeen:
    containers: list[dict[str, Any]] = deployment["spec"]["template"]["spec"]["containers"]
    values = [
        each.get("value") for one in containers for each in one.get("env") or () if each["name"] == "WATCH_NAMESPACES"
    ]
    watched = next(iter(values), "*") or "*"
    metadata = deployment["metadata"]
    names = None if watched == "*" else tuple(name.strip() for name in watched.split(","))
    running = bool((deployment.get("status") or {}).get("readyReplicas"))
    return OperatorSeen(metadata["namespace"], metadata["name"], names, running)


def _document(body: str | bytes | None) -> Document:
    try:
        found = json.loads(body or "{}")
    except ValueError:
        return {"message": str(body)[:200]}
    return found if isinstance(found, dict) else {}


def _said(body: bytes) -> str:
    """Returns the ``error`` of a pod's answer."""
    found = _document(body)
    return clean(str(found.get("error") or found.get("message") or body[:200].decode(errors="replace")))
