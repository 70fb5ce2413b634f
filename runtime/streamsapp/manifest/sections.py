"""Fields of the manifest that are settings of the configuration, made by ``make definitions``: change
``StreamsConfig`` or ``RemoteStateConfig`` instead. Plain data.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from streamsapp.config.setting import MOST, MOST_RECORDS
from streamsapp.declared.options import Name
from streamsapp.manifest.types import (
    Doc,
    Fields,
    HandlerName,
    Optimizations,
    PartitionGrouperName,
    Positive,
    ProcessorWrapperName,
    Properties,
    RemoteUrl,
    SchedulingEntry,
    SerdeName,
    Tags,
    TimestampExtractorName,
)


class KafkaSettings(Fields, frozen=True, kw_only=True):
    """Of ``spec.kafka``."""

    bootstrap_servers: Annotated[str | None, Doc("`host:port,…`; required in a cluster, `local` brings a broker")] = (
        None
    )
    client: Annotated[
        Literal["streamsapp", "librdkafka"],
        Doc(
            "the client that moves records: the runtime's own, or librdkafka for a property that only "
            "librdkafka knows ([Clients](configuration.md#clients))"
        ),
    ] = "streamsapp"
    properties: Annotated[
        Properties,
        Doc(
            "passed to the clients, see [Client properties](configuration.md#client-properties); a "
            "prefix such as `consumer.` limits a key to some of them, and keys that the runtime owns "
            "are refused by name"
        ),
    ] = {}


class ProcessingSettings(Fields, frozen=True, kw_only=True):
    """Of ``spec.processing``."""

    guarantee: Annotated[
        Literal["exactly_once", "at_least_once"], Doc("what becomes of records when an instance is lost")
    ] = "exactly_once"
    threads: Annotated[Annotated[int, Meta(ge=1, le=MOST)], Doc("processing threads of each instance")] = 1
    commit_interval_ms: Annotated[
        Annotated[int, Meta(ge=0, le=MOST)] | None,
        Doc(
            "how often state, output and offsets are committed together, from one commit's beginning to "
            "the next one's; 100, or 30000 under `at_least_once`, unless set"
        ),
    ] = None
    default_key_serde: Annotated[
        SerdeName,
        Doc(
            "of keys where nothing is declared or inherited: in a manifest `string`, `bytes`, "
            "`integer`, `long`, `double`, `float`, `short`, `boolean`, `uuid`, `json`, `msgpack`, "
            "`void`, `avro`, `jsonSchema`, or `module:attribute`"
        ),
    ] = "bytes"
    default_value_serde: Annotated[SerdeName, Doc("of values, likewise")] = "bytes"
    default_timestamp_extractor: Annotated[
        TimestampExtractorName,
        Doc(
            "which time a record happened at: a function of `streamsapp.processor.timestamps` or of "
            "yours; in a manifest `failOnInvalidTimestamp`, `logAndSkipOnInvalidTimestamp`, "
            "`usePartitionTimeOnInvalidTimestamp`, `wallclockTimestamp`, or `module:attribute`"
        ),
    ] = "failOnInvalidTimestamp"
    max_task_idle_ms: Annotated[
        Annotated[int, Meta(ge=-1, le=MOST)],
        Doc(
            "how long a task waits for the empty ones of its partitions, to process in the order of "
            "time; -1 never waits, not even for what is on its way"
        ),
    ] = 0
    max_stream_time_skew_ms: Annotated[
        Annotated[int, Meta(ge=0, le=MOST_RECORDS)] | None,
        Doc(
            "how far a task may be ahead of others in stream time while there is a backlog, if it "
            "writes a repartition topic: see [Late records](late-records.md); chosen by the grace of "
            "what reads the topic unless set"
        ),
    ] = None
    max_poll_interval_ms: Annotated[
        Annotated[int, Meta(ge=1, le=MOST)],
        Doc("a processor that takes longer over one record, or a punctuator, is reported as hanging"),
    ] = 300000
    partition_grouper: Annotated[
        PartitionGrouperName | None,
        Doc(
            "which partitions make a task (KIP-28), in a manifest by `module:attribute`; by partition number unless set"
        ),
    ] = None
    processor_wrapper: Annotated[
        ProcessorWrapperName | None,
        Doc(
            "a function of a node's name and its processor that returns a processor around it, called "
            "for every node of every task, those of the DSL included (KIP-1112); in a manifest by "
            "`module:attribute`"
        ),
    ] = None
    tracing: Annotated[
        bool,
        Doc(
            "a span of OpenTelemetry for each record that is processed and each that is sent, as the "
            "variables `OTEL_*` of the environment say: see [Traces](metrics.md#traces); it needs "
            "`streamsapp[tracing]`"
        ),
    ] = False
    topology_optimization: Annotated[
        Optimizations,
        Doc(
            "`none`, `all` or names: `all` lets tables use their source topics as changelogs "
            "(`reuse.ktable.source.topics`), merges repartition topics (`merge.repartition.topics`) and "
            "keeps a stream that is joined with itself once (`single.store.self.join`); names with "
            "commas between them choose some of these. Refused for a topology that "
            "`build(optimize=...)` made without them; an entrypoint gives the `StreamsBuilder`. Decide "
            "before the first deployment: it changes the topics"
        ),
    ] = "none"
    dsl_store_format: Annotated[
        Literal["default", "headers"],
        Doc(
            "`headers` has the stores of tables, aggregations, windows and sessions keep the headers of "
            "records, and their changelogs carry them (KIP-1285); what was stored before has none"
        ),
    ] = "default"
    ensure_explicit_internal_resource_naming: Annotated[
        bool,
        Doc(
            "refuses a topology in which a store, a repartition topic or a changelog has a name that "
            "was generated (KIP-1111): its number, and with it the state that the application finds, "
            "changes with the program"
        ),
    ] = False
    standby_replicas: Annotated[
        Annotated[int, Meta(ge=0, le=MOST)],
        Doc(
            "copies of each task's state on other instances, kept up to date to take over at once; in a "
            "cluster more than one must be fewer than the pods"
        ),
    ] = 1
    acceptable_recovery_lag: Annotated[
        Annotated[int, Meta(ge=0, le=MOST_RECORDS)],
        Doc("a copy that is no more records behind than this may take over (KIP-441)"),
    ] = 10000
    max_warmup_replicas: Annotated[
        Annotated[int, Meta(ge=1, le=MOST)],
        Doc("copies made at the same time of tasks that are to move to an instance without one (KIP-441)"),
    ] = 2
    probing_rebalance_interval_ms: Annotated[
        Annotated[int, Meta(ge=60000, le=MOST)],
        Doc(
            "tasks that wait for a copy are looked at again that often at least; usually it is as soon "
            "as one has caught up"
        ),
    ] = 600000
    scheduling: Annotated[
        list[SchedulingEntry],
        Doc(
            "which sub-topologies go first, how they share the processing threads, and which fail "
            "alone: see [Priorities](priorities.md)"
        ),
    ] = []
    client_tags: Annotated[
        Tags,
        Doc(
            "where the instance runs: a task's copies are spread over different values (KIP-708). In a "
            "pod `zone` is that of its node unless it is set here, [where the cluster "
            "tells](operator.md#zones). In a manifest `rack: $(RACK)` takes the variable `RACK` of the "
            "pod's environment, which `podTemplate` sets"
        ),
    ] = {}


class ErrorsSettings(Fields, frozen=True, kw_only=True):
    """Of ``spec.errors``."""

    deserialization: Annotated[
        HandlerName,
        Doc("when the key or the value of a record cannot be read: `fail`, `continue`, `dead_letter`, or a function"),
    ] = "fail"
    processing: Annotated[HandlerName, Doc("when code of yours raised")] = "fail"
    production: Annotated[HandlerName, Doc("when a record cannot be written")] = "fail"
    dead_letter_topic: Annotated[Name | None, Doc("an existing topic; required for `dead_letter`")] = None


class TopicsSettings(Fields, frozen=True, kw_only=True):
    """Of ``spec.topics``."""

    replication_factor: Annotated[
        Annotated[int, Meta(ge=1, le=32767)] | None,
        Doc("copies of each internal topic on the brokers; their default unless set"),
    ] = None
    properties: Annotated[
        Properties,
        Doc(
            "settings of internal topics, such as `segment.bytes`, over the runtime's own; "
            "`retention.ms` and `min.compaction.lag.ms` only make the changelogs of windows, sessions "
            "and versions keep more than their stores do, not less, and `cleanup.policy` and "
            "`retention.bytes` are those of repartition topics alone (`Materialized(log_config=...)` "
            "sets one store's)"
        ),
    ] = {}


class RemoteStateSettings(Fields, frozen=True, kw_only=True):
    """Of ``spec.remoteState``."""

    url: Annotated[
        RemoteUrl,
        Doc(
            "`s3://bucket/prefix`, immutable in a cluster; or `file:///folder` that all instances "
            "share, which a cluster refuses"
        ),
    ]
    endpoint: Annotated[
        str | None, Doc("of an S3 server other than Amazon's, such as `https://minio.example:9000`")
    ] = None
    region: Annotated[str | None, Doc("of the bucket; what the environment says unless set, else `us-east-1`")] = None
    path_style: Annotated[
        bool | None,
        Doc("the bucket in the path of a request, not in its host name; so by default where `endpoint` is set"),
    ] = None
    server_side_encryption: Annotated[
        Literal["AES256", "aws:kms"] | None, Doc("how the object store encrypts; the bucket's own setting unless set")
    ] = None
    kms_key_id: Annotated[str | None, Doc("the key for `aws:kms`")] = None
    snapshot_interval_seconds: Annotated[Positive, Doc("seconds between the snapshots of a task")] = 60
    upload_bytes_per_second: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_RECORDS)] | None,
        Doc("of all tasks of an instance together; no limit unless set"),
    ] = None
    retain: Annotated[Annotated[int, Meta(ge=1, le=MOST)], Doc("snapshots that are kept of each task")] = 3
    max_unused_bytes: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_RECORDS)] | None,
        Doc(
            "what tasks that moved away may leave on the local disk together, from minutes after they "
            "did; the oldest goes first, and there is no limit unless set"
        ),
    ] = None
