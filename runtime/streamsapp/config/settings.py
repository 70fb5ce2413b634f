"""The settings of an application: each field of ``StreamsConfig`` with its default, and what else is said of it.

Plain data: read where a configuration is made, and by ``make definitions``, which makes the field of the manifest, of
the resource and of the page of each. Names are Kafka Streams' in snake_case.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from streamsapp.config.known_properties import CLIENTS, OWN
from streamsapp.config.memory import MINIMUM_BYTES
from streamsapp.config.remote_state import RemoteStateConfig
from streamsapp.config.scheduling import Scheduling
from streamsapp.config.setting import AUTO, MOST_RECORDS, ManifestField, setting
from streamsapp.processor.api import ProcessorWrapper
from streamsapp.processor.handlers import ExceptionHandler
from streamsapp.processor.timestamps import TimestampExtractor, fail_on_invalid_timestamp
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.serdes import Serdes

if TYPE_CHECKING:
    from streamsapp.topology.partition_grouper import PartitionGrouper

EXACTLY_ONCE = "exactly_once"
AT_LEAST_ONCE = "at_least_once"
#: Formats of the stores of tables.
DEFAULT, HEADERS = "default", "headers"


@dataclass(frozen=True, kw_only=True)
class ApplicationSettings:
    """The fields of a configuration; ``StreamsConfig`` checks them."""

    application_id: str = field(
        metadata=setting(
            "names the consumer group, the internal topics and the folder of the state; never change it",
            field="applicationId",
        )
    )
    bootstrap_servers: str = field(
        metadata=setting(
            "`host:port,…`; required in a cluster, `local` brings a broker",
            field=ManifestField("kafka.bootstrapServers", default=None),
        )
    )
    processing_guarantee: str = field(
        default=EXACTLY_ONCE,
        metadata=setting(
            "what becomes of records when an instance is lost",
            choices=(EXACTLY_ONCE, AT_LEAST_ONCE),
            field="processing.guarantee",
        ),
    )
    threads: int = field(
        default=1, metadata=setting("processing threads of each instance", least=1, field="processing.threads")
    )
    commit_interval_ms: int = field(
        default=AUTO,
        metadata=setting(
            "how often state, output and offsets are committed together, from one commit's beginning to the next "
            "one's; 100, or 30000 under `at_least_once`, unless set",
            shown="100 under exactly once, 30,000 under at least once",
            least=0,
            field="processing.commitIntervalMs",
        ),
    )
    state_dir: Path = field(
        default_factory=lambda: Path(tempfile.gettempdir()) / "streamsapp",
        metadata=setting(
            "local state; losing it costs a restore, never data",
            shown="`streamsapp` in the temporary directory",
            instead="`--state-dir`",
        ),
    )
    memory_bytes: int = field(
        default=AUTO,
        metadata=setting(
            "divided as below",
            shown="the control group's limit, else 75 % of the machine",
            least=MINIMUM_BYTES,
            most=MOST_RECORDS,
            field="resources.limits.memory",
        ),
    )
    default_key_serde: AnySerde = field(
        default_factory=Serdes.bytes,
        metadata=setting(
            "of keys where nothing is declared or inherited: in a manifest `string`, `bytes`, `integer`, `long`, "
            "`double`, `float`, `short`, `boolean`, `uuid`, `json`, `msgpack`, `void`, `avro`, `jsonSchema`, or "
            "`module:attribute`",
            shown="`Serdes.bytes()`",
            field=ManifestField("processing.defaultKeySerde", "SerdeName", "bytes"),
        ),
    )
    default_value_serde: AnySerde = field(
        default_factory=Serdes.bytes,
        metadata=setting(
            "of values, likewise",
            shown="`Serdes.bytes()`",
            field=ManifestField("processing.defaultValueSerde", "SerdeName", "bytes"),
        ),
    )
    default_timestamp_extractor: TimestampExtractor = field(
        default=fail_on_invalid_timestamp,
        metadata=setting(
            "which time a record happened at: a function of `streamsapp.processor.timestamps` or of yours; in a "
            "manifest `failOnInvalidTimestamp`, `logAndSkipOnInvalidTimestamp`, `usePartitionTimeOnInvalidTimestamp`, "
            "`wallclockTimestamp`, or `module:attribute`",
            shown="`fail_on_invalid_timestamp`",
            field=ManifestField(
                "processing.defaultTimestampExtractor", "TimestampExtractorName", "failOnInvalidTimestamp"
            ),
        ),
    )
    max_task_idle_ms: int = field(
        default=0,
        metadata=setting(
            "how long a task waits for the empty ones of its partitions, to process in the order of time; -1 never "
            "waits, not even for what is on its way",
            least=-1,
            field="processing.maxTaskIdleMs",
        ),
    )
    max_stream_time_skew_ms: int | None = field(
        default=None,
        metadata=setting(
            "how far a task may be ahead of others in stream time while there is a backlog, if it writes a repartition "
            "topic: see [Late records](late-records.md); chosen by the grace of what reads the topic unless set",
            shown="by the shortest grace below",
            least=0,
            most=MOST_RECORDS,
            field=ManifestField("processing.maxStreamTimeSkewMs", default=None),
        ),
    )
    max_poll_interval_ms: int = field(
        default=300_000,
        metadata=setting(
            "a processor that takes longer over one record, or a punctuator, is reported as hanging",
            least=1,
            field="processing.maxPollIntervalMs",
        ),
    )
    deserialization_exception_handler: str | ExceptionHandler = field(
        default="fail",
        metadata=setting(
            "when the key or the value of a record cannot be read: `fail`, `continue`, `dead_letter`, or a function",
            field=ManifestField("errors.deserialization", "HandlerName"),
        ),
    )
    processing_exception_handler: str | ExceptionHandler = field(
        default="fail",
        metadata=setting("when code of yours raised", field=ManifestField("errors.processing", "HandlerName")),
    )
    production_exception_handler: str | ExceptionHandler = field(
        default="fail",
        metadata=setting("when a record cannot be written", field=ManifestField("errors.production", "HandlerName")),
    )
    dead_letter_queue_topic: str | None = field(
        default=None,
        metadata=setting(
            "an existing topic; required for `dead_letter`", field=ManifestField("errors.deadLetterTopic", "Name")
        ),
    )
    partition_grouper: PartitionGrouper | None = field(
        default=None,
        metadata=setting(
            "which partitions make a task (KIP-28), in a manifest by `module:attribute`; by partition number "
            "unless set",
            field=ManifestField("processing.partitionGrouper", "PartitionGrouperName"),
        ),
    )
    processor_wrapper: ProcessorWrapper | None = field(
        default=None,
        metadata=setting(
            "a function of a node's name and its processor that returns a processor around it, called for every node "
            "of every task, those of the DSL included (KIP-1112); in a manifest by `module:attribute`",
            field=ManifestField("processing.processorWrapper", "ProcessorWrapperName"),
        ),
    )
    replication_factor: int = field(
        default=AUTO,
        metadata=setting(
            "copies of each internal topic on the brokers; their default unless set",
            shown="the brokers'",
            least=1,
            most=(1 << 15) - 1,
            field="topics.replicationFactor",
        ),
    )
    topic_properties: Mapping[str, str] = field(
        default_factory=dict,
        metadata=setting(
            "settings of internal topics, such as `segment.bytes`, over the runtime's own; `retention.ms` and "
            "`min.compaction.lag.ms` only make the changelogs of windows, sessions and versions keep more than their "
            "stores do, not less, and `cleanup.policy` and `retention.bytes` are those of repartition topics alone "
            "(`Materialized(log_config=...)` sets one store's)",
            field=ManifestField("topics.properties", "Properties"),
        ),
    )
    client_id: str = field(
        default="",
        metadata=setting("prefix of the clients' ids", shown="the application id", instead="each pod has one"),
    )
    tracing: bool = field(
        default=False,
        metadata=setting(
            "a span of OpenTelemetry for each record that is processed and each that is sent, as the variables "
            "`OTEL_*` of the environment say: see [Traces](metrics.md#traces); it needs `streamsapp[tracing]`",
            field="processing.tracing",
        ),
    )
    client: str = field(
        default=OWN,
        metadata=setting(
            "the client that moves records: the runtime's own, or librdkafka for a property that only librdkafka knows "
            "([Clients](configuration.md#clients))",
            choices=CLIENTS,
            field="kafka.client",
        ),
    )
    kafka: Mapping[str, str] = field(
        default_factory=dict,
        metadata=setting(
            "passed to the clients, see [Client properties](configuration.md#client-properties); a prefix such as "
            "`consumer.` limits a key to some of them, and keys that the runtime owns are refused by name",
            field=ManifestField("kafka.properties", "Properties"),
        ),
    )
    topology_optimization: str = field(
        default="none",
        metadata=setting(
            "`none`, `all` or names: `all` lets tables use their source topics as changelogs "
            "(`reuse.ktable.source.topics`), merges repartition topics (`merge.repartition.topics`) and keeps a stream "
            "that is joined with itself once (`single.store.self.join`); names with commas between them choose some of "
            "these. Refused for a topology that `build(optimize=...)` made without them; an entrypoint gives the "
            "`StreamsBuilder`. Decide before the first deployment: it changes the topics",
            field=ManifestField("processing.topologyOptimization", "Optimizations"),
        ),
    )
    dsl_store_format: str = field(
        default=DEFAULT,
        metadata=setting(
            "`headers` has the stores of tables, aggregations, windows and sessions keep the headers of records, and "
            "their changelogs carry them (KIP-1285); what was stored before has none",
            choices=(DEFAULT, HEADERS),
            field="processing.dslStoreFormat",
        ),
    )
    ensure_explicit_internal_resource_naming: bool = field(
        default=False,
        metadata=setting(
            "refuses a topology in which a store, a repartition topic or a changelog has a name that was generated "
            "(KIP-1111): its number, and with it the state that the application finds, changes with the program",
            field="processing.ensureExplicitInternalResourceNaming",
        ),
    )
    standby_replicas: int = field(
        default=0,
        metadata=setting(
            "copies of each task's state on other instances, kept up to date to take over at once; in a cluster more "
            "than one must be fewer than the pods",
            shown="0; 1 in a manifest",
            least=0,
            field=ManifestField("processing.standbyReplicas", default=1),
        ),
    )
    acceptable_recovery_lag: int = field(
        default=10_000,
        metadata=setting(
            "a copy that is no more records behind than this may take over (KIP-441)",
            least=0,
            most=MOST_RECORDS,
            field="processing.acceptableRecoveryLag",
        ),
    )
    max_warmup_replicas: int = field(
        default=2,
        metadata=setting(
            "copies made at the same time of tasks that are to move to an instance without one (KIP-441)",
            least=1,
            field="processing.maxWarmupReplicas",
        ),
    )
    probing_rebalance_interval_ms: int = field(
        default=600_000,
        metadata=setting(
            "tasks that wait for a copy are looked at again that often at least; usually it is as soon as one has "
            "caught up",
            least=60_000,
            field="processing.probingRebalanceIntervalMs",
        ),
    )
    group_instance_id: str | None = field(
        default=None,
        metadata=setting(
            "makes the instance a static member (KIP-345), under a name of its own: closing does not leave the group, "
            "and a restart within the session keeps its tasks; different for every instance",
            instead="a restarted pod gets its tasks back by its warm disk",
        ),
    )
    application_server: str = field(
        default="",
        metadata=setting(
            "`host:port` under which other instances and clients reach this one's HTTP server",
            shown="none; this host's address and port in `run`",
            instead="`--application-server`",
        ),
    )
    host_id: str = field(
        default="",
        metadata=setting(
            "what instances on one machine share: a task's standbys are kept off its active's host",
            shown="none; the pod's name for several instances in a pod",
            instead="each pod has another",
        ),
    )
    scheduling: Sequence[Scheduling] = field(
        default=(),
        metadata=setting(
            "which sub-topologies go first, how they share the processing threads, and which fail alone: see "
            "[Priorities](priorities.md)",
            shown="none",
            field=ManifestField("processing.scheduling", "list[SchedulingEntry]", default=[]),
        ),
    )
    client_tags: Mapping[str, str] = field(
        default_factory=dict,
        metadata=setting(
            "where the instance runs: a task's copies are spread over different values (KIP-708). In a pod `zone` is "
            "that of its node unless it is set here, [where the cluster tells](operator.md#zones). In a manifest "
            "`rack: $(RACK)` takes the variable `RACK` of the pod's environment, which `podTemplate` sets",
            field=ManifestField("processing.clientTags", "Tags"),
        ),
    )
    remote_state: RemoteStateConfig | None = field(
        default=None,
        metadata=setting(
            "where snapshots of the stores are kept, from which an instance with an empty disk starts: see "
            "[below](#remote-state)",
            field="remoteState",
        ),
    )
