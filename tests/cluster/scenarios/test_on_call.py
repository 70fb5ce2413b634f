"""The tools of a tired operator on real pods: a Secret that changes, a snapshot now, a file for support, the columns.

One application with secrets in every place that they may come to.
"""

from __future__ import annotations

import base64
import json
import os
import re
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.host_services import PARTITIONS
from cluster.layout import NODE_ZONE
from cluster_world import SNAPSHOTS, Running
from streamsapp_operator.model.resource_status import MEMORY
from streamsapp_operator.plugin.main import main as plugin

#: Of Secrets, of the environment, and of a log: nothing about the form of the first two gives them away.
LOGIN, VARIABLE = "login-hush-1", "variable-hush-2"
PLAIN, LOGGED, BEARER, CODE = "plain-hush-3", "logged-hush-4", "bearer-hush-5", "code-hush-6"
_SAID = f"""
print("connecting with password={LOGGED}", '{{"sasl.password": "{LOGGED}"}}', "Authorization: Bearer {BEARER}")
print(open("/var/run/secrets/streamsapp.dev/kafka/sasl.password").read(), __import__("os").environ["SOME_VALUE"])
COMMENT = "{CODE}"
"""


def secret(namespace: str, name: str, **files: str) -> dict[str, Any]:
    data = {key.replace("_", "."): text for key, text in files.items()}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}


@pytest.fixture(scope="module")
def planted(shared_snapshots: Running) -> Iterator[Running]:
    """Two pods with a login that Kafka does not ask for, and secrets that their code writes into the log."""
    running = shared_snapshots
    manifest, kubectl = running.world.snapshots_manifest(), running.world.kubectl
    kubectl.apply(secret(running.app.namespace, "kafka-login", sasl_password=LOGIN, sasl_username="anna"))
    kubectl.apply(secret(running.app.namespace, "variables", VALUE=VARIABLE))
    spec = manifest["spec"]
    spec |= {"replicas": 2, "kafka": spec["kafka"] | {"secretRef": {"name": "kafka-login"}, "restartOnChange": True}}
    spec["remoteState"]["snapshotIntervalSeconds"] = 60  # a snapshot that is new was asked for
    spec["code"]["files"]["wordcount.py"] += _SAID
    by_name = {"name": "SOME_VALUE", "valueFrom": {"secretKeyRef": {"name": "variables", "key": "VALUE"}}}
    container = {"name": "runtime", "env": [{"name": "API_TOKEN", "value": PLAIN}, by_name]}
    spec["podTemplate"] = {"spec": {"containers": [container]}}
    running.app.apply(manifest)
    running.app.wait_settled()
    running.observer.begin()
    yield running
    assert running.load.findings == []


def options(running: Running) -> list[str]:
    return ["-n", running.app.namespace, "--kubeconfig", running.world.kubectl.environment["KUBECONFIG"]]


def test_a_pod_learns_the_zone_of_its_node(planted: Running) -> None:
    for name, pod in planted.app.pods().items():
        zone = pod["metadata"]["labels"].get("topology.kubernetes.io/zone", "")  # none in Kubernetes before 1.35
        where = ("exec", name, f"--namespace={planted.app.namespace}", "--container=runtime", "--")
        assert planted.world.kubectl(*where, "printenv", "NODE_ZONE").strip() == zone
        if not os.environ.get("USE_KUBECONFIG"):
            assert zone == NODE_ZONE, "the node of the tests copies it"


def test_columns_and_description_are_for_people(planted: Running) -> None:
    kubectl, where = planted.world.kubectl, f"--namespace={planted.app.namespace}"
    header, row = kubectl("get", "streamsapp", SNAPSHOTS, where, "--output=wide").splitlines()
    assert [row[header.index(each) :].split()[0] for each in ("PODS", "ROLLOUT")] == ["2/2", "2/2"]
    assert max(map(len, (header, row))) <= 160

    described = kubectl("describe", "streamsapp", SNAPSHOTS, where)
    status = described[described.index("\nStatus:") : described.index("\nEvents:")]
    own = [found[1] for found in re.finditer(r"^  (\w[\w ]*):", status, re.MULTILINE)]
    assert own[-1] == "Working Memory"
    assert {"Phase", "Conditions", "Pods", "Input Lag"} <= set(own)
    assert MEMORY in planted.app.status()


