"""A run that catches up reports at its end what it left; a run that is stopped before has not caught up."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from streamsapp.cli import spark_engine
from streamsapp.cli.main import main

MANIFEST = {
    "apiVersion": "streamsapp.dev/v1alpha1",
    "kind": "StreamsApp",
    "metadata": {"name": "app"},
    "spec": {
        "engine": "spark",
        "kafka": {"bootstrapServers": "localhost:9"},
        "topology": {"steps": [{"stream": "in"}, {"to": "out"}]},
        "spark": {"trigger": "availableNow", "conf": {"spark.a": "of the manifest"}},
    },
}


class Engine:
    """Runs until it has caught up, or is closed."""

    ends_early = False

    def __init__(self, *_: Any) -> None:
        self._closed = threading.Event()

    def run(self, java: object) -> int:
        if self.ends_early:
            os.kill(os.getpid(), signal.SIGTERM)
            assert self._closed.wait(60)
        return 0

    def when_running(self, call: Callable[[], None]) -> None:
        call()

    def close(self) -> None:
        self._closed.set()

    def status(self) -> dict[str, Any]:
        return {"tasks": [{"inputLag": 2}, {"inputLag": 5}]}

    def __getattr__(self, name: str) -> Any:
        """Routes of the port; no test asks for them."""
        return None


@pytest.mark.parametrize(
    ("early", "code", "said"),
    [
        (False, 0, '{"inputLag":7}'),
        (True, 1, "it was stopped before it had caught up; the next try continues where it was"),
    ],
)
def test_a_run_reports_what_it_left_or_that_it_has_not_caught_up(
    early: bool, code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: list[str] = []
    calls: list[str] = []
    java = SimpleNamespace(ran=lambda: calls.append("ran"))

    def start_java(name: str, master: str, given: list[str]) -> object:
        settings.extend(given)
        return java

    modules = {
        "session.session": SimpleNamespace(
            start_java=start_java,
            session=lambda _: None,
        ),
        "session.settings": SimpleNamespace(BATCH_SETTINGS={"spark.ui.enabled": "true", "spark.a": "ours"}),
        "sinks.tables": SimpleNamespace(settings_of=lambda _: ["spark.b=of a sink"]),
        "programs.manifest": SimpleNamespace(ManifestProgram=SimpleNamespace(of=lambda *_: None)),
        "streaming.engine": SimpleNamespace(SparkEngine=Engine),
    }
    monkeypatch.setattr(Engine, "ends_early", early)
    monkeypatch.setattr(spark_engine, "spark_module", modules.__getitem__)
    manifest, report = tmp_path / "app.yaml", tmp_path / "report"
    manifest.write_text(yaml.safe_dump(MANIFEST))
    options = ["--state-dir", str(tmp_path / "state"), "--http-port", "0", "--report", str(report)]
    assert main(["run", "-f", str(manifest), *options, "--conf", "spark.a=of the command"]) == code
    assert report.read_text() == said
    assert calls == ["ran"], "what Java records is worth keeping"
    given = ["spark.ui.enabled=true", "spark.a=ours", "spark.b=of a sink"]
    assert settings == [*given, "spark.a=of the manifest", "spark.a=of the command"], "later ones win"
