"""``streamsapp local``: broker, topics, instance and HTTP port from one command, and down again on a signal."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from confluent_kafka.admin import AdminClient

MANIFEST = """
apiVersion: streamsapp.dev/v1alpha1
kind: StreamsApp
metadata: {name: local-test}
spec:
  topology: {entrypoint: "local_test:topology"}
  code:
    files:
      local_test.py: |
        from streamsapp import Materialized, StreamsBuilder
        topology = StreamsBuilder()
        topology.stream("words").group_by_key().count(Materialized("counts")).to_stream().to("copies")
"""


@pytest.fixture
def replicas(request: pytest.FixtureRequest) -> int:
    count: int = getattr(request, "param", 1)
    return count


@pytest.fixture
def command(tmp_path: Path, replicas: int) -> Iterator[subprocess.Popen[str]]:
    (tmp_path / "app.yaml").write_text(MANIFEST)
    arguments = ["local", "-f", "app.yaml", "--data-dir", "data", "--http-port", "0", "--partitions", "3"]
    arguments += ["--replicas", str(replicas)]
    process = subprocess.Popen(
        [sys.executable, "-m", "streamsapp.cli.main", *arguments], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=60)


def read_until(stream: IO[str] | None, pattern: str) -> re.Match[str]:
    """The first log message that matches; fails when the command ends without one."""
    assert stream is not None
    for line in stream:
        match = re.search(pattern, json.loads(line)["message"]) if line.startswith("{") else None
        if match:
            return match
    pytest.fail(f"the command ended and never said {pattern!r}")


def ask_for_snapshots(address: str) -> Any:
    with urllib.request.urlopen(f"{address}/snapshot", data=b"", timeout=60) as answer:  # noqa: S310 - http, as matched
        return json.load(answer)


def snapshots_below(folder: Path) -> set[str]:
    """The tasks that the object store knows."""
    return {manifest.parent.parent.name for manifest in folder.glob("*/*/manifests/*.json")}


def test_local_brings_all_it_needs_and_leaves_on_a_signal(command: subprocess.Popen[str], tmp_path: Path) -> None:
    broker = read_until(command.stderr, r"^broker (\S+); write to words; results in copies$")[1]
    status = read_until(command.stderr, r"^status on (http://127\.0\.0\.1:\d+)/status$")[1]
    read_until(command.stderr, "to RUNNING")
    topics = AdminClient({"bootstrap.servers": broker}).list_topics(timeout=10).topics
    assert {name: len(topics[name].partitions) for name in ("words", "copies")} == {"words": 3, "copies": 3}
    with urllib.request.urlopen(f"{status}/status", timeout=5) as answer:  # noqa: S310 - http, as matched above
        assert json.load(answer)["state"] == "RUNNING"
    assert ask_for_snapshots(status) == {"taken": True}
    assert snapshots_below(tmp_path / "data" / "snapshots") == {"0_0", "0_1", "0_2"}
    command.send_signal(signal.SIGTERM)
    command.communicate(timeout=60)
    assert command.returncode == 0


@pytest.mark.parametrize("replicas", [2], indirect=True)
def test_several_replicas_are_seen_through_one_port(command: subprocess.Popen[str], tmp_path: Path) -> None:
    status = read_until(command.stderr, r"^2 instances; status on (http://127\.0\.0\.1:\d+)/status$")[1]
    for _ in range(2):
        read_until(command.stderr, "to RUNNING")
    with urllib.request.urlopen(f"{status}/status", timeout=5) as answer:  # noqa: S310 - http, as matched above
        document = json.load(answer)
    assert [each["instance"] for each in document["instances"]] == ["local-test-0", "local-test-1"]
    assert ask_for_snapshots(status) == {"taken": True}
    assert snapshots_below(tmp_path / "data" / "snapshots") == {"0_0", "0_1", "0_2"}
    command.send_signal(signal.SIGTERM)
    command.communicate(timeout=60)
    assert command.returncode == 0
