"""``streamsapp run`` before its instance starts: the manifest that it reads, and the address that it gives others."""

from __future__ import annotations

import logging
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from streamsapp.cli import pod, run
from streamsapp.cli.main import main

MANIFEST = """
apiVersion: streamsapp.dev/v1alpha1
kind: StreamsApp
metadata: {name: app}
spec:
  topology: {steps: [{stream: {topic: in}}, {to: {topic: out}}]}
  kafka: {bootstrapServers: "kafka:9092"}
  processing: {instances: %d}
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The applications whose instances would run."""
    applications: list[str] = []

    def runs(topology: Any, config: Any, *_: Any, **__: Any) -> int:
        applications.append(config.application_id)
        return 0

    monkeypatch.setattr(run, "run_instance", runs)
    return applications


def pipe_with(text: str, folder: Path) -> Path:
    """A pipe that is written once."""
    path = folder / "pipe"
    os.mkfifo(path)
    threading.Thread(target=path.write_text, args=(text,), daemon=True).start()
    return path


@pytest.mark.timeout(60)
def test_a_manifest_may_come_through_a_pipe(tmp_path: Path, started: list[str]) -> None:
    assert main(["run", "-f", str(pipe_with(MANIFEST % 1, tmp_path)), "--http-port", "0"]) == 0
    assert started == ["app"]


@pytest.mark.parametrize("command", [["run"], ["local", "--replicas", "2"], ["local", "--watch"]])
def test_a_pipe_that_several_processes_would_read_is_refused(
    command: list[str], tmp_path: Path, started: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.write(writing, (MANIFEST % 2).encode())
    os.close(writing)
    data = [] if command == ["run"] else ["--data-dir", str(tmp_path / "data")]
    assert main([*command, "-f", f"/dev/fd/{reading}", *data]) == 2
    os.close(reading)
    assert "--file: can be read once, and " in (told := capsys.readouterr().err)
    assert "reads it again: give a file, or " in told
    assert (started, list(tmp_path.iterdir())) == ([], [])


@pytest.mark.parametrize(
    ("named", "outgoing", "expected"),
    [
        ("10.1.2.3", "10.9.9.9", "10.1.2.3"),
        ("127.0.1.1", "10.9.9.9", "10.9.9.9"),
        (None, "10.9.9.9", "10.9.9.9"),
        ("127.0.1.1", None, "127.0.1.1"),
        (None, None, "127.0.0.1"),
    ],
)
def test_others_are_told_an_address_that_they_reach(
    named: str | None,
    outgoing: str | None,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def by_name(_: str, port: None, type: int) -> list[tuple[Any, ...]]:
        if named is None:
            raise socket.gaierror
        family = socket.AF_INET6 if ":" in named else socket.AF_INET
        return [(family, type, 6, "", (named, 0))]

    class Probe(socket.socket):
        def connect(self, _: Any) -> None:
            if outgoing is None:
                raise OSError("network is unreachable")

        def getsockname(self) -> Any:
            return outgoing, 40_000

    monkeypatch.setattr(socket, "getaddrinfo", by_name)
    monkeypatch.setattr(socket, "socket", Probe)
    with caplog.at_level(logging.WARNING):
        assert pod.own_address() == expected
    assert ("--application-server" in caplog.text) == expected.startswith("127.")
