"""Finds where the inputs of paused sub-topologies end: their partitions are not fetched, so no answer says it.

Called on the thread that looks after topics; the polling thread reads what was found.
"""

from __future__ import annotations

import logging

from confluent_kafka import KafkaException

from streamsapp.errors import StreamsError
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.runtime.input_classes import InputClasses

log = logging.getLogger(__name__)


class PausedEnds:
    """Asks brokers, as long as any sub-topology is paused."""

    def __init__(self, admin: TopicAdmin, inputs: InputClasses) -> None:
        self._admin = admin
        self._inputs = inputs

    def look(self) -> None:
        """Ask once. A broker out of reach leaves what was known."""
        partitions = list(self._inputs.paused)
        if not partitions:
            return
        try:
            lows = self._admin.request_offsets(partitions, earliest=True).result()
            highs = self._admin.request_offsets(partitions, stable=True).result()
        except (KafkaException, StreamsError, TimeoutError) as error:
            log.info("how far paused sub-topologies are behind is not known now: %s", error)
            return
        self._inputs.bounds = {each: (lows[each], highs[each]) for each in partitions}
