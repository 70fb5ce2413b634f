"""The instances of one soak run: processes that are started, killed, stopped and watched.

The run calls it on the driver's main thread; the watching thread reads ports and whether an instance is awake.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from application import PARTITIONS, Topics
from faults import TRANSACTION_TIMEOUT, Plan
from streamsapp.local.broker import free_port
from testbed import Testbed

_PROGRAM = Path(__file__).with_name("instance_program.py")
#: How long an instance may take to close in good order; an absent broker is waited for meanwhile.
SHUTDOWN_TIMEOUT = 40.0
_MEMORY = 192 << 20
#: The seconds that a Python program may take until its signals are handled.
_START = 5.0
#: How long objects stay for readers that may be reading them, in seconds.
_GRACE = 5.0
#: For a process to write where its threads are.
_DUMP = 0.5


class Instance:
    """One name in the group, and its process if it runs."""

    def __init__(self, name: str, settings: dict[str, Any], directory: Path, partitions: int = PARTITIONS) -> None:
        self.name = name
        self.log = directory / f"{name}.log"
        self.state_directory = directory / "state" / name
        self.http_port = int(settings["http_port"])
        #: Says whether it is in a state to answer.
        self.awake = False
        self._settings = {**settings, "state_dir": str(self.state_directory)}
        self._partitions = partitions
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0
        self._started_at = 0.0
        #: The place in the log where its last start begins.
        self._log_begins = 0
        self._asked_to_end_at: float | None = None

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def process_name(self) -> str:
        """The name of its last start."""
        return f"{self.name}.{self._starts}"

    @property
    def ended_by_itself(self) -> int | None:
        """The exit code of a process that ended unasked."""
        return None if self._process is None or self._asked_to_end_at is not None else self._process.poll()

    def start(self) -> None:
        """A new process on the state of the one before."""
        self._starts += 1
        self._started_at = time.monotonic()
        self._asked_to_end_at = None
        start = self.process_name
        settings = {"config": self._settings, "start": start, "partitions": self._partitions,
                    "shutdown_timeout": SHUTDOWN_TIMEOUT - 5}  # fmt: skip
        with self.log.open("ab") as output:
            output.write(f"---- start {start}\n".encode())
            self._log_begins = output.tell()
            self._process = subprocess.Popen(
                [sys.executable, str(_PROGRAM), json.dumps(settings)],
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.awake = True

    def kill(self) -> None:
        """SIGKILL; no matter whether it runs."""
        self.awake = False
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def lose_disk(self) -> None:
        """Everything of a process that was killed; no matter whether it had begun to write."""
        shutil.rmtree(self.state_directory, ignore_errors=True)

    def ask_to_end(self) -> None:
        """SIGTERM."""
        self.awake = False
        self._asked_to_end_at = time.monotonic()
        self._signal(signal.SIGTERM)

    def stop(self) -> None:
        """SIGSTOP."""
        self.awake = False
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)
        self.awake = True

    def ended(self) -> str | None:
        """Returns how an instance that was asked to end did: ``""`` if well, ``None`` if it has not yet."""
        if self._process is None:
            return ""
        code = self._process.poll()
        if code is not None:
            self._process = None
            good = code == 0 or (code == -signal.SIGTERM and self._hardly_started())
            return "" if good else f"{self.name} ended with exit code {code} after SIGTERM: {self.last_words()}"
        if self._asked_to_end_at is not None and time.monotonic() > self._asked_to_end_at + SHUTDOWN_TIMEOUT:
            self._signal(signal.SIGABRT)
            time.sleep(_DUMP)
            self.kill()
            return f"{self.name} had not ended {SHUTDOWN_TIMEOUT:.0f} s after SIGTERM"
        return None

    def _hardly_started(self) -> bool:
        """Says whether the signal may have come before the program had a handler for it: the program had not logged
        anything yet, as on a busy machine or if it was stopped meanwhile, or had little time after that."""
        if self._asked_to_end_at is None:
            return False
        silent = self.log.stat().st_size == self._log_begins
        return silent or self._asked_to_end_at - self._started_at < _START

    def forget(self) -> None:
        """A process that ended by itself is no longer looked at."""
        self._process = None
        self.awake = False

    def last_words(self) -> str:
        """The last errors in its log."""
        lines = self.log.read_text("utf-8", errors="replace").splitlines()
        # The client's own FAIL lines report lost connections, which a run is about.
        errors = [line for line in lines if (" ERROR " in line or "Error: " in line) and " FAIL [" not in line]
        return " | ".join((errors or lines)[-3:])

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)


class Fleet:
    """All instances of a run, by name."""

    def __init__(self, plan: Plan, topics: Topics, testbed: Testbed, directory: Path) -> None:
        ports = {name: free_port() for name in plan.names}
        self.instances = {
            name: Instance(name, _settings(plan, topics, testbed, name, port), directory, plan.partitions)
            for name, port in ports.items()
        }

    def __getitem__(self, name: str) -> Instance:
        return self.instances[name]

    def start(self, names: Sequence[str]) -> None:
        """Start several at once."""
        for name in names:
            self.instances[name].start()

    def kill(self) -> None:
        """End all that still runs."""
        for instance in self.instances.values():
            instance.go_on()
            instance.kill()

    def end(self) -> list[str]:
        """Ask all to end, wait until they have; returns the problems."""
        running = [instance for instance in self.instances.values() if instance.runs]
        for instance in running:
            instance.ask_to_end()
        problems: list[str] = []
        while running:
            ended = {instance: how for instance in running if (how := instance.ended()) is not None}
            problems += [how for how in ended.values() if how]
            running = [instance for instance in running if instance not in ended]
            time.sleep(0.05)
        return problems


def _settings(plan: Plan, topics: Topics, testbed: Testbed, name: str, http_port: int) -> dict[str, Any]:
    return {
        "remote_state": _remote_state(plan, testbed) if plan.snapshot_interval else None,
        "application_id": topics.application,
        "bootstrap_servers": testbed.address_for(name),
        "processing_guarantee": plan.guarantee,
        "threads": plan.threads,
        "commit_interval_ms": plan.commit_interval_ms,
        "standby_replicas": plan.standby_replicas,
        "memory_bytes": _MEMORY,
        "client_id": name,
        "host_id": name,
        "application_server": f"127.0.0.1:{http_port}",
        "http_port": http_port,
        "client": plan.client,
        **dict(plan.settings),
        "kafka": {
            **testbed.connection,
            "consumer.session.timeout.ms": str(int(plan.session * 1000)),
            "consumer.heartbeat.interval.ms": str(int(plan.session * 100)),
            "producer.transaction.timeout.ms": str(int(TRANSACTION_TIMEOUT * 1000)),
        },
    }


def _remote_state(plan: Plan, testbed: Testbed) -> dict[str, Any]:
    """Returns the configuration of remote state, which deletes objects that are no longer needed within the run."""
    config = testbed.s3.config(snapshot_interval=plan.snapshot_interval, grace=_GRACE)
    return {
        "url": config.url,
        "endpoint": config.endpoint,
        "credentials_dir": str(config.credentials_dir),
        "snapshot_interval": config.snapshot_interval,
        "grace": config.grace,
    }
