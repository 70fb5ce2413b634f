"""``kubectl streamsapp preview``: a file that is not applied, against what runs, in a pod with Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kubectl_parts import FakeCluster, Terminal, app_document
from manifests import app
from streamsapp.cli.main import make_parser
from streamsapp_operator.children import Owner, RenderSettings, revision_of
from streamsapp_operator.children.stateful_set import stateful_set
from streamsapp_operator.plugin.command_pods import _WRITE
from streamsapp_operator.plugin.errors import PluginError
from streamsapp_operator.plugin.main import make_parser as make_plugin_parser
from streamsapp_operator.plugin.style import Style

REVISION = revision_of(app(), RenderSettings("runtime:1", "operators"), {})
TEMPLATE = stateful_set(Owner("wordcount", "default", "u-1"), REVISION, 3)["spec"]["template"]
RUNS: dict[str, Any] = {"phase": "Running", "containerStatuses": [{"name": "runtime", "state": {"running": {}}}]}


def cluster(**spec: Any) -> FakeCluster:
    return FakeCluster([app_document(**spec)], template=TEMPLATE, starts=[{"metadata": {}, "status": RUNS}])


def file(folder: Path, name: str = "wordcount", **spec: Any) -> Path:
    whole = {"topology": {"entrypoint": "wordcount:topology"}, "code": {"files": {"wordcount.py": "a = 1"}}, **spec}
    document = {
        "apiVersion": "streamsapp.dev/v1alpha1",
        "kind": "StreamsApp",
        "metadata": {"name": name},
        "spec": whole,
    }
    path = folder / "new.yaml"
    path.write_text(json.dumps(document))
    return path


def run(on: FakeCluster, *arguments: str) -> int:
    options = make_plugin_parser().parse_args(["preview", "wordcount", *arguments])
    code: int = options.run(options, Terminal(on, Style()).session)
    return code


def container(on: FakeCluster) -> dict[str, Any]:
    (pod,) = on.created
    (only,) = pod["spec"]["containers"]
    return dict(only)


def test_the_file_goes_into_the_pod_and_is_previewed_against_what_runs(tmp_path: Path) -> None:
    on, new = cluster(), file(tmp_path, spark={"image": "spark:2"})
    on.program = lambda: 1 if len(on.executed) == 2 else 0

    assert run(on, "-f", str(new), "--records", "500", "-o", "json") == 1

    written, previewed = on.executed
    assert on.given == new.read_bytes()
    understood = make_parser().parse_args(previewed[1:])
    assert (str(understood.file), str(understood.against)) == (written[-1], "/etc/streamsapp/app/streamsapp.yaml")
    assert (understood.records, understood.output, understood.master) == (500, "json", "local[1]")
    assert on.deleted == [on.created[0]["metadata"]["name"]]


def test_what_is_put_into_a_pod_is_a_file_there(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "new.yaml"
    subprocess.run([sys.executable, "-c", _WRITE, str(path)], input=b"a: b", check=True)
    assert path.read_bytes() == b"a: b"


def test_its_pod_has_spark_and_what_a_preview_is_given(tmp_path: Path) -> None:
    preview = {"resources": {"limits": {"cpu": 3, "memory": "4Gi"}}}
    spec: dict[str, Any] = {"rollout": {"preview": preview}, "remoteState": {"url": "s3://bucket/prefix"}}
    on = cluster(spark={"image": "spark:1"})
    assert run(on, "-f", str(file(tmp_path, **spec))) == 0
    assert (container(on)["image"], container(on)["resources"]["limits"]) == ("spark:1", {"cpu": "3", "memory": "4Gi"})
    assert "local[3]" in on.executed[1]

    on = cluster(engine="spark")
    assert run(on, "-f", str(file(tmp_path))) == 0
    assert container(on)["image"] == "runtime:1", "that of the pods, which has Spark"
    on = cluster(spark={"image": "spark:1"})
    assert run(on, "-f", str(file(tmp_path)), "--image", "mine:1") == 0
    assert container(on)["image"] == "mine:1"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "--image: name an image with Spark, or set spec.spark.image"),
        ({"name": "other"}, "metadata.name: is 'other', expected 'wordcount'"),
        ({"replicas": -1}, "spec.replicas: expected an integer"),
        ({"code": {"configMapRef": {"name": "code"}}}, "only code of spec.code.files can be previewed"),
    ],
)
def test_what_cannot_be_previewed_is_told_before_any_pod_is_made(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    on = cluster()
    with pytest.raises(PluginError, match=told) as raised:
        run(on, "-f", str(file(tmp_path, **changes)))
    assert (raised.value.code, on.created) == (2, [])


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="cannot be read"):
        run(cluster(), "-f", str(tmp_path / "none.yaml"))


def test_nothing_is_previewed_where_the_file_did_not_arrive(tmp_path: Path) -> None:
    on = cluster(spark={"image": "spark:1"})
    on.program = lambda: 1
    with pytest.raises(PluginError, match="could not be written"):
        run(on, "-f", str(file(tmp_path)))
    assert (len(on.executed), len(on.deleted)) == (1, 1)
