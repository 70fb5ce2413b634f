"""The ``status`` of a StreamsApp: users read it, and it is the operator's memory. A crash resumes from it, so every
action is written here before it is carried out.

Plain data, in the field names of the resource; times are UTC. ``resource_status`` reads and writes it. ``make
definitions`` makes the resource's schema and the tables of its reference of these structures.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Struct

from streamsapp.manifest.model import AutoscalingSpec, Engine, RolloutSpec
from streamsapp.manifest.types import Doc
from streamsapp_operator.model.observed_state import QueryReport


class _Fields(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=False):
    """Unknown fields are let pass: an older operator may meet a newer status."""


class Blocker(_Fields, frozen=True, kw_only=True):
    """The reason why a pod must not be taken away now."""

    pod: Annotated[str, Doc("the pod; `-` where it is about the application, such as a task that no pod reports")]
    task: Annotated[str | None, Doc("its task")] = None
    store: Annotated[str | None, Doc("the task's store")] = None
    #: A sentence for a tired operator; the leading word is stable.
    reason: Annotated[
        str,
        Doc(
            "`NoStandby`, `StandbyBehind`, `StandbyStale`, `StandbyPaused`, `StandbyNotReady`, `SnapshotTooOld`, "
            "`SnapshotUnknown`, `NotReady`, `Unreachable`, `Rebalancing` or `TaskMissing`, and more words"
        ),
    ]
    lag: Annotated[int | None, Doc("records that the best standby is behind")] = None
    age_seconds: Annotated[float | None, Doc("how old that observation is, or the snapshot")] = None


class Restart(_Fields, frozen=True, kw_only=True):
    safe: Annotated[bool, Doc("whether a pod may be taken away now")] = False
    blockers: Annotated[tuple[Blocker, ...], Doc("what stands against it")] = ()
    more_blockers: Annotated[int, Doc("how many more there are than are listed")] = 0


#: How the tasks of a pod go on without it; of several ways, the one that takes longest.
GapKind: TypeAlias = Literal["standby", "snapshot", "stateless", "none"]


class ExpectedGap(_Fields, frozen=True, kw_only=True):
    """The time for which the worst task of a pod is predicted to stand still, and from what."""

    seconds: float
    kind: GapKind
    #: The work that there is, in seconds: at the rates that the pod measured, or for a standby at an assumed one.
    work_seconds: float = 0.0
    #: Gaps of this kind by which it is predicted; 0: it is assumed.
    observed: int = 0


class ObservedGap(_Fields, frozen=True, kw_only=True):
    """A gap of this application, by which the next ones are predicted: ``gap_prediction``."""

    kind: GapKind
    work_seconds: float
    seconds: float
    #: Pods measured it; otherwise the operator's looks did, a second apart.
    reported: bool = True


class PodGap(_Fields, frozen=True, kw_only=True):
    """The cost of the restart of one pod."""

    pod: Annotated[str, Doc("the pod")]
    predicted_seconds: Annotated[
        float | None, Doc("for how long its worst task would stand still now; null while that cannot be said")
    ] = None
    predicted_from: Annotated[str | None, Doc("how its tasks would go on, and how many such gaps were observed")] = None
    observed_seconds: Annotated[float | None, Doc("what its last restart in a rollout cost")] = None
    observed_at: Annotated[datetime | None, Doc("when that began")] = None


class Tasks(_Fields, frozen=True, kw_only=True):
    active: Annotated[int, Doc("active tasks")] = 0
    running: Annotated[int, Doc("those of them that run")] = 0
    restoring: Annotated[int, Doc("those of them that restore their state")] = 0
    standby: Annotated[int, Doc("standby tasks")] = 0


class BootstrapStatus(_Fields, frozen=True, kw_only=True):
    """The progress and the result of ``spec.bootstrap``."""

    phase: Annotated[
        Literal["Pending", "Running", "Done", "Failed", "Ignored"],
        Doc("how far it is: `Pending`: no pod of it runs; `Ignored`: the application had run already"),
    ]
    message: Annotated[str | None, Doc("what it waits for, or why it failed")] = None
    started_at: Annotated[datetime | None, Doc("when it was asked for")] = None
    finished_at: Annotated[datetime | None, Doc("when it was done, or failed")] = None
    #: From before it is made until it is gone.
    job: Annotated[str | None, Doc("its Job, while there is one")] = None
    attempt: Annotated[
        str | None, Doc("the hash of everything that the Job is made of: another one is another attempt")
    ] = None


class PreviewStatus(_Fields, frozen=True, kw_only=True):
    """The preview of a revision: ``spec.rollout.preview``."""

    phase: Annotated[Literal["Pending", "Running", "Done", "Failed"], Doc("how far it is")] = "Pending"
    attempt: Annotated[str, Doc("tells one attempt from another")]
    message: Annotated[str | None, Doc("what it waits for, or why it failed")] = None
    records: Annotated[int | None, Doc("records of input that both revisions read")] = None
    keys: Annotated[int | None, Doc("keys that have results or changed entries")] = None
    differences: Annotated[int | None, Doc("those of them that differ")] = None
    first: Annotated[tuple[str, ...], Doc("the first of these, in words")] = ()
    notes: Annotated[tuple[str, ...], Doc("what else the reader should know")] = ()


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

    pod: Annotated[str, Doc("the pod that was restarted")]
    started_at: Annotated[datetime | None, Doc("when that began")] = None
    predicted_seconds: Annotated[float | None, Doc("for how long its worst task was to stand still")] = None
    predicted_from: Annotated[str | None, Doc("from what that was predicted")] = None
    observed_seconds: Annotated[float | None, Doc("for how long it did; null until it works again")] = None


class RolloutMemory(_Fields, frozen=True, kw_only=True):
    """The operator's memory of a rollout; no other program reads it."""

    #: The uid of the pod that is being restarted. Once another uid has its name, it was replaced.
    current_uid: str | None = None
    #: The prediction for that pod, or for the last one.
    expected: ExpectedGap | None = None
    #: The hand-overs that count as that step's: also those back to the pod, a moment after the step has ended.
    measured_from: datetime | None = None
    measured_until: datetime | None = None
    #: ``observed_seconds`` is what the operator's looks show, as not all pods report their hand-overs.
    seen_by_looks: bool = False
    #: The containers of the revision that are well, and since when it is these: ``plan.soak``.
    soaking: str | None = None
    soaking_since: datetime | None = None
    #: Its topology.
    shape: dict[str, Any] | None = None


