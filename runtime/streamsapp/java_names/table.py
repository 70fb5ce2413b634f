"""The names of Kafka Streams 4.4 that have another form here than the same words with underscores.

Plain data; read where a name is not found. A sentence follows "X has no 'name'; ".
"""

from __future__ import annotations

from collections.abc import Mapping

#: Methods that only grouped streams and tables have.
GROUPED = frozenset({"count", "reduce", "aggregate", "cogroup", "windowed_by", "windowedBy"})

_FUNCTION = "a plain function is given where Java takes one"
_PROCESS = "use process(supplier), with a subclass of Processor"
_PROCESS_VALUES = "use process_values(supplier), with a subclass of Processor"
_RUNTIME = "here it is called StreamsRuntime: StreamsRuntime(topology, config)"
_TESTING = "here it is in streamsapp.testing: from streamsapp.testing import {}"
_QUERY = 'stores are queried with StreamsRuntime.query("store", key=...), without a type of store'
_HANDLER = 'a handler is "fail", "continue", "dead_letter" or a function(context, exception), given to StreamsConfig'
_OPTION = "here it is written {}"
_NO_HEADERS = "stores keep no headers here: use the one without Headers in its name"
_NO_COUNTERPART = "it has no counterpart here, leave it out"
_SUPPLIED = 'the engine of a store is chosen with Materialized(store="rocksdb") or store="memory"'


def _option(*written: str) -> dict[str, str]:
    """Returns the settings of an option, which Java gives by methods: ``withName`` is ``name=...``."""
    return {name: _OPTION.format(argument) for name, argument in (each.split(" ", 1) for each in written)}


_SERDES_OPTION = ("withKeySerde key_serde=...", "withValueSerde value_serde=...")

