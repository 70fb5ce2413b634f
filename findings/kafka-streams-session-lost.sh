#!/usr/bin/env bash
# Kafka Streams 4.3.1: a record that fails where the handler goes on deletes the session that it would have extended.
#
# With `processing.exception.handler` (KIP-1033) set to LogAndContinueProcessingExceptionHandler, a record for which a
# function throws is skipped, and the others are not affected. In a session aggregation the session has been removed from
# the store when the aggregator is called, so what it held before that record is lost: the next record begins at nothing.
source "$(dirname "$0")/common.sh"
kafka_streams
"$python" - <<'PYTHON'
from kafka_streams import driver, expect, jpype, kstream, source, streams, text, values

Duration = jpype.JClass("java.time.Duration")
GOES_ON = "org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler"


def add(key, value, total):
    if value == "bad":
        raise jpype.JClass("java.lang.IllegalStateException")("a record that fails")
    return f"{total}{value}"


def java(interface, function):
    return jpype.JProxy(f"org.apache.kafka.streams.kstream.{interface}", dict={"apply": function})


def sessions(*records):
    builder = streams.StreamsBuilder()
    builder.stream("in", kstream.Consumed.with_(text, text)).groupByKey().windowedBy(
        kstream.SessionWindows.ofInactivityGapWithNoGrace(Duration.ofMillis(100))
    ).aggregate(
        java("Initializer", lambda: ""),
        java("Aggregator", add),
        java("Merger", lambda key, one, other: f"{one}{other}"),
        kstream.Materialized.with_(text, text),
    ).toStream().filter(
        jpype.JProxy("org.apache.kafka.streams.kstream.Predicate", dict={"test": lambda key, value: value is not None})
    ).map(java("KeyValueMapper", lambda key, value: streams.KeyValue(key.key(), value))).to(
        "out", kstream.Produced.with_(text, text)
    )
    with driver(builder.build(), processing_exception_handler=GOES_ON) as made:
        for time, value in enumerate(records):
            source(made, "in").pipeInput("key", value, time)
        return values(made, "out")


expect("a, b", sessions("a", "b"), ["a", "ab"])
expect("a, a record that fails, b", sessions("a", "bad", "b"), ["a", "b"])
PYTHON
