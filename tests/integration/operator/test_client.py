"""The client against a real API server: the server's refusals, and the errors that they become."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from api_server import ApiServer
from operator_process import CRD, TIMEOUT, admin, until
from streamsapp.clock import SystemClock
from streamsapp_operator.children import Owner, RenderSettings
from streamsapp_operator.children.policies import network_policy
from streamsapp_operator.kube import Client, Conflict, Forbidden, Gone, Object, Refused, Rejected, Unavailable
from streamsapp_operator.kube.client import login
from streamsapp_operator.kube.kinds import BUDGET, CONFIG_MAP, POD, STATEFUL_SET
from streamsapp_operator.metrics import OperatorMetrics
from streamsapp_operator.probes import OperatorHealth
from streamsapp_operator.steady_clock import SteadyClock
from streamsapp_operator.watch_health import Lister, WatchAge


@pytest.fixture
def client(api_server: ApiServer) -> Client:
    return admin(api_server)


@pytest.fixture
def namespace(api_server: ApiServer) -> str:
    return api_server.namespace("client")


def config_map(namespace: str, name: str = "a", **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def pod(namespace: str, name: str = "a") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "runtime", "image": "localhost/any"}]},
    }


def run(client: Client, document: Object) -> Object:
    """As a kubelet would: the API server has other rules for the eviction of a pod that is only pending."""
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return client.write_status({**document, "apiVersion": "v1", "kind": "Pod"}, ready)


def test_applies_removes_what_is_no_more_in_the_document_and_leaves_the_rest(client: Client, namespace: str) -> None:
    client.apply(config_map(namespace, a="1", b="2"))
    client.merge(CONFIG_MAP, namespace, "a", {"data": {"theirs": "x"}})
    assert client.apply(config_map(namespace, a="3"))["data"] == {"a": "3", "theirs": "x"}


@pytest.mark.parametrize("among_pods", [False, True])
def test_the_egress_policy_of_applications_is_taken_whole(client: Client, namespace: str, among_pods: bool) -> None:
    """An API server enforces none: that is the part of a network."""
    rules = (
        {"to": [{"namespaceSelector": {"matchLabels": {"team": "kafka"}}}], "ports": [{"port": 9092, "endPort": 9094}]},
        {"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}], "ports": [{"port": 443}]},
    )
    settings, owner = (
        RenderSettings("localhost/runtime", "operators", egress=rules),
        Owner("app", namespace, "some-uid"),
    )
    policy = network_policy(owner, settings, among_pods=among_pods)

    applied = client.apply(policy)["spec"]

    assert with_protocol(policy["spec"]) == applied
    wrong = network_policy(
        owner, replace(settings, egress=({"to": [{"ipBlock": {"cidr": "10.0.0.0/99"}}]},)), among_pods=True
    )
    with pytest.raises(Rejected, match="cidr"):
        client.apply(wrong)


def with_protocol(spec: Object) -> Object:
    """A policy with the default of each port."""
    rules = [
        rule | ({"ports": [{"protocol": "TCP"} | port for port in rule["ports"]]} if "ports" in rule else {})
        for rule in spec["egress"]
    ]
    return spec | {"egress": rules}


def test_lists_in_pages(client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamsapp_operator.kube.client._PAGE", 2)
    for number in range(5):
        client.create(config_map(namespace, f"map-{number}", a="1"))
    listed = client.list(CONFIG_MAP, namespace, metadata_only=True)
    assert [it["metadata"]["name"] for it in listed] == [f"map-{number}" for number in range(5)]
    assert not any("data" in it for it in listed)


def test_what_exists_is_a_conflict_and_what_does_not_is_nothing(client: Client, namespace: str) -> None:
    client.create(config_map(namespace))
    with pytest.raises(Conflict, match="already exists"):
        client.create(config_map(namespace))
    assert client.get(CONFIG_MAP, namespace, "b") is None
    client.delete(CONFIG_MAP, namespace, "b")
    with pytest.raises(Gone):
        client.merge(CONFIG_MAP, namespace, "b", {"data": {}})


def test_a_status_is_written_only_for_what_was_read(client: Client, namespace: str) -> None:
    read = client.create(pod(namespace))
    client.merge(POD, namespace, "a", {"metadata": {"annotations": {"somebody": "else"}}})
    with pytest.raises(Conflict):
        run(client, read)


def test_evicts_only_the_pod_that_it_was_decided_for(client: Client, namespace: str) -> None:
    document = run(client, client.create(pod(namespace)))
    version, uid = document["metadata"]["resourceVersion"], document["metadata"]["uid"]
    client.merge(POD, namespace, "a", {"metadata": {"annotations": {"changed": "since"}}})
    with pytest.raises(Conflict):
        client.evict(namespace, "a", uid, version)
    with pytest.raises(Conflict):
        client.evict(namespace, "a", "another-uid")
    found = client.get(POD, namespace, "a")
    assert found is not None
    client.evict(namespace, "a", uid, found["metadata"]["resourceVersion"])
    assert client.get(POD, namespace, "a") is None
    client.evict(namespace, "a", uid)


def test_a_budget_refuses_an_eviction(client: Client, namespace: str) -> None:
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "a"}}}
    metadata = {"name": "a", "namespace": namespace}
    client.apply({"apiVersion": "policy/v1", "kind": BUDGET.name, "metadata": metadata, "spec": spec})
    document = run(client, client.create(pod(namespace)))
    with pytest.raises(Refused, match="disruption budget"):
        client.evict(namespace, "a", document["metadata"]["uid"])


def test_a_document_that_is_wrong_is_rejected_with_the_field(client: Client, namespace: str) -> None:
    wrong = pod(namespace)
    wrong["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "much"}}
    with pytest.raises(Rejected, match="quantities must match"):
        client.create(wrong)
    misspelt = config_map(namespace) | {"dta": {}}
    with pytest.raises(Rejected, match='unknown field "dta"'):
        client.create(misspelt)
    with pytest.raises(Rejected, match=r"\.dta: field not declared in schema"):
        client.apply(misspelt)


def test_a_missing_right_is_named(api_server: ApiServer, namespace: str) -> None:
    nobody = Client(login(str(api_server.kubeconfig_of("nobody"))))
    with pytest.raises(
        Forbidden, match=r"the operator may not list statefulsets; add list on statefulsets in API group"
    ):
        nobody.list(STATEFUL_SET, namespace)


def test_a_server_that_is_away_is_told_in_time(tmp_path_factory: pytest.TempPathFactory) -> None:
    with ApiServer(tmp_path_factory.mktemp("own")) as api:
        client = admin(api)
        client.list(POD, "default")
        api.freeze()
        with pytest.raises(Unavailable, match=r"get configmaps a in namespace default: .*\(read timeout=1\.0\)"):
            client.get(CONFIG_MAP, "default", "a", timeout=1.0)
        api.stop()
        with pytest.raises(Unavailable):
            client.get(CONFIG_MAP, "default", "a")


@pytest.fixture
def lister(api_server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Lister, WatchAge, SteadyClock]]:
    monkeypatch.setattr("streamsapp_operator.watch_health.LIST_SECONDS", 0.1)
    api_server.kubectl("apply", "--server-side", "-f", str(CRD))
    namespace, client, clock = api_server.namespace("watched"), admin(api_server), SteadyClock(SystemClock())
    age = WatchAge(clock.now())
    spec = {"topology": {"entrypoint": "a:b"}, "kafka": {"bootstrapServers": "kafka:9092"}}
    metadata = {"name": "app", "namespace": namespace}
    kind = {"apiVersion": "streamsapp.dev/v1alpha1", "kind": "StreamsApp"}
    client.create({**kind, "metadata": metadata, "spec": spec})
    missed = threading.Event()
    made = Lister(client, [namespace], age, clock, lambda namespace, name: missed.set())
    made.start()
    yield made, age, clock
    assert missed.wait(TIMEOUT)  # the application is looked at all the same
    made.stop()
    made.join()


def test_a_watcher_that_tells_nothing_makes_the_operator_unhealthy(
    lister: tuple[Lister, WatchAge, SteadyClock], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamsapp_operator.probes.HUNG_SECONDS", 0.5)
    _, age, clock = lister
    health = OperatorHealth(clock, OperatorMetrics())
    assert health.healthy() == (True, "stands by")
    health.working = (age, _NoLoops())
    until(lambda: not health.healthy()[0], "it is found out")
    assert "a watcher has missed for" in health.healthy()[1]


class _NoLoops:
    def oldest(self) -> None:
        return None
