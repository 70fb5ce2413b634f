"""Observes the lag of replicas, and raises the limits of those that follow a topic which others write.

Runs on the restoration thread. KIP-988's callbacks cannot tell: an idle changelog brings no batch, a paused replica no
call. So the broker is asked where every changelog ends, twice a second, whether or not records flow.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import KafkaException

from streamsapp.clock import Clock
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.kafka.topics import OffsetRequest, TopicAdmin
from streamsapp.record import TopicPartition
from streamsapp.runtime.changelog_reader import ChangelogReader, Observation

log = logging.getLogger(__name__)

#: Seconds between two observations.
PERIOD = 0.5
#: Seconds to wait for the group's committed offsets.
COMMITTED_TIMEOUT = 1.0


class ReplicaLag:
    """Observes replicas without making them wait."""

    def __init__(self, consumer: PartitionConsumer, admin: TopicAdmin, clock: Clock) -> None:
        self._consumer = consumer
        self._admin = admin
        self._clock = clock
        self._next = 0.0
        self._asked: OffsetRequest | None = None
        self._asked_at_ms = 0
        #: Positions when the ends were asked for.
        self._positions: Mapping[TopicPartition, int] = {}
        #: Replicas that stand at their limit, with the broker having more.
        self._held: dict[TopicPartition, ChangelogReader] = {}

    def observe(self, readers: Iterable[ChangelogReader]) -> None:
        """Publish what was answered; ask again when it is time to."""
        if self._asked is not None and self._asked.done:
            asked, self._asked = self._asked, None
            self._publish(asked, readers)
        now = self._clock.monotonic()
        if self._asked is not None or now < self._next:
            return
        self._next = now + PERIOD
        self._raise_limits([reader for reader in readers if reader.follows and reader.limit is not None])
        self._ask([reader for reader in readers if reader.follows and reader.limit is None])

    def hold(self, reader: ChangelogReader) -> None:
        """A replica has reached its limit: it fetches again from there when the group has processed more."""
        self._consumer.pause([reader.partition])
        self._held[reader.partition] = reader

    def _ask(self, replicas: Sequence[ChangelogReader]) -> None:
        if not replicas:
            return
        self._positions = {reader.partition: reader.position for reader in replicas}
        self._asked_at_ms = self._clock.now_ms()
        self._asked = self._admin.request_offsets(list(self._positions))

    def _publish(self, asked: OffsetRequest, readers: Iterable[ChangelogReader]) -> None:
        try:
            ends = asked.result()
        except KafkaException as error:
            log.debug("where changelogs end could not be observed: %s", error)
            return
        for reader in readers:
            position = self._positions.get(reader.partition)
            if reader.follows and position is not None and reader.partition in ends:
                reader.observed = Observation(position, ends[reader.partition], self._asked_at_ms)

    def _raise_limits(self, shared: Sequence[ChangelogReader]) -> None:
        """A table's replica ends where the group has processed its source topic."""
        if not shared:
            return
        asked_at_ms = self._clock.now_ms()
        committed = self._consumer.committed_by_now([reader.partition for reader in shared], COMMITTED_TIMEOUT)
        for reader in shared:
            if reader.limit is not None and reader.partition in committed:
                reader.limit = max(reader.limit, committed[reader.partition])
                reader.observed = Observation(reader.position, reader.limit, asked_at_ms)
        self._held = {reader.partition: reader for reader in shared if self._held.get(reader.partition) is reader}
        risen = {each.partition: each.position for each in self._held.values() if (each.limit or 0) > each.position}
        self._consumer.reposition(risen)
        for partition in risen:
            del self._held[partition]
