"""The tutorial's commands, typed as they stand there."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from instances import eventually

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "tutorial.md").read_text("utf-8")
#: The folder where ``streamsapp`` is installed.
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def command(beginning: str) -> str:
    """The first line of the page with a command that begins so."""
    found = re.search(rf"^{re.escape(beginning)}.*$", PAGE, re.MULTILINE)
    assert found, beginning
    return found[0]


def typed(line: str, folder: Path) -> str:
    """Returns the answer of a shell in a folder."""
    answer = subprocess.run(line, shell=True, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=True)  # noqa: S602 - our own page
    return answer.stdout


def records(lines: str) -> list[dict[str, Any]]:
    """Records as ``consume`` prints them, without the time at which they were made, partition by partition."""
    found = [json.loads(line) for line in lines.splitlines() if line.startswith('{"topic"')]
    timeless = [{name: value for name, value in record.items() if name != "timestamp"} for record in found]
    return sorted(timeless, key=lambda record: (record["partition"], record["offset"]))


@pytest.mark.long
def test_a_newcomer_gets_the_results_that_the_tutorial_shows(tmp_path: Path) -> None:
    typed(command("streamsapp new"), tmp_path)
    project = tmp_path / "hello"
    typed(command("pytest"), project)
    local = f"exec {command('streamsapp local')} --http-port 0"  # the usual port may be taken
    with (tmp_path / "told").open("w") as told:
        process = subprocess.Popen(["sh", "-c", local], cwd=project, env=ENVIRONMENT, stdout=told)
    try:
        eventually(lambda: "to read the results" in (tmp_path / "told").read_text(), "the banner", 120)
        typed(command("echo"), project)
        consume = command("streamsapp consume")
        eventually(lambda: len(records(typed(consume, project))) >= len(records(PAGE)), "results", 120)
        assert records(typed(consume, project)) == records(PAGE)
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
