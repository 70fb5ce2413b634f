"""The observed state of one application: its children in the cluster, its pods, and each pod's own report. Plain data.

Made by ``observe``, read by the gate and by ``plan``. ``None`` means not known, and a fact that is not known is never
taken for good. Times are seconds of Unix time: of the pod's clock where it says so, else of the operator's. That must
not jump (Unix time when the process began, plus what its monotonic clock counted since): ages are differences of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated

from msgspec import Struct

from streamsapp.manifest.model import Engine
from streamsapp.manifest.types import Doc

#: The state of an executor that took part in no batch yet which has ended: it may not be known to the driver, and the
#: query has not gone on since it came.
JOINING = "JOINING"


class ReportedRole(Enum):
    ACTIVE = "active"
    STANDBY = "standby"
    WARMUP = "warmup"


@dataclass(frozen=True, slots=True)
class StoreReport:
    """The report of one store of one task on one pod, as ``/status`` has it."""

    name: str
    changelog: str
    position: int | None
    end_offset: int | None
    #: Records behind the end of the changelog.
    lag: int | None
    #: The time when position and end were seen, by the pod's clock.
    observed_at: float | None
    #: processing | updating | restoring | paused
    mode: str
    #: Changelog offset of the newest snapshot that the pod knows of, and when it was made or confirmed.
    snapshot_offset: int | None = None
    snapshot_at: float | None = None


@dataclass(frozen=True, slots=True)
class TaskReport:
    """The report of one task on one pod."""

    id: str
    role: ReportedRole
    state: str
    stores: tuple[StoreReport, ...] = ()
    input_lag: int | None = None
    #: The seconds that restoring it on an empty disk would take, by the pod's own measured rates; only with remote
    #: state.
    predicted_restore_seconds: float | None = None
    has_remote_state: bool = False
    #: Records it has processed on this pod so far.
    processed: int | None = None
    #: Commits that had something of it, on this pod so far; ``None``: the runtime is older than the operator.
    commits: int | None = None
    #: For a driver's task: the process that has it open, as ``host:directory``.
    worker: str | None = None
    #: Records that the pod has and could process now, without those of open transactions; ``None``: not reported.
    waiting: int | None = None
    #: Nothing of its input is processed until a user says so.
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Outage:
    """Something that a pod depends on and cannot reach."""

    #: kafka | remoteState
    name: str
    address: str
    #: By the pod's clock.
    since: float
    message: str
    #: True if either side refuses credentials or certificates, which waiting does not mend.
    refused: bool = False


@dataclass(frozen=True, slots=True)
class HangReport:
    """A task whose user code does not come back from a record or a punctuator: its instance commits nothing."""

    task: str
    #: For how long already, as the pod says.
    seconds: float
    message: str


@dataclass(frozen=True, slots=True)
class HandOverReport:
    """A task that a pod took over, as it reports it."""

    task: str
    #: When it went on, by the pod's clock.
    at: float
    #: For how long it stood still.
    gap_seconds: float
    #: How it was handed over, in the pod's own word.
    kind: str
    #: The seconds of that which had passed when it was assigned to the pod, restored, and had read its first record;
    #: ``None``: it does not say so.
    assigned: float | None = None
    restored: float | None = None
    read: float | None = None


class QueryReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """The query of a driver, as it reports it; part of the status as it is."""

    state: Annotated[str, Doc("what it does")]
    batches: Annotated[int, Doc("batches that have ended")]
    batch_seconds: Annotated[float | None, Doc("how long the last one took")] = None
    records_per_second: Annotated[float | None, Doc("how fast its records were processed")] = None


@dataclass(frozen=True, slots=True)
class PodReport:
    """A pod's ``/status``."""

    #: RUNNING, REBALANCING, ... of the worst of its instances.
    state: str
    #: Of the group; ``None`` before it joined.
    generation: int | None
    tasks: tuple[TaskReport, ...]
    #: The time when the operator asked, by the operator's clock: never later than the answer.
    fetched_at: float
    #: The pod's clock minus the operator's at that moment, from the answer's Date header, which is cut to whole
    #: seconds: the gate adds that second to every age, so do not round. The largest of the last minute: a clock that is
    #: set back would make old observations fresh.
    clock_offset: float = 0.0
    #: The answer it would give to ``/readyz``; ``None`` if it does not say.
    ready: bool | None = None
    #: ``host:port`` of every member of its group, itself included.
    peers: tuple[str, ...] = ()
    outages: tuple[Outage, ...] = ()
    #: Only of a driver.
    query: QueryReport | None = None
    #: The uids of pods whose workers came to the last batch that ended; ``None`` of a driver that does not report them:
    #: its image is older than the operator.
    executors: tuple[str, ...] | None = None
    hanging: tuple[HangReport, ...] = ()
    #: For how long the user's code has been in the record that takes longest now; ``None``: not reported.
    in_process_seconds: float | None = None
    #: Sentences about the tasks that it does not get because its topology is another than the others'.
    notes: tuple[str, ...] = ()
    #: For a pod of several instances: how often the worst of them was started again, and how long ago the last one was.
    instance_restarts: int = 0
    restarted_seconds_ago: float | None = None
    #: The longest that the user's code took for one record or punctuator, of those from which it came back.
    usual_process_seconds: float = 0.0
    #: The client that moves its records, its security and codec, and the engine, in words.
    data_path: str | None = None
    #: The mounted Secret of ``spec.kafka.secretRef`` has other properties than the pod's process has read.
    kafka_secret_changed: bool = False
    #: The last ones, the oldest first; ``None``: the runtime is older than the operator and does not report them.
    hand_overs: tuple[HandOverReport, ...] | None = None


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod of the application."""

    name: str
    uid: str
    #: Its number in the StatefulSet.
    ordinal: int
    #: Label ``streamsapp.dev/revision``; ``None`` if it has none.
    revision: str | None
    #: Kubernetes' Ready condition.
    ready: bool
    #: It has a deletion timestamp.
    terminating: bool
    created_at: float
    resource_version: str = ""
    #: Its IP address.
    address: str | None = None
    phase: str = "Running"
    restarts: int = 0
    #: Its container has passed its startup probe since it began the last time; ``None``: there is no container yet.
    started: bool | None = None
    #: Its container passes its readiness probe, as its node said last, whatever Kubernetes thinks of that node.
    answers_probes: bool = False
    #: Since when its container runs; ``None``: it does not.
    running_since: float | None = None
    #: It was ready once: it has state that is warm, if its container comes back.
    was_ready: bool = False
    #: The reason why its container does not run: ``ImagePullBackOff``, ``CrashLoopBackOff``,
    #: ``CreateContainerConfigError``, ...
    waiting_reason: str | None = None
    waiting_message: str | None = None
    #: The container's last end: its termination message, exit code in front (``exit 2: spec.kafka...``).
    last_exit: str | None = None
    #: ``None``: it could not be asked, for the reason in ``unreachable``.
    report: PodReport | None = None
    unreachable: str | None = None
    #: Label ``streamsapp.dev/program``, of a driver or an executor.
    program: str | None = None
    #: The node that it is on.
    node: str | None = None
    #: That node no longer reports to Kubernetes. The pod may work all the same; Kubernetes cannot end it there.
    node_lost: bool = False


@dataclass(frozen=True, slots=True)
class ChildrenSeen:
    """The application's StatefulSet and budget as they are."""

    #: ``None``: there is no StatefulSet yet.
    replicas: int | None = None
    #: Label ``streamsapp.dev/revision`` of the StatefulSet's pod template.
    template_revision: str | None = None
    #: The StatefulSet's controller has seen the template: a pod that it makes from now on has this revision.
    template_seen: bool = True
    #: ``maxUnavailable`` of the PodDisruptionBudget; ``None``: there is none.
    max_unavailable: int | None = None
    #: Hash of what was applied last, per child (``Kind/name``): annotation ``streamsapp.dev/applied``.
    applied: Mapping[str, str] = field(default_factory=dict)
    #: Revisions whose ConfigMap exists.
    revisions: frozenset[str] = frozenset()
    #: That the StatefulSet's pod template is for; ``None``: there is no StatefulSet yet.
    engine: Engine | None = None
    #: Of the driver's StatefulSet, like ``replicas`` and ``template_revision``.
    driver_replicas: int | None = None
    driver_revision: str | None = None
    #: Of the CronJob; ``None``: there is none.
    schedule_revision: str | None = None


