"""The application or the broker is away: ``streamsapp local --watch`` says so, and why."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from instances import eventually
from streamsapp.local.broker import free_port

ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def typed(line: str, folder: Path) -> str:
    command = ["sh", "-c", line]
    return subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout


def status(port: int) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=10) as answer:
            document: dict[str, Any] = json.load(answer)
            return document
    except (OSError, urllib.error.URLError):
        return {}


@pytest.mark.long
def test_a_crash_loop_is_told_with_its_record_and_a_broker_that_is_killed_starts_again(tmp_path: Path) -> None:
    typed("streamsapp new mine --template joins", tmp_path)
    project, port = tmp_path / "mine", free_port()
    topology = project / "topology.py"
    topology.write_text(topology.read_text().replace('customer.get("name")', 'customer["name"]'))
    with (project / "told").open("w") as told, (project / "log").open("w") as log:
        command = ["sh", "-c", f"exec streamsapp local -f app.yaml --watch --http-port {port}"]
        process = subprocess.Popen(command, cwd=project, env=ENVIRONMENT, stdout=told, stderr=log)
    try:
        eventually(lambda: status(port).get("ready"), "the application", 180)
        for topic, value in (("customers", {"nom": "Jane"}), ("orders", {"item": "tea"})):
            line = json.dumps({"key": "c1", "value": value})
            typed(f"echo '{line}' | streamsapp produce {topic} -f app.yaml", project)
        eventually(lambda: status(port).get("failures"), "the failure", 120)
        (failure,) = status(port)["failures"] or [{}]
        assert re.fullmatch(r"orders-\d@0", failure["record"])
        assert "KeyError at node KSTREAM-LEFTJOIN" in failure["message"]

        (broker,) = [
            int(each.parent.name)
            for each in Path("/proc").glob("[0-9]*/cmdline")
            if each.exists() and f"{project}/.streamsapp".encode() in each.read_bytes()
        ]
        os.kill(broker, signal.SIGKILL)
        eventually(lambda: "the broker runs again" in (project / "log").read_text(), "the broker", 120)
        assert "the broker was ended by signal 9" in (project / "log").read_text()
        assert "customers" in typed("streamsapp topics -f app.yaml", project)
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0, (project / "log").read_text()
