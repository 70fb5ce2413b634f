"""The ``status`` of a StreamsApp: users read it, and it is the operator's memory. A crash resumes from it, so every
action is written here before it is carried out.

Plain data, encoded by msgspec in the field names of the resource; times are UTC, RFC 3339 in the resource.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from streamsapp.manifest.model import AutoscalingSpec, Engine, RolloutSpec
from streamsapp.structs import converted
from streamsapp_operator.model.observed_state import QueryReport


class _Fields(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=False):
    """Unknown fields are let pass: an older operator may meet a newer status."""


class Blocker(_Fields, frozen=True, kw_only=True):
    """The reason why a pod must not be taken away now."""

    #: ``-`` where it is about the application: a task that nobody reports, a StatefulSet that is not there.
    pod: str
    task: str | None = None
    store: str | None = None
    #: A sentence for a tired operator; the leading word is stable: NoStandby, StandbyBehind, StandbyStale,
    #: StandbyPaused, StandbyNotReady, SnapshotTooOld, SnapshotUnknown, NotReady, Unreachable, Rebalancing, TaskMissing.
    reason: str
    lag: int | None = None
    age_seconds: float | None = None


class Restart(_Fields, frozen=True, kw_only=True):
    safe: bool = False
    blockers: tuple[Blocker, ...] = ()
    #: There are more blockers than are listed (the list is capped).
    more_blockers: int = 0


class Tasks(_Fields, frozen=True, kw_only=True):
    active: int = 0
    running: int = 0
    restoring: int = 0
    standby: int = 0


class BootstrapStatus(_Fields, frozen=True, kw_only=True):
    """The progress and the result of ``spec.bootstrap``."""

    phase: Literal["Pending", "Running", "Done", "Failed", "Ignored"]
    message: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    #: The Job, from before it is made until it is gone.
    job: str | None = None
    #: The hash of everything that the Job is made of: another one is another attempt.
    attempt: str | None = None


class PreviewStatus(_Fields, frozen=True, kw_only=True):
    """The preview of a revision: ``spec.rollout.preview``."""

    phase: Literal["Pending", "Running", "Done", "Failed"] = "Pending"
    #: Tells one attempt from another.
    attempt: str
    message: str | None = None
    #: Records of input that both revisions read.
    records: int | None = None
    #: Keys that have results or changed entries, and those of which some differ.
    keys: int | None = None
    differences: int | None = None
    #: The first of them, and what the reader should know, in words.
    first: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


Phase = Literal[
    "Checking",
    "Bootstrapping",
    "Rolling",
    "Paused",
    "Blocked",
    "Complete",
    "TimedOut",
    "RollingBack",
    "RolledBack",
    "Refused",
]


class RolloutStep(_Fields, frozen=True, kw_only=True):
    """The restart of one pod: for how long its worst task was predicted to stand still, and did."""

    pod: str
    started_at: datetime | None = None
    predicted_seconds: float | None = None
    observed_seconds: float | None = None


class RolloutStatus(_Fields, frozen=True, kw_only=True):
    """The rolling restart that is under way, or the last one."""

    #: The revision it leads to.
    revision: str
    phase: Phase = "Checking"
    updated: int = 0
    total: int = 0
    #: The pod that is being restarted.
    current: str | None = None
    #: Its uid before: once another uid has the name, it was replaced.
    current_uid: str | None = None
    started_at: datetime | None = None
    step_started_at: datetime | None = None
    #: Since when it does not get on: no pod may be taken, or the last one's standbys do not catch up.
    blocked_since: datetime | None = None
    #: The containers of the revision that are well, and since when these: ``plan.soak``.
    soaking: str | None = None
    soaking_since: datetime | None = None
    #: For how long the worst task of the pod that is restarted, or was last, stands still; and what it then was.
    predicted_seconds: float | None = None
    observed_seconds: float | None = None
    #: The replacement of the driver, after its executors; it has ended when its pause was observed.
    driver: RolloutStep | None = None
    message: str | None = None
    #: The reason why this revision was given up: it leads back to the last good one, or was never begun.
    failure: str | None = None
    #: Pods of this revision were well for ``soakSeconds``: from then on a pod that does not become ready is no reason
    #: to roll back.
    proved: bool = False
    #: The check passed; ``shape`` is what it told of the topology.
    checked: bool = False
    shape: dict[str, Any] | None = None
    preview: PreviewStatus | None = None


class RolloutRecord(_Fields, frozen=True, kw_only=True):
    """A rollout that is remembered."""

    revision: str
    phase: Phase = "Checking"
    started_at: datetime | None = None
    #: ``None`` while it is under way, or if nobody saw its end.
    ended_at: datetime | None = None
    failure: str | None = None
    #: The last of them, in their order.
    steps: tuple[RolloutStep, ...] = ()


class ScalingStatus(_Fields, frozen=True, kw_only=True):
    """The decision of the built-in autoscaler."""

    desired: int
    reason: str
    changed_at: datetime
    #: Since when fewer would do; scaling down waits for it to last.
    fewer_since: datetime | None = None
    #: The most that were needed since then.
    fewer_enough: int | None = None
    #: Since when more are needed.
    more_since: datetime | None = None
    #: Since when more input waits than may.
    behind_since: datetime | None = None
    #: The rate of a busy pod.
    pod_records_per_second: float | None = None


class SwitchStatus(_Fields, frozen=True, kw_only=True):
    """The switch of engines that is under way, or the last one: for how long nothing is processed."""

    #: That it leads to.
    revision: str
    from_engine: Engine
    to_engine: Engine
    started_at: datetime
    predicted_seconds: float
    #: ``None`` while it is under way.
    observed_seconds: float | None = None
    #: The last observed pause, by the engine that was started.
    learned: dict[str, float] = {}


class ScheduleStatus(_Fields, frozen=True, kw_only=True, omit_defaults=True):
    """The runs of ``spec.spark.schedule``. Unknown fields are left out: ``kubectl get`` shows a null as a value."""

    #: The last run, which may be under way: when it began, what it came to (Running, Succeeded or Failed), and why.
    last_run: datetime | None = None
    result: str | None = None
    message: str | None = None
    #: Records that had come by the end of the last run and that it did not read.
    input_lag: int | None = None
    #: ``None`` while none may begin.
    next_run: datetime | None = None


class Trial(_Fields, frozen=True, kw_only=True):
    """The revision that all pods have, and that is not the last good one yet: ``plan.trial``."""

    revision: str
    since: datetime
    shape: dict[str, Any] | None = None
    engine: Engine = "threads"
    scheduled: bool = False
    #: How many records its pods have processed while others wait, and since when that is the same.
    processed: int | None = None
    idle_since: datetime | None = None


class Accepted(_Fields, frozen=True, kw_only=True):
    """The running part of the last valid spec: the application goes on by it while the spec is invalid."""

    revision: str
    replicas: int
    standby_replicas: int = 0
    rollout: RolloutSpec = RolloutSpec()
    autoscaling: AutoscalingSpec | None = None
    has_remote_state: bool = False
    snapshot_interval_seconds: int = 60
    bootstrap: str | None = None
    preview: str | None = None
    engine: Engine = "threads"
    program: str | None = None
    schedule: str | None = None


ConditionType: TypeAlias = Literal[
    "Ready",
    "UpToDate",
    "Progressing",
    "Reconciling",
    "Stalled",
    "RestartSafe",
    "SnapshotsFresh",
    "Degraded",
    "Previewed",
]


class Condition(_Fields, frozen=True, kw_only=True):
    """metav1.Condition."""

    type: ConditionType
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str
    last_transition_time: str
    observed_generation: int


class AppStatus(_Fields, frozen=True, kw_only=True):
    """The whole status of an application."""

    phase: str = "Pending"
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    selector: str = ""
    tasks: Tasks = Tasks()
    input_lag: int | None = None
    #: The worst of all standbys; unknown is null, never 0.
    standby_lag: int | None = None
    #: How the pods move records, in words: one text, but while pods differ.
    data_paths: tuple[str, ...] = ()
    restart: Restart = Restart()
    rollout: RolloutStatus | None = None
    #: The last rollouts, the newest first: that under way is among them.
    history: tuple[RolloutRecord, ...] = ()
    bootstrap: BootstrapStatus | None = None
    scaling: ScalingStatus | None = None
    conditions: tuple[Condition, ...] = ()
    #: The revision that last had every pod well for ``lastGoodSeconds``: where a rollback leads.
    last_good_revision: str | None = None
    trial: Trial | None = None
    #: The wanted revision, if its check failed or it did not become ready: it is not tried again.
    failed_revision: str | None = None
    #: The topology of ``last_good_revision``, as the check told it.
    shape: dict[str, Any] | None = None
    #: The topologies of other revisions that have pods, by revision, without that of the rollout: ``plan.pods_apart``.
    shapes: dict[str, dict[str, Any]] = {}
    #: The number of tasks with stores that each sub-topology has (number → count): one that nobody reports is missed by
    #: this.
    known_tasks: dict[str, int] = {}
    #: The number of pods that the StatefulSet is asked for; ``None`` before there is one.
    target_replicas: int | None = None
    #: Since when the application is drained in order to be deleted.
    draining_since: datetime | None = None
    accepted: Accepted | None = None
    #: Of ``last_good_revision``; before there is one, the engine that the spec asks for.
    engine: Engine = "threads"
    #: As the driver tells it, with ``engine: spark``.
    query: QueryReport | None = None
    switch: SwitchStatus | None = None
    #: ``None``: the application does not run by a schedule.
    schedule: ScheduleStatus | None = None
    #: ``last_good_revision`` runs by a schedule.
    last_good_scheduled: bool = False


def to_document(status: AppStatus) -> dict[str, Any]:
    """Returns the document that the API server takes."""
    document: dict[str, Any] = msgspec.to_builtins(status)
    return document


def from_document(document: dict[str, Any] | None) -> AppStatus:
    """Reads the status as it was left. A status that cannot be read is a new beginning, never an error: the cluster
    tells the rest."""
    try:
        return converted(document or {}, AppStatus)
    except msgspec.ValidationError:
        return AppStatus()
