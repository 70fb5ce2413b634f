"""The progress of global stores along their topics. Written by the global thread, read by status and metrics.

The broker is asked once a second where the partitions end, whether or not records flow: an idle topic brings none.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaException

from streamsapp.clock import Clock
from streamsapp.kafka.topics import OffsetRequest, TopicAdmin
from streamsapp.record import TopicPartition
from streamsapp.runtime.changelog_reader import Observation

log = logging.getLogger(__name__)

#: Seconds between two observations.
PERIOD = 1.0


@dataclass
class GlobalPartition:
    """One partition of a global topic on its way into its store."""

    store: str
    #: Next offset to apply.
    position: int
    #: How far behind the store was when somebody looked last.
    observed: Observation
    #: Records applied before the store was complete.
    restored: int = 0


class GlobalLag:
    """Observes partitions without making them wait."""

    def __init__(self, admin: TopicAdmin, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        self._next = 0.0
        self._asked: OffsetRequest | None = None
        self._asked_at_ms = 0
        self._positions: Mapping[TopicPartition, int] = {}

    def observe(self, partitions: Mapping[TopicPartition, GlobalPartition]) -> None:
        """Publish what was answered; ask again when it is time to."""
        if self._asked is not None and self._asked.done:
            asked, self._asked = self._asked, None
            self._publish(asked, partitions)
        now = self._clock.monotonic()
        if self._asked is None and now >= self._next:
            self._next = now + PERIOD
            # What arrives after the question counts for the next one: a lag is never told smaller than it is.
            self._positions = {each: it.position for each, it in partitions.items()}
            self._asked_at_ms = self._clock.now_ms()
            self._asked = self._admin.request_offsets(list(partitions))

    def _publish(self, asked: OffsetRequest, partitions: Mapping[TopicPartition, GlobalPartition]) -> None:
        try:
            ends = asked.result()
        except KafkaException as error:
            log.debug("where global topics end could not be observed: %s", error)
            return
        for partition, end in ends.items():
            partitions[partition].observed = Observation(self._positions[partition], end, self._asked_at_ms)