def test_snapshots_are_taken_now(planted: Running, capsys: pytest.CaptureFixture[str]) -> None:
    def snapshots() -> dict[str, dict[str, Any]]:
        assert plugin(["snapshots", SNAPSHOTS, "-o", "json", *options(planted)]) == 0
        return {each["task"]: each for each in json.loads(capsys.readouterr().out)}

    planted.load.wait_for_counts()
    before, began = snapshots(), time.monotonic()
    assert plugin(["snapshot", "now", SNAPSHOTS, "-o", "json", *options(planted)]) == 0
    taken = json.loads(capsys.readouterr().out)
    after, lasted = snapshots(), time.monotonic() - began

    assert taken == [{"pod": f"{SNAPSHOTS}-{number}", "taken": True, "fault": None} for number in range(2)]
    assert len(after) == PARTITIONS
    assert before.keys() == after.keys()
    # Of a task that has nothing new the last one is confirmed; pods cut their times to seconds.
    assert [each for each in after.values() if each["ageSeconds"] > lasted + 2] == []
    assert any(after[task]["offset"] > each["offset"] for task, each in before.items())


def test_a_report_has_what_helps_and_none_of_the_secrets(
    planted: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.tar.gz"
    assert plugin(["report", SNAPSHOTS, "--file", str(file), "-o", "json", *options(planted)]) == 0
    told = json.loads(capsys.readouterr().out)
    with tarfile.open(file) as archive:
        read = [(each.name.partition("/")[2], archive.extractfile(each)) for each in archive.getmembers()]
        files = {name: part.read().decode() for name, part in read if part is not None}

    access, key = planted.world.services.keys()
    hidden = [LOGIN, VARIABLE, PLAIN, LOGGED, BEARER, CODE, access, key]
    hidden += [base64.b64encode(each.encode()).decode().rstrip("=") for each in hidden]
    assert [(each, name) for each in hidden for name, text in files.items() if each in text] == []
    assert told["missing"] == []
    assert told["bytes"] == file.stat().st_size < 16 << 20
    pods = [f"{SNAPSHOTS}-{number}" for number in range(2)]
    wanted = {f"{pod}/{part}" for pod in pods for part in ("status.json", "metrics.txt", "runtime.log")}
    assert wanted | {"streamsapp.json", "pods.json", "events.json", "statefulsets.json"} <= files.keys()
    assert any(name.startswith("operator/") and name.endswith(".log") for name in files)
    assert "connecting with password=<redacted>" in files[f"{SNAPSHOTS}-0/runtime.log"]
    assert json.loads(files[f"{SNAPSHOTS}-0/status.json"])["tasks"]
    assert json.loads(files["events.json"])


def test_pods_restart_one_by_one_and_once_when_the_login_in_their_secret_has_changed(planted: Running) -> None:
    before = planted.app.uids()
    kubectl, namespace = planted.world.kubectl, planted.app.namespace

    kubectl.apply(secret(namespace, "kafka-login", sasl_password="login-hush-7", sasl_username="anna"))
    status = planted.app.wait_replaced(before, timeout=400)

    assert (status["rollout"]["phase"], status["rollout"]["pods"]) == ("Complete", "2/2")
    assert status["readyReplicas"] == 2
    planted.app.wait(lambda: planted.observer.told("SecretChanged"), "an event")
    planted.app.wait(lambda: len(planted.observer.removals) == 2, "both removals")
    assert sorted(removal.pod.name for removal in planted.observer.removals) == sorted(before)
    assert planted.observer.findings == []
    assert "login-hush-7" not in json.dumps(planted.app.get())
    planted.load.check()
