"""For tests of the kubectl plugin: a cluster made of documents, and a terminal made of a string."""

from __future__ import annotations

import io
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from streamsapp_operator.plugin.documents import PodAnswer, read_report
from streamsapp_operator.plugin.errors import PluginError
from streamsapp_operator.plugin.gathering import ReportPart
from streamsapp_operator.plugin.session import CommandSession, Document, OperatorSeen, PageServer, Streams
from streamsapp_operator.plugin.style import Style

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def ago(seconds: float) -> str:
    """A moment before now, as Kubernetes writes it."""
    return (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def app_document(status: Mapping[str, Any] | None = None, **spec: Any) -> Document:
    """The StreamsApp ``wordcount``."""
    document: Document = {
        "metadata": {"name": "wordcount", "namespace": "default", "uid": "u-1", "creationTimestamp": ago(273_600)},
        "spec": {"replicas": 3, **spec},
    }
    return document if status is None else document | {"status": dict(status)}


def healthy_status(**other: Any) -> dict[str, Any]:
    return {
        "phase": "Running",
        "observedGeneration": 4,
        "replicas": 3,
        "readyReplicas": 3,
        "tasks": {"active": 4, "running": 4, "restoring": 0, "standby": 2},
        "inputLag": 1310,
        "standbyLag": 42,
        "restart": {"safe": True, "blockers": []},
        "conditions": [
            condition("Ready", "True", "Running", "3 of 3 pods are ready"),
            condition("Progressing", "False", "Complete", "every pod has revision 9f31c2ab"),
            condition("RestartSafe", "True", "Safe", "any one pod may be taken away"),
            condition("SnapshotsFresh", "True", "Fresh", "no snapshot is older than 240 s"),
            condition("Degraded", "False", "AsExpected", ""),
        ],
        **other,
    }


def condition(kind: str, status: str, reason: str, message: str) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": ago(130),
        "observedGeneration": 4,
    }


def pod_document(number: int, **other: Any) -> Document:
    """A pod that runs and is ready, but for what ``other`` says of its status."""
    return {
        "metadata": {
            "name": f"wordcount-{number}",
            "labels": {"streamsapp.dev/revision": "9f31c2ab"},
            "creationTimestamp": ago(7_260),
        },
        "spec": {"nodeName": "node-a"},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"restartCount": 0, "state": {"running": {}}}],
            **other,
        },
    }


def report(
    *tasks: Mapping[str, Any], state: str = "RUNNING", hand_overs: Sequence[Mapping[str, Any]] = ()
) -> PodAnswer:
    """Makes the answer of a pod."""
    body = {"state": state, "generation": 7, "tasks": list(tasks), "handOvers": list(hand_overs)}
    return read_report(json.dumps(body).encode(), NOW)


def active(task: str, *, lag: int | None = 12, state: str = "RUNNING", saved: bool = False, **stores: int) -> Document:
    """An active task; its stores with where they stand."""
    snapshot = {"epoch": 3, "offset": 900, "createdAt": ago(34), "confirmedAt": None} if saved else None
    return {
        "id": task,
        "role": "active",
        "state": state,
        "inputLag": lag,
        "restore": {"predictedSeconds": 2.25} if saved else None,
        "stores": [
            {"name": name, "position": end, "endOffset": end, "lag": 0, "mode": "processing", "snapshot": snapshot}
            for name, end in stores.items()
        ],
    }


def standby(
    task: str, *, role: str = "standby", seen: float = 1, mode: str = "updating", **lags: int | None
) -> Document:
    """A replica; its stores with how far behind they are."""
    return {
        "id": task,
        "role": role,
        "state": "RUNNING",
        "inputLag": None,
        "stores": [
            {"name": name, "position": None, "endOffset": None, "lag": lag, "observedAt": ago(seen), "mode": mode}
            for name, lag in lags.items()
        ],
    }


