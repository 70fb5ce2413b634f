"""``kubectl streamsapp`` against a real API server: logins, rights, and what it says when something is missing.

No pod runs there, so that none answers; tests of the cluster see those.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from api_server import ApiServer
from operator_process import until
from streamsapp.manifest import StreamsApp
from streamsapp_operator.children import Owner, RenderSettings, revision_of
from streamsapp_operator.children.stateful_set import stateful_set
from streamsapp_operator.plugin.main import main

ROOT = Path(__file__).resolve().parents[3]
CRD = ROOT / "crds" / "streamsapps.yaml"
EXAMPLE = ROOT / "examples" / "wordcount" / "streamsapp.yaml"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Of these tests alone, with StreamsApps."""
    with ApiServer(tmp_path_factory.mktemp("api-server")) as running:
        running.define(CRD)
        yield running


@pytest.fixture
def namespace(cluster: ApiServer) -> str:
    """With the word count in it."""
    name = cluster.namespace("plugin")
    cluster.kubectl("apply", "-n", name, "-f", str(EXAMPLE))
    return name


def run(cluster: ApiServer, *arguments: str, kubeconfig: Path | None = None) -> int:
    return main([*arguments, "--kubeconfig", str(kubeconfig or cluster.kubeconfig)])


def granted(cluster: ApiServer, namespace: str, user: str, *right: str) -> None:
    """Wait until a user has a right: a busy API server hears of a role some time after it was made."""

    def may() -> bool:
        with suppress(RuntimeError):  # so kubectl says no
            asked = ("auth", "can-i", *right, "-n", namespace, f"--as={user}")
            return cluster.kubectl(*asked).strip() == "yes"
        return False

    until(may, f"{user} may {' '.join(right)}")


def test_restart_sets_the_annotation_anew_each_time(cluster: ApiServer, namespace: str) -> None:
    annotation = (
        "get",
        "sapp",
        "wordcount",
        "-n",
        namespace,
        "-o=jsonpath={.metadata.annotations.streamsapp\\.dev/restartedAt}",
    )
    assert run(cluster, "restart", "wordcount", "-n", namespace) == 0
    first = cluster.kubectl(*annotation)
    assert run(cluster, "restart", "wordcount", "-n", namespace) == 0
    assert first < cluster.kubectl(*annotation)


def test_scale_goes_through_the_scale_subresource(cluster: ApiServer, namespace: str) -> None:
    """A user who may scale and nothing else."""
    role = (
        "create",
        "role",
        "scaler",
        "-n",
        namespace,
        "--verb=get,patch",
        "--resource=streamsapps.streamsapp.dev/scale",
    )
    cluster.kubectl(*role)
    cluster.kubectl("create", "role", "reader", "-n", namespace, "--verb=get", "--resource=streamsapps.streamsapp.dev")
    for name in ("scaler", "reader"):
        cluster.kubectl("create", "rolebinding", name, "-n", namespace, f"--role={name}", "--user=sam")
    granted(cluster, namespace, "sam", "patch", "streamsapps.streamsapp.dev", "--subresource=scale")
    granted(cluster, namespace, "sam", "get", "streamsapps.streamsapp.dev")
    assert run(cluster, "scale", "wordcount", "5", "-n", namespace, kubeconfig=cluster.kubeconfig_of("sam")) == 0
    assert cluster.kubectl("get", "sapp", "wordcount", "-n", namespace, "-o=jsonpath={.spec.replicas}") == "5"


def test_a_scale_that_breaks_a_rule_of_the_resource_is_refused_in_its_words(
    cluster: ApiServer, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = yaml.safe_load(EXAMPLE.read_text("utf-8"))
    spec["spec"] |= {"replicas": 3, "processing": {**spec["spec"]["processing"], "standbyReplicas": 2}}
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(spec))
    assert run(cluster, "scale", "wordcount", "2", "-n", namespace) == 2
    assert "standby" in capsys.readouterr().err


