"""The ``StreamsApp`` manifest as typed structures: one file drives the command line, local runs and the operator.

Plain data; field names are camelCase in the file. ``resources`` and ``podTemplate`` belong to Kubernetes and are kept
as they are. ``make definitions`` makes the resource's schema and the tables of its reference of these structures.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from streamsapp.manifest.application_name import name_fault, object_name_fault
from streamsapp.manifest.history_end import Until
from streamsapp.manifest.sections import (
    ErrorsSettings,
    KafkaSettings,
    ProcessingSettings,
    RemoteStateSettings,
    TopicsSettings,
)
from streamsapp.manifest.types import (
    Doc,
    DurationText,
    Fields,
    Natural,
    NaturalLong,
    Positive,
    PositiveLong,
    Properties,
    Quantity,
    Reference,
    Text,
    milliseconds,
)

API_VERSION = "streamsapp.dev/v1alpha1"
KIND = "StreamsApp"

#: Pods of one application: more are a slip of the keyboard, which would take the cluster and the operator down.
MOST_PODS = 1000
Pods: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_PODS)]


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


class AutoscalingSpec(Fields, frozen=True, kw_only=True):
    min_replicas: Annotated[Positive, Doc("never fewer pods")] = 1
    max_replicas: Annotated[
        Positive, Doc("never more pods; more than there are tasks are never made, nor more than 1000")
    ]
    target_input_lag: Annotated[PositiveLong, Doc("input records that may wait for each pod")] = 10_000
    catch_up_seconds: Annotated[Positive, Doc("within so long what waits beyond that is to be caught up")] = 300
    target_utilization_percent: Annotated[
        int, Meta(ge=1, le=100), Doc("how much of what busy pods do the input may take, 100 at most")
    ] = 80
    scale_up_stabilization_seconds: Annotated[Natural, Doc("for so long more must be needed before there are more")] = (
        15
    )
    scale_down_stabilization_seconds: Annotated[
        Natural, Doc("for so long fewer must be enough before there are fewer")
    ] = 300


class TopologySource(Fields, frozen=True, kw_only=True):
    """The source of the topology: exactly one field is set."""

    entrypoint: Annotated[
        str | None,
        Doc("`module:attribute` in Python: a `Topology`, a `StreamsBuilder`, or a function that returns one"),
    ] = None
    graph: Annotated[
        dict[str, Any] | None, Doc("sources, processors, sinks and stores: [Topologies without a program](declared.md)")
    ] = None
    steps: Annotated[list[Any] | None, Doc("the DSL as data: [Topologies without a program](declared.md)")] = None


class CodeSpec(Fields, frozen=True, kw_only=True):
    """Python beside the image: a ConfigMap, or the files themselves."""

    config_map_ref: Annotated[
        Reference | None,
        Doc("a ConfigMap of the same namespace, whose keys are file names; a change of it is a new revision"),
    ] = None
    files: Annotated[dict[str, str], Doc("path to text; paths are relative and without `..`")] = {}


class KafkaSpec(KafkaSettings, frozen=True, kw_only=True):
    secret_ref: Annotated[
        Reference | None,
        Doc(
            "a Secret of the same namespace, mounted as files: they are named like client properties "
            "(`sasl.password`), or are `ca.crt`, `tls.crt` and `tls.key`"
        ),
    ] = None
    restart_on_change: Annotated[
        bool,
        Doc(
            "pods restart one by one, as in a rollout, when a login or another property in that Secret has changed; "
            "certificates need no restart: [Secrets that change](operator.md#secrets-that-change)"
        ),
    ] = False


class ProcessingSpec(ProcessingSettings, frozen=True, kw_only=True):
    instances: Annotated[
        Literal["auto"] | Positive,
        Doc("runtime instances in each pod; `auto`: one for each whole core of the CPU limit, as far as memory goes"),
    ] = "auto"


class ErrorsSpec(ErrorsSettings, frozen=True, kw_only=True):
    """Says what becomes of a record that cannot be read, processed or written."""


class TopicsSpec(TopicsSettings, frozen=True, kw_only=True):
    """The settings of the application's internal topics."""


