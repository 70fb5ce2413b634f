"""Reads documents of the cluster and of pods into values for the views. Pure.

Documents of pods may be of an older or a newer runtime: missing fields are not known, and unknown fields are let pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from streamsapp.manifest.model import RolloutSpec
from streamsapp.structs import converted
from streamsapp_operator.children.names import ROLE_LABEL
from streamsapp_operator.kube.documents import depth_fault
from streamsapp_operator.kube.kinds import Object
from streamsapp_operator.model.resource_status import from_document
from streamsapp_operator.model.status import AppStatus
from streamsapp_operator.observe.pods import condition, state_of, waiting
from streamsapp_operator.observe.status_document import Instant, Seconds, TaskId


class _Fields(Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class ReportedSnapshot(_Fields, frozen=True, kw_only=True):
    """The newest snapshot of a store that a pod knows of."""

    epoch: int | None = None
    offset: int | None = None
    #: Of the whole task.
    bytes: int | None = None
    created_at: Instant | None = None
    #: The time when it was last known to be all there is; it is not old for having not changed.
    confirmed_at: Instant | None = None

    @property
    def fresh_at(self) -> datetime | None:
        return self.confirmed_at or self.created_at


class ReportedStore(_Fields, frozen=True, kw_only=True):
    name: str
    changelog: str = ""
    position: int | None = None
    end_offset: int | None = None
    lag: int | None = None
    observed_at: Instant | None = None
    mode: str = ""
    snapshot: ReportedSnapshot | None = None

    @property
    def snapshot_lag(self) -> int | None:
        """The number of records that a restore from the snapshot replays."""
        end = self.end_offset if self.end_offset is not None else self.position
        if end is None or self.snapshot is None or self.snapshot.offset is None:
            return None
        return max(0, end - self.snapshot.offset)


class ReportedRestore(_Fields, frozen=True, kw_only=True):
    """The seconds that restoring a task takes, or took."""

    predicted_seconds: float | None = None
    observed_seconds: float | None = None


class ReportedTask(_Fields, frozen=True, kw_only=True):
    id: TaskId
    role: str
    state: str = ""
    stores: tuple[ReportedStore, ...] = ()
    input_lag: int | None = None
    restore: ReportedRestore | None = None

    @property
    def order(self) -> tuple[int, ...]:
        """The key that orders tasks: ``0_10`` comes after ``0_9``."""
        return tuple(int(part) for part in self.id.split("_") if part.isdigit())


class ReportedSteps(_Fields, frozen=True, kw_only=True):
    """The seconds of a gap that had passed when the task was assigned, restored, and had read its first record."""

    assigned: Seconds | None = None
    restored: Seconds | None = None
    read: Seconds | None = None


class ReportedHandOver(_Fields, frozen=True, kw_only=True):
    """A task that a pod took over, and for how long it stood still."""

    task: TaskId
    at: Instant
    gap_seconds: Seconds
    kind: str = ""
    steps: ReportedSteps = ReportedSteps()


class StatusReport(_Fields, frozen=True, kw_only=True):
    """A pod's ``/status``."""

    state: str = ""
    generation: int | None = None
    tasks: tuple[ReportedTask, ...] = ()
    kafka_secret_changed: bool = False
    hand_overs: tuple[ReportedHandOver, ...] = ()


@dataclass(frozen=True, slots=True)
class PodAnswer:
    """The answer of a pod, by its own clock; or why there is none."""

    report: StatusReport | None = None
    #: The answer as it came, for ``-o json``.
    document: dict[str, Any] | None = None
    at: datetime | None = None
    fault: str | None = None


def read_report(body: bytes, at: datetime | None) -> PodAnswer:
    """Reads a pod's answer; ``at`` is its Date."""
    try:
        document = msgspec.json.decode(body, type=dict[str, Any])
        fault = depth_fault(document, "status")
        if fault is not None:
            return PodAnswer(fault=f"its /status cannot be read: {fault}")
        return PodAnswer(converted(document, StatusReport), document, at)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        return PodAnswer(fault=f"its /status cannot be read: {error}")


