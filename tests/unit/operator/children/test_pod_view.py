"""The runtime finds in a pod the files that are mounted into it."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from streamsapp.cli.main import main
from streamsapp.manifest import decode, entrypoint
from streamsapp_operator.children import RenderSettings, Revision, code_files, revision_of

WORDS = """
from pathlib import Path
from shop.stores import STORE
from streamsapp import Materialized, StreamsBuilder

MODEL = (Path(__file__).parent / "model.bin").read_bytes()

def topology():
    builder = StreamsBuilder()
    builder.stream("lines").group_by_key().count(Materialized(STORE + str(MODEL[0])))
    return builder.build()
"""

DOCUMENT: dict[str, Any] = {
    "apiVersion": "streamsapp.dev/v1alpha1",
    "kind": "StreamsApp",
    "metadata": {"name": "wordcount"},
    "spec": {
        "topology": {"entrypoint": "mounted_words:topology"},
        "kafka": {"bootstrapServers": "kafka:9092"},
        "code": {
            "configMapRef": {"name": "code"},
            "files": {"shop/__init__.py": "", "shop/stores.py": "STORE = 'counts'"},
        },
    },
}
CONFIG_MAP = {
    "data": {"mounted_words.py": WORDS},
    "binaryData": {"model.bin": base64.b64encode(b"\xff\x00").decode()},
}


def mount(revision: Revision, folder: Path) -> dict[str, Path]:
    """The volumes of the revision's ConfigMap as a kubelet lays them out: path in the pod → folder here."""
    pod = revision.template["spec"]
    content = {key: text.encode() for key, text in revision.data.items()}
    content |= {key: base64.b64decode(text) for key, text in revision.binary_data.items()}
    items = {volume["name"]: volume["configMap"]["items"] for volume in pod["volumes"] if "configMap" in volume}
    mounted = {}
    for mounting in pod["containers"][0]["volumeMounts"]:
        for item in items.get(mounting["name"], ()):
            path = folder / mounting["name"] / item["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content[item["key"]])
            mounted[mounting["mountPath"]] = folder / mounting["name"]
    return mounted


def test_the_check_loads_the_topology_from_what_is_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    app = decode(DOCUMENT)
    settings = RenderSettings(runtime_image="streamsapp-runtime:1", operator_namespace="operators")
    mounted = mount(revision_of(app, settings, code_files(app, CONFIG_MAP)), tmp_path)
    monkeypatch.setattr(entrypoint, "CODE_DIR", mounted["/etc/streamsapp/code"])

    manifest, report = mounted["/etc/streamsapp/app"] / "streamsapp.yaml", tmp_path / "report"

    assert main(["check", "-f", str(manifest), "--report", str(report)]) == 0
    assert json.loads(report.read_text())["shape"]["stores"] == {"0": {"counts255": "timestamped_key_value"}}
