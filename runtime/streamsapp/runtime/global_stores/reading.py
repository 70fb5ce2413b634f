"""The global consumer and its input: all partitions of all global topics, outside any group.

Called on the global thread; ``partitions`` is read by status and metrics, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from streamsapp.clock import Clock
from streamsapp.errors import StateStoreError, TaskCorruptedError, TopicError
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.kafka.fetching.fetched import NO_TOPICS, Fetched, Topics
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import UNKNOWN_TOPIC, TopicPartition
from streamsapp.runtime.changelog_reader import Observation
from streamsapp.runtime.global_stores.progress import GlobalLag, GlobalPartition
from streamsapp.runtime.global_stores.task import GlobalTask
from streamsapp.runtime.outdated_state import TombstoneRetention
from streamsapp.state.provenance import Provenance

#: Records per fetch, and how long to wait for one, in seconds.
BATCH = 10_000
FETCH_WAIT = 0.1
#: A store that was up to date so lately is, in milliseconds: it is looked at now and then.
PATIENCE_MS = 60_000


class GlobalReading:
    """Knows where the global stores stand in every partition."""

    def __init__(self, task: GlobalTask, consumer: PartitionConsumer, admin: TopicAdmin, clock: Clock) -> None:
        self._task = task
        self._consumer = consumer
        self._admin = admin
        self._clock = clock
        self._lag = GlobalLag(admin, clock)
        self._retention = TombstoneRetention(admin, clock)
        self._topics: Topics = NO_TOPICS
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
        self._refuse_others(partitions)
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
            self._refuse_outdated(partition, store, position, high)
            seen = Observation(position, high, asked_at_ms)
            located[partition] = GlobalPartition(store, position, seen, seen, read_at_ms=asked_at_ms)
        self.partitions = located
        origins = self._task.stores.origins
        for partition, it in located.items():
            topic = self._topics.get(partition.topic, UNKNOWN_TOPIC)
            # A topic that was read before is as old as it was then, until all of its partitions are read to the end.
            known = origins.get(partition.topic, Provenance(fresh_at_ms=it.observed.observed_at_ms))
            # An answer that lacks a topic's id takes nothing back.
            lacks_id = known.topic.topic_id and not topic.topic_id
            origins[partition.topic] = known if lacks_id else replace(known, topic=topic)
        self.note_reached()

    def _refuse_others(self, partitions: Collection[TopicPartition]) -> None:
        self._topics = self._consumer.topics({each.topic for each in partitions})
        for topic, origin in self._task.stores.origins.items():
            now = self._topics.get(topic)
            if now is not None and now.is_other(origin.topic):
                raise TaskCorruptedError(
                    f"global store {self._task.by_topic[topic].store.name} was filled from topic {topic} with "
                    f"{origin.topic}, which is {now} now: it was deleted and created again, or this is another cluster"
                )

    def _refuse_outdated(self, partition: TopicPartition, store: str, position: int, high: int) -> None:
        origin = self._task.stores.origins.get(partition.topic)
        # The last record of a partition is never compacted away.
        if origin is None or position >= high - 1:
            return
        if self._retention.passed(partition.topic, origin.fresh_at_ms):
            raise TaskCorruptedError(
                f"global store {store} stands at offset {position} of {partition}, which ends at {high}, and has not "
                "followed it for longer than the broker keeps deletions (delete.retention.ms)"
            )

    def note_reached(self) -> None:
        """Note the topics whose partitions were all read up to the ends that the broker last reported."""
        reached: dict[str, list[int | None]] = {}
        for partition, it in self.partitions.items():
            it.goal = it.goal or it.observed
            done = it.position >= it.goal.end_offset - 1
            reached.setdefault(partition.topic, []).append(it.goal.observed_at_ms if done else None)
        origins = self._task.stores.origins
        for topic, times in reached.items():
            if None not in times and topic in origins:
                at_ms = min(each for each in times if each is not None)
                origins[topic] = replace(origins[topic], fresh_at_ms=at_ms)
                self._task.stores.note_origin(self._task.by_topic[topic].store.name, origins[topic])
                for partition, it in self.partitions.items():
                    if partition.topic == topic:
                        it.goal = None

    def _all_partitions(self) -> list[TopicPartition]:
        counts = self._admin.partition_counts()
        for topic, of in self._task.by_topic.items():
            if topic not in counts:
                raise TopicError(f"{self._admin.why_missing(topic)}; global store {of.store.name} is filled from it")
        return [TopicPartition(topic, each) for topic in self._task.by_topic for each in range(counts[topic])]

    def _ends(self, partition: TopicPartition, store: str) -> tuple[int, int]:
        """The offsets between which this consumer may read: it must not wait for an open transaction."""
        found = self._consumer.watermarks(partition, cached=False)
        if found is None:
            raise StateStoreError(
                f"the broker does not report where {partition} ends, which fills global store {store}"
            )
        return found

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch partitions from where their stores stand."""
        self._consumer.assign({each: self.partitions[each].position for each in partitions}, topics=self._topics)

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch partitions no more."""
        self._consumer.unassign(partitions)

    def fetch(self) -> Fetched:
        """The next records; waits for a moment if there are none."""
        return self._consumer.poll(BATCH, FETCH_WAIT)

    def note_ends(self, fetched: Fetched) -> None:
        """Control records and compacted ones leave gaps: the end is where the broker says it is."""
        now_ms = self._clock.now_ms()
        for partition in (*fetched.ends, *(partition for partition, _ in fetched.records)):
            self.partitions[partition].read_at_ms = now_ms
        for partition, offset in fetched.ends.items():
            it = self.partitions[partition]
            it.position = max(it.position, offset)

    def outdated(self, fetched: Fetched) -> str | None:
        """The fault of a partition that stood still for so long that deletions may be missing, in words; ``None``
        without one. One that is read all the time does not stand still, however far behind its store is."""
        latest = self._clock.now_ms() - PATIENCE_MS
        for partition, _ in fetched.records:
            it = self.partitions[partition]
            followed_at_ms = max(self._task.stores.origins[partition.topic].fresh_at_ms, it.read_at_ms)
            if followed_at_ms < latest and self._retention.passed(partition.topic, followed_at_ms):
                return (
                    f"global store {it.store} has not followed {partition} for longer than its broker keeps deletions"
                )
        return None

    def truncated(self, fetched: Fetched) -> str | None:
        """The fault of a partition that no longer has what was to be read next, in words; ``None`` without one."""
        for partition in (*fetched.out_of_range, *fetched.replaced):
            it = self.partitions[partition]
            return (
                f"{partition} no longer has offset {it.position}, which global store {it.store} reads next: it was "
                "truncated, or the topic was created anew"
            )
        return None

    def observe_lag(self) -> None:
        """Observe how far behind the stores are, now and then."""
        self.note_reached()
        self._lag.observe(self.partitions)

    def close(self) -> None:
        """Close the global consumer."""
        self._consumer.close()