class RolloutStatus(RolloutMemory, frozen=True, kw_only=True):
    """The rolling restart that is under way, or the last one."""

    revision: Annotated[str, Doc("where it leads")]
    phase: Annotated[Phase, Doc("how far it is")] = "Checking"
    pods: Annotated[str, Doc("`updated` of `total`, such as `1/3`")] = ""
    updated: Annotated[int, Doc("pods of the new revision that are ready")] = 0
    total: Annotated[int, Doc("all pods")] = 0
    current: Annotated[str | None, Doc("the pod that is being restarted")] = None
    started_at: Annotated[datetime | None, Doc("when the rollout began")] = None
    step_started_at: Annotated[datetime | None, Doc("when its present step began")] = None
    #: No pod may be taken, or the last one's standbys do not catch up.
    blocked_since: Annotated[datetime | None, Doc("since when it does not get on")] = None
    predicted_seconds: Annotated[float | None, Doc("for how long the worst task of the pod stands still")] = None
    predicted_from: Annotated[str | None, Doc("from what that is predicted")] = None
    observed_seconds: Annotated[float | None, Doc("what that was in the last step")] = None
    #: It has ended when its pause was observed.
    driver: Annotated[
        RolloutStep | None, Doc("with `engine: spark` the replacement of the driver, after that of its executors")
    ] = None
    message: Annotated[str | None, Doc("more words")] = None
    #: It leads back to the last good one, or was never begun.
    failure: Annotated[str | None, Doc("why the revision was given up")] = None
    #: From then on a pod that does not become ready is no reason to roll back.
    proved: Annotated[bool, Doc("its pods were well for `soakSeconds`")] = False
    checked: Annotated[bool, Doc("its topology was loaded")] = False
    preview: Annotated[PreviewStatus | None, Doc("the result of `spec.rollout.preview`, and how far it is")] = None