class RemoteStateSpec(RemoteStateSettings, frozen=True, kw_only=True):
    secret_ref: Annotated[
        Reference | None,
        Doc(
            "a Secret of the same namespace, mounted as files: `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, "
            "perhaps `AWS_SESSION_TOKEN` and `ca.crt`; without it the pod's own identity is used"
        ),
    ] = None


#: A time of day, as hours and minutes.
TimeOfDay: TypeAlias = Annotated[str, Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]\Z", description="22:00")]
Weekday: TypeAlias = Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


class MaintenanceWindow(Fields, frozen=True, kw_only=True):
    """The time in which pods may be restarted: from ``start`` until ``end``, which is on the next day if it is not
    later."""

    days: Annotated[list[Weekday], Doc("on which days it begins; every day unless set")] = []
    start: Annotated[TimeOfDay, Doc("hours and minutes, such as `22:00`")]
    end: Annotated[TimeOfDay, Doc("the same; on the next day where it is not later than `start`")]
    time_zone: Annotated[Text, Doc("a name of the IANA time zone database, such as `Europe/Berlin`")] = "Etc/UTC"


class RolloutSpec(Fields, frozen=True, kw_only=True):
    max_standby_lag: Annotated[NaturalLong, Doc("records that a standby may be behind")] = 1000
    max_observation_age_seconds: Annotated[Positive, Doc("how old that observation may be")] = 10
    max_restore_seconds: Annotated[Natural, Doc("what a hand-over from a snapshot alone may take")] = 60
    max_gap: Annotated[
        DurationText | None,
        Doc(
            "for how long tasks may stand still in the restart of a pod, such as `200ms`. A rollout that is predicted "
            "to exceed it is held until it is [approved](operator.md#gaps-predicted-observed-and-limited); without "
            "it, none is held for that"
        ),
    ] = None
    timeout_seconds: Annotated[
        Positive, Doc("a rollout that may not go on for so long is given up; nothing is touched")
    ] = 3600
    progress_deadline_seconds: Annotated[
        Positive, Doc("a new revision whose first pod is not ready by then is rolled back")
    ] = 600
    topology_change: Annotated[
        Literal["Refuse", "Recreate"],
        Doc("for a topology that cannot work beside the running one; `Recreate` stops every pod first"),
    ] = "Refuse"
    soak_seconds: Annotated[
        Natural,
        Doc("for so long the pods of a new revision must be ready without a restart before the next one is taken"),
    ] = 30
    last_good_seconds: Annotated[
        Natural,
        Doc(
            "for so long they must run without a restart before the revision is the last good one; until "
            "then a crash loop or a hang leads back"
        ),
    ] = 600
    partition: Annotated[
        Natural,
        Doc(
            "pods with a lower number keep the last good revision until the new one is "
            "[approved](operator.md#new-revisions-slowly-in-part-or-not-now)"
        ),
    ] = 0
    maintenance_windows: Annotated[
        list[MaintenanceWindow], Doc("when a step of a rollout may begin; without any, at all times")
    ] = []
    preview: Annotated[
        PreviewSpec | None,
        Doc("a look at what a new revision would change, before the first pod is restarted for it"),
    ] = None

    @property
    def max_gap_seconds(self) -> float | None:
        """``maxGap`` in seconds; ``None`` if no gap is too long."""
        return None if self.max_gap is None else milliseconds(self.max_gap) / 1000


class Quantities(Fields, frozen=True, kw_only=True):
    requests: Annotated[dict[str, Quantity], Doc("what is set aside: quantities such as `500m`, `2Gi` or 1")] = {}
    limits: Annotated[
        dict[str, Quantity],
        Doc("what is never exceeded; `ephemeral-storage` also bounds the folder of the stores"),
    ] = {}


class ResourcesSpec(Quantities, frozen=True, kw_only=True):
    claims: Annotated[list[Any], Doc("devices, by the names of resource claims")] = []


