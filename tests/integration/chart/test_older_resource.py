"""An older release never puts its resource over a newer one, by whatever way: fields of applications would be lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from api_server import ApiServer
from older_definition import LACKING, newer_definition, older_definition
from operator_process import until

CHART = Path(__file__).resolve().parents[3] / "charts" / "streamsapp"
CRD = CHART.parents[1] / "crds" / "streamsapps.yaml"
Helm = Callable[..., str]
#: A release names the place of its images.
IMAGES = '--set-json=global.imageRegistry="registry.example/team"'


@pytest.fixture(scope="module")
def older_chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chart of before: it lacks fields, and knows nothing of what protects them."""
    chart = tmp_path_factory.mktemp("older") / "streamsapp"
    shutil.copytree(CHART, chart)
    older_definition(CRD, chart / "files" / "streamsapps.yaml")
    (chart / "templates" / "crd-fields-stay.yaml").unlink()
    return chart


@pytest.fixture(scope="module")
def upgraded(cluster: ApiServer, helm: Helm, older_chart: Path) -> Iterator[str]:
    """A namespace with a release that was upgraded from the older chart, and an application that uses newer fields. The
    tests of this module share it: each leaves the newer resource there."""
    namespace = cluster.namespace("chart")
    helm("install", "streamsapp", str(older_chart), IMAGES, "-n", namespace, kubeconfig=cluster.kubeconfig)
    helm("upgrade", "streamsapp", str(CHART), IMAGES, "-n", namespace, kubeconfig=cluster.kubeconfig)
    topology = {"topology": {"entrypoint": "a:b"}, "kafka": {"bootstrapServers": "k:9092"}}
    application = {
        "apiVersion": "streamsapp.dev/v1alpha1",
        "kind": "StreamsApp",
        "metadata": {"name": "a", "namespace": namespace},
        "spec": topology | LACKING,
    }

    def applied() -> bool:
        with suppress(RuntimeError):  # the API server learns of the resource in its own time
            return bool(cluster.kubectl("apply", "-f", "-", stdin=json.dumps(application)))
        return False

    until(applied, "the application")
    until(lambda: is_refused(cluster, older_chart), "the API server learns of the policy")
    yield namespace
    helm("uninstall", "streamsapp", "-n", namespace, kubeconfig=cluster.kubeconfig)
    for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        cluster.kubectl("delete", kind, "--all")
    cluster.kubectl("delete", "crd", "streamsapps.streamsapp.dev")


def is_refused(cluster: ApiServer, chart: Path) -> bool:
    """Says whether the chart's resource is refused; nothing is written in any case."""
    options = ("--server-side", "--force-conflicts", "--dry-run=server")
    try:
        cluster.kubectl("apply", *options, "-f", str(chart / "files" / "streamsapps.yaml"))
    except RuntimeError as error:
        return "this CustomResourceDefinition is older" in str(error)
    return False


def is_whole(cluster: ApiServer, namespace: str) -> bool:
    spec = json.loads(cluster.kubectl("get", "sapp", "a", "-n", namespace, "-o=json"))["spec"]
    return all(fields.items() <= spec[section].items() for section, fields in LACKING.items())


def test_a_rollback_keeps_the_newer_resource_and_says_how_to_go_back_without_it(
    cluster: ApiServer, helm: Helm, upgraded: str
) -> None:
    with pytest.raises(RuntimeError, match=r"older than the one in the cluster.*--set crds\.install=false"):
        helm("rollback", "streamsapp", "1", "-n", upgraded, kubeconfig=cluster.kubeconfig)
    assert is_whole(cluster, upgraded)
    cluster.kubectl("annotate", "sapp", "a", "-n", upgraded, "somebody=writes")
    assert is_whole(cluster, upgraded)


def test_the_older_operator_is_installed_beside_the_newer_resource(
    cluster: ApiServer, helm: Helm, older_chart: Path, upgraded: str
) -> None:
    release = ("streamsapp", str(older_chart), IMAGES, "-n", upgraded)
    with pytest.raises(RuntimeError, match="older than the one in the cluster"):
        helm("upgrade", *release, kubeconfig=cluster.kubeconfig)
    helm("upgrade", *release, "--set", "crds.install=false", kubeconfig=cluster.kubeconfig)
    assert is_whole(cluster, upgraded)
    assert is_refused(cluster, older_chart)


def test_the_resource_may_be_applied_again_and_gain_fields(cluster: ApiServer, upgraded: str, tmp_path: Path) -> None:
    newer = newer_definition(CRD, tmp_path / "newer.yaml")
    for file in (CRD, newer):
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(file))
    assert "sinceThen" in cluster.kubectl("get", "crd", "streamsapps.streamsapp.dev", "-o=json")
    assert is_whole(cluster, upgraded)
