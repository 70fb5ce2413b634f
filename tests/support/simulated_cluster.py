"""A made-up cluster for the operator's plan: an API server's objects, the controllers that act on them, and pods whose
processes form a group. One thread, its own time, everything from one seed.

It keeps all guarantees of Kubernetes, and draws the rest: pods die by themselves, controllers lag, a budget is noticed
late, answers are lost or old, clocks of pods are off and jump.
"""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass, field, replace

from simulated_group import Group, is_known
from streamsapp_operator.model.actions import ApplyChildren, Evict
from streamsapp_operator.model.observed_state import (
    CheckSeen,
    CheckState,
    ChildrenSeen,
    ObservedState,
    PodReport,
    PodSeen,
    ReportedRole,
    StoreReport,
    TaskReport,
    TopologyShape,
)

TICK = 0.25
APP = "app"
#: The truth is kept for so long, in seconds.
KEPT = 30.0
#: A revision whose name begins with ``late`` runs for so long, and then crashes; seconds.
LATE = 20.0
#: A startup probe that fails for so long ends the container.
HANGS = 120.0


class RefusedError(Exception):
    """The API server says no: another version, or a budget that is used up."""


@dataclass
class Pod:
    ordinal: int
    uid: str
    revision: str
    created_at: float
    starts_at: float
    version: int = 0
    process: str | None = None
    ready: bool = False
    ends_at: float | None = None
    gone_from_group_at: float | None = None
    restarts: int = 0
    waiting: str | None = None
    #: Its container answers its probes; ``ready`` is what Kubernetes makes of it.
    answers: bool = False
    seen_to_answer: bool = False
    was_ready: bool = False
    running_since: float | None = None
    killed_at: float | None = None
    #: Until then its node does not report it to the API server.
    unseen_until: float = 0.0
    clock_offset: float = 0.0
    offsets: deque[tuple[float, float]] = field(default_factory=deque)
    #: The Secret that is mounted, the one that its process has read, and when the kubelet renews it.
    mounted: str = ""
    read: str = ""
    renewals: list[tuple[float, str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{APP}-{self.ordinal}"

    @property
    def terminating(self) -> bool:
        return self.ends_at is not None

    def comes_back(self, now: float) -> bool:
        """It was well, and its container was started again a moment ago, or is about to be."""
        well = self.answers or self.waiting is not None or not self.was_ready
        return not well and self.killed_at is not None and now < self.killed_at + 30


@dataclass(frozen=True)
class PodTruth:
    uid: str
    ready: bool
    terminating: bool
    actives: frozenset[str]


@dataclass(frozen=True)
class Moment:
    """The truth at one moment: pods, and for each task with stores the pods that follow it and how closely."""

    at: float
    pods: dict[str, PodTruth]
    followers: dict[str, dict[str, float]]
    restore_seconds: dict[str, float | None]


class SimulatedCluster:
    """Objects, controllers, pods."""

    def __init__(self, seed: int, *, partitions: int = 4, standbys: int = 1, remote_state: bool = False) -> None:
        self.rng = random.Random(seed)
        self.now = 1_700_000_000.0
        self.group = Group(self.rng, partitions, standbys, remote_state=remote_state)
        self.pods: dict[int, Pod] = {}
        self.replicas: int | None = None
        self.template: str | None = None
        #: The StatefulSet's controller makes pods of this, until it has noticed another template.
        self._makes: str | None = None
        self.max_unavailable: int | None = None
        #: The disruption controller has noticed the budget of then.
        self._budget_seen_at = 0.0
        self.checks: dict[str, tuple[CheckState, float]] = {}
        self.history: deque[Moment] = deque()
        #: Probability that a pod's answer is lost, and how old an answer may be that is found instead.
        self.loss, self.delay = 0.0, 0.0
        #: Pods say themselves whether they are ready.
        self.tells_ready = True
        self.secret = ""
        self._answers: dict[str, PodReport] = {}
        self._uids = 0

    # ---- time

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end - 1e-9:
            self._tick()

    def _tick(self) -> None:
        self.now += TICK
        self._control()
        for pod in list(self.pods.values()):
            self._live(pod)
        self.group.tick(self.now, TICK)
        for pod in self.pods.values():
            self._probe(pod)
        self._remember()

    def _control(self) -> None:
        """The StatefulSet controller: Parallel, OnDelete."""
        if self.replicas is None or self.template is None:
            return
        if self._makes is None or self.rng.random() < 0.3:
            self._makes = self.template
        for ordinal in range(self.replicas):
            if ordinal not in self.pods and self.rng.random() < 0.5:
                self._uids += 1
                start = self.now + self.rng.uniform(1, 4)
                pod = Pod(ordinal, f"u{self._uids}", self._makes, self.now, start)
                pod.clock_offset = self.rng.uniform(-5, 5)
                pod.mounted = self.secret
                self.pods[ordinal] = pod
        for ordinal, pod in self.pods.items():
            if ordinal >= self.replicas and not pod.terminating and self.rng.random() < 0.5:
                self.terminate(pod)

    def _live(self, pod: Pod) -> None:
        while pod.renewals and pod.renewals[0][0] <= self.now:
            pod.mounted = pod.renewals.pop(0)[1]
        if pod.ends_at is not None and self.now >= pod.ends_at:
            self._stop(pod)
            del self.pods[pod.ordinal]
        elif pod.gone_from_group_at is not None and self.now >= pod.gone_from_group_at:
            self._stop(pod)
        elif pod.process is not None and pod.revision.startswith("late") and self.now >= pod.starts_at + LATE:
            self.kill(pod)
        elif pod.process is None and not pod.terminating and self.now >= pod.starts_at:
            self._start(pod)
        elif pod.process is None and pod.running_since is not None and self.now >= pod.running_since + HANGS:
            pod.restarts += 1  # by the kubelet, as its startup probe fails
            pod.running_since, pod.starts_at = None, self.now + 1

    def _start(self, pod: Pod) -> None:
        behaviour = pod.revision.partition("-")[0]
        if behaviour == "image":
            self._wait(pod, "ImagePullBackOff")
        elif behaviour == "hang":
            pod.running_since, pod.starts_at = self.now, math.inf
            pod.version += 1
        elif behaviour == "crash" or (behaviour == "flaky" and self.rng.random() < 0.3):
            pod.restarts += 1
            self._wait(pod, "CrashLoopBackOff")
            pod.starts_at = self.now + min(60.0, 2.0**pod.restarts)
        else:
            pod.process, pod.waiting, pod.running_since = f"{pod.uid}.{pod.restarts}", None, self.now
            pod.version += 1
            pod.read = pod.mounted
            self.group.join(pod.process, pod.revision, pod.clock_offset, self.now)

    def _wait(self, pod: Pod, reason: str) -> None:
        if pod.waiting != reason:
            pod.waiting = reason
            pod.version += 1

    def _stop(self, pod: Pod) -> None:
        if pod.process is not None:
            self.group.leave(pod.process, self.now)
        pod.process, pod.ready, pod.answers, pod.gone_from_group_at = None, False, False, None
        pod.running_since = None
        pod.version += 1

    def _probe(self, pod: Pod) -> None:
        """Ready once it has caught up; from then on as long as its process lives and is not asked to end."""
        mute = pod.revision.startswith("slow")
        process = None if mute else pod.process
        pod.answers = process is not None and (pod.answers or self.group.is_caught_up(process, self.now))
        if self.now >= pod.unseen_until:
            pod.seen_to_answer = pod.answers
        ready = pod.answers and self.now >= pod.unseen_until
        if ready != pod.ready:
            pod.ready = ready
            pod.was_ready |= ready
            pod.version += 1

    # ---- what happens to pods

    def terminate(self, pod: Pod) -> None:
        """Asked to end: it hands over, then it is gone."""
        leaves = self.now + self.rng.uniform(0.2, 2.0)
        pod.ends_at, pod.gone_from_group_at = leaves + self.rng.uniform(0.2, 3.0), leaves
        pod.version += 1

    def kill(self, pod: Pod) -> None:
        """kill -9 of its process; the container is started again."""
        if pod.process is not None:
            self._stop(pod)
            pod.restarts += 1
            pod.starts_at = self.now + self.rng.uniform(0.5, 5)
            pod.killed_at = self.now

    def change_secret(self, secret: str) -> None:
        """Each kubelet renews the files at a time of its own."""
        self.secret = secret
        for pod in self.pods.values():
            pod.renewals = [(self.now + self.rng.uniform(0, 90), secret)]

    def lose_node(self, pod: Pod, seconds: float) -> None:
        """The kubelet does not reach the API server: Kubernetes calls the pod not ready, and it works on."""
        pod.unseen_until = self.now + seconds

    def delete_by_force(self, pod: Pod) -> None:
        """Its node is gone."""
        self._stop(pod)
        self.pods.pop(pod.ordinal, None)

    def jump(self, pod: Pod, seconds: float) -> None:
        """An administrator sets the clock of its node."""
        pod.clock_offset += seconds
        if pod.process is not None:
            self.group.members[pod.process].clock_offset = pod.clock_offset

    # ---- the API

    def apply(self, action: ApplyChildren) -> None:
        self.set_budget(action.max_unavailable)
        self.replicas, self.template = action.replicas, action.revision

    def set_budget(self, most: int) -> None:
        if most != self.max_unavailable:
            self.max_unavailable = most
            self._budget_seen_at = self.now + self.rng.uniform(0, 1.0)

    def evict(
        self, pod: str, uid: str | None = None, version: str | None = None, *, unready_may_go: bool = False
    ) -> Pod:
        """The Eviction API, as drains and the operator use it; ``unready_may_go`` is of the budget at that moment."""
        found = next((it for it in self.pods.values() if it.name == pod), None)
        if found is None or (uid is not None and (found.uid, str(found.version)) != (uid, version)):
            raise RefusedError("another version")
        if found.terminating:
            return found
        runs = found.running_since is not None or found.waiting == "CrashLoopBackOff"
        if runs and (found.ready or not unready_may_go):
            self._ask_budget(found)
        self.terminate(found)
        return found

    def _ask_budget(self, pod: Pod) -> None:
        if self.max_unavailable is None:
            return
        healthy = sum(it.ready and not it.terminating for it in self.pods.values())
        least = (self.replicas or 0) - self.max_unavailable
        if not pod.ready and healthy >= least > 0:  # IfHealthyBudget
            return
        if self.now < self._budget_seen_at or healthy <= least:
            raise RefusedError("the budget is used up")

    def evict_for(self, action: Evict) -> Pod:
        return self.evict(action.pod, action.uid, action.resource_version, unready_may_go=action.unready)

    def start_check(self, revision: str) -> None:
        self.checks.setdefault(revision, (CheckState.RUNNING, self.now + self.rng.uniform(0.5, 4)))

    def drop_check(self, revision: str) -> None:
        self.checks.pop(revision, None)

    # ---- what can be observed

    def observe(self) -> ObservedState:
        checks = {revision: self._check(revision, *it) for revision, it in self.checks.items()}
        seen = self._makes == self.template
        children = ChildrenSeen(self.replicas, self.template, template_seen=seen, max_unavailable=self.max_unavailable)
        pods = tuple(self._seen(self.pods[ordinal]) for ordinal in sorted(self.pods))
        reports = [pod.report for pod in pods]
        known = [it for it in reports if it is not None]
        total = len({task.id for it in known for task in it.tasks if task.role is ReportedRole.ACTIVE})
        return ObservedState(self.now, children, pods, checks, total if len(known) == len(pods) else None)

    def _check(self, revision: str, state: CheckState, ends_at: float) -> CheckSeen:
        if state is not CheckState.RUNNING or self.now < ends_at:
            return CheckSeen(revision, state)
        if revision.startswith("badcheck"):
            return CheckSeen(revision, CheckState.FAILED, ("spec.topology.entrypoint: no such module",))
        return CheckSeen(revision, CheckState.PASSED, shape=shape_of(revision))

    def _seen(self, pod: Pod) -> PodSeen:
        report = self._ask(pod)
        return PodSeen(
            name=pod.name,
            uid=pod.uid,
            ordinal=pod.ordinal,
            revision=pod.revision,
            ready=pod.ready,
            terminating=pod.terminating,
            created_at=pod.created_at,
            resource_version=str(pod.version),
            phase="Running" if pod.running_since or pod.restarts else "Pending",
            restarts=pod.restarts,
            started=pod.process is not None if pod.running_since or pod.restarts else None,
            answers_probes=pod.seen_to_answer,
            running_since=pod.running_since,
            was_ready=pod.was_ready,
            waiting_reason=pod.waiting,
            report=report,
            unreachable=None if report else "no answer",
        )

    def _ask(self, pod: Pod) -> PodReport | None:
        if pod.process is None or self.rng.random() < self.loss:
            return None
        old = self._answers.get(pod.process)
        if old is not None and self.rng.random() < self.delay:
            return old
        self._answers[pod.process] = report = self._report(pod, pod.process)
        return report

    def _report(self, pod: Pod, process: str) -> PodReport:
        """As ``observe`` makes it: of the last minute's offsets between the clocks the largest counts."""
        pod.offsets.append((self.now, math.floor(self.now + pod.clock_offset) - self.now))
        while pod.offsets[0][0] < self.now - 60:
            pod.offsets.popleft()
        member = self.group.members[process]
        return PodReport(
            state=self.group.state_of(process, self.now),
            generation=member.generation,
            tasks=tuple(self._tasks(process)),
            fetched_at=self.now,
            clock_offset=max(offset for _, offset in pod.offsets),
            ready=pod.answers if self.tells_ready else None,
            kafka_secret_changed=pod.read != pod.mounted,
        )

    def _tasks(self, process: str) -> list[TaskReport]:
        found: list[TaskReport] = []
        for task in self.group.tasks.values():
            snapshot = None if task.restore_seconds is None else 100
            store = StoreReport(f"s{task.id[0]}", f"c-{task.id}", None, None, None, None, "processing", snapshot)
            stores = (store,) if task.stateful else ()
            if task.owner == process:
                state = "RUNNING" if task.runs(self.now) else "RESTORING"
                active = TaskReport(task.id, ReportedRole.ACTIVE, state, stores, 5, task.restore_seconds)
                found.append(active)
            replica = task.replicas.get(process)
            if replica is not None:
                mode = "paused" if replica.paused else "updating"
                followed = replace(store, lag=replica.seen_lag, observed_at=replica.seen_at, mode=mode)
                found.append(TaskReport(task.id, ReportedRole.STANDBY, "RUNNING", (followed,)))
        return found

    def _remember(self) -> None:
        names = {pod.process: pod.name for pod in self.pods.values() if pod.process}
        stateful = [task for task in self.group.tasks.values() if task.stateful]
        pods = {
            pod.name: PodTruth(
                pod.uid, pod.answers, pod.terminating, frozenset(it.id for it in stateful if it.owner == pod.process)
            )
            for pod in self.pods.values()
            if pod.process
        }
        followers = {
            task.id: {names[uid]: it.lag for uid, it in task.replicas.items() if uid in names and not it.paused}
            for task in stateful
        }
        restores = {task.id: task.restore_seconds for task in stateful}
        self.history.append(Moment(self.now, pods, followers, restores))
        while self.history[0].at < self.now - KEPT:
            self.history.popleft()


def shape_of(revision: str) -> TopologyShape:
    """A revision whose name begins with ``moved`` has its store elsewhere; a name that ends with ``+`` has one more.
    ``left`` and ``right`` revisions fit all but each other: they give the same topic to tasks of other ids."""
    more: dict[int, dict[str, str]] = {2: {"s2": "key-value"}} if revision.endswith("+") else {}
    first = {"other": "key-value"} if revision.startswith("moved") else {"s0": "key-value"}
    topics = {0: ("moved",) if revision.startswith("moved") else ("in",), 1: ("in2",), **dict.fromkeys(more, ("in3",))}
    if revision.startswith(("left", "right")):
        own = ("in4",) if revision.startswith("left") else ("in5", "in4")
        topics |= {3 + number: (topic,) for number, topic in enumerate(own)}
    return TopologyShape(sources=topics, stores={0: first, 1: {}, **more})


__all__ = ["Moment", "Pod", "RefusedError", "SimulatedCluster", "is_known", "shape_of"]
