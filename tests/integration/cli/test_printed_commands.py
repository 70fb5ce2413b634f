"""The commands that ``streamsapp local`` prints are typed as they stand there, for every template."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from instances import eventually
from streamsapp.cli.new import TEMPLATES

ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
RESULTS = {
    "word-count": {"hello": 1},
    "windows": 1,
    "joins": {"item": "tea", "customer": "Jane"},
    "declared": {"hello": 1},
}


def typed(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line, shell=True, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)  # noqa: S602 - our own


@contextmanager
def local(folder: Path) -> Iterator[list[str]]:
    """Runs a project; gives the commands that it prints."""
    with (folder / "told").open("w") as told, (folder / "log").open("w") as log:
        command = ["sh", "-c", "exec streamsapp local -f app.yaml --http-port 0"]
        process = subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=told, stderr=log)
    try:
        eventually(lambda: "to read the results" in (folder / "told").read_text(), "the banner", 180)
        yield [line.strip() for line in (folder / "told").read_text().splitlines() if " streamsapp " in f" {line}"]
        assert process.poll() is None, (folder / "log").read_text()
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0, (folder / "log").read_text()


@pytest.mark.parametrize(
    "template", ["joins", *(pytest.param(each, marks=pytest.mark.long) for each in TEMPLATES if each != "joins")]
)
def test_every_printed_command_works_as_it_stands_there(template: str, tmp_path: Path) -> None:
    assert typed(f"streamsapp new mine --template {template}", tmp_path).returncode == 0
    project = tmp_path / "mine"
    with local(project) as commands:
        writing = [line for line in commands if line.startswith("echo ")]
        (reading,) = [line for line in commands if line.startswith("streamsapp consume")]
        assert len(writing) == (2 if template == "joins" else 1)
        for line in writing:
            done = typed(line, project)
            assert done.returncode == 0, done.stderr
            assert "1 record written" in done.stdout

        def results() -> list[dict[str, object]]:
            return [json.loads(line) for line in typed(reading, project).stdout.splitlines()]

        eventually(results, "a result", 120)
        (result,) = results()
    expected = RESULTS[template]
    if template in ("word-count", "declared"):
        assert {result["key"]: result["value"]} == expected
    else:
        assert result["value"] == expected
