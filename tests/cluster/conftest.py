"""One real cluster for all tests of this folder, with Kafka and the S3 server beside it, and namespaces in it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.host_services import KAFKA, HostServices
from cluster.layout import ClusterLayout
from cluster_app import Kubectl
from kafka_cluster import Kafka
from kube_cluster import NoClusterError, NoNodeHereError, cluster_for_tests

_HERE = Path(__file__).parent
#: Longer than a test takes that hangs. Bringing up the cluster does not count.
_SECONDS = 900
_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_SECONDS, func_only=True))


@pytest.fixture(scope="session", autouse=True)
def cluster(request: pytest.FixtureRequest) -> Iterator[ClusterLayout]:
    """Up before the first test; shows the steps, since they may take minutes."""
    captured = request.config.pluginmanager.getplugin("capturemanager")
    with captured.global_and_fixture_disabled():
        running = cluster_for_tests()
        try:
            layout = running.__enter__()
        except NoNodeHereError as error:
            pytest.skip(str(error))
        except NoClusterError as error:
            pytest.fail(str(error), pytrace=False)
    yield layout
    with captured.global_and_fixture_disabled():
        running.__exit__(None, None, None)


@pytest.fixture(scope="session")
def kubectl(cluster: ClusterLayout) -> Kubectl:
    """Logged in as a user who may do everything."""
    return Kubectl(cluster.kubeconfig, cluster.programs)


@pytest.fixture(scope="session")
def kafka(cluster: ClusterLayout) -> Kafka:
    """Topics and records on the broker that pods know as ``kafka:9092``."""
    return Kafka(KAFKA)


@pytest.fixture
def namespace(cluster: ClusterLayout, kubectl: Kubectl) -> Iterator[str]:
    """A new one, which enforces the restricted Pod Security Standard and has the secret of the S3 server."""
    name = f"test-{os.getpid()}-{next(_numbers)}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    kubectl.apply(HostServices(cluster).credentials(name))
    yield name
    kubectl("delete", "namespace", name, "--wait=false")
