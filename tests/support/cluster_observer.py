"""Watches an application in a cluster, and knows better: asks every pod and the broker itself, and checks each removal
of a pod against the rule of restart safety. Shares nothing with the operator.

Tests of the cluster and the soak start one and ask it. One thread of it follows pods, another one follows events, a
third looks at the answers of pods and of the broker. Times are ``time.monotonic()``.
"""

from __future__ import annotations

import base64
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import urllib3.exceptions
from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec
from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException

from cluster_truth import ClusterView, Limits, PodTruth, Removal, down, faults_of
from streamsapp.kafka.admin import Admin

_GROUP, _VERSION, _PLURAL = "streamsapp.dev", "v1alpha1", "streamsapps"
_PORT = 8080
#: Between two looks, and for each answer, in seconds.
_PAUSE = 0.15
_TIMEOUT = 1.0
#: As many looks as the largest observation age of any test needs.
_KEPT = 400
_AWAY = (ApiException, urllib3.exceptions.HTTPError, OSError, http.client.HTTPException, ValueError)


@dataclass(frozen=True)
class Event:
    """An event on one of the application's objects."""

    kind: str
    reason: str
    message: str
    about: str


class Observer:
    """Follows one application until it is closed."""

    def __init__(
        self,
        api: client.ApiClient,
        bootstrap_servers: str,
        namespace: str,
        name: str,
        snapshots: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """``snapshots`` returns the tasks that have a snapshot in the object store."""
        self.namespace, self.name = namespace, name
        #: The events that broke the rule: nothing may be here.
        self.findings: list[str] = []
        #: Pods that were asked to end, and were judged.
        self.removals: list[Removal] = []
        self.events: list[Event] = []
        #: The most pods that were down at the same time after they had been up, and which.
        self.most_down: list[str] = []
        self._core, self._apps = client.CoreV1Api(api), client.AppsV1Api(api)
        self._custom = client.CustomObjectsApi(api)
        self._admin = Admin({"bootstrap.servers": bootstrap_servers, "log_level": 0})
        self._snapshots = snapshots
        self._lock = threading.RLock()
        self._pods: dict[str, PodTruth] = {}
        self._addresses: dict[str, str] = {}
        self._proved: set[str] = set()
        self._excused: set[str] = set()
        self._looks: list[ClusterView] = []
        self._limits, self._replicas, self._token = Limits(), 0, ""
        self._end = threading.Event()
        self._askers = ThreadPoolExecutor(8, thread_name_prefix="observer-ask")
        self._threads = [
            threading.Thread(target=run, name=f"observer{run.__name__}", daemon=True)
            for run in (self._follow_pods, self._follow_events, self._look_on)
        ]

    def __enter__(self) -> Observer:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()
        self._askers.shutdown()

    @contextmanager
    def excused(self, pod: str) -> Iterator[None]:
        """The test takes this pod away itself, against the rule; unless that fails."""
        with self._lock:
            uid = self._pods[pod].uid
            self._excused.add(uid)
        try:
            yield
        except BaseException:
            self._excused.discard(uid)
            raise

    def begin(self) -> None:
        """Forget how many pods were down, the removals and the events: another scenario begins."""
        with self._lock:
            self.most_down, self.removals, self.events = [], [], []

    def pods(self) -> dict[str, PodTruth]:
        """The application's pods as they are."""
        with self._lock:
            return dict(self._pods)

    def status(self, pod: str) -> dict[str, Any] | None:
        """Returns the pod's status now; ``None`` if it does not answer."""
        with self._lock:
            address = self._addresses.get(pod)
        return None if address is None else self._ask(address)

    def last_view(self) -> ClusterView | None:
        """Returns the last observation."""
        with self._lock:
            return self._looks[-1] if self._looks else None

    def told(self, reason: str) -> list[Event]:
        """Events with this reason since the scenario began."""
        with self._lock:
            return [event for event in self.events if event.reason == reason]

    # -- pods ------------------------------------------------------------------------------------------------------

    def _follow_pods(self) -> None:
        selector = f"streamsapp.dev/name={self.name}"
        self._follow(self._core.list_namespaced_pod, self._replace_pods, self._take_pod, label_selector=selector)

    def _follow(
        self,
        listing: Callable[..., Any],
        begin: Callable[[list[Any]], None],
        take: Callable[[str, Any], None],
        **options: str,
    ) -> None:
        """List, then watch from there; begin anew when the API server breaks off or is away."""
        while not self._end.is_set():
            # A watch reads the environment, which pytest changes meanwhile: a name may be gone.
            with suppress(*_AWAY, KeyError):
                listed = listing(self.namespace, _request_timeout=5, **options)
                begin(listed.items)
                version = listed.metadata.resource_version
                changes: Any = watch.Watch().stream(
                    listing, self.namespace, resource_version=version, timeout_seconds=5, _request_timeout=10, **options
                )
                for change in changes:
                    take(change["type"], change["object"])
            self._end.wait(0.05)

    def _replace_pods(self, items: list[Any]) -> None:
        found = {item.metadata.name: item for item in items}
        for name, pod in self.pods().items():
            if name not in found or found[name].metadata.uid != pod.uid:
                self._gone(name, pod.uid)
        for item in items:
            self._take_pod("MODIFIED", item)

    def _take_pod(self, change: str, item: Any) -> None:
        if change == "DELETED":
            self._gone(item.metadata.name, item.metadata.uid)
            return
        now = time.monotonic()
        with self._lock:
            before = self._pods.get(item.metadata.name)
            if before is not None and before.uid != item.metadata.uid:
                self._gone(before.name, before.uid)
                before = None
            truth = _truth(item, before, now)
            if truth.terminating and before is not None and not before.terminating:
                self._judge(before, now)
            self._pods[truth.name] = truth
            if item.status.pod_ip:
                self._addresses[truth.name] = item.status.pod_ip
            self._count_down()

    def _gone(self, name: str, uid: str) -> None:
        with self._lock:
            pod = self._pods.get(name)
            if pod is None or pod.uid != uid:
                return
            if not pod.terminating:  # deleted at once, or while the observer did not watch
                self._judge(pod, time.monotonic())
            del self._pods[name]
            self._addresses.pop(name, None)
            self._count_down()

    def _judge(self, pod: PodTruth, at: float) -> None:
        """Called with the lock held, before the pod is changed in what is known."""
        self._learn()
        if self._replicas == 0 or pod.uid in self._excused:
            return  # all stop together, which is no interruption
        removal = Removal(pod, at, tuple(self._pods.values()), self._replicas, self._limits)
        faults = faults_of(removal, self._looks)
        if faults:  # asking takes its time, so only when it matters
            said = self.status(pod.name)
            removal = replace(removal, snapshots=frozenset(self._snapshots()), said=said)
            faults = faults_of(removal, self._looks)
        self.removals.append(removal)
        self.findings += faults

    def _count_down(self) -> None:
        """Pods that were up once and are not now; pods that are new, or too many, do not count."""
        expected = [f"{self.name}-{number}" for number in range(self._replicas)]
        up = set(expected) - set(down(self._pods.values(), expected))
        self._proved = (self._proved | up) & set(expected)
        if len(self._proved - up) > len(self.most_down):
            self.most_down = sorted(self._proved - up)

    def _learn(self) -> None:
        """Learns how many pods there are to be, and the numbers of the rule; they stay as before while the API server
        is away."""
        with suppress(*_AWAY):
            app: Any = self._custom.get_namespaced_custom_object(
                _GROUP, _VERSION, self.namespace, _PLURAL, self.name, _request_timeout=2
            )
            rollout = app["spec"].get("rollout", {})
            self._limits = Limits(
                rollout.get("maxStandbyLag", 1000),
                rollout.get("maxObservationAgeSeconds", 10),
                rollout.get("maxRestoreSeconds", 60),
            )
            found: Any = self._apps.read_namespaced_stateful_set(self.name, self.namespace, _request_timeout=2)
            self._replicas = found.spec.replicas

    # -- events ----------------------------------------------------------------------------------------------------

    def _follow_events(self) -> None:
        seen: set[tuple[str, str]] = set()

        def take(change: str, item: Any) -> None:
            key = (item.metadata.uid, item.metadata.resource_version)
            if key in seen or change == "DELETED":
                return
            seen.add(key)
            with self._lock:
                about = item.involved_object.name or ""
                self.events.append(Event(item.type or "", item.reason or "", item.message or "", about))

        def begin(items: list[Any]) -> None:
            for item in items:
                take("ADDED", item)

        self._follow(self._core.list_namespaced_event, begin, take)

    # -- looks -----------------------------------------------------------------------------------------------------

    def _look_on(self) -> None:
        changelogs: set[str] = set()
        while not self._end.wait(_PAUSE):
            self._learn_and_count()
            look = self._look(changelogs)
            tasks = [task for status in look.statuses.values() for task in status["tasks"]]
            changelogs |= {store["changelog"] for task in tasks for store in task["stores"]}
            with self._lock:
                self._looks = [*self._looks[-_KEPT:], look]

    def _learn_and_count(self) -> None:
        self._learn()
        with self._lock:
            self._count_down()

    def _look(self, changelogs: set[str]) -> ClusterView:
        began = time.monotonic()
        with self._lock:
            pods = {
                name: (pod.uid, self._addresses[name]) for name, pod in self._pods.items() if name in self._addresses
            }
        ends = self._changelog_ends(changelogs)
        asked = {name: self._askers.submit(self._ask, address) for name, (_, address) in pods.items()}
        statuses = {name: status for name, answer in asked.items() if (status := answer.result()) is not None}
        return ClusterView(began, time.monotonic(), ends, statuses, {name: pods[name][0] for name in statuses})

    def _changelog_ends(self, changelogs: set[str]) -> dict[str, int]:
        asked = {}
        for name in changelogs:
            topic, _, number = name.rpartition("-")
            asked[TopicPartition(topic, int(number))] = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        ends: dict[str, int] = {}
        if asked:
            level = IsolationLevel.READ_COMMITTED
            answers = self._admin.list_offsets(asked, isolation_level=level, request_timeout=_TIMEOUT)
            for partition, answer in answers.items():
                with suppress(KafkaException):
                    ends[f"{partition.topic}-{partition.partition}"] = answer.result().offset
        return ends

    def _ask(self, address: str) -> dict[str, Any] | None:
        connection = http.client.HTTPConnection(address, _PORT, timeout=_TIMEOUT)
        try:
            connection.request("GET", "/status", headers={"Authorization": f"Bearer {self._token}"})
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        if answer.status == http.client.UNAUTHORIZED:
            self._read_token()
        document: dict[str, Any] | None = json.loads(body) if answer.status == http.client.OK else None
        return document

    def _read_token(self) -> None:
        with suppress(*_AWAY):
            secret: Any = self._core.read_namespaced_secret(f"{self.name}-http", self.namespace, _request_timeout=2)
            self._token = base64.b64decode(secret.data["token"]).decode().split("\n", 1)[0]


def _truth(item: Any, before: PodTruth | None, now: float) -> PodTruth:
    conditions = {condition.type: condition.status for condition in item.status.conditions or ()}
    containers = item.status.container_statuses or ()
    ready, terminating = conditions.get("Ready") == "True", item.metadata.deletion_timestamp is not None
    same = before is not None and (before.ready, before.terminating) == (ready, terminating)
    return PodTruth(
        item.metadata.name,
        item.metadata.uid,
        ready,
        terminating,
        any(container.state.running is not None for container in containers),
        before.since if before is not None and same else now,
    )
