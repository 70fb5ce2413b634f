"""Plays controllers, kubelet and runtime for an operator's children, on an API server that has none of them.

A thread makes the StatefulSets' and Jobs' pods, keeps the budgets' status and ends check pods. It answers ``/status``
and ``/console/history`` for every pod on a loopback address of its own. Tasks move as they would: each has an active
and a standby, on another pod.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from streamsapp_operator.kube import ApiError, Client, Gone, Object, Unavailable
from streamsapp_operator.kube.kinds import BUDGET, CRON_JOB, JOB, POD, STATEFUL_SET

_addresses = itertools.count(2)
PORT = 8080
#: How the name of a query's driver ends.
_DRIVER = "-driver-0"
#: The topology, as a check pod reports it.
SHAPE = {"sources": {"0": ["lines"]}, "stores": {"0": {"counts": "keyvalue"}}}


@dataclass
class SimulatedPod:
    """A pod that runs, as far as anybody can see."""

    name: str
    uid: str
    host: str
    server: ThreadingHTTPServer


@dataclass
class Behaviour:
    """The behaviour that tests change."""

    tasks: int = 4
    #: Records that wait in front of each task, and that each processes in a second.
    input_lag: int = 7
    records_per_second: float = 0.0
    #: Records that every standby is behind.
    standby_lag: int = 0
    #: For how long tasks stand still whose pod goes away, as the pods report; ``None``: they do not report it.
    gap_seconds: float | None = None
    #: Revisions whose pods do not become ready, and the waiting reason of their container.
    broken: dict[str, str] = field(default_factory=dict)
    #: States of active tasks that do not run, by the tasks' ids.
    states: dict[str, str] = field(default_factory=dict)
    #: The message of check pods; ``None``: they do not end.
    check_message: dict[str, Any] | None = field(default_factory=lambda: {"faults": [], "shape": SHAPE})
    #: How the pod of a bootstrap ends: exit code and termination message; ``None``: it does not end.
    bootstrap: tuple[int, str] | None = None
    #: The same of a preview.
    preview: tuple[int, str] | None = None
    #: The same of a scheduled run.
    run: tuple[int, str] | None = None
    #: Says whether batches of queries end: an executor takes part in the next one that does.
    batches_end: bool = True
    #: Bearer tokens that pods admit; empty: any.
    tokens: tuple[str, ...] = ()
    #: Tokens that were seen.
    asked_with: set[str] = field(default_factory=set)


class SimulatedNode(threading.Thread):
    """Plays the rest of a cluster in one namespace, as a context manager."""

    def __init__(self, client: Client, namespace: str, period: float = 0.2) -> None:
        super().__init__(name="simulated-node", daemon=True)
        self.behaviour = Behaviour()
        self._client = client
        self._namespace = namespace
        self._period = period
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._pods: dict[str, SimulatedPod] = {}
        #: The uids of the executors that took part in the last batch, by the name of the driver.
        self._executors: dict[str, list[str]] = {}
        self._generation = 0
        #: By the pod that took over.
        self._hand_overs: dict[str, list[dict[str, Any]]] = {}
        self.errors: list[Exception] = []

    def __enter__(self) -> SimulatedNode:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self.join()
        for pod in self._pods.values():
            _close(pod)

    def run(self) -> None:
        while not self._stopping.wait(self._period):
            try:
                self._step()
            except Unavailable:
                continue
            except ApiError:
                continue  # something changed between reading and writing
            except Exception as error:
                self.errors.append(error)
                raise

    def rest(self) -> None:
        """Ask the API server for nothing more; the pods that run answer as before."""
        self._stopping.set()
        self.join()

    def pods(self) -> list[str]:
        """Names of the pods that run."""
        with self._lock:
            return sorted(self._pods)

    def _step(self) -> None:
        listed = self._client.list(POD, self._namespace)
        for pod in listed:
            if "streamsapp.dev/check" in pod["metadata"]["labels"]:
                self._end_check(pod)
        self._run_jobs(listed)
        sets = self._client.list(STATEFUL_SET, self._namespace)
        mine = {pod["metadata"]["name"]: pod for pod in listed if "streamsapp.dev/name" in pod["metadata"]["labels"]}
        self._forget(mine)
        for found in sets:
            self._run_set(found, mine)
        replicas = {found["metadata"]["name"]: found["spec"]["replicas"] for found in sets}
        for budget in self._client.list(BUDGET, self._namespace):
            # As the disruption controller does, it also expects the pods that are to come.
            expected = max(len(mine), replicas.get(budget["metadata"]["name"], 0))
            self._keep_budget(budget, expected, healthy=sum(map(_is_ready, mine.values())))

    def _run_jobs(self, pods: list[Object]) -> None:
        """The Job's controller; and the garbage collector's part of a deletion that waits for runs and pods."""
        for cron in self._client.list(CRON_JOB, self._namespace):
            if "deletionTimestamp" in cron["metadata"]:
                self._end_schedule(cron)
        for job in self._client.list(JOB, self._namespace):
            uid, name = job["metadata"]["uid"], job["metadata"]["name"]
            mine = [pod for pod in pods if _owned_by(pod, uid)]
            if "deletionTimestamp" in job["metadata"]:
                for pod in mine:
                    self._client.delete(POD, self._namespace, pod["metadata"]["name"])
                if not mine:
                    self._client.merge(JOB, self._namespace, name, {"metadata": {"finalizers": None}})
            elif not mine:
                owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}
                self._client.create(self._pod_of(job["spec"]["template"], f"{name}-x", owner))
            elif mine[0]["status"]["phase"] == "Pending":
                running = _container({"running": {"startedAt": _iso(time.time())}}, ready=True)
                self._write(mine[0], {"phase": "Running", "containerStatuses": [running]})
            elif mine[0]["status"]["phase"] == "Running":
                behaviour, labels = self.behaviour, job["metadata"]["labels"]
                ends = {"bootstrap": behaviour.bootstrap, "preview": behaviour.preview, "run": behaviour.run}
                end = next(end for kind, end in ends.items() if f"streamsapp.dev/{kind}" in labels)
                if end is not None:
                    self._end_job(job, mine[0], *end)

    def _end_schedule(self, cron: Object) -> None:
        name, uid = cron["metadata"]["name"], cron["metadata"]["uid"]
        jobs = [it for it in self._client.list(JOB, self._namespace) if _owned_by(it, uid)]
        for job in jobs:
            if "deletionTimestamp" not in job["metadata"]:
                self._client.delete(JOB, self._namespace, job["metadata"]["name"], dependents_first=True)
        if not jobs:
            self._client.merge(CRON_JOB, self._namespace, name, {"metadata": {"finalizers": None}})

    def begin_run(self, name: str) -> None:
        """The CronJobs' controller: a moment has come that the schedule names."""
        cron = self._client.get(CRON_JOB, self._namespace, name)
        assert cron is not None
        assert not cron["spec"]["suspend"]
        template, uid = cron["spec"]["jobTemplate"], cron["metadata"]["uid"]
        owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": name, "uid": uid, "controller": True}
        metadata = {**template["metadata"], "name": f"{name}-{next(_addresses):08}", "namespace": self._namespace}
        metadata |= {"ownerReferences": [owner]}
        self._client.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]})

    def _end_job(self, job: Object, pod: Object, code: int, message: str) -> None:
        ended = {"exitCode": code, "message": message, "startedAt": None, "finishedAt": None}
        state = [_container({"terminated": ended}, ready=False)]
        self._write(pod, {"phase": "Failed" if code else "Succeeded", "containerStatuses": state})
        now = _iso(time.time())
        first, last = ("FailureTarget", "Failed") if code else ("SuccessCriteriaMet", "Complete")
        conditions = [{"type": it, "status": "True", "lastTransitionTime": now} for it in (first, last)]
        status = {"conditions": conditions, "startTime": now, "failed" if code else "succeeded": 1}
        status |= {} if code else {"completionTime": now}
        self._client.write_status({**job, "apiVersion": "batch/v1", "kind": "Job"}, status)

    def _run_set(self, found: Object, pods: dict[str, Object]) -> None:
        name, replicas = found["metadata"]["name"], found["spec"]["replicas"]
        generation = found["metadata"]["generation"]
        if (found.get("status") or {}).get("observedGeneration") != generation:
            status = {"replicas": replicas, "observedGeneration": generation}
            self._client.write_status({**found, "apiVersion": "apps/v1", "kind": "StatefulSet"}, status)
        if "deletionTimestamp" in found["metadata"]:
            replicas = 0
        wanted = [f"{name}-{ordinal}" for ordinal in range(replicas)]
        for pod in pods.values():
            if pod["metadata"]["name"].rpartition("-")[0] == name and pod["metadata"]["name"] not in wanted:
                self._client.delete(POD, self._namespace, pod["metadata"]["name"])
        for pod_name in wanted:
            pod = pods.get(pod_name) or self._client.create(self._new_pod(found, pod_name))
            if _is_outdated(pod, found):
                self._client.delete(POD, self._namespace, pod_name)
                continue
            if pod["status"].get("phase") != "Running":
                self._run_pod(pod)

    def _new_pod(self, found: Object, name: str) -> Object:
        metadata = found["metadata"]
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": metadata["name"], "uid": metadata["uid"]}
        return self._pod_of(found["spec"]["template"], name, owner | {"controller": True})

    def _pod_of(self, template: Object, name: str, owner: Object) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **template["metadata"],
                "name": name,
                "namespace": self._namespace,
                "ownerReferences": [owner],
            },
            "spec": template["spec"],
        }

    def _run_pod(self, pod: Object) -> None:
        metadata = pod["metadata"]
        broken = self.behaviour.broken.get(metadata["labels"]["streamsapp.dev/revision"])
        if broken is not None:
            state = {"waiting": {"reason": broken, "message": "simulated"}}
            phase = "Running" if broken == "CrashLoopBackOff" else "Pending"
            self._write(pod, {"phase": phase, "containerStatuses": [_container(state, ready=False)]})
            return
        host = self._serve(metadata["name"], metadata["uid"])
        status = {
            "phase": "Running",
            "podIP": host,
            "podIPs": [{"ip": host}],
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [_container({"running": {"startedAt": _iso(time.time())}}, ready=True)],
        }
        self._write(pod, status)

    def _serve(self, name: str, uid: str) -> str:
        server = _server(_handler(self, name))
        host = str(server.server_address[0])
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        with self._lock:
            self._pods[name] = SimulatedPod(name, uid, host, server)
            self._generation += 1
        return host

    def _forget(self, pods: dict[str, Object]) -> None:
        alive = {pod["metadata"]["uid"] for pod in pods.values() if "deletionTimestamp" not in pod["metadata"]}
        with self._lock:
            gone = [pod for pod in self._pods.values() if pod.uid not in alive]
            for pod in gone:
                del self._pods[pod.name]
                self._generation += 1
                self._hand_over()
        for pod in gone:
            _close(pod)

    def _hand_over(self) -> None:
        gap, heir = self.behaviour.gap_seconds, next(iter(self._pods), None)
        if gap is not None and heir is not None:
            found = {"task": "0_0", "at": _iso(time.time()), "gapSeconds": gap, "kind": "planned"}
            self._hand_overs.setdefault(heir, []).append(found)

    def _end_check(self, pod: Object) -> None:
        message = self.behaviour.check_message
        if message is None or pod["status"].get("phase") in ("Succeeded", "Failed"):
            return
        code = 2 if message["faults"] else 0
        ended = {"exitCode": code, "message": json.dumps(message), "startedAt": None, "finishedAt": None}
        status = {
            "phase": "Failed" if code else "Succeeded",
            "containerStatuses": [_container({"terminated": ended}, ready=False)],
        }
        self._write(pod, status)

    def _keep_budget(self, budget: Object, expected: int, healthy: int) -> None:
        most = budget["spec"]["maxUnavailable"]
        status = {
            "observedGeneration": budget["metadata"]["generation"],
            "currentHealthy": healthy,
            "desiredHealthy": max(0, expected - most),
            "expectedPods": expected,
            "disruptionsAllowed": max(0, healthy - (expected - most)),
            "disruptedPods": {},
        }
        if budget.get("status") != status:
            self._client.write_status({**budget, "apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}, status)

    def _write(self, pod: Object, status: Object) -> None:
        try:
            self._client.write_status({**pod, "apiVersion": "v1", "kind": "Pod"}, status)
        except Gone:
            return

    def document(self, name: str) -> dict[str, Any]:
        """A pod's ``/status``."""
        with self._lock:
            names, generation = sorted(self._pods), self._generation
            if self.behaviour.batches_end:
                self._executors[name] = sorted(pod.uid for pod in self._pods.values() if pod.name != name)
        if name.endswith(_DRIVER):
            return self._driver_document(name.removesuffix(_DRIVER), [it for it in names if it != name])
        tasks = []
        for number in range(self.behaviour.tasks):
            active = number % len(names)
            if names[active] == name:
                tasks.append(self._task(number, "active", 0))
            elif names[(active + 1) % len(names)] == name:
                tasks.append(self._task(number, "standby", self.behaviour.standby_lag))
        return {
            "applicationId": name.rpartition("-")[0],
            "instance": name,
            "state": "RUNNING",
            "generation": generation,
            "tasks": tasks,
            **({} if self.behaviour.gap_seconds is None else {"handOvers": self._hand_overs.get(name, [])}),
        }

    def _driver_document(self, app: str, executors: list[str]) -> dict[str, Any]:
        """A driver's ``/status``: all tasks, and where each of them is open."""
        tasks = [self._task(number, "active", 0) for number in range(self.behaviour.tasks)]
        for number, task in enumerate(tasks):
            task["worker"] = f"{executors[number % len(executors)]}:/worker-0" if executors else None
        return {
            "applicationId": app, "instance": app, "state": "RUNNING", "generation": None, "tasks": tasks,
            "batches": 3, "progress": None, "executors": self._executors[f"{app}{_DRIVER}"],
        }  # fmt: skip

    def _processed(self) -> int:
        """Some from the start on: a pod that has processed no waiting record is not well."""
        return 100 + int(time.monotonic() * self.behaviour.records_per_second)

    def _task(self, number: int, role: str, lag: int) -> dict[str, Any]:
        store = {
            "name": "counts",
            "changelog": f"counts-changelog-{number}",
            "position": 5000 - lag,
            "endOffset": 5000,
            "lag": lag,
            "observedAt": _iso(time.time()),
            "mode": "processing" if role == "active" else "updating",
            "snapshot": None,
        }
        return {
            "id": f"0_{number}",
            "role": role,
            "state": self.behaviour.states.get(f"0_{number}", "RUNNING") if role == "active" else "RUNNING",
            "stores": [store],
            "inputLag": self.behaviour.input_lag if role == "active" else None,
            "processedRecords": self._processed() if role == "active" else None,
            "restore": None,
        }


def _server(handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    """On an address of its own: other processes of tests may have the same numbers."""
    for number in _addresses:
        host = f"127.{1 + os.getpid() % 250}.{number // 250 % 250}.{number % 250 + 1}"
        try:
            server = ThreadingHTTPServer((host, PORT), handler)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            server.daemon_threads = True
            return server
    raise AssertionError("there is always one more number")


def _handler(node: SimulatedNode, name: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            node.behaviour.asked_with.add(token)
            admitted = not node.behaviour.tokens or token in node.behaviour.tokens
            path, _, query = self.path.partition("?")
            asked = node.document(name) if path == "/status" else _history(name, query)
            body = json.dumps(asked if admitted else {"error": "no"}).encode()
            self.send_response(200 if admitted else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


def _history(name: str, query: str) -> dict[str, Any]:
    """A pod's ``/console/history``: the last quarter of an hour, in which the rates of all pods rise."""
    now, after = int(time.time() // 10), int(query.removeprefix("after="))
    pod = int(name.rpartition("-")[2])
    moments = [
        [10_000 * at, 1_000.0 + 100 * pod + at % 90, 40 + 5 * pod, 120.0, 25.0, 0, 3, 60_000, False]
        for at in range(now - 90, now)
    ]
    return {"instances": {name: [each for each in moments if each[0] > after]}}


def _container(state: Object, *, ready: bool) -> Object:
    return {
        "name": "runtime",
        "image": "simulated",
        "imageID": "",
        "ready": ready,
        "restartCount": 0,
        "state": state,
    }


def _owned_by(found: Object, uid: str) -> bool:
    return any(it["uid"] == uid for it in found["metadata"].get("ownerReferences", []))


def _is_outdated(pod: Object, stateful_set: Object) -> bool:
    """Says whether the controller replaces the pod by itself."""
    there, wanted = (it["metadata"]["labels"] for it in (pod, stateful_set["spec"]["template"]))
    replaces: bool = stateful_set["spec"]["updateStrategy"]["type"] == "RollingUpdate"
    return replaces and there != wanted


def _is_ready(pod: Object) -> bool:
    return any(it["type"] == "Ready" and it["status"] == "True" for it in pod["status"].get("conditions") or ())


def _close(pod: SimulatedPod) -> None:
    pod.server.shutdown()
    pod.server.server_close()


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
