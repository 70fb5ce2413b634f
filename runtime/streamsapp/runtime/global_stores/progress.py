"""The progress of global stores along their topics. Written by the global thread, read by status and metrics.

The broker is asked once a second where the partitions end, whether or not records flow: an idle topic brings none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streamsapp.clock import Clock
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import TopicPartition
from streamsapp.runtime.changelog_reader import Observation
from streamsapp.runtime.lag_observer import LagObserver

#: Seconds between two observations.
PERIOD = 1.0


@dataclass
class GlobalPartition:
    """One partition of a global topic on its way into its store."""

    store: str
    #: Next offset to apply.
    position: int
    #: How far behind the store was at the last look.
    observed: Observation
    #: An end that the broker reported, and that the reader has not come to yet.
    goal: Observation | None = None
    #: Records applied before the store was complete.
    restored: int = 0
    #: When something of it was last read, in milliseconds.
    read_at_ms: int = 0


class GlobalLag:
    """Observes partitions without making them wait."""

    def __init__(self, admin: TopicAdmin, clock: Clock) -> None:
        self._observer = LagObserver(admin, clock)
        self._clock = clock
        self._next = 0.0

    def observe(self, partitions: Mapping[TopicPartition, GlobalPartition]) -> None:
        """Publish what was answered; ask again when it is time to."""
        for partition, observed in self._observer.take().items():
            partitions[partition].observed = observed
        now = self._clock.monotonic()
        if not self._observer.waiting and now >= self._next:
            self._next = now + PERIOD
            self._observer.ask({each: it.position for each, it in partitions.items()})