@dataclass(frozen=True, slots=True)
class AppPod:
    """A pod of the application."""

    name: str
    ready: bool
    #: Running, Pending, Terminating, ImagePullBackOff, ...: as ``kubectl get pods`` has it.
    phase: str
    restarts: int
    revision: str
    node: str
    created: datetime | None
    answer: PodAnswer = PodAnswer()
    #: Of ``engine: spark``: ``driver`` or ``executor``.
    role: str = ""


@dataclass(frozen=True, slots=True)
class StreamsAppSummary:
    """The facts of an application that the API server has."""

    name: str
    namespace: str
    created: datetime | None
    #: The number that is asked for.
    replicas: int
    autoscaled: bool
    has_remote_state: bool
    max_standby_lag: int
    max_observation_age_seconds: int
    generation: int
    #: An operator has written a status.
    attended: bool
    status: AppStatus


def read_app(document: Mapping[str, Any]) -> StreamsAppSummary:
    """Reads an application from the object."""
    metadata, spec = document["metadata"], document.get("spec") or {}
    rollout, usual = spec.get("rollout") or {}, RolloutSpec()
    return StreamsAppSummary(
        name=metadata["name"],
        namespace=metadata.get("namespace", ""),
        created=read_time(metadata.get("creationTimestamp")),
        replicas=spec.get("replicas", 1),
        autoscaled=bool(spec.get("autoscaling")),
        has_remote_state=bool(spec.get("remoteState")),
        max_standby_lag=rollout.get("maxStandbyLag", usual.max_standby_lag),
        max_observation_age_seconds=rollout.get("maxObservationAgeSeconds", usual.max_observation_age_seconds),
        generation=int(metadata.get("generation") or 0),
        attended=(document.get("status") or {}).get("observedGeneration", -1) >= 0,
        status=from_document(document.get("status")),
    )


def read_pod(document: Object, answer: PodAnswer) -> AppPod:
    """Reads a pod from the object, with the pod's own answer."""
    metadata, status = document["metadata"], document.get("status") or {}
    containers: Sequence[Object] = status.get("containerStatuses") or ()
    return AppPod(
        name=metadata["name"],
        ready=is_ready(document),
        phase=_phase(document, containers),
        restarts=sum(container.get("restartCount", 0) for container in containers),
        revision=(metadata.get("labels") or {}).get("streamsapp.dev/revision", ""),
        node=(document.get("spec") or {}).get("nodeName") or "",
        created=read_time(metadata.get("creationTimestamp")),
        answer=answer,
        role=role_of(document),
    )


def role_of(document: Object) -> str:
    """Returns the part of Spark that a pod is; empty with the other engine."""
    return str((document["metadata"].get("labels") or {}).get(ROLE_LABEL, ""))


def is_ready(document: Object) -> bool:
    """Says whether Kubernetes takes a pod for ready."""
    return condition(document.get("status") or {}, "Ready").get("status") == "True"


def _phase(document: Object, containers: Sequence[Object]) -> str:
    """Returns the state of a pod in one word, as ``kubectl get pods`` has it, or why the pod is not scheduled."""
    status = document.get("status") or {}
    if document["metadata"].get("deletionTimestamp"):
        return "Terminating"
    reasons = [waiting(document)[0]]
    reasons += [state_of(it, kind).get("reason") for it in containers for kind in ("waiting", "terminated")]
    return str(next(filter(None, reasons), None) or status.get("phase") or "Unknown")


def read_time(text: str | None) -> datetime | None:
    """Reads a time in RFC 3339, as Kubernetes and pods write it."""
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


def seconds_since(then: datetime | None, now: datetime | None) -> float | None:
    """Returns the seconds between two times; ``None`` if either is not known."""
    return None if then is None or now is None else max(0.0, (now - then).total_seconds())
