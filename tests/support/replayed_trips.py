"""Hours of events of vehicles in four partitions, counted per line in windows behind a repartition topic.

Called by the tests of replays, and run by instances in processes of their own.
"""

from __future__ import annotations

import random
from collections import Counter

from streamsapp import (
    Consumed,
    Grouped,
    Produced,
    Serdes,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)

PARTITIONS = 4
WINDOW = 60_000
GRACE = 20_000
#: 3.5 hours.
DURATION = 12_600_000
LINES = 40

#: Vehicle, line, time.
Event = tuple[str, str, int]


def events(count: int, begin: int, seed: int = 1, duration: int = DURATION) -> list[list[Event]]:
    """The events of each partition, in the order of time; they are spread over time, not evenly."""
    chance = random.Random(seed)
    partitions: list[list[Event]] = [[] for _ in range(PARTITIONS)]
    for time in sorted(begin + int(chance.random() * duration) for _ in range(count)):
        vehicle = chance.randrange(1000)
        partitions[vehicle % PARTITIONS].append((f"v{vehicle}", f"line{chance.randrange(LINES)}", time))
    return partitions


def truth(partitions: list[list[Event]], window: int = WINDOW) -> dict[tuple[str, int], int]:
    """How many events each line has in each window."""
    return Counter((line, time - time % window) for each in partitions for _, line, time in each)


def per_line(
    source: str, updates: str, finals: str, grace: int = GRACE, window: int = WINDOW, idle_after: int | None = None
) -> Topology:
    """Counts per line and window: all updates, and the final results; with ``idle_after`` also where the source is
    silent for so many milliseconds."""
    text, number = Serdes.string(), Serdes.long()
    windowed = Serdes.time_windowed(text, window)
    builder = StreamsBuilder()
    counts = (
        builder.stream(source, Consumed("trips", text, text, idle_after=idle_after))
        .map(lambda vehicle, line: (line, vehicle))
        .group_by_key(Grouped(text, text))
        .windowed_by(TimeWindows.of(window, grace=grace))
        .count()
    )
    counts.to_stream().to(updates, Produced(windowed, number))
    final = counts.suppress(Suppressed.until_window_closes())
    final.to_stream().to(finals, Produced(windowed, number))
    return builder.build()
