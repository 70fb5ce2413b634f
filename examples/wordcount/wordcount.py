"""Counts the words of every line written to the topic ``lines``; each update goes to the topic ``counts``."""

import re

from streamsapp import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder, Topology

WORD = re.compile(r"\w+")


def topology() -> Topology:
    builder = StreamsBuilder()
    lines = builder.stream("lines", Consumed(key_serde=Serdes.string(), value_serde=Serdes.string()))
    words = lines.flat_map_values(lambda line: WORD.findall(line.lower()))
    grouped = words.group_by(lambda _, word: word, Grouped(key_serde=Serdes.string(), value_serde=Serdes.string()))
    counts = grouped.count(Materialized("counts"))
    counts.to_stream().to("counts", Produced(key_serde=Serdes.string(), value_serde=Serdes.long()))
    return builder.build()
