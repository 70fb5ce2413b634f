"""Classes of Kafka Streams 4.4 that are not here under their names, with what stands for each.

Plain data; read where a name is not found. A sentence follows "there is no X here; ".
"""

from __future__ import annotations

from collections.abc import Mapping

from streamsapp.java_names.members import NO_COUNTERPART, PROCESS_VALUES, QUERY

_FUNCTION = "a plain function is given where Java takes one"
_PROCESS = "use process(supplier), with a subclass of Processor"
_RUNTIME = "here it is called StreamsRuntime: StreamsRuntime(topology, config)"
_TESTING = "here it is in streamsapp.testing: from streamsapp.testing import {}"
_HANDLER = 'a handler is "fail", "continue", "dead_letter" or a function(context, exception), given to StreamsConfig'
_SUPPLIED = 'the engine of a store is chosen with Materialized(store="rocksdb") or store="memory"'

#: Classes that are not here, with what stands for them. A sentence follows "there is no X here; ".
CLASSES: Mapping[str, str] = {
    "KafkaStreams": _RUNTIME,
    "KeyValue": "a pair is a plain tuple: write (key, value)",
    "StreamsMetadata": "use StreamsRuntime.query_metadata_for_key(store, key)",
    "ThreadMetadata": "use StreamsRuntime.tasks()",
    "TaskMetadata": "use StreamsRuntime.tasks()",
    "LagInfo": "use StreamsRuntime.lags()",
    "HostInfo": 'a host is text, "host:port"',
    "TopologyConfig": "settings are given to StreamsConfig, and optimize to StreamsBuilder.build()",
    "GroupProtocol": NO_COUNTERPART,
    "CloseOptions": "write close(timeout, leave_group)",
    "KafkaClientSupplier": NO_COUNTERPART,
    "StreamsMetrics": 'use context.counter("name"), and StreamsRuntime.samples()',
    "ClientInstanceIds": NO_COUNTERPART,
    "DslStoreFormat": NO_COUNTERPART,
    "AutoOffsetReset": 'write Consumed(offset_reset="earliest"), "latest", "none" or "by_duration:PT1H"',
    "StoreQueryParameters": QUERY,
    **dict.fromkeys(("QueryableStoreTypes", "QueryableStoreType", "StateQueryRequest", "StateQueryResult"), QUERY),
    **dict.fromkeys(("KeyQuery", "RangeQuery", "WindowKeyQuery", "WindowRangeQuery", "TimestampedKeyQuery"), QUERY),
    **dict.fromkeys(("TimestampedRangeQuery", "VersionedKeyQuery", "MultiVersionedKeyQuery", "QueryConfig"), QUERY),
    **dict.fromkeys(("Position", "PositionBound", "Query", "QueryResult", "ResultOrder", "FailureReason"), QUERY),
    **dict.fromkeys(
        (
            "TimestampedKeyWithHeadersQuery",
            "TimestampedRangeWithHeadersQuery",
            "TimestampedWindowKeyWithHeadersQuery",
            "TimestampedWindowRangeWithHeadersQuery",
        ),
        QUERY,
    ),
    **{
        name: _TESTING.format(name) for name in ("TopologyTestDriver", "TestInputTopic", "TestOutputTopic", "MockClock")
    },
    "TestRecord": "use Record",
    "MockProcessorContext": _TESTING.format("TopologyTestDriver") + "; it drives a processor with its topology",
    **dict.fromkeys(
        (
            "Initializer",
            "Aggregator",
            "Reducer",
            "Merger",
            "Predicate",
            "KeyValueMapper",
            "ValueMapper",
            "ValueMapperWithKey",
            "ValueJoiner",
            "ValueJoinerWithKey",
            "ValueJoinerWithStreamAndMappedKey",
            "ForeachAction",
            "Punctuator",
            "TimestampExtractor",
            "TopicNameExtractor",
            "StreamPartitioner",
            "StreamsUncaughtExceptionHandler",
        ),
        _FUNCTION,
    ),
    "ForeachProcessor": "use foreach(function)",
    **dict.fromkeys(("Transformer", "TransformerSupplier"), _PROCESS),
    **dict.fromkeys(
        (
            "ValueTransformer",
            "ValueTransformerSupplier",
            "ValueTransformerWithKey",
            "ValueTransformerWithKeySupplier",
        ),
        PROCESS_VALUES + "; of a table, transform_values(supplier)",
    ),
    **dict.fromkeys(
        ("FixedKeyProcessor", "FixedKeyProcessorSupplier", "ContextualFixedKeyProcessor"),
        "use Processor, which process_values(supplier) runs with fixed keys",
    ),
    "FixedKeyRecord": "use Record; process_values() refuses another key",
    "InternalFixedKeyRecordFactory": NO_COUNTERPART,
    "FixedKeyProcessorContext": "use ProcessorContext",
    "ContextualProcessor": "use Processor, and keep the context that init(context) is given",
    **dict.fromkeys(
        ("ProcessorSupplier", "ConnectedStoreProvider", "WrappedProcessorSupplier", "WrappedFixedKeyProcessorSupplier"),
        "a supplier is a class of processors, or a function that makes one; its stores() gives the stores it brings",
    ),
    "ProcessorWrapper": "give StreamsConfig(processor_wrapper=...) a function of (node_name, processor)",
    **dict.fromkeys(("ProcessingContext", "StateStoreContext"), "use ProcessorContext"),
    **dict.fromkeys(("RecordContext", "RecordMetadata"), "context.record_metadata has topic, partition and offset"),
    "ReadOnlyRecord": "use Record",
    "To": "write context.forward(record, child)",
    "Cancellable": "context.schedule() returns the handle, which has cancel()",
    "CommitCallback": NO_COUNTERPART,
    **dict.fromkeys(("StateRestoreCallback", "BatchingStateRestoreCallback", "StateSerdes"), NO_COUNTERPART),
    "StateStore": "use KeyValueStore, WindowStore, SessionStore or VersionedKeyValueStore; stores are made by Stores",
    **dict.fromkeys(
        ("ReadOnlyKeyValueStore", "TimestampedKeyValueStore", "TimestampedKeyValueStoreWithHeaders"),
        "use KeyValueStore",
    ),
    **dict.fromkeys(
        ("ReadOnlyWindowStore", "TimestampedWindowStore", "TimestampedWindowStoreWithHeaders"), "use WindowStore"
    ),
    **dict.fromkeys(("ReadOnlySessionStore", "SessionStoreWithHeaders"), "use SessionStore"),
    **dict.fromkeys(("HeadersBytesStore", "HeadersBytesStoreSupplier"), NO_COUNTERPART),
    **dict.fromkeys(
        ("WindowStoreIterator", "VersionedRecordIterator", "ReadOnlyRecordIterator"), "use KeyValueIterator"
    ),
    **dict.fromkeys(
        (
            "StoreSupplier",
            "KeyValueBytesStoreSupplier",
            "WindowBytesStoreSupplier",
            "SessionBytesStoreSupplier",
            "VersionedBytesStoreSupplier",
            "StoreBuilder",
            "VersionedBytesStore",
            "TimestampedBytesStore",
        ),
        "suppliers and builders of stores are made by Stores",
    ),
    **dict.fromkeys(
        (
            "DslStoreSuppliers",
            "BuiltInDslStoreSuppliers",
            "DslKeyValueParams",
            "DslWindowParams",
            "DslSessionParams",
        ),
        _SUPPLIED,
    ),
    "RocksDBConfigSetter": "RocksDB is set up from memory_bytes, leave it out",
    "Window": "a window's key has start_ms and end_ms: Windowed(key, start_ms, end_ms)",
    "TimeWindow": "a window's key has start_ms and end_ms: Windowed(key, start_ms, end_ms)",
    "SessionWindow": "a session's key has start_ms and end_ms: Windowed(key, start_ms, end_ms)",
    **dict.fromkeys(
        (
            "WindowedSerdes",
            "TimeWindowedSerializer",
            "TimeWindowedDeserializer",
            "SessionWindowedSerializer",
            "SessionWindowedDeserializer",
        ),
        "use Serdes.time_windowed(inner, size) and Serdes.session_windowed(inner)",
    ),
    "BranchedKStream": "split() returns it",
    "TimeWindowedCogroupedKStream": "windowed_by() returns it",
    "SessionWindowedCogroupedKStream": "windowed_by() returns it",
    "TopologyDescription": "Topology.describe() returns it",
    "KeyQueryMetadata": "StreamsRuntime.query_metadata_for_key() returns it",
    **dict.fromkeys(("Serde", "Serializer", "Deserializer"), "write Serdes.of(serialize, deserialize)"),
    "WallclockTimestampExtractor": "here it is streamsapp.processor.timestamps.wallclock_timestamp",
    "FailOnInvalidTimestamp": "here it is streamsapp.processor.timestamps.fail_on_invalid_timestamp, the default",
    "LogAndSkipOnInvalidTimestamp": "here it is streamsapp.processor.timestamps.log_and_skip_on_invalid_timestamp",
    "UsePartitionTimeOnInvalidTimestamp": (
        "here it is streamsapp.processor.timestamps.use_partition_time_on_invalid_timestamp"
    ),
    **dict.fromkeys(
        (
            "DeserializationExceptionHandler",
            "ProcessingExceptionHandler",
            "ProductionExceptionHandler",
            "ErrorHandlerContext",
            "DefaultProductionExceptionHandler",
        ),
        _HANDLER,
    ),
    **dict.fromkeys(
        ("LogAndContinueExceptionHandler", "LogAndContinueProcessingExceptionHandler"),
        'write "continue": StreamsConfig(deserialization_exception_handler="continue")',
    ),
    **dict.fromkeys(
        ("LogAndFailExceptionHandler", "LogAndFailProcessingExceptionHandler"), 'write "fail", which is the default'
    ),
    "StreamsException": "here it is streamsapp.errors.StreamsError",
    "TopologyException": "here it is streamsapp.errors.TopologyError",
    "ProcessorStateException": "here it is streamsapp.errors.StateStoreError",
    "UnknownStateStoreException": "here it is streamsapp.errors.UnknownStateStoreError",
    **dict.fromkeys(
        (
            "InvalidStateStoreException",
            "StateStoreMigratedException",
            "StateStoreNotAvailableException",
            "StreamsNotStartedException",
            "StreamsRebalancingException",
            "StreamsStoppedException",
            "InvalidStateStorePartitionException",
        ),
        "here it is streamsapp.errors.StoreNotAvailableError",
    ),
    "TaskCorruptedException": "here it is streamsapp.errors.TaskCorruptedError",
    "TaskMigratedException": "here it is streamsapp.errors.FencedError",
    **dict.fromkeys(
        ("MissingSourceTopicException", "MissingInternalTopicsException"),
        "here it is streamsapp.errors.MissingTopicError",
    ),
    **dict.fromkeys(
        (
            "BrokerNotFoundException",
            "LockException",
            "TaskAssignmentException",
            "TaskIdFormatException",
            "UnknownTopologyException",
            "MisconfiguredInternalTopicException",
            "InternalTopicsAlreadySetupException",
        ),
        "here it is streamsapp.errors.StreamsError",
    ),
    "Duration": "write datetime.timedelta(seconds=10), or whole milliseconds",
    "Instant": "write milliseconds since 1970",
    "Properties": "write StreamsConfig(...), or StreamsConfig.from_properties({...}) for Java's names",
    "ProducerConfig": 'write StreamsConfig(kafka={"producer.linger.ms": "5"})',
    "ConsumerConfig": 'write StreamsConfig(kafka={"consumer.fetch.min.bytes": "1"})',
}
