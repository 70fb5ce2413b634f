"""Pods of integration tests: ``streamsapp run`` as a process, asked over its HTTP port.

Called by the tests of queries and of the supervisor.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from instances import TIMEOUT, eventually

#: Of pods that the broker is to miss soon when they are killed or stand still; others outlast a halt of the machine.
MORTAL = 6_000
#: Of pods whose death the broker would not miss within a test.
IMMORTAL = 1_200_000

#: Counts the words of a topic per key.
MANIFEST = """
apiVersion: streamsapp.dev/v1alpha1
kind: StreamsApp
metadata: {{name: {name}}}
spec:
  topology: {{entrypoint: "counting:topology"}}
  kafka:
    bootstrapServers: "{servers}"
    properties: {{"session.timeout.ms": {session_ms}}}
  processing: {{instances: {instances}, guarantee: {guarantee}, commitIntervalMs: 100, standbyReplicas: {standbys}}}
  code:
    files:
      counting.py: |
        from streamsapp import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder
        text = Serdes.string()
        def topology():
            builder = StreamsBuilder()
            words = builder.stream("{topic}", Consumed(key_serde=text, value_serde=text))
            words.group_by_key(Grouped(key_serde=text, value_serde=text)).count(Materialized("counts"))
            return builder.build()
"""


class RunningPod:
    """One ``streamsapp run``."""

    def __init__(self, manifest: Path, directory: Path, within: Sequence[str] = (), **environment: str) -> None:
        """``within`` is a command that runs the pod's, with ``environment`` added."""
        directory.mkdir(exist_ok=True)
        self._log = directory / "log"
        arguments = ["run", "-f", str(manifest), "--state-dir", str(directory / "state"), "--http-port", "0"]
        with self._log.open("wb") as output:
            self.process = subprocess.Popen(
                [*within, sys.executable, "-m", "streamsapp.cli.main", *arguments],
                stdout=output,
                stderr=output,
                env={**os.environ, "HOSTNAME": directory.name, **environment},
            )
        eventually(lambda: self._port() is not None or not self.running(), "the port")
        self.port = self._port()

    def _port(self) -> int | None:
        found = re.search(r"status on http://(?:\[::\]|0\.0\.0\.0):(\d+)/status", self.log())
        return None if found is None else int(found[1])

    def running(self) -> bool:
        return self.process.poll() is None

    def log(self) -> str:
        """Returns the pod's log so far."""
        return self._log.read_text()

    def pids(self) -> list[int]:
        """The processes of its instances, the newest of each last."""
        found = re.findall(r'"([^"\s]+) runs as process (\d+)"', self.log())
        return [int(pid) for pid in dict(found).values()]

    def ask(self, path: str, method: str = "GET") -> tuple[int, Any]:
        """Status and document; nothing while the port does not answer."""
        try:
            with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)) as connection:
                connection.request(method, path)
                response = connection.getresponse()
                return response.status, json.loads(response.read())
        except (OSError, http.client.HTTPException):
            return 0, None

    def text(self, path: str) -> str:
        """A document that is not JSON."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)) as connection:
            connection.request("GET", path)
            return connection.getresponse().read().decode()

    def count(self, key: str, parameters: str = "") -> int | None:
        """The count of a key, ``None`` where there is no answer."""
        status, document = self.ask(f"/state/counts/{key}{parameters}")
        return document["value"] if status in (200, 404) and "error" not in document else None

    def active(self) -> list[str]:
        """The active tasks that run here."""
        _, document = self.ask("/status")
        tasks = [] if document is None else document["tasks"]
        return sorted(each["id"] for each in tasks if each["role"] == "active" and each["state"] == "RUNNING")

    def wait_ready(self) -> None:
        eventually(lambda: self.ask("/readyz")[0] == 200 or not self.running(), "readiness", 2 * TIMEOUT)
        assert self.running(), self.log()[-4000:]

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def terminate(self) -> int:
        """End in good order; the exit code."""
        self.signal(signal.SIGTERM)
        return self.process.wait(2 * TIMEOUT)

    def close(self) -> None:
        """End all that still runs."""
        if self.running():
            self.process.kill()
        self.process.wait()
        for pid in self.pids():
            if alive(pid):
                os.kill(pid, signal.SIGKILL)


def alive(pid: int) -> bool:
    """Says whether a process runs; an ended process that waits to be noticed does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Pods:
    """Starts pods of one application; ``close`` ends them."""

    def __init__(self, servers: str, name: str, topic: str, directory: Path) -> None:
        self._settings = {"servers": servers, "name": name, "topic": topic}
        self._directory = directory
        self._made: list[RunningPod] = []

    def start(
        self, instances: int = 1, guarantee: str = "exactly_once", standbys: int = 1, within: Sequence[str] = (),
        session_ms: int = 60_000, **environment: str,
    ) -> RunningPod:  # fmt: skip
        manifest = self._directory / f"app-{len(self._made)}.yaml"
        settings = {"instances": instances, "guarantee": guarantee, "standbys": standbys, "session_ms": session_ms}
        manifest.write_text(MANIFEST.format(**self._settings, **settings))
        pod = RunningPod(manifest, self.next_directory, within, **environment)
        self._made.append(pod)
        return pod

    @property
    def next_directory(self) -> Path:
        """Of the pod that is started next: its state is in ``state``."""
        return self._directory / f"pod-{len(self._made)}"

    def close(self) -> None:
        for pod in self._made:
            pod.close()
