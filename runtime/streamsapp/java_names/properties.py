"""Every property of Kafka Streams 4.4, by its name there: the setting that it is here, or why it has no meaning.

Plain data. Read where a configuration is made, from Python or from a manifest.
"""

from __future__ import annotations

from collections.abc import Mapping

#: Names that are fields of ``StreamsConfig``; most are the same words with underscores.
FIELDS: Mapping[str, str] = {
    "acceptable.recovery.lag": "acceptable_recovery_lag",
    "application.id": "application_id",
    "application.server": "application_server",
    "bootstrap.servers": "bootstrap_servers",
    "client.id": "client_id",
    "commit.interval.ms": "commit_interval_ms",
    "default.deserialization.exception.handler": "deserialization_exception_handler",
    "default.key.serde": "default_key_serde",
    "default.production.exception.handler": "production_exception_handler",
    "default.timestamp.extractor": "default_timestamp_extractor",
    "default.value.serde": "default_value_serde",
    "deserialization.exception.handler": "deserialization_exception_handler",
    "dsl.store.format": "dsl_store_format",
    "ensure.explicit.internal.resource.naming": "ensure_explicit_internal_resource_naming",
    "errors.dead.letter.queue.topic.name": "dead_letter_queue_topic",
    "group.instance.id": "group_instance_id",
    "max.poll.interval.ms": "max_poll_interval_ms",
    "max.task.idle.ms": "max_task_idle_ms",
    "max.warmup.replicas": "max_warmup_replicas",
    "num.standby.replicas": "standby_replicas",
    "num.stream.threads": "threads",
    "probing.rebalance.interval.ms": "probing_rebalance_interval_ms",
    "processing.exception.handler": "processing_exception_handler",
    "processing.guarantee": "processing_guarantee",
    "processor.wrapper.class": "processor_wrapper",
    "production.exception.handler": "production_exception_handler",
    "replication.factor": "replication_factor",
    "state.dir": "state_dir",
    "topology.optimization": "topology_optimization",
}

#: Names that clients have, too, and read as they are.
CLIENTS = frozenset({
    "connections.max.idle.ms", "enable.metrics.push", "metadata.max.age.ms", "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.timeout.ms",
    "retry.backoff.ms", "security.protocol",
})  # fmt: skip

#: Names of the clients' that the client here has in another form.
RENAMED: Mapping[str, str] = {
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}

_MEMORY = "memory is divided by one figure, memory_bytes"
_METRICS = "metrics are read at the HTTP port's /metrics"
_RACKS = "copies are spread by client_tags"
_STORES = 'the engine of a store is chosen with Materialized(store="rocksdb") or store="memory"'
_SERDES = "write the serde: Serdes.list_(inner), Serdes.time_windowed(inner, size)"

#: Names without a setting here, each with the reason.
NO_MEANING: Mapping[str, str] = {
    "allow.os.group.write.access": "only the user that runs the instance writes its state directory",
    "buffered.records.per.partition": f"records that wait are bounded by bytes, and {_MEMORY}",
    "built.in.metrics.version": _METRICS,
    "cache.max.bytes.buffering": f"{_MEMORY}; Materialized(emit='commit') sends the last update of each commit",
    "config.providers": "give the values themselves; a manifest reads them from a Secret (kafka.secretRef)",
    "default.client.supplier": "the clients are the runtime's own",
    "default.dsl.store": _STORES,
    "default.interactive.query.isolation.level": "under exactly once queries answer with what is committed",
    "default.list.key.serde.inner": _SERDES,
    "default.list.key.serde.type": _SERDES,
    "default.list.value.serde.inner": _SERDES,
    "default.list.value.serde.type": _SERDES,
    "dsl.store.suppliers.class": _STORES,
    "enable.transactional.statestores": "every store is transactional",
    "group.protocol": "tasks are assigned by the group's leader (the classic protocol)",
    "log.summary.interval.ms": _METRICS,
    "metadata.cluster.check.enable": "the clients are the runtime's own",
    "metric.reporters": _METRICS,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "poll.ms": "the polling thread is woken by what arrives",
    "processing.exception.handler.global.enabled": "global stores have the deserialization handler",
    "rack.aware.assignment.non_overlap_cost": _RACKS,
    "rack.aware.assignment.strategy": _RACKS,
    "rack.aware.assignment.tags": _RACKS,
    "rack.aware.assignment.traffic_cost": _RACKS,
    "repartition.purge.interval.ms": "records of repartition topics are deleted after they are committed",
    "rocksdb.config.setter": f"{_MEMORY}, and RocksDB is set up from it",
    "state.cleanup.delay.ms": "directories of tasks that have left are deleted by the cleanup thread",
    "state.cleanup.dir.max.age.ms": "a store that is too old is restored whole",
    "statestore.cache.max.bytes": f"{_MEMORY}; Materialized(emit='commit') sends the last update of each commit",
    "statestore.uncommitted.max.bytes": f"{_MEMORY}, and reaching its share asks for an early commit",
    "task.assignor.class": "give StreamsRuntime(assignor=...) an object",
    "task.timeout.ms": "what can be tried again is, and /status tells the reason",
    "topology.description.push.enabled": "Topology.describe() gives the description",
    "upgrade.from": "there is nothing to upgrade from",
    "window.size.ms": _SERDES,
    "windowed.inner.class.serde": _SERDES,
    "windowstore.changelog.additional.retention.ms": "changelogs of windows are kept for a day more than their stores",
}

