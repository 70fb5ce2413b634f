"""Counts the trips of each zone and hour by the time of the trip itself, not by the time at which it was written."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from streamsapp import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder, TimeWindows, Topology

HOUR = timedelta(hours=1)


@dataclass
class Trip:
    zone: str
    #: ISO 8601, UTC where it names no zone.
    started: datetime


text, trips = Serdes.string(), Serdes.json(Trip)


def time_of_trip(record: Any, key: str | None, trip: Trip, partition_time_ms: int) -> int:
    """Milliseconds since 1970; a trip from the future is skipped (a negative time), as it would close all windows."""
    started = trip.started if trip.started.tzinfo else trip.started.replace(tzinfo=UTC)
    written_ms: int = record.timestamp()[1]
    at_ms = int(started.timestamp() * 1000)
    return at_ms if at_ms <= written_ms else -1


def topology() -> Topology:
    builder = StreamsBuilder()
    (
        builder.stream("trips", Consumed(text, trips, timestamp_extractor=time_of_trip))
        .group_by(lambda key, trip: trip.zone, Grouped(text, trips))
        .windowed_by(TimeWindows.of(HOUR, grace=timedelta(days=1)))
        .count(Materialized("trips-per-hour"))
        .to_stream()
        .to("counts", Produced(Serdes.time_windowed(text, HOUR), Serdes.long()))
    )
    return builder.build()
