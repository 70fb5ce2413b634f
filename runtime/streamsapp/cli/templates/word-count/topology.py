"""Counts the words of lines of text."""

from streamsapp import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder

text = Serdes.string()

builder = StreamsBuilder()
(
    builder.stream("lines", Consumed(key_serde=text, value_serde=text))
    .flat_map_values(lambda line: line.lower().split())
    .group_by(lambda key, word: word, Grouped(key_serde=text, value_serde=text))
    .count(Materialized("counts"))
    .to_stream()
    .to("counts", Produced(key_serde=text, value_serde=Serdes.long()))
)
topology = builder.build()
