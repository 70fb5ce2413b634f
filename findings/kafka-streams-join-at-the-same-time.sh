#!/usr/bin/env bash
# Kafka Streams 4.3.1: a stream-stream join whose windows have no length and no grace joins nothing.
#
# `JoinWindows.ofTimeDifferenceWithNoGrace(0)` says that two records join if their times differ by at most 0 ms. Its
# stores keep records for the length and the grace, which is 0 ms, and a record that is kept for 0 ms is never found:
# records of the same time are not joined. A window of 1 ms joins them. Nothing warns, and the javadoc allows 0.
source "$(dirname "$0")/common.sh"
kafka_streams
"$python" - <<'PYTHON'
from kafka_streams import driver, expect, jpype, kstream, source, streams, text, values

Duration = jpype.JClass("java.time.Duration")


def joined(length_ms):
    builder = streams.StreamsBuilder()
    left, right = (builder.stream(topic, kstream.Consumed.with_(text, text)) for topic in ("left", "right"))
    both = jpype.JProxy("org.apache.kafka.streams.kstream.ValueJoiner", dict={"apply": lambda a, b: f"{a} and {b}"})
    windows = kstream.JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofMillis(length_ms))
    left.join(right, both, windows, kstream.StreamJoined.with_(text, text, text)).to(
        "out", kstream.Produced.with_(text, text)
    )
    with driver(builder.build()) as made:
        source(made, "left").pipeInput("key", "left", 1_000)
        source(made, "right").pipeInput("key", "right", 1_000)
        return values(made, "out")


expect("two records of the same time, a difference of at most 1 ms", joined(1), ["left and right"])
expect("two records of the same time, a difference of at most 0 ms", joined(0), [])
PYTHON
