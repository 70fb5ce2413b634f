#!/usr/bin/env bash
# Kafka Streams 4.3.1: `EmitStrategy.onWindowClose()` loses final results without record caches, at default retention.
#
# The default retention of a windowed store is the size of a window and its grace. A record is put into the store before
# the windows that it closes are sent, and the store has expired these windows by then: when time jumps, their results
# are never sent. `suppress(untilWindowCloses(...))` sends them, and so do a longer retention and a cache that holds the
# records. The documentation of EmitStrategy says that a window's result is emitted when the window closes, no more.
source "$(dirname "$0")/common.sh"
kafka_streams
"$python" - <<'PYTHON'
from kafka_streams import driver, expect, jpype, kafka, kstream, source, streams, text, values

Duration = jpype.JClass("java.time.Duration")
LONG = kafka.common.serialization.Serdes.Long()


def final_results(retention_ms=None, suppressed=False, cache_bytes=0):
    counts = kstream.Materialized.with_(text, LONG)
    if retention_ms:
        counts = counts.withRetention(Duration.ofMillis(retention_ms))
    builder = streams.StreamsBuilder()
    windowed = builder.stream("in", kstream.Consumed.with_(text, text)).groupByKey().windowedBy(
        kstream.TimeWindows.ofSizeWithNoGrace(Duration.ofMillis(10))
    )
    if suppressed:
        buffer = kstream.Suppressed.BufferConfig.unbounded()
        table = windowed.count(counts).suppress(kstream.Suppressed.untilWindowCloses(buffer))
    else:
        table = windowed.emitStrategy(kstream.EmitStrategy.onWindowClose()).count(counts)
    window = jpype.JProxy("org.apache.kafka.streams.kstream.KeyValueMapper", dict={
        "apply": lambda key, count: streams.KeyValue(key.key(), f"{key.window().start()}: {count}")})
    table.toStream().map(window).to("out", kstream.Produced.with_(text, text))
    with driver(builder.build(), statestore_cache_max_bytes=str(cache_bytes)) as made:
        records = source(made, "in")
        for time in (0, 5, 12, 60_000):  # two windows, and then one a minute later
            records.pipeInput("key", "value", time)
        return values(made, "out")


expect("suppress, default retention", final_results(suppressed=True), ["0: 2", "10: 1"])
expect("onWindowClose, default retention, a cache", final_results(cache_bytes=1_000_000), ["0: 2", "10: 1"])
expect("onWindowClose, a retention of an hour", final_results(retention_ms=3_600_000), ["0: 2", "10: 1"])
expect("onWindowClose, default retention", final_results(), ["0: 2"])
PYTHON
