"""A StreamsApp in a cluster as its owner sees it: asked for by kubectl, and read. And what happens to machines:
processes that are killed or frozen from the host.

Used by the tests of the cluster, the soak and the rolling benchmark.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import urllib3.exceptions
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

Document: TypeAlias = dict[str, Any]

#: Longer than anything takes that works, in seconds.
TIMEOUT = 240.0
_POLL = 0.2
#: Reading raises these while the API server is away, or what is read is not there.
AWAY = (ApiException, urllib3.exceptions.HTTPError, OSError)


class KubectlError(Exception):
    """The command failed; the text is what it said."""


class Kubectl:
    """kubectl and helm, logged in to one cluster; and a client, which reads at a fraction of what a process costs."""

    def __init__(self, kubeconfig: Path, programs: Path) -> None:
        """``programs`` is the folder that both are in."""
        self._programs = programs
        settings = client.Configuration()
        settings.retries = False  # the waiting caller tries again anyway, and sees that it had to
        config.load_kube_config(str(kubeconfig), client_configuration=settings)
        self.api = client.ApiClient(settings)
        self.environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        }

    def __call__(self, *arguments: str, stdin: str | None = None, timeout: float = TIMEOUT) -> str:
        return self._run("kubectl", arguments, stdin, timeout)

    def helm(self, *arguments: str, timeout: float = TIMEOUT) -> str:
        return self._run("helm", arguments, None, timeout)

    def json(self, *arguments: str) -> Document:
        document: Document = json.loads(self(*arguments, "--output=json"))
        return document

    def apply(self, document: Mapping[str, Any]) -> None:
        self("apply", "--filename=-", stdin=json.dumps(document))

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command that takes its time."""
        command = [str(self._programs / "kubectl"), *arguments]
        return subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def _run(self, program: str, arguments: tuple[str, ...], stdin: str | None, timeout: float) -> str:
        command = [str(self._programs / program), *arguments]
        answer = subprocess.run(
            command,
            env=self.environment, input=stdin, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        if answer.returncode != 0:
            raise KubectlError(f"{program} {' '.join(arguments)}: {answer.stderr.strip()}")
        return answer.stdout


class App:
    """One application."""

    def __init__(self, kubectl: Kubectl, namespace: str, name: str) -> None:
        self.kubectl = kubectl
        self.namespace, self.name = namespace, name
        self._custom = client.CustomObjectsApi(kubectl.api)
        self._core = client.CoreV1Api(kubectl.api)

    def get(self) -> Document:
        """The object, with its status."""
        document: Any = self._custom.get_namespaced_custom_object(
            "streamsapp.dev", "v1alpha1", self.namespace, "streamsapps", self.name, _request_timeout=60
        )
        return dict(document)

    def status(self) -> Document:
        return dict(self.get().get("status", {}))

    def condition(self, kind: str) -> Document:
        """Empty before there is one."""
        found = [it for it in self.status().get("conditions", []) if it["type"] == kind]
        return dict(found[0]) if found else {}

    def rollout(self) -> Document:
        return dict(self.status().get("rollout") or {})

    def pods(self) -> dict[str, Document]:
        """Its pods, by name."""
        selector = f"streamsapp.dev/name={self.name}"
        found: Any = self._core.list_namespaced_pod(
            self.namespace, label_selector=selector, _preload_content=False, _request_timeout=60
        )
        return {pod["metadata"]["name"]: pod for pod in json.loads(found.data)["items"]}

    def uids(self) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.pods().items()}

    def apply(self, manifest: Mapping[str, Any]) -> None:
        """As ``kubectl apply -f`` does."""
        self.kubectl.apply({**manifest, "metadata": {"name": self.name, "namespace": self.namespace}})

    def patch(self, spec: Mapping[str, Any]) -> None:
        """Merged into the spec."""
        patch = f"--patch={json.dumps({'spec': spec})}"
        self.kubectl(
            "patch", "streamsapp", self.name, f"--namespace={self.namespace}", "--type=merge", patch
        )  # fmt: skip

    def scale(self, replicas: int) -> None:
        self.kubectl("scale", f"streamsapp/{self.name}", f"--namespace={self.namespace}", f"--replicas={replicas}")

    def ask_for_restart(self) -> None:
        """As ``kubectl streamsapp restart`` does."""
        now = datetime.now(UTC).isoformat()
        annotation = f"streamsapp.dev/restartedAt={now}"
        self.kubectl(
            "annotate", "--overwrite", "streamsapp", self.name, f"--namespace={self.namespace}", annotation
        )  # fmt: skip

    def wait(self, holds: Callable[[], Any], what: str, timeout: float = TIMEOUT) -> Any:
        """Return the first answer that is true. The API server may be away meanwhile."""
        give_up = time.monotonic() + timeout
        while True:
            with suppress(*AWAY):
                if answer := holds():
                    return answer
            assert time.monotonic() < give_up, f"{what} did not come within {timeout:g} s; {self.described()}"
            time.sleep(_POLL)

    def wait_settled(self, timeout: float = TIMEOUT) -> Document:
        """Everything that was asked for is done, and any pod may be restarted; the status then."""
        status: Document = self.wait(self._settled, "a settled application", timeout)
        return status

    def wait_replaced(self, before: Mapping[str, str], timeout: float = TIMEOUT) -> Document:
        """Every pod is another one than ``before``, and everything is settled."""
        self.wait(lambda: not set(before.values()) & set(self.uids().values()), "a restart of every pod", timeout)
        return self.wait_settled(timeout)

    def described(self) -> str:
        """For the reader of a failed test, who has to find out why something did not happen."""
        with suppress(*AWAY):
            pods = {name: pod["status"].get("phase") for name, pod in self.pods().items()}
            return f"status {json.dumps(self.status(), indent=1)}; pods {pods}"
        return "the API server says nothing"

    def _settled(self) -> Document | None:
        document = self.get()
        status, replicas = document.get("status", {}), document["spec"]["replicas"]
        settled = (
            status.get("observedGeneration") == document["metadata"]["generation"]
            and (status.get("rollout") or {}).get("phase") == "Complete"
            and status["replicas"] == replicas
            and status["pods"] == f"{replicas}/{replicas}"
            and status["restart"]["safe"]
        )
        return dict(status) if settled else None


def processes_of(pod: Document) -> list[int]:
    """Processes of the host that are the pod's containers."""
    statuses = pod["status"].get("containerStatuses", [])
    ids = [status["containerID"].rpartition("/")[2] for status in statuses if status.get("containerID")]
    found = []
    for group in Path("/proc").glob("[0-9]*/cgroup"):
        with suppress(OSError):
            text = group.read_text("utf-8")
            if any(each in text for each in ids):
                found.append(int(group.parent.name))
    return found


def kill(pod: Document) -> None:
    """As when a machine kills what uses too much memory."""
    pids = processes_of(pod)
    assert pids, f"{pod['metadata']['name']} has no process"
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@contextmanager
def frozen(pod: Document) -> Iterator[None]:
    """It does nothing meanwhile, and does not know."""
    pids = processes_of(pod)
    assert pids, f"{pod['metadata']['name']} has no process"
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
