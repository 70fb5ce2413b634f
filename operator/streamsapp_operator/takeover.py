"""Finds where tasks would continue without their pod: at a close standby, or from a snapshot. Pure.

Used by the gate. Every comparison is written so that what is not a sensible number fails it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from streamsapp.manifest.model import RolloutSpec
from streamsapp_operator.gap_prediction import ASSUMED_REPLAY, GapPredictor
from streamsapp_operator.model.observed_state import (
    ObservedState,
    Outage,
    PodReport,
    PodSeen,
    ReportedRole,
    StoreReport,
    TaskReport,
)
from streamsapp_operator.model.status import Blocker, ExpectedGap

#: An answer's Date header, by which pods' clocks are compared with ours, is cut to whole seconds: so much older than it
#: seems may an observation be.
DATE_RESOLUTION = 1.0
RUNNING = "RUNNING"

#: Leading words of ``Blocker.reason``, the worst first.
SEVERITY = (
    "Unreachable",
    "NotReady",
    "TaskMissing",
    "Rebalancing",
    "NoStandby",
    "SnapshotUnknown",
    "SnapshotTooOld",
    "StandbyNotReady",
    "StandbyPaused",
    "StandbyStale",
    "StandbyBehind",
)


@dataclass(frozen=True, slots=True)
class Takeover:
    """The place where a task would go on: how long it would stand still, and until when this is fresh enough."""

    gap: ExpectedGap
    until: float


@dataclass(frozen=True, slots=True)
class Replica:
    """A standby or warm-up of a task, and the pod that has it."""

    pod: PodSeen
    report: PodReport
    task: TaskReport


class Takeovers:
    """The takeovers of an observation, by tasks."""

    def __init__(self, observed: ObservedState, rollout: RolloutSpec, gaps: GapPredictor) -> None:
        self.observed = observed
        self._gaps = gaps
        self._rollout = rollout
        self._max_age = rollout.max_observation_age_seconds
        #: Names of the pods that say they run a task.
        self.owners: dict[str, list[str]] = defaultdict(list)
        self.replicas: dict[str, list[Replica]] = defaultdict(list)
        for pod in observed.pods:
            for task in pod.report.tasks if pod.report else ():
                if task.role is ReportedRole.ACTIVE:
                    self.owners[task.id].append(pod.name)
                elif pod.report is not None:
                    self.replicas[task.id].append(Replica(pod, pod.report, task))
        self._found: dict[str, list[Takeover | Blocker]] = {}
        #: The first outage of the object store that is reported now: no snapshot can be read meanwhile.
        self._no_store = next(self.outages("remoteState"), None)

    def of(self, pod: PodSeen) -> list[Takeover | Blocker]:
        """Returns for each active task that has something to lose where it would go on without this pod, or why
        nowhere."""
        key = f"{pod.name}/{pod.uid}"
        if key not in self._found:
            tasks = pod.report.tasks if pod.report else ()
            self._found[key] = [
                self._cover(task, pod) for task in tasks if task.role is ReportedRole.ACTIVE and task.stores
            ]
        return self._found[key]

    def is_fresh(self, report: PodReport) -> bool:
        """Says whether a report is fresh. A report from the future shows that a clock jumped: nothing is known then."""
        return 0 <= self.observed.at - report.fetched_at <= self._max_age

    def outages(self, name: str) -> Iterator[tuple[PodSeen, Outage]]:
        """Yields who cannot reach this, as fresh reports say; a driver speaks for its executors."""
        driver = self.observed.driver
        for pod in (*self.observed.pods, *(() if driver is None else (driver,))):
            if pod.report is not None and self.is_fresh(pod.report):
                yield from ((pod, it) for it in pod.report.outages if it.name == name)

    def may_take_over(self, pod: PodSeen) -> bool:
        """Says whether tasks may go to this pod: it is ready and stays."""
        replicas = self.observed.children.replicas
        return pod.ready and not pod.terminating and replicas is not None and pod.ordinal < replicas

    def _cover(self, task: TaskReport, pod: PodSeen) -> Takeover | Blocker:
        owners = self.owners[task.id]
        if len(owners) > 1:
            return _blocker(pod, task, f"Rebalancing: several pods report that they run it: {', '.join(owners)}")
        if task.state.upper() != RUNNING:
            return _blocker(pod, task, f"Rebalancing: the task is {task.state} on this pod")
        hosts: dict[str, list[Replica]] = defaultdict(list)
        for replica in self.replicas[task.id]:
            if replica.pod.name != pod.name:
                hosts[replica.pod.name].append(replica)
        tries = [self._host(task, pod, replicas) for replicas in hosts.values()]
        tries.append(self._restore(task, pod))
        covers = [it for it in tries if isinstance(it, Takeover)]
        if covers:
            return min(covers, key=lambda cover: (cover.gap.seconds, -cover.until))
        return max((it for it in tries if isinstance(it, Blocker)), key=_severity)

    def _restore(self, task: TaskReport, pod: PodSeen) -> Takeover | Blocker:
        """Says whether the task can be restored from its snapshot, which needs the object store."""
        found = _by_snapshot(task, pod, self._rollout, self._gaps)
        if isinstance(found, Blocker) or self._no_store is None:
            return found
        teller, outage = self._no_store
        return _blocker(
            pod,
            task,
            f"SnapshotUnknown: its snapshot cannot be read now: {teller.name} cannot use the object store of"
            f" spec.remoteState at {outage.address}: {outage.message}; it goes on once the store answers; if only a"
            " change of the spec can mend that, set spec.replicas to 0 until all pods are gone, and back",
        )

    def _host(self, task: TaskReport, pod: PodSeen, replicas: list[Replica]) -> Takeover | Blocker:
        """Says whether the replicas of the task on one other pod will do: all of them, should it report several."""
        found = [self.by_replica(task, pod, replica) for replica in replicas]
        blockers = [it for it in found if isinstance(it, Blocker)]
        if blockers:
            return min(blockers, key=_severity)
        covers = [it for it in found if isinstance(it, Takeover)]
        return Takeover(max((it.gap for it in covers), key=lambda it: it.seconds), min(it.until for it in covers))

    def by_replica(self, task: TaskReport, pod: PodSeen, replica: Replica) -> Takeover | Blocker:
        """Says whether one replica of a task that runs on ``pod`` can go on with it."""
        host, report, name = replica.pod, replica.report, replica.pod.name
        if not self.may_take_over(host) or report.state != RUNNING or not self.is_fresh(report):
            return _blocker(pod, task, f"StandbyNotReady: {name}, which follows it, is not ready or was not heard of")
        if pod.report is None or report.generation != pod.report.generation:
            return _blocker(pod, task, f"StandbyNotReady: {name}, which follows it, is in another generation")
        if replica.task.state.upper() != RUNNING:
            return _blocker(pod, task, f"StandbyNotReady: the standby on {name} is {replica.task.state}")
        until, most = report.fetched_at + self._max_age, 0
        for store in task.stores:
            same = [it for it in replica.task.stores if (it.name, it.changelog) == (store.name, store.changelog)]
            if not same:
                return _blocker(pod, task, f"StandbyNotReady: the standby on {name} lacks the store", store.name)
            for it in same:
                age, lag = observation_age(it, report, self.observed), known_lag(it)
                why = why_unfit(it.mode, age, lag, name, self._rollout)
                if why is not None or age is None:
                    return _blocker(pod, task, why or "StandbyStale", store.name, lag, age)
                until = min(until, self.observed.at + self._max_age - age)
                most = max(most, lag or 0)
        return Takeover(self._gaps.predict("standby", most / ASSUMED_REPLAY), until)


def observation_age(store: StoreReport, report: PodReport, observed: ObservedState) -> float | None:
    """Returns the greatest age an observation can have; ``None`` if a clock jumped, or it was never made."""
    if store.observed_at is None:
        return None
    when_asked = report.fetched_at + report.clock_offset - store.observed_at + DATE_RESOLUTION
    since = observed.at - report.fetched_at
    return when_asked + since if when_asked >= 0 and since >= 0 else None


def known_lag(store: StoreReport) -> int | None:
    """Returns the larger of the reported lag and the lag between its offsets."""
    if store.lag is None or store.lag < 0:
        return None
    if store.position is None or store.end_offset is None:
        return store.lag
    return max(store.lag, store.end_offset - store.position)


def why_unfit(mode: str, age: float | None, lag: int | None, host: str, rollout: RolloutSpec) -> str | None:
    """Returns why a replica of a store cannot go on where the active task ends."""
    most = rollout.max_standby_lag
    if mode == "paused":
        return f"StandbyPaused: the standby on {host} does not follow"
    if mode != "updating":
        return f"StandbyNotReady: the standby on {host} is {mode}"
    if age is None or lag is None or not age <= rollout.max_observation_age_seconds:
        return f"StandbyStale: the lag of the standby on {host} was last seen too long ago"
    return None if lag <= most else f"StandbyBehind: the standby on {host} is more than {most} records behind"


def leading_word(blocker: Blocker) -> str:
    """Returns the stable part of a reason."""
    return blocker.reason.partition(":")[0]


def _severity(blocker: Blocker) -> int:
    return SEVERITY.index(leading_word(blocker))


def _by_snapshot(task: TaskReport, pod: PodSeen, rollout: RolloutSpec, gaps: GapPredictor) -> Takeover | Blocker:
    """Says whether snapshots of all its stores bring the task back soon enough."""
    seconds, report = task.predicted_restore_seconds, pod.report
    without = [store.name for store in task.stores if store.snapshot_offset is None]
    if len(without) == len(task.stores):
        return _blocker(pod, task, f"NoStandby: no other pod follows it and there is no snapshot of it{_remedy(task)}")
    if without:
        return _blocker(pod, task, f"SnapshotUnknown: there is no snapshot of {', '.join(without)}", without[0])
    if seconds is None or report is None or not seconds >= 0:
        return _blocker(pod, task, "SnapshotUnknown: how long a restore from its snapshot takes is not known")
    if not seconds <= rollout.max_restore_seconds:
        limit = rollout.max_restore_seconds
        return _blocker(pod, task, f"SnapshotTooOld: a restore would take {seconds:.0f} s, more than {limit} s")
    return Takeover(gaps.predict("snapshot", seconds), report.fetched_at + rollout.max_observation_age_seconds)


def _remedy(task: TaskReport) -> str:
    """Returns the user's part in it; a pod that has remote state makes snapshots as soon as it can."""
    if task.has_remote_state:
        return " yet: the next one ends this, as soon as its object store is reached"
    return "; spec.processing.standbyReplicas and spec.remoteState provide for that"


def _blocker(
    pod: PodSeen, task: TaskReport, reason: str, store: str | None = None, lag: int | None = None,
    age: float | None = None,
) -> Blocker:  # fmt: skip
    age_seconds = None if age is None else round(age, 1)
    name = store or task.stores[0].name
    return Blocker(pod=pod.name, task=task.id, store=name, reason=reason, lag=lag, age_seconds=age_seconds)
