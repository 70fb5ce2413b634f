"""An operator at work: applications are applied, looked at and deleted as a user does it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from api_server import ApiServer
from operator_process import TIMEOUT, OperatorProcess, admin, prepare, until
from simulated_node import SimulatedNode
from streamsapp_operator.kube import Client, Object, Unavailable
from streamsapp_operator.kube.client import FIELD_MANAGER
from streamsapp_operator.kube.kinds import EVENT, POD, STATEFUL_SET, STREAMS_APP

APP = "wordcount"


@dataclass
class World:
    """One namespace."""

    api: ApiServer
    namespace: str
    client: Client
    node: SimulatedNode
    operator: OperatorProcess
    directory: Path

    def apply(self, name: str = APP, **spec: Any) -> None:
        """The application, with these fields of its spec."""
        self.api.kubectl("apply", "-f", "-", stdin=json.dumps(self.manifest(name, **spec)))

    def manifest(self, name: str = APP, **spec: Any) -> Object:
        code = {"files": {"wordcount.py": "topology = None"}}
        topology, kafka = {"entrypoint": "wordcount:topology"}, {"bootstrapServers": "kafka:9092"}
        rollout = {"soakSeconds": 0, "lastGoodSeconds": 0, **spec.pop("rollout", {})}
        whole = {"replicas": 3, "topology": topology, "code": code, "kafka": kafka, "rollout": rollout, **spec}
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": STREAMS_APP.api_version, "kind": "StreamsApp", "metadata": metadata, "spec": whole}

    def app(self) -> Object:
        found = self.client.get(STREAMS_APP, self.namespace, APP)
        assert found is not None
        return found

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.app().get("status") or {}
        return found

    def condition(self, kind: str) -> dict[str, Any]:
        """Empty before there is one."""
        return _condition(self.status(), kind)

    def ready(self) -> bool:
        app = self.app()
        status = app.get("status") or {}
        current = status.get("observedGeneration") == app["metadata"]["generation"]
        settled = (status.get("rollout") or {}).get("phase") == "Complete" and status.get("restart", {}).get("safe")
        return bool(current and settled and _condition(status, "Ready").get("status") == "True")

    def until_ready(self, timeout: float = TIMEOUT) -> None:
        until(self.ready, "the application is ready", timeout)

    def stateful_set(self) -> Object:
        found = self.client.get(STATEFUL_SET, self.namespace, APP)
        assert found is not None
        return found

    def pods(self) -> dict[str, str]:
        """Name → uid."""
        listed = self.client.list(POD, self.namespace, f"streamsapp.dev/name={APP}")
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in listed}

    def events(self) -> dict[str, list[str]]:
        """Reason → messages, of the operator: others report events, too."""
        found: dict[str, list[str]] = {}
        for event in self.client.list(EVENT, self.namespace):
            if event.get("reportingComponent") != FIELD_MANAGER:
                continue
            found.setdefault(event["reason"], []).append(event["message"])
        return found

    def has_told(self, words: str) -> bool:
        """Says whether an event was posted with this; events are posted after the status."""
        return any(words in message for messages in self.events().values() for message in messages)

    def restart(self, when: str) -> None:
        """As ``kubectl streamsapp restart`` does."""
        self.api.kubectl(
            "annotate", "--overwrite", "-n", self.namespace, "sapp", APP, f"streamsapp.dev/restartedAt={when}"
        )


def _condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    return next((it for it in status.get("conditions", ()) if it["type"] == kind), {})


def running(api: ApiServer, directory: Path) -> Iterator[World]:
    """An operator at work in a namespace of its own, on a simulated node, for a fixture."""
    namespace, client = prepare(api), admin(api)
    with SimulatedNode(client, namespace) as node, OperatorProcess(api, namespace, directory) as operator:
        yield World(api, namespace, client, node, operator, directory)
        assert not node.errors


@dataclass
class DownWatch:
    """Looks all the time how many pods run; as a context manager."""

    world: World
    expected: int
    fewest: int = 1_000_000
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> DownWatch:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        assert self._thread is not None
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(0.05):
            try:
                self.fewest = min(self.fewest, len(self.world.pods()))
            except Unavailable:
                continue
