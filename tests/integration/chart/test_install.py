"""The chart is installed by the real helm in a real API server: nothing runs there, everything is checked and kept."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from api_server import ApiServer
from operator_process import until

CHART = Path(__file__).resolve().parents[3] / "charts" / "streamsapp"
Helm = Callable[..., str]
#: A release names the place of its images.
IMAGES = '--set-json=global.imageRegistry="registry.example/team"'

KEY = ("get", "secret", "streamsapp-operator-key", "-o=jsonpath={.data.key}")


@pytest.fixture
def restricted(cluster: ApiServer) -> str:
    """A namespace in which only restricted pods are admitted."""
    return _restricted(cluster)


def _restricted(cluster: ApiServer) -> str:
    return cluster.namespace("chart", {"pod-security.kubernetes.io/enforce": "restricted"})


@pytest.fixture(scope="module")
def installed(cluster: ApiServer, helm: Helm) -> Iterator[tuple[str, str]]:
    """A release in a namespace that admits restricted pods; returns helm's output. Everything is removed afterwards.
    The tests of this module share it: tests that upgrade it come last, and tests of releases of their own first."""
    namespace = _restricted(cluster)
    said = helm("install", "streamsapp", str(CHART), IMAGES, "-n", namespace, kubeconfig=cluster.kubeconfig)
    until(lambda: serves(cluster, namespace), "the resource")
    yield namespace, said
    helm("uninstall", "streamsapp", "-n", namespace, kubeconfig=cluster.kubeconfig)
    cluster.kubectl("delete", "crd", "streamsapps.streamsapp.dev", "--ignore-not-found")


def serves(cluster: ApiServer, namespace: str) -> bool:
    """Says whether the API server knows the resource: a busy one does some time after helm has ended."""
    with suppress(RuntimeError):
        cluster.kubectl("get", "sapp", "-n", namespace)
        return True
    return False


def test_applications_outlive_the_release(cluster: ApiServer, helm: Helm, restricted: str) -> None:
    helm("install", "streamsapp", str(CHART), IMAGES, "-n", restricted, kubeconfig=cluster.kubeconfig)
    until(lambda: serves(cluster, restricted), "the resource")
    example = CHART.parents[1] / "examples" / "wordcount" / "streamsapp.yaml"
    cluster.kubectl("apply", "-n", restricted, "-f", str(example))
    helm("uninstall", "streamsapp", "-n", restricted, kubeconfig=cluster.kubeconfig)
    assert "wordcount" in cluster.kubectl("get", "sapp", "-n", restricted)
    cluster.kubectl("delete", "crd", "streamsapps.streamsapp.dev")


@pytest.mark.long
def test_comes_back_after_it_was_uninstalled(cluster: ApiServer, helm: Helm, restricted: str) -> None:
    for _ in range(2):
        said = helm("install", "streamsapp", str(CHART), IMAGES, "-n", restricted, kubeconfig=cluster.kubeconfig)
        assert "belongs to somebody else" not in said
        helm("uninstall", "streamsapp", "-n", restricted, kubeconfig=cluster.kubeconfig)
    cluster.kubectl("delete", "crd", "streamsapps.streamsapp.dev")


def test_says_what_to_do_next_and_where_applications_are_run(installed: tuple[str, str]) -> None:
    namespace, said = installed
    assert f"The operator runs StreamsApps in the namespace {namespace}, and nowhere else." in said
    assert f"kubectl apply -n {namespace} -f examples/wordcount/streamsapp.yaml" in said
    assert f"--set 'watch.namespaces={{{namespace},other}}'" in said
    assert "  registry.example/team/streamsapp-operator:" in said
    assert "ImagePullBackOff, the registry lacks one of them" in said
    assert "belongs to somebody else" not in said


def test_the_first_commands_of_the_notes_are_taken_by_the_api_server(
    cluster: ApiServer, installed: tuple[str, str]
) -> None:
    namespace, _ = installed
    example = CHART.parents[1] / "examples" / "wordcount" / "streamsapp.yaml"
    cluster.kubectl("apply", "-n", namespace, "-f", str(example))
    assert "wordcount" in cluster.kubectl("get", "sapp", "-n", namespace)
    cluster.kubectl("delete", "sapp", "wordcount", "-n", namespace)


def test_its_pods_are_admitted_where_pods_are_restricted(cluster: ApiServer, installed: tuple[str, str]) -> None:
    namespace, _ = installed
    found = json.loads(cluster.kubectl("get", "deployment", "streamsapp-operator", "-n", namespace, "-o", "json"))
    pod = {"apiVersion": "v1", "kind": "Pod", **found["spec"]["template"]}
    pod["metadata"] = {"name": "as-deployed", "namespace": namespace}
    assert "created" in cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod))


def test_the_pod_of_helm_test_is_admitted_too(cluster: ApiServer, helm: Helm, installed: tuple[str, str]) -> None:
    namespace, _ = installed
    hooks = helm("get", "hooks", "streamsapp", "-n", namespace, kubeconfig=cluster.kubeconfig)
    assert "created" in cluster.kubectl("apply", "-f", "-", stdin=hooks)


def test_an_upgrade_keeps_the_key(cluster: ApiServer, helm: Helm, installed: tuple[str, str]) -> None:
    namespace, _ = installed
    before = cluster.kubectl(*KEY, "-n", namespace)
    helm("upgrade", "streamsapp", str(CHART), IMAGES, "-n", namespace, kubeconfig=cluster.kubeconfig)
    assert cluster.kubectl(*KEY, "-n", namespace) == before


def test_the_upgrade_that_the_notes_propose_is_taken(
    cluster: ApiServer, helm: Helm, installed: tuple[str, str]
) -> None:
    _, said = installed
    proposed = [line.strip() for line in said.splitlines() if line.strip().startswith("helm upgrade")]
    assert len(proposed) == 2
    for line in proposed:
        # Namespace "other" stands for one that is there.
        _, *arguments = shlex.split(line.replace(",other", "").replace("<chart>", str(CHART)))
        said = helm(*arguments, kubeconfig=cluster.kubeconfig)
    assert "The operator runs StreamsApps in every namespace." in said


def test_an_upgrade_brings_the_new_resource(
    cluster: ApiServer, helm: Helm, installed: tuple[str, str], tmp_path: Path
) -> None:
    namespace, _ = installed
    newer = tmp_path / "streamsapp"
    shutil.copytree(CHART, newer)
    file = newer / "files" / "streamsapps.yaml"
    resource = yaml.safe_load(file.read_text("utf-8"))
    resource["spec"]["names"]["shortNames"].append("newer")
    file.write_text(yaml.safe_dump(resource), "utf-8")
    helm("upgrade", "streamsapp", str(newer), IMAGES, "-n", namespace, kubeconfig=cluster.kubeconfig)
    names = cluster.kubectl("get", "crd", "streamsapps.streamsapp.dev", "-o=jsonpath={.spec.names.shortNames}")
    assert names == '["sapp","newer"]'


@pytest.mark.long
def test_a_second_release_leaves_the_firsts_resource_alone_and_says_so(
    cluster: ApiServer, helm: Helm, installed: tuple[str, str]
) -> None:
    first, _ = installed
    other = cluster.namespace("chart")
    said = helm("install", "streamsapp", str(CHART), IMAGES, "-n", other, kubeconfig=cluster.kubeconfig)
    assert "belongs to somebody else" in said
    helm("uninstall", "streamsapp", "-n", other, kubeconfig=cluster.kubeconfig)
    owner = "{.metadata.annotations.meta\\.helm\\.sh/release-namespace}"
    assert cluster.kubectl("get", "crd", "streamsapps.streamsapp.dev", f"-o=jsonpath={owner}") == first