class BootstrapSpec(Fields, frozen=True, kw_only=True):
    """State made of history before the first pods start."""

    until: Annotated[
        Until,
        Doc(
            "where history ends: as of when the bootstrap begins, or the offset of each partition of the "
            'source topics, `{lines: {"0": 1200, "1": -1}}`; -1 is a partition\'s end, -2 its beginning'
        ),
    ] = "latest"
    image: Annotated[
        str | None,
        Doc(
            "an image with Spark; the operator's own choice unless set. If the code lies in `spec.image`, it "
            "has to lie in this image too"
        ),
    ] = None
    resources: Annotated[
        Quantities,
        Doc(
            "`requests` and `limits` of the Job's pod. As many tasks run at a time as its limit of `cpu` "
            "(without one: its request) has whole cores, at least one; memory: 1.5 GiB and 400 MB for each "
            "of these; disk (`ephemeral-storage`): stores and shuffles. 500m and 1 GiB are requested unless "
            "set"
        ),
    ] = Quantities()


class PreviewSpec(Fields, frozen=True, kw_only=True):
    """A new revision run on a copy of the state and on recent input, before the first pod is restarted for it."""

    records: Annotated[PositiveLong, Doc("records that each task reads at least")] = 10_000
    max_differences: Annotated[
        NaturalLong, Doc("keys with other results or state; more hold the rollout until it is approved")
    ] = 0
    deadline_seconds: Annotated[
        Positive,
        Doc("how long a preview may take, its waiting for a node included; then it has failed, and holds the rollout"),
    ] = 3600
    resources: Annotated[Quantities, Doc("of its pod, as in `spec.bootstrap`")] = Quantities()


#: As Spark says it, except for a trigger that is not called by a time.
AVAILABLE_NOW, CONTINUOUS = "availableNow", "continuous batches"
Trigger: TypeAlias = Annotated[
    str, Meta(pattern=r"^([0-9]{1,6}(ms|s|m)|availableNow|continuous batches)\Z", description="1s, 500ms, availableNow")
]


Engine: TypeAlias = Literal["threads", "spark"]

SinkFormat: TypeAlias = Literal["parquet", "delta", "iceberg", "jdbc"]


class SinkSpec(Fields, frozen=True, kw_only=True):
    """A table beside a topic that the application writes: each record of the topic is one row, once."""

    name: Annotated[
        Annotated[str, Meta(extra={"check": object_name_fault})],
        Doc("names its query, which is `<application id>/<name>` on Spark's pages"),
    ]
    topic: Annotated[Text, Doc("a topic that the topology writes, under a name of its own")]
    format: Annotated[SinkFormat, Doc("the form of the table")]
    path: Annotated[
        Text,
        Doc(
            "the folder of the table, `s3a://bucket/folder` or `/folder`, which all executors reach; its folder "
            "`_checkpoint` has the offsets up to which the topic is in the table. With `table`, a folder for that alone"
        ),
    ]
    table: Annotated[
        Text | None,
        Doc(
            "with `iceberg`: the table in a catalog of Spark's session, `catalog.database.table`; with `jdbc`: in the "
            "database, `table` or `schema.table`; made if it is missing"
        ),
    ] = None
    secret_ref: Annotated[
        Reference | None,
        Doc(
            "with `jdbc`: a Secret of the same namespace, mounted as files: `username` and `password`; without it the "
            "driver has to know the login by itself"
        ),
    ] = None
    trigger: Annotated[
        DurationText,
        Doc("how often rows are added; with `spec.spark.trigger: availableNow`, once before the run ends"),
    ] = "1m"
    options: Annotated[
        Properties, Doc("of Spark's writer for the format, such as `compression`; with `jdbc`, `url` is required")
    ] = {}

    @property
    def trigger_ms(self) -> int:
        """Milliseconds between the beginnings of two writes."""
        return milliseconds(self.trigger)