class RolloutRecord(_Fields, frozen=True, kw_only=True):
    """A rollout that is remembered."""

    revision: Annotated[str, Doc("where it led")]
    phase: Annotated[Phase, Doc("how it ended")] = "Checking"
    started_at: Annotated[datetime | None, Doc("when it began")] = None
    ended_at: Annotated[datetime | None, Doc("when it ended; null while it is under way, or if that was not seen")] = (
        None
    )
    failure: Annotated[str | None, Doc("why the revision was given up")] = None
    steps: Annotated[tuple[RolloutStep, ...], Doc("the restarts of its pods, the last 40")] = ()


class ScalingStatus(_Fields, frozen=True, kw_only=True):
    """The decision of the built-in autoscaler."""

    desired: Annotated[int, Doc("how many pods it wants")]
    reason: Annotated[str, Doc("why")]
    changed_at: Annotated[datetime, Doc("since when")]
    #: Scaling down waits for it to last.
    fewer_since: Annotated[datetime | None, Doc("since when fewer would do")] = None
    fewer_enough: Annotated[int | None, Doc("the most that were needed since then")] = None
    more_since: Annotated[datetime | None, Doc("since when more are needed")] = None
    behind_since: Annotated[datetime | None, Doc("since when more input waits than may")] = None
    pod_records_per_second: Annotated[float | None, Doc("the rate of a busy pod")] = None


class SwitchStatus(_Fields, frozen=True, kw_only=True):
    """The switch of engines that is under way, or the last one: for how long nothing is processed."""

    revision: Annotated[str, Doc("where it leads")]
    from_engine: Annotated[Engine, Doc("the engine before")]
    to_engine: Annotated[Engine, Doc("the engine after")]
    started_at: Annotated[datetime, Doc("when it began")]
    predicted_seconds: Annotated[float, Doc("for how long nothing is to be processed")]
    observed_seconds: Annotated[float | None, Doc("for how long nothing was; null until it is over")] = None
    learned: Annotated[dict[str, float], Doc("the last observed pause, by the engine that was started")] = {}


class ScheduleStatus(_Fields, frozen=True, kw_only=True, omit_defaults=True):
    """The runs of ``spec.spark.schedule``. Unknown fields are left out: ``kubectl get`` shows a null as a value."""

    last_run: Annotated[datetime | None, Doc("when the last run began, which may be under way")] = None
    result: Annotated[str | None, Doc("what it came to: `Running`, `Succeeded` or `Failed`")] = None
    message: Annotated[str | None, Doc("why")] = None
    input_lag: Annotated[int | None, Doc("records that had come by its end and were not read")] = None
    next_run: Annotated[datetime | None, Doc("when the next one begins; left out while none may")] = None


class Trial(_Fields, frozen=True, kw_only=True):
    """The revision that all pods have, and that is not the last good one yet: ``plan.trial``."""

    revision: str
    #: Since when all pods have it.
    since: datetime
    #: Its topology.
    shape: dict[str, Any] | None = None
    engine: Engine = "threads"
    #: It runs by a schedule.
    scheduled: bool = False
    #: Records that its pods have processed while others wait, and since when that is the same.
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
    restart_on_change: bool = False


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

    type: Annotated[ConditionType, Doc("what it is about")]
    status: Annotated[Literal["True", "False", "Unknown"], Doc("whether it holds")]
    reason: Annotated[str, Doc("why, in one word that is stable")]
    message: Annotated[str, Doc("why, in a sentence")]
    last_transition_time: Annotated[str, Doc("since when")]
    observed_generation: Annotated[int, Doc("the spec that it is about")]


