"""How pods are asked: with which token, and what is said when none is accepted. The network is played by functions."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from kubernetes import client

from kubectl_parts import NOW, pod_document
from streamsapp_operator.kube.errors import Forbidden
from streamsapp_operator.kube.kinds import ResourceKind
from streamsapp_operator.plugin import cluster
from streamsapp_operator.plugin.errors import PluginError
from streamsapp_operator.plugin.port_forward import PodResponse, PodUnreachableError

TODAY, YESTERDAY = "of-today", "of-yesterday"
STATUS = b'{"state":"RUNNING","generation":3,"tasks":[]}'


def secret(*tokens: str) -> dict[str, Any]:
    return {"data": {"token": base64.b64encode("\n".join(tokens).encode()).decode()}}


class FakeClient:
    """Has one Secret, or the right to none."""

    def __init__(self, found: dict[str, Any] | None) -> None:
        self.found = found

    def get(self, kind: ResourceKind, namespace: str, name: str) -> dict[str, Any] | None:
        assert (kind.name, name) == ("Secret", "wordcount-http")
        if self.found == {}:
            raise Forbidden("get secrets")
        return self.found

    def list(self, kind: ResourceKind, *_: object) -> None:
        raise Forbidden(f"list {kind.plural}")


Ask = Callable[[str, str, str | None], PodResponse]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any] | None, Ask], cluster.KubeCluster]:
    """A cluster with this Secret, whose pods answer a pod's name, a path and a token like this."""

    def make(found: dict[str, Any] | None, answer: Ask) -> cluster.KubeCluster:
        def ask(
            _: object, namespace: str, pod: str, port: int, path: str, token: str | None, **how: Any
        ) -> PodResponse:
            assert how["method"] == "GET"
            assert (namespace, port) == ("default", 8080)
            return answer(pod, path, token)

        monkeypatch.setattr(cluster, "Client", lambda configuration: FakeClient(found))
        monkeypatch.setattr(cluster, "ask", ask)
        return cluster.KubeCluster(client.Configuration(), "default")

    return make


def admits(*tokens: str | None) -> Ask:
    def answer(pod: str, path: str, token: str | None) -> PodResponse:
        return PodResponse(200, STATUS, NOW) if token in tokens else PodResponse(401, b'{"error":"send a token"}', NOW)

    return answer


@pytest.mark.parametrize("token", [TODAY, YESTERDAY])
def test_a_pod_that_has_not_got_the_token_of_today_yet_is_shown_that_of_yesterday(asked: Any, token: str) -> None:
    found = asked(secret(TODAY, YESTERDAY), admits(token)).reports("wordcount", [pod_document(0)])["wordcount-0"]
    assert found.fault is None
    assert found.report.state == "RUNNING"
    assert found.at == NOW


def test_pods_without_a_token_are_asked_without_one(asked: Any) -> None:
    found = asked(None, admits(None)).reports("wordcount", [pod_document(0)])["wordcount-0"]
    assert found.report.generation == 3


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({}, "you may not read its token (get on Secret wordcount-http)"),
        (secret("old"), "it does not accept the token in Secret wordcount-http"),
        ({"data": {"token": "no base64!"}}, "it does not accept the token in Secret wordcount-http"),
    ],
)
def test_a_pod_that_accepts_no_token_is_told_with_the_reason(asked: Any, found: dict[str, Any], told: str) -> None:
    reports = asked(found, admits(TODAY)).reports("wordcount", [pod_document(0)])
    assert reports["wordcount-0"].fault == told


def test_what_a_pod_answers_instead_is_told(asked: Any) -> None:
    broken = asked(
        secret(TODAY), lambda pod, path, token: PodResponse(500, b'{"error":"failed; the log says why"}', NOW)
    )
    assert broken.reports("wordcount", [pod_document(0)])["wordcount-0"].fault == (
        "answers with HTTP 500: failed; the log says why"
    )
    strange = asked(secret(TODAY), lambda pod, path, token: PodResponse(200, b"[]", NOW))
    assert "/status cannot be read" in strange.reports("wordcount", [pod_document(0)])["wordcount-0"].fault


def test_a_pod_whose_container_does_not_run_is_not_asked(asked: Any) -> None:
    def never(pod: str, path: str, token: str | None) -> PodResponse:
        raise AssertionError(pod)

    waiting = pod_document(0, containerStatuses=[{"restartCount": 1, "state": {"waiting": {"reason": "Error"}}}])
    assert asked(secret(TODAY), never).reports("wordcount", [waiting])["wordcount-0"].fault == ""


def test_the_topology_is_asked_of_a_ready_pod_first_and_then_of_the_others(asked: Any) -> None:
    order: list[str] = []

    def answer(pod: str, path: str, token: str | None) -> PodResponse:
        order.append(pod)
        if pod == "wordcount-1":
            raise PodUnreachableError("does not answer within 10 s")
        return PodResponse(200, f"asked {path}".encode(), NOW)

    pods = [pod_document(0, conditions=[]), pod_document(1)]
    assert asked(secret(TODAY), answer).topology("wordcount", pods, "mermaid") == "asked /topology?format=mermaid"
    assert order == ["wordcount-1", "wordcount-0"]


def test_when_no_pod_tells_the_topology_each_ones_reason_is_told(asked: Any) -> None:
    with pytest.raises(PluginError) as failed:
        asked(secret("old"), admits(TODAY)).topology("wordcount", [pod_document(0), pod_document(1)], "text")
    assert str(failed.value).splitlines() == [
        "no pod reports its topology:",
        "  wordcount-0: it does not accept the token in Secret wordcount-http",
        "  wordcount-1: it does not accept the token in Secret wordcount-http",
    ]


def test_who_may_not_look_for_the_operator_is_told_a_way_that_does_not_depend_on_its_services_port(asked: Any) -> None:
    with pytest.raises(PluginError, match=r"list on deployments(.|\n)* deployment/streamsapp-operator 8081"):
        asked(None, admits()).operators_page()