class SparkSpec(Fields, frozen=True, kw_only=True):
    """The query that runs the topology where the engine is Spark."""

    trigger: Annotated[
        Trigger,
        Doc(
            "how often a batch begins: `1s`, `500ms`, `2m`; `continuous batches` begin one after the other, and their "
            "workers commit every 50 ms; `availableNow` ends when it has caught up"
        ),
    ] = "1s"
    schedule: Annotated[
        str | None,
        Doc(
            "on Kubernetes, with `availableNow` and only then: when a run begins to catch up, as a line of "
            "cron in UTC, `0 * * * *` or `@hourly`"
        ),
    ] = None
    deadline_seconds: Annotated[
        Positive,
        Doc(
            "how long such a run may take, its waiting for a node included. Then it is ended and counts as "
            "failed; what it committed stays, and the next one goes on there"
        ),
    ] = 21_600
    max_records_per_batch: Annotated[
        PositiveLong,
        Doc(
            "input records that a batch takes at most, over all partitions, and one of each partition at least. With "
            "`continuous batches` it is divided by the number of lanes, and bounds each commit of a lane"
        ),
    ] = 500_000
    image: Annotated[
        str | None,
        Doc(
            "on Kubernetes, an image with Spark for driver and executors; the operator's own choice unless "
            "set. If the code lies in `spec.image`, it has to lie in this image too"
        ),
    ] = None
    conf: Annotated[Properties, Doc("Spark's own settings, such as `spark.ui.port`")] = {}
    sinks: Annotated[list[SinkSpec], Doc("tables that the results are written to, beside their topics")] = []

    @property
    def catches_up(self) -> bool:
        """True if there is an end."""
        return self.trigger == AVAILABLE_NOW

    @property
    def reads_on(self) -> bool:
        """True if workers read on and commit by themselves in the course of a batch."""
        return self.trigger == CONTINUOUS

    @property
    def trigger_ms(self) -> int:
        """Milliseconds between the beginnings of two batches; 0: as fast as they end."""
        return 0 if self.trigger in (AVAILABLE_NOW, CONTINUOUS) else milliseconds(self.trigger)


class Spec(Fields, frozen=True, kw_only=True):
    application_id: Annotated[
        str | None,
        Doc("names the consumer group, the internal topics and the snapshots; `metadata.name` unless set; immutable"),
    ] = None
    engine: Annotated[
        Engine,
        Doc(
            "what runs the topology: [pods of the runtime](architecture.md), or [a query of "
            "Spark's](spark.md#the-application-as-a-query)"
        ),
    ] = "threads"
    replicas: Annotated[
        Pods,
        Doc(
            "pods, 1000 at most; 0 suspends the application, also with autoscaling, which otherwise begins with so many"
        ),
    ] = 1
    autoscaling: Annotated[AutoscalingSpec | None, Doc("the operator sets the number of pods")] = None
    topology: Annotated[TopologySource, Doc("where the topology comes from")]
    code: Annotated[CodeSpec, Doc("Python beside the image")] = CodeSpec()
    image: Annotated[
        str | None, Doc("the runtime's image, perhaps with your code; the operator's own choice unless set")
    ] = None
    kafka: Annotated[KafkaSpec, Doc("how Kafka is reached")] = KafkaSpec()
    processing: Annotated[ProcessingSpec, Doc("how records are processed")] = ProcessingSpec()
    errors: Annotated[ErrorsSpec, Doc("what becomes of a record that fails")] = ErrorsSpec()
    topics: Annotated[TopicsSpec, Doc("internal topics")] = TopicsSpec()
    remote_state: Annotated[
        RemoteStateSpec | None, Doc("where snapshots are kept; without it state comes back from changelogs alone")
    ] = None
    bootstrap: Annotated[BootstrapSpec | None, Doc("state made of history before the first pods start")] = None
    spark: Annotated[SparkSpec, Doc("the query where the engine is Spark")] = SparkSpec()
    rollout: Annotated[RolloutSpec, Doc("when a pod may be taken away")] = RolloutSpec()
    resources: Annotated[ResourcesSpec, Doc("of the runtime's container")] = ResourcesSpec()
    pod_template: Annotated[dict[str, Any], Doc("`metadata` and `spec`, merged into the pod's")] = {}


class StreamsApp(Fields, frozen=True, kw_only=True):
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