@dataclass
class FakeCluster:
    """Answers from documents; ``apps`` are the application one look after another, the last one for ever."""

    apps: list[Document]
    namespace: str = "default"
    pod_documents: Sequence[Document] = ()
    answers: Mapping[str, PodAnswer] = field(default_factory=dict)
    topologies: Mapping[str, str] = field(default_factory=dict)
    seen_operators: list[OperatorSeen] | None = None
    annotated: list[Mapping[str, str | None]] = field(default_factory=list)
    scaled: list[int] = field(default_factory=list)
    #: The lines of pods; pods that are not named there have no log.
    written: Mapping[str, Sequence[str]] = field(default_factory=dict)
    logs_asked: list[tuple[str, int, bool, bool]] = field(default_factory=list)
    #: Of its StatefulSet.
    template: Document = field(default_factory=dict)
    created: list[Document] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    starts: list[Document | None] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    executed: list[list[str]] = field(default_factory=list)
    #: All bytes that the programs in pods read.
    given: bytes = b""
    program: Callable[[], int] = lambda: 0
    forwards: list[str] = field(default_factory=list)
    #: By pod, why it took no snapshot.
    snapshots: Mapping[str, str | None] = field(default_factory=dict)
    parts: Sequence[ReportPart] = ()
    secret_values: Sequence[str] = ()

    def take_snapshots(self, name: str, pods: Sequence[Document], seconds: float) -> dict[str, str | None]:
        return {each["metadata"]["name"]: self.snapshots[each["metadata"]["name"]] for each in pods}

    def gather(self, name: str, *, tail: int) -> Iterator[ReportPart]:
        yield from self.parts

    def secrets(self, name: str) -> Sequence[str]:
        return self.secret_values

    def app(self, name: str) -> Document:
        if name != "wordcount":
            raise PluginError(f"no StreamsApp {name!r}", 2)
        return self.apps.pop(0) if len(self.apps) > 1 else self.apps[0]

    def pods(self, name: str) -> list[Document]:
        return list(self.pod_documents)

    def reports(self, name: str, pods: Sequence[Document]) -> dict[str, PodAnswer]:
        return {each["metadata"]["name"]: self.answers[each["metadata"]["name"]] for each in pods}

    def topology(self, name: str, pods: Sequence[Document], form: str) -> str:
        return self.topologies[form]

    def logs(self, pod: str, *, tail: int, follow: bool, previous: bool) -> Iterator[str]:
        self.logs_asked.append((pod, tail, follow, previous))
        if pod not in self.written:
            raise PluginError("container is creating")
        yield from self.written[pod]

    def stateful_set(self, name: str) -> Document:
        return {"spec": {"template": self.template}}

    def create_pod(self, document: Document) -> None:
        self.created.append(document)

    def pod(self, name: str) -> Document | None:
        """As it comes to be, one look after another."""
        return self.starts.pop(0) if len(self.starts) > 1 else self.starts[0]

    def warnings(self, pod: str) -> list[str]:
        return self.warned

    def delete_pod(self, name: str) -> None:
        self.deleted.append(name)

    def execute(self, pod: str, command: Sequence[str], streams: Streams) -> int:
        assert pod not in self.deleted
        self.executed.append(list(command))
        if streams.input is not None:
            self.given += streams.input.read()
        return self.program()

    def page_of(self, name: str, pod: str) -> PageServer:
        return PageServer(self.namespace, pod, 8080, "to ken")

    def operators_page(self) -> PageServer:
        return PageServer("operators", "operator-x", 8081, None)

    @contextmanager
    def forwarded(self, page: PageServer) -> Iterator[socket.socket]:
        """Connects to a peer that sends back the bytes it receives."""
        self.forwards.append(page.pod)
        here, there = socket.socketpair()
        echo = threading.Thread(target=_echo, args=(there,), daemon=True)
        echo.start()
        with here:
            yield here

    def annotate(self, name: str, annotations: Mapping[str, str | None]) -> Document:
        self.annotated.append(annotations)
        return self.apps[0]

    def scale(self, name: str, replicas: int) -> None:
        self.scaled.append(replicas)

    def operators(self) -> list[OperatorSeen] | None:
        return self.seen_operators


def _echo(there: socket.socket) -> None:
    with there:
        while data := there.recv(1024):
            there.sendall(data)


class FakeTime:
    """Stands still, except while a caller waits."""

    def __init__(self) -> None:
        self.passed = 0.0

    def now_ms(self) -> int:
        return int((NOW.timestamp() + self.passed) * 1000)

    def monotonic(self) -> float:
        return self.passed

    def wait(self, seconds: float) -> None:
        self.passed += seconds


