"""The ``StreamsApp`` manifest as typed structures: one file drives the command line, local runs and the operator.

Plain data; field names are camelCase in the file. ``resources`` and ``podTemplate`` belong to Kubernetes and are kept
as they are.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from streamsapp.config.topology_optimization import optimization_fault
from streamsapp.declared.options import Name
from streamsapp.declared.roles import EXCEPTION_HANDLER, PARTITION_GROUPER, SERDE_NAME, TIMESTAMP_EXTRACTOR, role_meta
from streamsapp.manifest.application_name import name_fault, object_name_fault
from streamsapp.manifest.history_end import Until

API_VERSION = "streamsapp.dev/v1alpha1"
KIND = "StreamsApp"

#: Numbers of things, and times: what fits into 32 bits, which is 24 days of milliseconds.
_MOST = (1 << 31) - 1
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=_MOST)]
Natural: TypeAlias = Annotated[int, Meta(ge=0, le=_MOST)]
#: Pods of one application: more are a slip of the keyboard, which would take the cluster and the operator down.
MOST_PODS = 1000
Pods: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_PODS)]
#: Numbers of bytes and of records.
_MOST_RECORDS = (1 << 63) - 1
PositiveLong: TypeAlias = Annotated[int, Meta(ge=1, le=_MOST_RECORDS)]
NaturalLong: TypeAlias = Annotated[int, Meta(ge=0, le=_MOST_RECORDS)]
Text: TypeAlias = Annotated[str, Meta(min_length=1)]
Property: TypeAlias = str | int | float | bool


class _Fields(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Strict: a misspelt field is a fault, never ignored."""


def _name_fault(name: object) -> str | None:
    """An application that has run by its name goes on under another one only if it keeps its id."""
    fault = name_fault(name)
    return fault and f"{fault}, and keep this one as spec.applicationId if the application has run by it"


class Metadata(Struct, frozen=True, kw_only=True, rename="camel"):
    """The part of Kubernetes' object metadata that is read; the API server adds more, which is let pass."""

    name: Annotated[str, Meta(extra={"check": _name_fault})]
    namespace: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    generation: int | None = None
    uid: str | None = None


class Reference(_Fields, frozen=True, kw_only=True):
    """A ConfigMap or Secret of the same namespace."""

    name: Annotated[str, Meta(extra={"check": object_name_fault})]


class AutoscalingSpec(_Fields, frozen=True, kw_only=True):
    min_replicas: Positive = 1
    max_replicas: Positive
    target_input_lag: PositiveLong = 10_000
    #: Records that wait beyond that are to be caught up within so long.
    catch_up_seconds: Positive = 300
    #: The share of the pods' capacity that the input may take.
    target_utilization_percent: Annotated[int, Meta(ge=1, le=100)] = 80
    #: For so long more must be needed, and fewer be enough.
    scale_up_stabilization_seconds: Natural = 15
    scale_down_stabilization_seconds: Natural = 300


class TopologySource(_Fields, frozen=True, kw_only=True):
    """The source of the topology: exactly one field is set."""

    entrypoint: str | None = None
    graph: dict[str, Any] | None = None
    steps: list[Any] | None = None


class CodeSpec(_Fields, frozen=True, kw_only=True):
    """Python beside the image: a ConfigMap, or the files themselves."""

    config_map_ref: Reference | None = None
    files: dict[str, str] = {}


class KafkaSpec(_Fields, frozen=True, kw_only=True):
    bootstrap_servers: str | None = None
    #: The client that moves records; librdkafka for a property that only librdkafka knows.
    client: Literal["streamsapp", "librdkafka"] = "streamsapp"
    properties: dict[str, Property] = {}
    #: Mounted as files, which hold what must not stand in ``properties``.
    secret_ref: Reference | None = None