#: Class to name to remedy. Keys are the classes' names in Kafka Streams.
MEMBERS: Mapping[str, Mapping[str, str]] = {
    "Serdes": {
        **{
            java: f"here it is called {here}"
            for names, here in {
                ("String", "StringSerde"): "string()",
                ("Long", "LongSerde"): "long()",
                ("Integer", "IntegerSerde"): "integer()",
                ("Short", "ShortSerde"): "short()",
                ("Float", "FloatSerde"): "float()",
                ("Double", "DoubleSerde"): "double()",
                ("Boolean", "BooleanSerde"): "boolean()",
                ("Bytes", "BytesSerde", "ByteArray", "ByteArraySerde", "ByteBuffer", "ByteBufferSerde"): "bytes()",
                ("UUID", "UUIDSerde"): "uuid()",
                ("Void", "VoidSerde"): "void()",
                ("ListSerde",): "list_(inner)",
                ("serdeFrom", "WrapperSerde"): "of(serialize, deserialize)",
            }.items()
            for java in names
        },
    },
    "Consumed": _option(
        "with Consumed(key_serde, value_serde)",
        "as Consumed(name=...)",
        *_SERDES_OPTION,
        "withTimestampExtractor timestamp_extractor=...",
        "withOffsetResetPolicy offset_reset=...",
        "withName name=...",
    ),
    "Produced": _option(
        "with Produced(key_serde, value_serde)",
        "as Produced(name=...)",
        *_SERDES_OPTION,
        "withStreamPartitioner partitioner=...",
        "streamPartitioner Produced(partitioner=...)",
        "keySerde Produced(key_serde=...)",
        "valueSerde Produced(value_serde=...)",
        "withName name=...",
    ),
    "Grouped": _option(
        "with Grouped(key_serde, value_serde)",
        "as Grouped(name=...)",
        *_SERDES_OPTION,
        "keySerde Grouped(key_serde=...)",
        "valueSerde Grouped(value_serde=...)",
        "withName name=...",
    ),
    "Repartitioned": _option(
        "with Repartitioned(key_serde, value_serde)",
        "as Repartitioned(name=...)",
        *_SERDES_OPTION,
        "withNumberOfPartitions partitions=...",
        "numberOfPartitions Repartitioned(partitions=...)",
        "withStreamPartitioner partitioner=...",
        "streamPartitioner Repartitioned(partitioner=...)",
        "withName name=...",
    ),
    "Materialized": {
        **_option(
            'as Materialized("store-name"), or Materialized(store=...) for a supplier of stores',
            "with Materialized(key_serde=..., value_serde=...)",
            *_SERDES_OPTION,
            "withRetention retention=...",
            "withLoggingEnabled log_config={...}",
            "withLoggingDisabled logging=False",
            'withStoreType store="rocksdb" or store="memory"',
            'withCachingEnabled emit="commit", which sends the last update of each commit, as a cache does in effect',
        ),
        "withCachingDisabled": "leave it out: every update is sent on, as without a cache",
    },
    "Joined": _option(
        "with Joined(key_serde, value_serde, other_value_serde)",
        "as Joined(name=...)",
        *_SERDES_OPTION,
        "withOtherValueSerde other_value_serde=...",
        "withGracePeriod grace=...",
        "gracePeriod grace=...",
        "keySerde Joined(key_serde=...)",
        "valueSerde Joined(value_serde=...)",
        "otherValueSerde Joined(other_value_serde=...)",
        "withName name=...",
    ),
    "StreamJoined": _option(
        "with StreamJoined(key_serde, value_serde, other_value_serde)",
        "as StreamJoined(store_name=...)",
        *_SERDES_OPTION,
        "withOtherValueSerde other_value_serde=...",
        "withThisStoreSupplier this_store_supplier=...",
        "withOtherStoreSupplier other_store_supplier=...",
        "withStoreName store_name=...",
        "withLoggingEnabled log_config={...}",
        "withLoggingDisabled logging=False",
        'withDslStoreSuppliers store="rocksdb" or store="memory"',
        "withName name=...",
    ),
    "TableJoined": _option(
        "with TableJoined(partitioner, other_partitioner)",
        "as TableJoined(name=...)",
        "withPartitioner partitioner=...",
        "withOtherPartitioner other_partitioner=...",
        "withName name=...",
    ),
    "Named": _option('as Named("name"), or the text alone', 'withName Named("name"), or the text alone'),
    "Branched": _option(
        'as Branched("name")',
        "withFunction function=...",
        "withConsumer consumer=...",
        "withName name=...",
    ),
    "Printed": _option(
        "toSysOut Printed()",
        "toFile Printed(path=...)",
        "withLabel label=...",
        "withKeyValueMapper mapper=...",
        "withName name=...",
    ),
    "TimeWindows": {
        "ofSizeAndGrace": "here it is called of(size, grace)",
        "ofSizeWithNoGrace": "here it is called of(size)",
        "grace": "give it to of(size, grace)",
        "gracePeriodMs": "here it is called grace_ms, without a call",
        "size": "here it is called size_ms, without a call",
        "sizeMs": "here it is called size_ms",
        "until": "give the time to Materialized(retention=...)",
    },
    "SlidingWindows": {
        "ofTimeDifferenceAndGrace": "here it is called of(time_difference, grace)",
        "ofTimeDifferenceWithNoGrace": "here it is called of(time_difference)",
        "withTimeDifferenceAndGrace": "here it is called of(time_difference, grace)",
        "timeDifferenceMs": "here it is called difference_ms, without a call",
        "gracePeriodMs": "here it is called grace_ms, without a call",
    },
    "SessionWindows": {
        "ofInactivityGapAndGrace": "here it is called of(inactivity_gap, grace)",
        "ofInactivityGapWithNoGrace": "here it is called of(inactivity_gap)",
        "with": "here it is called of(inactivity_gap, grace)",
        "grace": "give it to of(inactivity_gap, grace)",
        "until": "give the time to Materialized(retention=...)",
        "inactivityGap": "here it is called gap_ms, without a call",
        "gracePeriodMs": "here it is called grace_ms, without a call",
    },
    "JoinWindows": {
        "ofTimeDifferenceAndGrace": "here it is called of(time_difference, grace)",
        "ofTimeDifferenceWithNoGrace": "here it is called of(time_difference)",
        "grace": "give it to of(time_difference, grace)",
        "gracePeriodMs": "here it is called grace_ms, without a call",
        "size": "here it is called size_ms, without a call",
        "until": "it has no counterpart here, leave it out",
        "windowsFor": "it has no counterpart here, leave it out",
    },
    "UnlimitedWindows": {
        "gracePeriodMs": "here it is called grace_ms, without a call",
        "size": "here it is called size_ms, without a call",
        "until": "give the time to Materialized(retention=...)",
    },
    "EmitStrategy": {"log": _NO_COUNTERPART, "type": "compare with EmitStrategy.WINDOW_UPDATE and WINDOW_CLOSE"},
    "Suppressed": {"BufferConfig": "here it is in streamsapp.dsl.suppressed: BufferConfig.unbounded()"},
    "Stores": {
        "lruMap": "use in_memory_key_value_store(name), and delete what is not needed",
        "persistentTimestampedWindowStore": "use persistent_window_store with timestamped_window_store_builder",
        **dict.fromkeys(
            (
                "persistentSessionStoreWithHeaders",
                "persistentTimestampedKeyValueStoreWithHeaders",
                "persistentTimestampedWindowStoreWithHeaders",
                "sessionStoreWithHeadersBuilder",
                "timestampedKeyValueStoreWithHeadersBuilder",
                "timestampedWindowStoreWithHeadersBuilder",
            ),
            _NO_HEADERS,
        ),
    },
    "StoreBuilder": {"build": "give the builder to add_state_store()", "loggingEnabled": "here it is called logging"},
    "Topology": {
        "addReadOnlyStateStore": "use add_global_store(), or a table of the topic with StreamsBuilder.table()",
        "AutoOffsetReset": 'write offset_reset="earliest", "latest" or "none"',
    },
    "KStream": {
        "as": "use Named, Materialized(store_name) or Consumed(name=...)",
        "branch": "use split().branch(predicate, ...).default_branch()",
        "through": "use repartition(), or to() and then stream()",
        "transform": "use process()",
        "flatTransform": "use process()",
        "transformValues": _PROCESS_VALUES,
        "flatTransformValues": _PROCESS_VALUES,
    },
    "KTable": {
        "through": "use to_stream().to() and then table()",
        "to": "use to_stream().to()",
        "foreach": "use to_stream().foreach()",
        "print": "use to_stream().print()",
        "queryableStoreName": "give the store a name with Materialized(store_name)",
    },
    "GlobalKTable": {"queryableStoreName": "give the store a name with Materialized(store_name)"},
    "StreamsRuntime": {
        "store": _QUERY,
        "allLocalStorePartitionLags": "here it is called lags()",
        "metadataForAllStreamsClients": "use query_metadata_for_key(store, key), or tasks() for this instance",
        "metadataForLocalThreads": "use tasks(), the tasks of this instance",
        "localThreadsMetadata": "use tasks(), the tasks of this instance",
        "streamsMetadataForStore": "use query_metadata_for_key(store, key)",
        "allMetadata": "use query_metadata_for_key(store, key), or tasks() for this instance",
        "allMetadataForStore": "use query_metadata_for_key(store, key)",
        "addStreamThread": "set threads in StreamsConfig, or start another instance",
        "removeStreamThread": "set threads in StreamsConfig",
        "metrics": "here it is called samples()",
        "isPaused": "use status()",
        "clientInstanceIds": _NO_COUNTERPART,
    },
    "TopologyTestDriver": {
        "getAllStateStores": "ask for each with get_state_store(name)",
        "getTimestampedKeyValueStore": "here it is called get_state_store(name)",
        "getTimestampedWindowStore": "here it is called get_state_store(name)",
        "getVersionedKeyValueStore": "here it is called get_versioned_store(name)",
        "getTimestampedKeyValueStoreWithHeaders": _NO_HEADERS,
        "getTimestampedWindowStoreWithHeaders": _NO_HEADERS,
        "getSessionStoreWithHeaders": _NO_HEADERS,
        "pipeInput": "use create_input_topic(topic, key_serde, value_serde).pipe_input(key, value)",
        "readOutput": "use create_output_topic(topic, key_serde, value_serde).read_record()",
        "metrics": "figures of a test are its results; those of an instance are StreamsRuntime.samples()",
    },
    "TestInputTopic": {
        "pipeKeyValueList": "here it is called pipe_key_values(pairs)",
        "pipeValueList": "here it is called pipe_values(values)",
        "pipeRecordList": "here it is called pipe_records(records)",
    },
    "TestOutputTopic": {
        "getQueueSize": "here it is called queue_size()",
        "readKeyValuesToList": "here it is called read_key_values()",
        "readRecordsToList": "here it is called read_records()",
        "readValuesToList": "here it is called read_values()",
    },
    "WindowStore": {
        "fetchAll": "here it is called fetch_range(None, None, from_ms, to_ms)",
        "backwardFetchAll": "here it is called backward_fetch_range(None, None, from_ms, to_ms)",
    },
    "KeyValueIterator": {
        "hasNext": "write a loop: for key, value in iterator",
        "next": "write next(iterator), or a loop: for key, value in iterator",
        "peekNextKey": "write a loop: for key, value in iterator",
    },
    "ProcessorContext": {
        "topic": "use record_metadata.topic",
        "partition": "use record_metadata.partition",
        "offset": "use record_metadata.offset",
        "timestamp": "use the timestamp of the record",
        "headers": "use the headers of the record",
        **dict.fromkeys(
            ("appConfigs", "appConfigsWithPrefix", "keySerde", "valueSerde", "metrics", "register", "stateDir"),
            _NO_COUNTERPART,
        ),
    },
    "Windowed": {"window": "here the key has start_ms and end_ms itself"},
    "ValueAndTimestamp": {
        "make": "write ValueAndTimestamp(value, timestamp)",
        "makeAllowNullable": "write ValueAndTimestamp(value, timestamp)",
        "getValueOrNull": "here it is value, and the pair is None where there is none",
    },
}

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
    "GroupProtocol": _NO_COUNTERPART,
    "CloseOptions": "write close(timeout, leave_group)",
    "KafkaClientSupplier": _NO_COUNTERPART,
    "StreamsMetrics": 'use context.counter("name"), and StreamsRuntime.samples()',
    "ClientInstanceIds": _NO_COUNTERPART,
    "DslStoreFormat": _NO_COUNTERPART,
    "AutoOffsetReset": 'write Consumed(offset_reset="earliest"), "latest", "none" or "by_duration:PT1H"',
    "StoreQueryParameters": _QUERY,
    **dict.fromkeys(("QueryableStoreTypes", "QueryableStoreType", "StateQueryRequest", "StateQueryResult"), _QUERY),
    **dict.fromkeys(("KeyQuery", "RangeQuery", "WindowKeyQuery", "WindowRangeQuery", "TimestampedKeyQuery"), _QUERY),
    **dict.fromkeys(("TimestampedRangeQuery", "VersionedKeyQuery", "MultiVersionedKeyQuery", "QueryConfig"), _QUERY),
    **dict.fromkeys(("Position", "PositionBound", "Query", "QueryResult", "ResultOrder", "FailureReason"), _QUERY),
    **dict.fromkeys(
        (
            "TimestampedKeyWithHeadersQuery",
            "TimestampedRangeWithHeadersQuery",
            "TimestampedWindowKeyWithHeadersQuery",
            "TimestampedWindowRangeWithHeadersQuery",
        ),
        _QUERY,
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
        _PROCESS_VALUES + "; of a table, transform_values(supplier)",
    ),
    **dict.fromkeys(
        ("FixedKeyProcessor", "FixedKeyProcessorSupplier", "ContextualFixedKeyProcessor"),
        "use Processor, which process_values(supplier) runs with fixed keys",
    ),
    "FixedKeyRecord": "use Record; process_values() refuses another key",
    "InternalFixedKeyRecordFactory": _NO_COUNTERPART,
    "FixedKeyProcessorContext": "use ProcessorContext",
    "ContextualProcessor": "use Processor, and keep the context that init(context) is given",
    **dict.fromkeys(
        ("ProcessorSupplier", "ConnectedStoreProvider", "WrappedProcessorSupplier", "WrappedFixedKeyProcessorSupplier"),
        "a supplier is a class of processors, or a function that makes one; its stores() gives the stores it brings",
    ),
    "ProcessorWrapper": _NO_COUNTERPART,
    **dict.fromkeys(("ProcessingContext", "StateStoreContext"), "use ProcessorContext"),
    **dict.fromkeys(("RecordContext", "RecordMetadata"), "context.record_metadata has topic, partition and offset"),
    "ReadOnlyRecord": "use Record",
    "To": "write context.forward(record, child)",
    "Cancellable": "context.schedule() returns the handle, which has cancel()",
    "CommitCallback": _NO_COUNTERPART,
    **dict.fromkeys(("StateRestoreCallback", "BatchingStateRestoreCallback", "StateSerdes"), _NO_COUNTERPART),
    "StateStore": "use KeyValueStore, WindowStore, SessionStore or VersionedKeyValueStore; stores are made by Stores",
    **dict.fromkeys(("ReadOnlyKeyValueStore", "TimestampedKeyValueStore"), "use KeyValueStore"),
    **dict.fromkeys(("ReadOnlyWindowStore", "TimestampedWindowStore"), "use WindowStore"),
    "ReadOnlySessionStore": "use SessionStore",
    **dict.fromkeys(
        (
            "TimestampedKeyValueStoreWithHeaders",
            "TimestampedWindowStoreWithHeaders",
            "SessionStoreWithHeaders",
            "HeadersBytesStore",
            "HeadersBytesStoreSupplier",
            "ValueTimestampHeaders",
            "AggregationWithHeaders",
        ),
        _NO_HEADERS,
    ),
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
