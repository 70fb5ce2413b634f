"""The runtime's own client as a consumer: it fetches whole record batches, and asks leaders for offsets.

Used by ``PartitionConsumer``, on the thread that it belongs to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from streamsapp.config.client_properties import ClientProperties
from streamsapp.kafka.cluster import Cluster
from streamsapp.kafka.fetching.fetched import NO_TOPICS, Confirmation, Fetched, Topics
from streamsapp.kafka.fetching.fetcher import Fetcher
from streamsapp.kafka.fetching.settings import fetch_settings
from streamsapp.kafka.partition_offsets import EARLIEST, LATEST
from streamsapp.kafka.wakeup import Wakeup
from streamsapp.record import TopicPartition


class OwnConsumer:
    """A ``ConsumerClient``. Its connections use renewed certificates and credentials by themselves."""

    def __init__(
        self, properties: ClientProperties, cluster: Cluster, wakeup: Wakeup | None, *, has_handler: bool
    ) -> None:
        self._cluster = cluster
        self._fetcher = Fetcher(fetch_settings(properties, has_handler=has_handler), cluster.describe, wakeup)

    def assign(
        self,
        positions: Mapping[TopicPartition, int],
        packed: Collection[TopicPartition] = (),
        topics: Topics = NO_TOPICS,
    ) -> None:
        self._fetcher.assign(positions, packed, topics)

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        self._fetcher.unassign(partitions)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._fetcher.pause(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._fetcher.resume(partitions)

    def fetch(self, limit: int, timeout: float, *, at_once: bool) -> Fetched:
        return self._fetcher.fetch_all(limit, timeout) if at_once else self._fetcher.fetch(limit, timeout)

    def confirm(self) -> Confirmation:
        return list  # requests name topics by their ids: no record is of another one

    def doubts(self, topic: str) -> bool:
        return False

    def watermarks(self, partition: TopicPartition) -> tuple[int, int] | None:
        return self._fetcher.watermarks(partition)

    def bounds(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        begin, end = (self._cluster.offsets_at({partition: at}, timeout)[partition] for at in (EARLIEST, LATEST))
        return begin, max(begin, end)

    def offsets_for_time(
        self, partitions: Collection[TopicPartition], time_ms: int, timeout: float
    ) -> dict[TopicPartition, int]:
        return self._cluster.offsets_at(dict.fromkeys(partitions, max(time_ms, 0)), timeout)

    def close(self) -> None:
        self._fetcher.close()