class ProcessingSpec(_Fields, frozen=True, kw_only=True):
    guarantee: Literal["exactly_once", "at_least_once"] = "exactly_once"
    threads: Positive = 1
    instances: Literal["auto"] | Positive = "auto"
    commit_interval_ms: Natural | None = None
    standby_replicas: Natural = 1
    acceptable_recovery_lag: NaturalLong = 10_000
    max_warmup_replicas: Positive = 2
    probing_rebalance_interval_ms: Annotated[int, Meta(ge=60_000, le=_MOST)] = 600_000
    #: -1 never waits, not even for what is on its way.
    max_task_idle_ms: Annotated[int, Meta(ge=-1, le=_MOST)] = 0
    max_poll_interval_ms: Positive = 300_000
    default_key_serde: Annotated[str, role_meta(SERDE_NAME)] = "bytes"
    default_value_serde: Annotated[str, role_meta(SERDE_NAME)] = "bytes"
    default_timestamp_extractor: Annotated[str, role_meta(TIMESTAMP_EXTRACTOR)] = "failOnInvalidTimestamp"
    partition_grouper: Annotated[str, role_meta(PARTITION_GROUPER)] | None = None
    #: ``$(NAME)`` in a value is a variable of the pod's environment.
    client_tags: dict[str, Text] = {}
    topology_optimization: Annotated[str, Meta(extra={"check": optimization_fault})] = "none"
    #: OpenTelemetry's, as the variables ``OTEL_*`` of the pod's environment say.
    tracing: bool = False


class ErrorsSpec(_Fields, frozen=True, kw_only=True):
    """Says what becomes of a record that cannot be read, processed or written."""

    deserialization: Annotated[str, role_meta(EXCEPTION_HANDLER)] = "fail"
    processing: Annotated[str, role_meta(EXCEPTION_HANDLER)] = "fail"
    production: Annotated[str, role_meta(EXCEPTION_HANDLER)] = "fail"
    dead_letter_topic: Name | None = None


class TopicsSpec(_Fields, frozen=True, kw_only=True):
    """The settings of the application's internal topics."""

    replication_factor: Annotated[int, Meta(ge=1, le=(1 << 15) - 1)] | None = None
    properties: dict[str, Property] = {}


class RemoteStateSpec(_Fields, frozen=True, kw_only=True):
    url: Annotated[str, Meta(pattern=r"^(s3|file)://.+", description="s3://bucket/prefix or file:///folder")]
    endpoint: str | None = None
    region: str | None = None
    path_style: bool | None = None
    secret_ref: Reference | None = None
    server_side_encryption: Literal["AES256", "aws:kms"] | None = None
    kms_key_id: str | None = None
    snapshot_interval_seconds: Positive = 60
    upload_bytes_per_second: PositiveLong | None = None
    retain: Positive = 3
    max_unused_bytes: PositiveLong | None = None


#: Of a day, as hours and minutes.
TimeOfDay: TypeAlias = Annotated[str, Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]\Z", description="22:00")]
Weekday: TypeAlias = Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


class MaintenanceWindow(_Fields, frozen=True, kw_only=True):
    """The time in which pods may be restarted: from ``start`` until ``end``, which is on the next day if it is not
    later."""

    #: On which days it begins; none: on every day.
    days: list[Weekday] = []
    start: TimeOfDay
    end: TimeOfDay
    time_zone: Text = "Etc/UTC"


class RolloutSpec(_Fields, frozen=True, kw_only=True):
    max_standby_lag: NaturalLong = 1000
    max_observation_age_seconds: Positive = 10
    max_restore_seconds: Natural = 60
    timeout_seconds: Positive = 3600
    #: A new revision whose pod is not ready by then is rolled back.
    progress_deadline_seconds: Positive = 600
    #: The way to roll out a topology that cannot work beside the running one: Recreate stops every pod first.
    topology_change: Literal["Refuse", "Recreate"] = "Refuse"
    #: For so long the pods of a new revision must stay well before the next one is taken.
    soak_seconds: Natural = 30
    #: For so long they must run without a restart before the revision is the last good one.
    last_good_seconds: Natural = 600
    #: Pods with a lower number keep the last good revision until the new one is approved.
    partition: Natural = 0
    #: The time when a step may begin; none: at any time.
    maintenance_windows: list[MaintenanceWindow] = []
    preview: PreviewSpec | None = None


