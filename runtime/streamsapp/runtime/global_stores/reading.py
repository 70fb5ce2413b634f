"""The global consumer and what it reads: all partitions of all global topics, outside any group.

Called on the global thread; ``partitions`` is read by status and metrics, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streamsapp.clock import Clock
from streamsapp.errors import StateStoreError, TaskCorruptedError, TopicError
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.kafka.fetching.fetched import Fetched
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import TopicPartition
from streamsapp.runtime.changelog_reader import Observation
from streamsapp.runtime.global_stores.progress import GlobalLag, GlobalPartition
from streamsapp.runtime.global_stores.task import GlobalTask

#: Records per fetch, and how long to wait for one, in seconds.
BATCH = 10_000
FETCH_WAIT = 0.1


class GlobalReading:
    """Knows where the global stores stand in every partition."""

    def __init__(self, task: GlobalTask, consumer: PartitionConsumer, admin: TopicAdmin, clock: Clock) -> None:
        self._task = task
        self._consumer = consumer
        self._admin = admin
        self._clock = clock
        self._lag = GlobalLag(admin, clock)
        #: Every partition that is read; made anew and not changed, so that other threads may iterate.
        self.partitions: Mapping[TopicPartition, GlobalPartition] = {}

    def locate(self) -> None:
        """Find where the stores, which are open, stand in each partition and where it ends. Raises
        ``TaskCorruptedError`` for a store that stands where its topic is not."""
        partitions = self._all_partitions()
        kept = self._task.stores.positions
        gone = kept.keys() - set(partitions)
        if gone:
            raise TaskCorruptedError(f"global stores hold records of {', '.join(map(str, sorted(gone)))}: gone since")
        located = {}
        for partition in partitions:
            store = self._task.by_topic[partition.topic].store.name
            asked_at_ms = self._clock.now_ms()
            low, high = self._ends(partition, store)
            position = kept.get(partition, low)
            if not low <= position <= high:
                raise TaskCorruptedError(
                    f"global store {store} stands at offset {position} of {partition}, which has {low} to {high}"
                )
            located[partition] = GlobalPartition(store, position, Observation(position, high, asked_at_ms))
        self.partitions = located

    def _all_partitions(self) -> list[TopicPartition]:
        counts = self._admin.partition_counts()
        for topic, of in self._task.by_topic.items():
            if topic not in counts:
                raise TopicError(f"{self._admin.why_missing(topic)}; global store {of.store.name} is filled from it")
        return [TopicPartition(topic, each) for topic in self._task.by_topic for each in range(counts[topic])]

    def _ends(self, partition: TopicPartition, store: str) -> tuple[int, int]:
        """The offsets between which this consumer may read: it must not wait for a transaction that somebody has
        open."""
        found = self._consumer.watermarks(partition, cached=False)
        if found is None:
            raise StateStoreError(f"the broker does not tell where {partition} ends, which fills global store {store}")
        return found

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch partitions from where their stores stand."""
        self._consumer.assign({each: self.partitions[each].position for each in partitions})

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch partitions no more."""
        self._consumer.unassign(partitions)

    def fetch(self) -> Fetched:
        """The next records; waits for a moment if there are none."""
        return self._consumer.poll(BATCH, FETCH_WAIT)

    def note_ends(self, fetched: Fetched) -> None:
        """Control records and compacted ones leave gaps: the end is where the broker says it is."""
        for partition, offset in fetched.ends.items():
            it = self.partitions[partition]
            it.position = max(it.position, offset)

    def truncated(self, fetched: Fetched) -> str | None:
        """The fault of a partition that no longer has what was to be read next, in words; ``None`` without one."""
        for partition in fetched.out_of_range:
            it = self.partitions[partition]
            return (
                f"{partition} no longer has offset {it.position}, which global store {it.store} reads next: it was "
                "truncated, or the topic was created anew"
            )
        return None

    def observe_lag(self) -> None:
        """Observe how far behind the stores are, now and then."""
        self._lag.observe(self.partitions)

    def close(self) -> None:
        """Close the global consumer."""
        self._consumer.close()