def test_status_of_what_no_operator_has_seen(
    cluster: ApiServer, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(cluster, "status", "wordcount", "-n", namespace) == 0
    assert f"not attended to  namespace {namespace}" in capsys.readouterr().out


def test_a_pod_that_cannot_be_asked_is_shown_with_the_reason(
    cluster: ApiServer, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = {"streamsapp.dev/name": "wordcount", "streamsapp.dev/revision": "abc"}
    metadata = {"name": "wordcount-0", "namespace": namespace, "labels": labels}
    container = {"name": "runtime", "image": "localhost/any"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], "nodeName": "none"},
    }
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    running = {
        "name": "runtime",
        "image": "a",
        "imageID": "a",
        "restartCount": 2,
        "ready": True,
        "state": {"running": {}},
    }
    status = json.dumps({"status": {"phase": "Running", "containerStatuses": [running]}})
    cluster.kubectl(
        "patch", "pod", "wordcount-0", "-n", namespace, "--subresource=status", "--type=merge", "-p", status
    )
    assert run(cluster, "status", "wordcount", "-n", namespace, "-o", "json") == 0
    (told,) = json.loads(capsys.readouterr().out)["pods"]
    assert (told["name"], told["restarts"], told["revision"], told["status"]) == ("wordcount-0", 2, "abc", None)
    assert told["fault"] == 'ports cannot be forwarded: pods "none" not found'


