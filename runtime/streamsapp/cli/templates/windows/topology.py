"""Counts the visits of each page in windows of one minute."""

from datetime import timedelta

from streamsapp import Consumed, Materialized, Produced, Serdes, StreamsBuilder, TimeWindows

text = Serdes.string()
MINUTE = timedelta(minutes=1)

builder = StreamsBuilder()
(
    builder.stream("visits", Consumed(key_serde=text, value_serde=text))
    .group_by_key()
    .windowed_by(TimeWindows.of(MINUTE, grace=timedelta(seconds=10)))
    .count(Materialized("visits-per-minute"))
    .to_stream()
    .to("totals", Produced(key_serde=Serdes.time_windowed(text, MINUTE), value_serde=Serdes.long()))
)
topology = builder.build()