class CheckState(Enum):
    """The state of a revision's check: a pod that loads the user's topology and reports it."""

    ABSENT = "absent"
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TopologyShape:
    """The parts of a topology that must stay the same for old and new pods to work side by side.

    Sub-topology number → its source topics (repartition topics included) and its stores (``name`` → ``kind``).
    """

    sources: Mapping[int, tuple[str, ...]]
    stores: Mapping[int, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class CheckSeen:
    """The check of one revision."""

    revision: str
    state: CheckState = CheckState.ABSENT
    #: Lines that lead to the fix, when it failed.
    faults: tuple[str, ...] = ()
    shape: TopologyShape | None = None
    started_at: float | None = None


class JobState(Enum):
    """The state of a Job, of a bootstrap or a preview."""

    #: No container of it runs: not yet, or not at the moment.
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    #: It is being deleted: some pod of it may still run.
    ENDING = "ending"


@dataclass(frozen=True, slots=True)
class JobSeen:
    """The Job of a bootstrap or a preview."""

    attempt: str
    revision: str | None
    state: JobState
    #: The reason why it failed, what it waits for, or what became of the try before.
    message: str | None = None
    #: The Job waits for something that is an error (its image cannot be pulled, no node takes it).
    stuck: bool = False


@dataclass(frozen=True, slots=True)
class PreviewResult:
    """The differences between two revisions that ran on the same input, on copies of the same state."""

    #: Records of input that were read.
    records: int
    #: Keys that have results or changed entries, and the keys with differences.
    keys: int
    differences: int
    #: The first differences, and notes for the reader, in words.
    first: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PreviewSeen:
    """The Job of a preview; ``result`` is there when it is done."""

    job: JobSeen
    result: PreviewResult | None = None


@dataclass(frozen=True, slots=True)
class RunSeen:
    """The newest run of ``spec.spark.schedule``."""

    job: JobSeen
    started_at: float
    #: Records of input that had come by its end and that it did not read; ``None``: it did not say.
    input_lag: int | None = None

    @property
    def may_work(self) -> bool:
        """Its pod runs, or may in a moment: it has not ended, and nothing that waiting does not mend holds it up."""
        return self.job.state not in {JobState.DONE, JobState.FAILED} and not self.job.stuck


@dataclass(frozen=True, slots=True)
class Trouble:
    """The reason why the operator could not do everything in its last reconcile; ``reason`` is stable."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class InputRates:
    """The rates of an application's input and of its pods' work, in records a second. They are the lower and the higher
    of two means, of the last seconds and of those before: a change that lasts for a moment is never in both."""

    arrival_low: float
    arrival_high: float
    #: The rate of one pod that always has work waiting; ``None`` if no pod had.
    busy_pod: float | None
    #: The most that one pod does, busy or not.
    fastest_pod: float


@dataclass(frozen=True, slots=True)
class ObservedState:
    """The observed state of one application at one moment."""

    at: float
    children: ChildrenSeen
    #: By ordinal.
    pods: tuple[PodSeen, ...]
    checks: Mapping[str, CheckSeen] = field(default_factory=dict)
    #: How many pods can have work: the distinct active tasks that were reported; ``None``: not known, because a pod
    #: could not be asked.
    tasks_total: int | None = None
    #: ``None``: there is none, as far as the status knows of one.
    bootstrap: JobSeen | None = None
    #: ``None``: there is none.
    preview: PreviewSeen | None = None
    #: ``None``: there is none, or not any more.
    run: RunSeen | None = None
    #: ``None``: not known.
    flow: InputRates | None = None
    #: ``None``: the last reconcile did all it wanted.
    trouble: Trouble | None = None
    #: Other StreamsApps, as ``namespace/name``, that are one consumer group with this one.
    rivals: tuple[str, ...] = ()
    #: The oldest of them, if it is older than this one.
    elder: str | None = None
    #: The pod of the driver; what executors are said to do is its word.
    driver: PodSeen | None = None