def test_a_name_that_is_not_there_is_answered_with_those_that_are(
    cluster: ApiServer, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(cluster, "status", "wordcuont", "-n", namespace) == 2
    assert capsys.readouterr().err == f"no StreamsApp 'wordcuont' in namespace {namespace}; there are: wordcount\n"


@pytest.mark.parametrize(
    ("arguments", "right"),
    [(("status", "wordcount"), "get streamsapps"), (("topology", "wordcount"), "get streamsapps")],
)
def test_a_missing_right_is_named_with_the_command_that_shows_it(
    cluster: ApiServer, namespace: str, arguments: tuple[str, ...], right: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(cluster, *arguments, "-n", namespace, kubeconfig=cluster.kubeconfig_of("nobody")) == 1
    told = capsys.readouterr().err
    assert f"you may not {right} in namespace {namespace}" in told
    assert f"kubectl auth can-i get streamsapps.streamsapp.dev -n {namespace}" in told


def test_one_who_may_only_look_may_not_restart(
    cluster: ApiServer, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.kubectl(
        "create", "role", "viewer", "-n", namespace, "--verb=get,list", "--resource=streamsapps.streamsapp.dev"
    )
    cluster.kubectl("create", "rolebinding", "viewer", "-n", namespace, "--role=viewer", "--user=vera")
    granted(cluster, namespace, "vera", "get", "streamsapps.streamsapp.dev")
    assert run(cluster, "restart", "wordcount", "-n", namespace, kubeconfig=cluster.kubeconfig_of("vera")) == 1
    assert "you may not patch streamsapps" in capsys.readouterr().err


@pytest.fixture
def stopped(cluster: ApiServer, namespace: str) -> str:
    """The namespace, which enforces the restricted Pod Security Standard; the application in it has no pods."""
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    assert run(cluster, "scale", "wordcount", "0", "-n", namespace) == 0
    app = msgspec.yaml.decode(EXAMPLE.read_bytes(), type=StreamsApp)
    revision = revision_of(app, RenderSettings("runtime:1", "operators"), app.spec.code.files)
    owner = Owner("wordcount", namespace, cluster.kubectl("get", "sapp", "wordcount", "-n", namespace, *UID))
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(stateful_set(owner, revision, 0)))
    return namespace


UID = ("-o=jsonpath={.metadata.uid}",)


def test_a_pod_for_a_command_is_made_as_the_cluster_wants_it_and_deleted(
    cluster: ApiServer, stopped: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No node is there that would run it."""
    cluster.kubectl("create", "serviceaccount", "wordcount-runtime", "-n", stopped)
    monkeypatch.setattr("streamsapp_operator.plugin.command_pods._START_SECONDS", 0)
    assert run(cluster, "reset", "wordcount", "--yes", "-n", stopped) == 1
    assert re.match(r"wordcount-reset-\w{6} does not run: ", capsys.readouterr().err)
    assert cluster.kubectl("get", "pods", "-n", stopped, "-o=name") == ""


@pytest.mark.parametrize(
    ("resources", "right"),
    [
        (["streamsapps.streamsapp.dev"], "get statefulsets"),
        (["streamsapps.streamsapp.dev", "statefulsets.apps"], "create pods"),
    ],
)
def test_a_right_that_a_command_in_a_pod_lacks_is_named(
    cluster: ApiServer, stopped: str, resources: list[str], right: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, each in enumerate(resources):
        role = f"role-{number}"
        cluster.kubectl("create", "role", role, "-n", stopped, "--verb=get,list", f"--resource={each}")
        cluster.kubectl("create", "rolebinding", role, "-n", stopped, f"--role={role}", "--user=rita")
        granted(cluster, stopped, "rita", "get", each)
    assert run(cluster, "consume", "wordcount", "counts", "-n", stopped, kubeconfig=cluster.kubeconfig_of("rita")) == 1
    told = capsys.readouterr().err
    assert f"you may not {right} in namespace {stopped}" in told
    assert "kubectl auth can-i " + right.replace("statefulsets", "statefulsets.apps") in told


def test_an_application_that_no_operator_has_made_has_no_pod_for_a_command(
    cluster: ApiServer, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(cluster, "consume", "wordcount", "counts", "-n", namespace) == 1
    assert "no operator has made its pods yet" in capsys.readouterr().err


def test_the_console_of_the_cluster_is_a_ready_pod_of_the_operator_that_watches_the_namespace(
    cluster: ApiServer, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No port can be forwarded here; the command reports that, with the name of the pod that it found."""
    labels = {"app.kubernetes.io/name": "streamsapp-operator"}
    container = {"name": "operator", "image": "a", "env": [{"name": "WATCH_NAMESPACES", "value": namespace}]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "nodeName": "none"}}
    metadata = {"namespace": namespace, "labels": labels}
    deployment: dict[str, Any] = {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {**metadata, "name": "operator"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }  # fmt: skip
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(deployment))
    assert run(cluster, "console", "-n", namespace) == 1
    assert f"no operator that runs watches namespace {namespace}" in capsys.readouterr().err
    for name, ready in (("operator-x", "False"), ("operator-y", "True")):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "name": name}, "spec": template["spec"]}
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod))
        status = json.dumps({"status": {"conditions": [{"type": "Ready", "status": ready}]}})
        patch = ("--subresource=status", "--type=merge", "-p", status)
        cluster.kubectl("patch", "pod", name, "-n", namespace, *patch)
    ready = json.dumps({"status": {"replicas": 1, "readyReplicas": 1}})
    cluster.kubectl("patch", "deploy", "operator", "-n", namespace, "--subresource=status", "--type=merge", "-p", ready)
    assert run(cluster, "console", "-n", namespace) == 1
    assert 'operator-y: ports cannot be forwarded: pods "none" not found' in capsys.readouterr().err
    deployment["metadata"] |= {"name": "pretender", "labels": labels}
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(deployment))
    cluster.kubectl(
        "patch", "deploy", "pretender", "-n", namespace, "--subresource=status", "--type=merge", "-p", ready
    )
    assert run(cluster, "console", "-n", namespace) == 1
    assert f"{namespace}/operator, {namespace}/pretender; of the one that you trust" in capsys.readouterr().err
    assert run(cluster, "console", "-n", namespace, kubeconfig=cluster.kubeconfig_of("nobody")) == 1
    assert "you may not look for the operator" in capsys.readouterr().err


def test_the_namespace_of_the_context_is_the_default(cluster: ApiServer, namespace: str, tmp_path: Path) -> None:
    document = yaml.safe_load(cluster.kubeconfig.read_text("utf-8"))
    document["contexts"][0]["context"]["namespace"] = namespace
    other = tmp_path / "kubeconfig"
    other.write_text(yaml.safe_dump(document), "utf-8")
    assert run(cluster, "status", "wordcount", kubeconfig=other) == 0


def test_a_context_that_is_not_there_is_wrong_input(cluster: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(cluster, "status", "wordcount", "--context", "nowhere") == 2
    assert "nowhere" in capsys.readouterr().err


def test_a_cluster_without_streamsapps_is_told_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ApiServer(tmp_path / "bare") as bare:
        assert run(bare, "status", "wordcount") == 1
        assert "install the chart" in capsys.readouterr().err
        bare.stop()
        assert run(bare, "status", "wordcount") == 1
        told = capsys.readouterr().err
    assert "is the cluster up" in told
    assert "Traceback" not in told
