"""The rule of restart safety, worked out from the truth: from the words of pods and brokers themselves, as an observer
sees them who is not the operator. Pure.

A pod may be taken away only while no other pod is down, and only if every active task with state on it is covered.
Either another ready pod follows the task with a known lag of at most ``maxStandbyLag``, seen no longer than
``maxObservationAgeSeconds`` ago; or there is a snapshot from which it is restored within ``maxRestoreSeconds``.
Only a certain violation is a finding: a lag counts as small if it may have been, between two looks. A change of a
moment before does not count against an operator that could not have seen it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: A change that is younger cannot have been seen by an operator that looks about every second.
UNSEEN_SECONDS = 2.0
#: A pod that was just made cannot have got any task yet: an interpreter that starts and joins a group takes longer.
STARTING_SECONDS = 3.0


@dataclass(frozen=True)
class Limits:
    """``spec.rollout`` of the application, as it was set at the time."""

    max_standby_lag: int = 1000
    max_observation_age: float = 10.0
    max_restore: float = 60.0


@dataclass(frozen=True)
class PodTruth:
    """A pod, as the API server describes it."""

    name: str
    uid: str
    ready: bool
    terminating: bool
    #: Its container runs: it may hold something.
    running: bool
    #: Since when ``ready and not terminating`` is what it is, in seconds of the observer's clock.
    since: float


@dataclass(frozen=True)
class ClusterView:
    """The answers of all pods and of the broker at one moment."""

    #: Before the first was asked, and after the last one answered.
    began: float
    ended: float
    #: The ends of changelogs for readers of committed records, asked for before the pods were.
    ends: Mapping[str, int]
    #: ``/status`` of each pod that answered, by name.
    statuses: Mapping[str, Mapping[str, Any]]
    uids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Removal:
    """A pod that was asked to end."""

    pod: PodTruth
    at: float
    #: All pods of the application as they were just before, and how many there are to be.
    pods: tuple[PodTruth, ...]
    replicas: int
    limits: Limits
    #: Tasks that have a snapshot in the object store.
    snapshots: frozenset[str] = frozenset()
    #: ``/status`` of the pod when it was asked at once: it may have woken up after the last look.
    said: Mapping[str, Any] | None = None


def faults_of(removal: Removal, looks: Sequence[ClusterView]) -> list[str]:
    """Returns why the pod must not have been taken away then; empty if it was right."""
    pod, at = removal.pod, removal.at
    known = [look for look in looks if look.ended <= at and at - look.began <= removal.limits.max_observation_age]
    found = [*_others_down(removal)]
    if not pod.running:
        return found if pod.ready else []
    mine = next((look for look in reversed(known) if look.uids.get(pod.name) == pod.uid), None)
    if mine is None and not pod.ready and at - pod.since <= STARTING_SECONDS and not _was_heard(pod, looks):
        return found
    status = mine.statuses[pod.name] if mine is not None else removal.said
    if status is None:
        return [*found, f"{pod.name} was taken away though nobody could know what it holds{_heard(removal, looks)}"]
    for task in status["tasks"]:
        if task["role"] == "active" and task["stores"]:
            found += _task_faults(task, removal, known)
    return found


def _was_heard(pod: PodTruth, looks: Sequence[ClusterView]) -> bool:
    return any(look.uids.get(pod.name) == pod.uid for look in looks)


def _heard(removal: Removal, looks: Sequence[ClusterView]) -> str:
    """Returns when the pod was heard of the last time, for the report of a fault."""
    pod = removal.pod
    answered = [look.ended for look in looks if look.uids.get(pod.name) == pod.uid and look.ended <= removal.at]
    heard = f"{removal.at - answered[-1]:.1f} s before" if answered else "never"
    others = f"looked {removal.at - looks[-1].ended:.1f} s before" if looks else "never looked"
    return f" (ready: {pod.ready}, for {removal.at - pod.since:.1f} s; heard of {heard}; {others})"


def down(pods: Iterable[PodTruth], expected: Iterable[str]) -> list[str]:
    """Returns the pods that should be up and are not."""
    up = {pod.name for pod in pods if pod.ready and not pod.terminating}
    return [name for name in expected if name not in up]


def _others_down(removal: Removal) -> Iterator[str]:
    """Others that were not up, for long enough to be known; a pod that is down itself makes none more."""
    if not removal.pod.ready:
        return
    prefix = removal.pod.name.rpartition("-")[0]
    others = [f"{prefix}-{number}" for number in range(removal.replicas)]
    up = {pod.name for pod in removal.pods if _seems_up(pod, removal.at)}
    for name in others:
        if name != removal.pod.name and name not in up:
            yield f"{removal.pod.name} was taken away while {name} was down"


def _seems_up(pod: PodTruth, at: float) -> bool:
    return (pod.ready and not pod.terminating) or at - pod.since <= UNSEEN_SECONDS


def _task_faults(task: Mapping[str, Any], removal: Removal, looks: Sequence[ClusterView]) -> Iterator[str]:
    if _is_restored_soon(task, removal):
        return
    heirs = [pod for pod in removal.pods if pod.name != removal.pod.name and _seems_up(pod, removal.at)]
    tried = [f"{pod.name}: {why}" for pod in heirs if (why := _why_not(task, pod, removal.limits, looks)) is not None]
    if len(tried) == len(heirs):
        told = "; ".join(tried) or "no other pod was ready"
        yield f"{removal.pod.name} was taken away while task {task['id']} could go on nowhere: {told}"


def _why_not(task: Mapping[str, Any], heir: PodTruth, limits: Limits, looks: Sequence[ClusterView]) -> str | None:
    """Returns why the task could not go on at this pod; ``None`` if it could."""
    worst = "it does not follow it"
    heard = [look for look in looks if look.uids.get(heir.name) == heir.uid]
    for look in (look for look in heard if look.ended >= heard[-1].began - UNSEEN_SECONDS):
        for replica in look.statuses[heir.name]["tasks"]:
            if replica["id"] == task["id"] and replica["role"] in ("standby", "warmup"):
                faults = [*_store_faults(task, replica, limits, look)]
                if not faults:
                    return None
                worst = ", ".join(faults)
    return worst


def _store_faults(
    task: Mapping[str, Any], replica: Mapping[str, Any], limits: Limits, look: ClusterView
) -> Iterator[str]:
    stores = {store["name"]: store for store in replica["stores"]}
    for wanted in task["stores"]:
        store = stores.get(wanted["name"])
        if store is None:
            yield f"it lacks the store {wanted['name']}"
        elif store["mode"] != "updating":
            yield f"{wanted['name']} is {store['mode']}"
        elif store["position"] is None or wanted["changelog"] not in look.ends:
            yield f"the lag of {wanted['name']} is not known"
        elif (lag := look.ends[wanted["changelog"]] - store["position"]) > limits.max_standby_lag:
            yield f"{wanted['name']} is {lag} records behind"


def _is_restored_soon(task: Mapping[str, Any], removal: Removal) -> bool:
    """By the pod's own measured rates; that there is a snapshot of the task is looked up, not believed."""
    predicted = (task.get("restore") or {}).get("predictedSeconds")
    told = all(store.get("snapshot") for store in task["stores"])
    if not told or predicted is None or task["id"] not in removal.snapshots:
        return False
    return float(predicted) <= removal.limits.max_restore
