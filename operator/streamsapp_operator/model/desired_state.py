"""The desired state of an application: the parts of its spec that ``plan`` decides on. Plain data; made on the thread
of the application's loop from the object."""

from __future__ import annotations

from dataclasses import dataclass

from streamsapp.manifest.model import AutoscalingSpec, Engine, RolloutSpec


@dataclass(frozen=True, slots=True)
class AnnotationRequests:
    """The requests that the user makes by annotations of the application, whatever its spec is."""

    #: No pod is taken for a rollout.
    paused: bool = False
    #: The revision that may go on past ``spec.rollout.partition``.
    approved: str | None = None
    #: The uid of a pod that is to be replaced.
    restart_pod: str | None = None
    #: The earlier revision that is to run in place of the spec's.
    undone_to: str | None = None


@dataclass(frozen=True, slots=True)
class DesiredState:
    """The valid spec of one application."""

    name: str
    namespace: str
    uid: str
    generation: int
    #: Hash of everything that a pod is made of: its template and its configuration. A change is a rolling restart.
    revision: str
    replicas: int
    standby_replicas: int
    rollout: RolloutSpec
    autoscaling: AutoscalingSpec | None = None
    has_remote_state: bool = False
    #: ``spec.remoteState.snapshotIntervalSeconds``: how old a snapshot may be that is fresh.
    snapshot_interval_seconds: int = 60
    #: The hash of everything that the Job of ``spec.bootstrap`` is made of; ``None`` if no bootstrap is asked for.
    bootstrap: str | None = None
    #: ``spec.rollout.preview``: the hash of its image, resources and number of records; ``None`` if none is asked for.
    preview: str | None = None
    #: The application is being deleted: drain, then let go.
    deleting: bool = False
    requests: AnnotationRequests = AnnotationRequests()
    engine: Engine = "threads"
    #: With ``engine: spark``: what a driver and its executors must have in common; ``None`` without them.
    program: str | None = None
    #: ``spec.spark.schedule``: runs that catch up, instead of pods.
    schedule: str | None = None
    #: ``spec.kafka.restartOnChange``.
    restart_on_change: bool = False
    #: An earlier revision is wanted in place of the spec's.
    undone: bool = False


@dataclass(frozen=True, slots=True)
class InvalidSpec:
    """A spec that cannot be used; the pods go on as they are, by what ``AppStatus.accepted`` remembers."""

    name: str
    namespace: str
    uid: str
    generation: int
    #: One line per fault, each with the path of its field and the remedy.
    faults: tuple[str, ...]
    deleting: bool = False
    requests: AnnotationRequests = AnnotationRequests()
