"""The broker that ``streamsapp local`` starts, for a manifest whose own broker is secured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from streamsapp.cli import local, run
from streamsapp.cli.local_folder import LocalFolder
from streamsapp.cli.main import make_parser
from streamsapp.cli.pod import PodSettings
from streamsapp.cli.target import target_of
from streamsapp.config import StreamsConfig
from streamsapp.errors import ManifestError
from streamsapp.manifest.entrypoint import read_app

SECURED = {
    "bootstrapServers": "kafka:9093",
    "secretRef": {"name": "credentials"},
    "properties": {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "main.consumer.ssl.ca.location": "/nowhere/ca.crt",
        "enable.ssl.certificate.verification": "false",
        "fetch.min.bytes": "5",
    },
}


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "app.yaml"
    document = {
        "apiVersion": "streamsapp.dev/v1alpha1",
        "kind": "StreamsApp",
        "metadata": {"name": "app"},
        "spec": {"topology": {"steps": [{"stream": {"topic": "in"}}, {"to": {"topic": "out"}}]}, "kafka": SECURED},
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def test_local_reaches_its_own_broker_without_what_secures_the_manifests(
    manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[StreamsConfig] = []
    monkeypatch.setattr(local, "_create_missing", lambda config, *_: made.append(config))
    options = make_parser().parse_args(["local", "-f", str(manifest), "--embedded", "--broker", "127.0.0.1:9092"])
    app, topology = read_app(manifest)

    local._prepared(options, app, topology, LocalFolder(manifest, "app"))

    assert [(it.bootstrap_servers, dict(it.kafka)) for it in made] == [("127.0.0.1:9092", {"fetch.min.bytes": "5"})]


def test_its_replicas_do_so_too(manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pods: list[PodSettings] = []
    made: list[StreamsConfig] = []
    monkeypatch.setattr(local, "run_pod", lambda options, settings, more: pods.append(settings))
    monkeypatch.setattr(local, "form_routes", lambda *_: {})
    options = make_parser().parse_args(["local", "-f", str(manifest), "--embedded", "--replicas", "2"])
    app, topology = read_app(manifest)
    config = StreamsConfig(application_id="app", bootstrap_servers="127.0.0.1:9092")
    local._run(options, app, topology, config, LocalFolder(manifest, "app"))
    assert [pod.own_broker for pod in pods] == [True]

    def runs(topology: Any, config: StreamsConfig, *_: Any, **__: Any) -> int:
        made.append(config)
        return 0

    monkeypatch.setattr(run, "run_instance", runs)
    options = make_parser().parse_args(["run", "-f", str(manifest), "--http-port", "0", "--own-broker"])
    assert run._run_one(options, app) == 0
    assert [dict(it.kafka) for it in made] == [{"fetch.min.bytes": "5"}]


def test_so_do_the_commands_that_look_at_it(manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalFolder, "running_broker", lambda _: "127.0.0.1:9092")
    options = make_parser().parse_args(["topics", "-f", str(manifest), "--embedded"])
    assert dict(target_of(options).config.kafka) == {"fetch.min.bytes": "5"}


def test_the_manifests_broker_is_reached_as_the_manifest_says(manifest: Path) -> None:
    options = make_parser().parse_args(["topics", "-f", str(manifest)])
    with pytest.raises(ManifestError, match=r"spec\.kafka\.secretRef\.name: the secret 'credentials' is not mounted"):
        target_of(options)
