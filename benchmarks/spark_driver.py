"""Processes of the benchmarks of ``engine: spark``: a driver as users start it, or any other.

Called by ``spark_batches.py``, and by the program that counts with a driver (``systems/spark_engine_app.py``), on their
main threads.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.request import urlopen

from benchmarks import family, launch

from streamsapp.local.broker import free_port

T = TypeVar("T")
_STREAMSAPP = str(Path(sys.executable).parent / "streamsapp")
_TIMEOUT, _END, _LOOK = 1_200.0, 120.0, 0.3
_SHOWN = 4_000


class Started:
    """A process with a folder of its own, until the block ends."""

    def __init__(self, command: list[str], folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / "log"
        environment = {**os.environ, **launch.environment()}
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(family.command(command), stdout=output, stderr=output, env=environment)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def status(self) -> dict[str, Any]:
        """Nothing is known of its inside."""
        return {}

    def until(self, holds: Callable[[], T]) -> T:
        """Wait for it, and return it. Raises ``RuntimeError`` with the end of the log if the process ends first, or it
        takes long."""
        deadline = time.monotonic() + _TIMEOUT
        while not (found := holds()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the process ended, or did not come so far: {self._log.read_text()[-_SHOWN:]}")
            time.sleep(_LOOK)
        return found


class Driver(Started):
    """``streamsapp run`` of a manifest that is made for it, with two of Spark's cores if it asks for that engine."""

    def __init__(self, folder: Path, servers: str, code: str, spec: dict[str, Any]) -> None:
        """``code`` defines ``topology()``; the application has the folder's name."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "counting.py").write_text(code)
        manifest = {
            "apiVersion": "streamsapp.dev/v1alpha1",
            "kind": "StreamsApp",
            "metadata": {"name": "counting"},
            "spec": {
                "applicationId": folder.name,
                "topology": {"entrypoint": "counting:topology"},
                "kafka": {"bootstrapServers": servers},
                **spec,
            },
        }
        path = folder / "app.yaml"
        path.write_text(json.dumps(manifest))
        self._port = free_port()
        options = ["--state-dir", str(folder / "state"), "--http-port", str(self._port)]
        if spec.get("engine") == "spark":
            options += ["--master", "local[2]"]
        super().__init__([_STREAMSAPP, "--log-level", "warning", "run", "-f", str(path), *options], folder)

    def status(self) -> dict[str, Any]:
        """Its ``/status``; empty while it does not answer."""
        try:
            with urlopen(f"http://127.0.0.1:{self._port}/status", timeout=30) as answer:
                shown: dict[str, Any] = json.load(answer)
                return shown
        except OSError:
            return {}