class Quantities(_Fields, frozen=True, kw_only=True):
    requests: dict[str, str | int | float] = {}
    limits: dict[str, str | int | float] = {}


class ResourcesSpec(Quantities, frozen=True, kw_only=True):
    claims: list[Any] = []


class BootstrapSpec(_Fields, frozen=True, kw_only=True):
    """State made of history before the first pods start."""

    until: Until = "latest"
    #: With Spark and the application's code.
    image: str | None = None
    resources: Quantities = Quantities()


class PreviewSpec(_Fields, frozen=True, kw_only=True):
    """A new revision run on a copy of the state and on recent input, before the first pod is restarted for it."""

    #: That each task reads, at least.
    records: PositiveLong = 10_000
    #: More keys with other results or entries hold the rollout.
    max_differences: NaturalLong = 0
    #: Then it has failed, and holds the rollout.
    deadline_seconds: Positive = 3600
    resources: Quantities = Quantities()


#: As Spark says it, but for one that is not called by a time.
AVAILABLE_NOW, CONTINUOUS = "availableNow", "continuous batches"
Trigger: TypeAlias = Annotated[
    str, Meta(pattern=r"^([0-9]{1,6}(ms|s|m)|availableNow|continuous batches)\Z", description="1s, 500ms, availableNow")
]
_TRIGGER_MS = {"ms": 1, "s": 1000, "m": 60_000}


Engine: TypeAlias = Literal["threads", "spark"]


class SparkSpec(_Fields, frozen=True, kw_only=True):
    """The query that runs the topology where the engine is Spark."""

    #: The time between two batches; ``availableNow`` ends when it has caught up.
    trigger: Trigger = "1s"
    #: On Kubernetes, when it begins to catch up: a line of cron, in UTC. Only with ``availableNow``.
    schedule: str | None = None
    #: Of such a run: then it is ended, and the next one goes on where it stood.
    deadline_seconds: Positive = 21_600
    max_records_per_batch: PositiveLong = 500_000
    #: On Kubernetes, with Spark and the application's code; for the driver and the executors.
    image: str | None = None
    #: Spark's own settings.
    conf: dict[str, Property] = {}

    @property
    def catches_up(self) -> bool:
        """True if there is an end."""
        return self.trigger == AVAILABLE_NOW

    @property
    def trigger_ms(self) -> int:
        """Milliseconds between the beginnings of two batches; 0: as fast as they end."""
        if self.trigger in (AVAILABLE_NOW, CONTINUOUS):
            return 0
        number = self.trigger.rstrip("ms")
        return int(number) * _TRIGGER_MS[self.trigger[len(number) :]]


class Spec(_Fields, frozen=True, kw_only=True):
    application_id: str | None = None
    engine: Engine = "threads"
    replicas: Pods = 1
    autoscaling: AutoscalingSpec | None = None
    topology: TopologySource
    code: CodeSpec = CodeSpec()
    image: str | None = None
    kafka: KafkaSpec = KafkaSpec()
    processing: ProcessingSpec = ProcessingSpec()
    errors: ErrorsSpec = ErrorsSpec()
    topics: TopicsSpec = TopicsSpec()
    remote_state: RemoteStateSpec | None = None
    bootstrap: BootstrapSpec | None = None
    spark: SparkSpec = SparkSpec()
    rollout: RolloutSpec = RolloutSpec()
    resources: ResourcesSpec = ResourcesSpec()
    pod_template: dict[str, Any] = {}


class StreamsApp(_Fields, frozen=True, kw_only=True):
    """A StreamsApp: one application."""

    api_version: Literal["streamsapp.dev/v1alpha1"]
    kind: Literal["StreamsApp"]
    metadata: Metadata
    spec: Spec
    #: Written by the operator; here so that an object read from the cluster is a manifest too.
    status: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET

    @property
    def application_id(self) -> str:
        """``spec.applicationId``, or the object's name."""
        return self.spec.application_id or self.metadata.name
