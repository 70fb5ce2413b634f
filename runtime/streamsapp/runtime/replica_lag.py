"""Observes the lag of replicas, and raises the limits of replicas that follow a topic which others write.

Runs on the restoration thread. KIP-988's callbacks cannot show it: an idle changelog brings no batch, a paused replica
no call. So the broker is asked where every changelog ends, twice a second, whether or not records flow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from streamsapp.clock import Clock
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import TopicPartition
from streamsapp.runtime.changelog_reader import ChangelogReader, Observation
from streamsapp.runtime.lag_observer import LagObserver

#: Seconds between two observations.
PERIOD = 0.5
#: Seconds to wait for the group's committed offsets.
COMMITTED_TIMEOUT = 1.0


class ReplicaLag:
    """Observes replicas without making them wait."""

    def __init__(self, consumer: PartitionConsumer, admin: TopicAdmin, clock: Clock) -> None:
        self._consumer = consumer
        self._observer = LagObserver(admin, clock)
        self._clock = clock
        self._next = 0.0
        #: Replicas that stand at their limit, with the broker having more.
        self._held: dict[TopicPartition, ChangelogReader] = {}

    def observe(self, readers: Mapping[TopicPartition, ChangelogReader]) -> None:
        """Publish what was answered; ask again when it is time to."""
        for partition, observed in self._observer.take().items():
            reader = readers.get(partition)
            if reader is not None and reader.follows:
                # One that began anew since the question is behind the position that was asked for.
                reader.observed = replace(observed, position=min(observed.position, reader.position))
                reader.reach(observed)
        now = self._clock.monotonic()
        if self._observer.waiting or now < self._next:
            return
        self._next = now + PERIOD
        replicas = [reader for reader in readers.values() if reader.follows]
        self._raise_limits([reader for reader in replicas if reader.limit is not None])
        positions = {reader.partition: reader.position for reader in replicas if reader.limit is None}
        if positions:
            self._observer.ask(positions)

    def hold(self, reader: ChangelogReader) -> None:
        """A replica has reached its limit: it fetches again from there when the group has processed more."""
        self._consumer.pause([reader.partition])
        self._held[reader.partition] = reader

    def _raise_limits(self, shared: Sequence[ChangelogReader]) -> None:
        """A table's replica ends where the group has processed its source topic."""
        if not shared:
            return
        asked_at_ms = self._clock.now_ms()
        committed = self._consumer.committed_by_now([reader.partition for reader in shared], COMMITTED_TIMEOUT)
        for reader in shared:
            if reader.limit is not None and committed is not None:
                # The group has no offset of a partition without a record: there is nothing to catch up on.
                reader.limit = max(reader.limit, committed.get(reader.partition, 0))
                reader.observed = Observation(reader.position, reader.limit, asked_at_ms)
                reader.reach(reader.observed)
        self._held = {reader.partition: reader for reader in shared if self._held.get(reader.partition) is reader}
        risen = {each.partition: each.position for each in self._held.values() if (each.limit or 0) > each.position}
        topics = {name: topic for each in self._held.values() for name, topic in each.task.topics.items()}
        self._consumer.reposition(risen, topics)
        for partition in risen:
            del self._held[partition]
