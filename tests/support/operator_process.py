"""The operator as a process of its own, with no more rights than the chart gives it, and what tests ask of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml

from api_server import ApiServer
from streamsapp.local.broker import free_port
from streamsapp_operator.kube.client import Client, login

ROOT = Path(__file__).resolve().parents[2]
CRD = ROOT / "crds/streamsapps.yaml"
_RULES = ROOT / "charts/streamsapp/templates/_rules.tpl"
_LEASES = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}
_USER = "operator"
IMAGE = "localhost/streamsapp-runtime:dev"
SPARK_IMAGE = "localhost/streamsapp-spark:dev"
#: Longer than anything takes that works, in seconds, also on a busy machine; shorter than pytest waits.
TIMEOUT = 240.0
#: Of an operator that is to go on: it ends when it stands still for two thirds of that, and stays ended.
LONG_LEASE = 60.0
#: Until another one has such a Lease, which it waits out.
TAKEOVER = 300.0
#: Characters of the log that are shown of an operator that is gone, and of the threads of one that crashed.
_END_OF_LOG = 3_000

T = TypeVar("T")


def prepare(api: ApiServer) -> str:
    """A namespace in which an operator can work: the resource is known, and the operator's role bound."""
    api.define(CRD)
    namespace = api.namespace("apps", labels={"pod-security.kubernetes.io/enforce": "restricted"})
    metadata = {"name": "operator", "namespace": namespace}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": chart_rules()}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator"},
        "subjects": [{"kind": "User", "name": _USER, "apiGroup": "rbac.authorization.k8s.io"}],
    }
    api.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([role, binding]))
    return namespace


def chart_rules() -> list[dict[str, Any]]:
    """Returns the chart's rules for the operator where it runs applications, and for its Lease."""
    lines = _RULES.read_text().splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("- apiGroups"))
    rules: list[dict[str, Any]] = yaml.safe_load("\n".join(line for line in lines[begin:] if "{{" not in line))
    return [*rules, _LEASES]


def admin(api: ApiServer) -> Client:
    """For the tests' own looks."""
    return Client(login(str(api.kubeconfig)))


class OperatorProcess:
    """As a context manager it runs on entry and is gone on exit."""

    def __init__(
        self,
        api: ApiServer,
        namespace: str,
        directory: Path,
        name: str = "one",
        *,
        lease_seconds: float = 3,
        everywhere: bool = False,
    ) -> None:
        """``everywhere``: watches all namespaces, with all rights."""
        self.port = free_port()
        self._log = directory / f"operator-{name}.log"
        key = directory / "operator.key"
        if not key.exists():
            key.write_bytes(os.urandom(32))
        self._command = [
            *(sys.executable, "-m", "streamsapp_operator"),
            *("--namespaces", "*" if everywhere else namespace, "--own-namespace", namespace, "--own-name", name),
            *("--key-file", str(key), "--runtime-image", IMAGE, "--http-port", str(self.port)),
            *("--spark-image", SPARK_IMAGE),
            *("--lease-seconds", str(lease_seconds), "--log-format", "json"),
        ]
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(api.kubeconfig if everywhere else api.kubeconfig_of(_USER)),
            # The place of the thread that crashed the process.
            "PYTHONFAULTHANDLER": "1",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> OperatorProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Begin, or begin again."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=self._environment)

    def kill(self) -> None:
        """At once, in the middle of its work."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def terminate(self) -> int:
        """As the kubelet asks; the exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(TIMEOUT)

    def wait(self, timeout: float) -> int:
        """For its end; the exit code."""
        assert self._process is not None
        return self._process.wait(timeout)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def ended(self) -> str:
        """Returns how the process ended, with its last words; empty while it runs."""
        if self.running:
            return ""
        assert self._process is not None
        code = self._process.returncode
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        said, crash, threads = self._log.read_text(errors="replace").partition("Fatal Python error")
        return f"the operator ended {how}: {said[-_END_OF_LOG:]}{crash}{threads[:_END_OF_LOG]}"

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def log(self) -> list[dict[str, Any]]:
        """Returns the log of the process."""
        return [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]

    def said(self, text: str) -> bool:
        """Says whether a line of its log has this text."""
        return any(text in line["message"] for line in self.log())

    def get(self, path: str) -> str:
        """Returns the answer of its own port."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
            body: bytes = answer.read()
        return body.decode()


def until(look: Callable[[], T | None], what: str, timeout: float = TIMEOUT) -> T:
    """Wait for something to be true; returns its value."""
    deadline = time.monotonic() + timeout
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:g} s: {what}")
        time.sleep(0.1)
