"""The API server that tests of the operator run against is a real one: it admits, refuses, keeps and comes back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kubernetes import client, config

from api_server import ApiServer


@pytest.fixture(scope="module")
def own_api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server that the tests of this module may stop and freeze, and that runs again after each of them."""
    with ApiServer(tmp_path_factory.mktemp("api-server")) as running:
        yield running


def test_keeps_its_objects_while_it_is_stopped(own_api_server: ApiServer) -> None:
    namespace = own_api_server.namespace()
    own_api_server.kubectl("create", "configmap", "kept", "-n", namespace, "--from-literal=a=1")
    own_api_server.stop()
    with pytest.raises(RuntimeError, match="refused"):
        own_api_server.kubectl("get", "configmap", "kept", "-n", namespace)
    own_api_server.start()
    assert own_api_server.kubectl("get", "configmap", "kept", "-n", namespace, "-o=jsonpath={.data.a}") == "1"


def test_answers_nothing_while_it_is_frozen(own_api_server: ApiServer) -> None:
    own_api_server.freeze()
    with pytest.raises(RuntimeError, match=r"(?i)timeout|deadline"):
        own_api_server.kubectl("get", "namespaces", "--request-timeout=1s")
    own_api_server.thaw()
    assert "default" in own_api_server.kubectl("get", "namespaces")


def test_refuses_a_pod_that_breaks_the_standard_its_namespace_enforces(api_server: ApiServer) -> None:
    namespace = api_server.namespace(labels={"pod-security.kubernetes.io/enforce": "restricted"})
    with pytest.raises(RuntimeError, match="violates PodSecurity"):
        api_server.kubectl("run", "root", "--image=localhost/any", "-n", namespace)


def test_forbids_what_no_role_allows(api_server: ApiServer) -> None:
    kubeconfig = api_server.kubeconfig_of("nobody-in-particular")
    with config.new_client_from_config(str(kubeconfig)) as api, pytest.raises(client.ApiException) as refused:
        client.CoreV1Api(api).list_namespaced_secret("default")
    assert refused.value.status == 403
