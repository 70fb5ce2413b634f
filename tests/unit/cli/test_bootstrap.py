"""``streamsapp bootstrap`` before Spark: where history ends, and what it passes to a Job."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from streamsapp.cli import bootstrap
from streamsapp.cli.main import main
from streamsapp.config import RemoteStateConfig
from streamsapp.errors import ManifestError, StreamsError
from streamsapp.remote.bootstraps import VERSION, BootstrapBegun, BootstrapDone, Bootstraps
from streamsapp.remote.object_store_factory import open_store

Spark = Callable[[argparse.Namespace], int]


@pytest.fixture
def manifest(tmp_path: Path) -> Callable[..., Path]:
    def write(**spec: Any) -> Path:
        path = tmp_path / "app.yaml"
        document = {
            "apiVersion": "streamsapp.dev/v1alpha1",
            "kind": "StreamsApp",
            "metadata": {"name": "app"},
            "spec": {
                "topology": {"entrypoint": "a:b"},
                "kafka": {"bootstrapServers": "kafka:9092"},
                "remoteState": {"url": (tmp_path / "state").as_uri()},
                **spec,
            },
        }
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        return path

    return write


def until_of(monkeypatch: pytest.MonkeyPatch, path: Path, *more: str) -> Any:
    """Returns the end of history that the Spark package gets: a word, or the offsets."""
    told: list[Any] = []

    def run(options: argparse.Namespace) -> int:
        until = str(options.until)
        text = Path(until).read_text("utf-8") if until.endswith(".json") else until
        told.append(json.loads(text) if text.startswith("{") else text)
        return 0

    monkeypatch.setattr(bootstrap, "_in_spark", run)
    assert main(["bootstrap", "-f", str(path), *more]) == 0
    return told[0]


def raising(error: Exception) -> Spark:
    def run(options: argparse.Namespace) -> int:
        raise error

    return run


def test_history_ends_where_the_manifest_says_unless_the_command_does(
    monkeypatch: pytest.MonkeyPatch, manifest: Callable[..., Path], tmp_path: Path
) -> None:
    assert until_of(monkeypatch, manifest()) == "latest"
    assert until_of(monkeypatch, manifest(bootstrap={})) == "latest"
    said = manifest(bootstrap={"until": {"lines": {0: 12, "1": -1}}})
    assert until_of(monkeypatch, said) == {"lines": {"0": 12, "1": -1}}
    assert until_of(monkeypatch, said, "--until", "latest") == "latest"
    assert until_of(monkeypatch, said, "--until", '{"lines": {"0": 5}}') == {"lines": {"0": 5}}
    file = tmp_path / "offsets.json"
    file.write_text('{"lines": {"0": 6}}')
    assert until_of(monkeypatch, said, "--until", str(file)) == {"lines": {"0": 6}}


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (ManifestError(["spec.a: one", "spec.b: two"]), 2, "spec.a: one\nspec.b: two"),
        (StreamsError("task 0_0: the user's code raised"), 1, "task 0_0: the user's code raised"),
        (StreamsError("x" * 5000), 1, "x" * 4096),
    ],
)
def test_a_job_finds_why_it_failed_in_its_report(
    monkeypatch: pytest.MonkeyPatch,
    manifest: Callable[..., Path],
    tmp_path: Path,
    error: Exception,
    code: int,
    told: str,
) -> None:
    monkeypatch.setattr(bootstrap, "_in_spark", raising(error))
    report = tmp_path / "report"
    assert main(["bootstrap", "-f", str(manifest()), "--report", str(report)]) == code
    assert report.read_text("utf-8") == told


def test_a_job_is_done_where_the_state_was_made_before_whatever_the_application_did_since(
    monkeypatch: pytest.MonkeyPatch, manifest: Callable[..., Path], tmp_path: Path
) -> None:
    path, report = manifest(), tmp_path / "report"
    (tmp_path / "state").mkdir()
    remote = RemoteStateConfig(url=(tmp_path / "state").as_uri())
    begun = Bootstraps(open_store(remote), "app").begin(1, BootstrapBegun(VERSION, "then", "kafka", (), {}))
    monkeypatch.setattr(bootstrap, "_in_spark", raising(ManifestError(["app has run since its bootstrap was done"])))
    command = ["bootstrap", "-f", str(path), "--report", str(report)]
    assert main(command) == 2
    begun.finish(BootstrapDone(VERSION, "now", ()))
    assert main(command) == 0
    assert main(command[:3]) == 2, "somebody who calls the command is told"