class Terminal:
    """The terminal that a command wrote to."""

    def __init__(self, cluster: FakeCluster, style: Style, *, live: bool = False) -> None:
        self.stream, self.time = io.StringIO(), FakeTime()
        self.session = CommandSession(cluster, self.stream, style, self.time, self.time.wait, live)

    @property
    def text(self) -> str:
        return self.stream.getvalue()


_CUT = {
    "task": "0_1", "at": ago(90), "gapSeconds": 0.09, "kind": "planned",
    "steps": {"assigned": 0.03, "restored": 0.05, "read": 0.06},
}  # fmt: skip
_RESTORED = {"task": "1_1", "at": ago(30), "gapSeconds": 3.25, "kind": "unplanned", "steps": {}}


def three_pods() -> FakeCluster:
    """Healthy: four tasks, two with stores, a standby each and snapshots."""
    return FakeCluster(
        apps=[
            app_document(
                healthy_status(
                    rollout={
                        "revision": "9f31c2ab",
                        "phase": "Complete",
                        "updated": 3,
                        "total": 3,
                        "predictedSeconds": 3.1,
                        "observedSeconds": 0.4,
                    },
                    gaps=[
                        {"pod": "wordcount-0", "predictedSeconds": 0.41, "observedSeconds": 0.38},
                        {"pod": "wordcount-1", "predictedSeconds": None},
                        {"pod": "wordcount-2", "predictedSeconds": 3.1, "observedSeconds": 0.4},
                    ],
                ),
                remoteState={"url": "s3://states/wordcount"},
            )
        ],
        pod_documents=[pod_document(number) for number in range(3)],
        answers={
            "wordcount-0": report(active("0_0"), active("1_0", saved=True, counts=1200), standby("1_1", counts=42)),
            "wordcount-1": report(active("0_1", lag=1298), standby("1_0", counts=0), hand_overs=[_CUT]),
            "wordcount-2": report(active("1_1", saved=True, counts=940), hand_overs=[_RESTORED]),
        },
    )


def blocked_rollout() -> FakeCluster:
    """A restart that waits: a standby is behind, another one is silent, one pod does not answer and one is starting."""
    status = healthy_status(
        phase="Blocked",
        readyReplicas=2,
        tasks={"active": 4, "running": 3, "restoring": 1, "standby": 2},
        inputLag=None,
        standbyLag=None,
        restart={
            "safe": False,
            "blockers": [
                {
                    "pod": "wordcount-0",
                    "task": "1_0",
                    "store": "counts",
                    "reason": "StandbyBehind: its standby on wordcount-1 is 48,210 records behind, 1,000 are allowed",
                    "lag": 48210,
                    "ageSeconds": 1.2,
                },
                {"pod": "wordcount-2", "reason": "Unreachable: its port does not answer"},
            ],
            "moreBlockers": 2,
        },
        rollout={
            "revision": "77aa01c3",
            "phase": "Blocked",
            "updated": 1,
            "total": 3,
            "blockedSince": ago(75),
            "predictedSeconds": 3.1,
        },
        conditions=[
            condition("Ready", "False", "PodsNotReady", "2 of 3 pods are ready"),
            condition("Progressing", "True", "Blocked", "1 of 3 pods have revision 77aa01c3"),
            condition("RestartSafe", "False", "StandbyBehind", "4 reasons, the first: wordcount-0, task 1_0"),
            condition("SnapshotsFresh", "Unknown", "Unreachable", "wordcount-2 does not answer"),
            condition("Degraded", "False", "AsExpected", ""),
        ],
    )
    starting = pod_document(3, phase="Pending", conditions=[])
    starting["status"]["containerStatuses"] = [
        {"restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "ready": False}
    ]
    return FakeCluster(
        apps=[app_document(status)],
        pod_documents=[pod_document(0), pod_document(1), pod_document(2), starting],
        answers={
            "wordcount-0": report(
                active("1_0", counts=1200), standby("1_1", role="warmup", mode="paused", counts=None)
            ),
            "wordcount-1": report(
                active("0_1", lag=None, state="RESTORING"),
                standby("1_0", seen=25, counts=48_210),
                state="REBALANCING",
            ),
            "wordcount-2": PodAnswer(fault="does not answer: the connection was closed"),
            "wordcount-3": PodAnswer(fault=""),
        },
    )