class OperatorMemory(_Fields, frozen=True, kw_only=True):
    """The operator's own memory of an application; no other program reads it."""

    trial: Trial | None = None
    #: The last gaps, the newest last: so many of each kind as ``gap_prediction`` keeps.
    observed_gaps: tuple[ObservedGap, ...] = ()
    #: The wanted revision, if its check failed or it did not become ready: it is not tried again.
    failed_revision: str | None = None
    #: The topology of the last good revision, as the check reported it: sources and stores of each sub-topology.
    shape: dict[str, Any] | None = None
    #: The topologies of other revisions that have pods, without that of the rollout: ``plan.incompatible_pods``.
    shapes: dict[str, dict[str, Any]] = {}
    #: The number of tasks with stores, by sub-topology: a task that no pod reports is missed by this.
    known_tasks: dict[str, int] = {}
    #: The pods that the StatefulSet is asked for; ``None`` before there is one.
    target_replicas: int | None = None
    #: Since when the application is drained, in order to be deleted.
    draining_since: datetime | None = None
    accepted: Accepted | None = None
    #: The last good revision runs by a schedule.
    last_good_scheduled: bool = False


class AppStatus(OperatorMemory, frozen=True, kw_only=True):
    """The whole status of an application. In the resource the operator's memory is a field of its own, which sorts
    last: ``resource_status``."""

    phase: Annotated[str, Doc("a readable phrase; machines read the conditions")] = "Pending"
    message: Annotated[str, Doc("why it is not as asked for, in short; empty while it is")] = ""
    pods: Annotated[str, Doc("`readyReplicas` of the pods that are wanted, such as `2/3`")] = ""
    observed_generation: Annotated[int, Doc("the spec that the rest is about")] = 0
    replicas: Annotated[int, Doc("pods that there are")] = 0
    ready_replicas: Annotated[int, Doc("those of them that are ready")] = 0
    selector: Annotated[str, Doc("what finds the pods")] = ""
    tasks: Annotated[Tasks, Doc("how many there are")] = Tasks()
    input_lag: Annotated[int | None, Doc("input records that are not processed yet")] = None
    #: Unknown is null, never 0.
    standby_lag: Annotated[int | None, Doc("records that the worst standby is behind")] = None
    data_paths: Annotated[
        tuple[str, ...],
        Doc(
            "the clients that move the pods' records, their security and codec, and the engine: one text, but while "
            "pods differ"
        ),
    ] = ()
    restart: Annotated[Restart, Doc("whether a pod may be taken away now, and if not, why")] = Restart()
    gaps: Annotated[
        tuple[PodGap, ...],
        Doc("for how long tasks would stand still in the restart of a pod, and did in its last; the first 50 pods"),
    ] = ()
    rollout: Annotated[RolloutStatus | None, Doc("the rollout that is under way, or the last one")] = None
    #: That under way is among them.
    history: Annotated[
        tuple[RolloutRecord, ...],
        Doc("the last eight rollouts, the newest first, and what the restarts of their pods cost"),
    ] = ()
    bootstrap: Annotated[BootstrapStatus | None, Doc("what became of `spec.bootstrap`")] = None
    scaling: Annotated[ScalingStatus | None, Doc("what the built-in autoscaler decided")] = None
    conditions: Annotated[tuple[Condition, ...], Doc("as everywhere in Kubernetes")] = ()
    #: The revision that last had every pod well for ``lastGoodSeconds``.
    last_good_revision: Annotated[str | None, Doc("where a rollback leads")] = None
    engine: Annotated[Engine, Doc("that of the last good revision; before there is one, that of the spec")] = "threads"
    query: Annotated[QueryReport | None, Doc("what the driver tells of its query, where the engine is `spark`")] = None
    switch: Annotated[SwitchStatus | None, Doc("the switch of engines that is under way, or the last one")] = None
    #: ``None``: the application does not run by a schedule.
    schedule: Annotated[
        ScheduleStatus | None, Doc("the runs of `spec.spark.schedule`; what is not known is left out")
    ] = None