#: Constants of Java's ``StreamsConfig`` whose name is not that of their property.
_CONSTANTS: Mapping[str, str] = {
    "CACHE_MAX_BYTES_BUFFERING_CONFIG": "cache.max.bytes.buffering",
    "DEFAULT_DESERIALIZATION_EXCEPTION_HANDLER_CLASS_CONFIG": "default.deserialization.exception.handler",
    "DEFAULT_KEY_SERDE_CLASS_CONFIG": "default.key.serde",
    "DEFAULT_PRODUCTION_EXCEPTION_HANDLER_CLASS_CONFIG": "default.production.exception.handler",
    "DEFAULT_TIMESTAMP_EXTRACTOR_CLASS_CONFIG": "default.timestamp.extractor",
    "DEFAULT_VALUE_SERDE_CLASS_CONFIG": "default.value.serde",
    "DESERIALIZATION_EXCEPTION_HANDLER_CLASS_CONFIG": "deserialization.exception.handler",
    "METADATA_MAX_AGE_CONFIG": "metadata.max.age.ms",
    "METRIC_REPORTER_CLASSES_CONFIG": "metric.reporters",
    "PROCESSING_EXCEPTION_HANDLER_CLASS_CONFIG": "processing.exception.handler",
    "PRODUCTION_EXCEPTION_HANDLER_CLASS_CONFIG": "production.exception.handler",
    "RACK_AWARE_ASSIGNMENT_NON_OVERLAP_COST_CONFIG": "rack.aware.assignment.non_overlap_cost",
    "RACK_AWARE_ASSIGNMENT_TRAFFIC_COST_CONFIG": "rack.aware.assignment.traffic_cost",
    "RECEIVE_BUFFER_CONFIG": "receive.buffer.bytes",
    "ROCKSDB_CONFIG_SETTER_CLASS_CONFIG": "rocksdb.config.setter",
    "SEND_BUFFER_CONFIG": "send.buffer.bytes",
    "TRANSACTIONAL_STATE_STORES_CONFIG": "enable.transactional.statestores",
    "WINDOW_STORE_CHANGE_LOG_ADDITIONAL_RETENTION_MS_CONFIG": "windowstore.changelog.additional.retention.ms",
}

#: Values, prefixes and methods of Java's ``StreamsConfig``.
_OTHERS: Mapping[str, str] = {
    "AT_LEAST_ONCE": 'write "at_least_once"',
    "EXACTLY_ONCE": 'write "exactly_once"',
    "EXACTLY_ONCE_V2": 'write "exactly_once"',
    "OPTIMIZE": 'write topology_optimization="all"',
    "NO_OPTIMIZATION": 'write topology_optimization="none"',
    "IN_MEMORY": _STORES,
    "ROCKS_DB": _STORES,
    "topicPrefix": "write topic_properties={...}",
    "clientTagPrefix": "write client_tags={...}",
    **{
        name: f'write kafka={{"{prefix}...": ...}}'
        for name, prefix in {
            "consumerPrefix": "consumer.",
            "mainConsumerPrefix": "main.consumer.",
            "restoreConsumerPrefix": "restore.consumer.",
            "globalConsumerPrefix": "global.consumer.",
            "producerPrefix": "producer.",
            "adminClientPrefix": "admin.",
        }.items()
    },
}


def answer(name: str) -> str | None:
    """Returns what a property of Kafka Streams is here, after its name and a colon; ``None`` for any other name, and
    for one that the clients read as it is."""
    if name in FIELDS:
        return f"here it is the setting {FIELDS[name]}"
    if name in RENAMED:
        return f"here it is called {RENAMED[name]}"
    return f"has no meaning here, leave it out: {NO_MEANING[name]}" if name in NO_MEANING else None


def constants() -> dict[str, str]:
    """Returns the constants and methods of Java's ``StreamsConfig``, each with what to write instead."""
    names = {f"{name.replace('.', '_').upper()}_CONFIG": name for name in (*FIELDS, *RENAMED, *NO_MEANING, *CLIENTS)}
    return {constant: _instead(name) for constant, name in {**names, **_CONSTANTS}.items()} | dict(_OTHERS)


def _instead(name: str) -> str:
    if name in FIELDS:
        return f"here it is an argument: StreamsConfig({FIELDS[name]}=...)"
    if name in NO_MEANING:
        return f"{name} has no meaning here, leave it out: {NO_MEANING[name]}"
    return f'here it is a property of the clients: StreamsConfig(kafka={{"{RENAMED.get(name, name)}": ...}})'
