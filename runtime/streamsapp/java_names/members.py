"""Methods of Kafka Streams 4.4 that have another form here than the same words with underscores.

Plain data; read where a name is not found. A sentence follows "X has no 'name'; ".
"""

from __future__ import annotations

from collections.abc import Mapping

#: Methods that only grouped streams and tables have.
GROUPED = frozenset({"count", "reduce", "aggregate", "cogroup", "windowed_by", "windowedBy"})

#: Remedies that classes have, too.
PROCESS_VALUES = "use process_values(supplier), with a subclass of Processor"
QUERY = 'stores are queried with StreamsRuntime.query("store", key=...), without a type of store'
_OPTION = "here it is written {}"
NO_COUNTERPART = "it has no counterpart here, leave it out"


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
            "with Materialized(key_serde, value_serde)",
            *_SERDES_OPTION,
            "withRetention retention=...",
            "withLoggingEnabled log_config={...}",
            "withLoggingDisabled logging=False",
            'withStoreType store="rocksdb" or store="memory"',
            'withCachingEnabled emit="commit", which sends the last update of each commit, as a cache does in effect',
        ),
        "withCachingDisabled": 'emit="update", which sends every update on at once, as without a cache; left out, only '
        "what group_by sends is combined",
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
    "EmitStrategy": {"log": NO_COUNTERPART, "type": "compare with EmitStrategy.WINDOW_UPDATE and WINDOW_CLOSE"},
    "Suppressed": {"BufferConfig": "here it is in streamsapp.dsl.suppressed: BufferConfig.unbounded()"},
    "Stores": {
        "lruMap": "use in_memory_key_value_store(name), and delete what is not needed",
        "persistentTimestampedWindowStore": "use persistent_window_store with timestamped_window_store_builder",
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
        "transformValues": PROCESS_VALUES,
        "flatTransformValues": PROCESS_VALUES,
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
        "store": QUERY,
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
        "clientInstanceIds": NO_COUNTERPART,
    },
    "TopologyTestDriver": {
        "getAllStateStores": "ask for each with get_state_store(name)",
        "getTimestampedKeyValueStore": "here it is called get_state_store(name)",
        "getTimestampedWindowStore": "here it is called get_state_store(name)",
        "getVersionedKeyValueStore": "here it is called get_versioned_store(name)",
        "getTimestampedKeyValueStoreWithHeaders": "here it is called get_state_store(name)",
        "getTimestampedWindowStoreWithHeaders": "here it is called get_state_store(name)",
        "getSessionStoreWithHeaders": "here it is called get_session_store(name)",
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
            NO_COUNTERPART,
        ),
    },
    "Windowed": {"window": "here the key has start_ms and end_ms itself"},
    "ValueAndTimestamp": {
        "make": "write ValueAndTimestamp(value, timestamp)",
        "makeAllowNullable": "write ValueAndTimestamp(value, timestamp)",
        "getValueOrNull": "here it is value, and the pair is None where there is none",
    },
    "ValueTimestampHeaders": {
        "make": "write ValueTimestampHeaders(value, timestamp, headers)",
        "makeAllowNullable": "write ValueTimestampHeaders(value, timestamp, headers)",
        "getValueOrNull": "here it is value, and the whole is None where there is none",
    },
    "AggregationWithHeaders": {
        "make": "write AggregationWithHeaders(aggregation, headers)",
        "makeAllowNullable": "write AggregationWithHeaders(aggregation, headers)",
        "getAggregationOrNull": "here it is aggregation, and the whole is None where there is none",
    },
}
