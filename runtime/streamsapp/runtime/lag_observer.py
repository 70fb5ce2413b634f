"""Asks the broker where partitions end, without waiting for it, and compares that with the positions at that time.

Used on the restoration thread for replicas and on the global thread for global stores, each with one of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from confluent_kafka import KafkaException

from streamsapp.clock import Clock
from streamsapp.kafka.topics import OffsetRequest, TopicAdmin
from streamsapp.record import TopicPartition
from streamsapp.runtime.changelog_reader import Observation

log = logging.getLogger(__name__)


class LagObserver:
    """Has one request under way at a time."""

    def __init__(self, admin: TopicAdmin, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        self._request: OffsetRequest | None = None
        self._requested_at_ms = 0
        #: Positions when the ends were asked for. Later records count for the next request: a reported lag is never
        #: smaller than the true one.
        self._positions: Mapping[TopicPartition, int] = {}

    @property
    def waiting(self) -> bool:
        """True if a request is to be answered, or its answer to be taken."""
        return self._request is not None

    def ask(self, positions: Mapping[TopicPartition, int]) -> None:
        """Ask for the ends of partitions in which readers stand at these positions."""
        self._positions = positions
        self._requested_at_ms = self._clock.now_ms()
        self._request = self._admin.request_offsets(list(positions))

    def take(self) -> dict[TopicPartition, Observation]:
        """The answer to the last request, if it is there and was not taken yet."""
        if self._request is None or not self._request.done:
            return {}
        request, self._request = self._request, None
        try:
            ends = request.result()
        except KafkaException as error:
            log.debug("the ends of partitions could not be observed: %s", error)
            return {}
        return {each: Observation(self._positions[each], end, self._requested_at_ms) for each, end in ends.items()}
