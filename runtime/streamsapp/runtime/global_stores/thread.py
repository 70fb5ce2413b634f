"""The global thread: keeps this instance's copies of global stores complete (as Kafka Streams' GlobalStreamThread).

Started with the instance; :meth:`GlobalThread.begin` tells it that a broker answers, and no task starts before
:attr:`GlobalThread.restored` is set. It has a consumer of its own, outside any group, and reads all partitions of all
global topics:

    1. restore: every partition up to the end that it had when this began, from where the stores on disk stand
    2. update, for as long as the instance runs: each batch goes through the processors into the stores

What it cannot go on with ends it, and by the failures queue the instance: nobody can take its place. The stores stay
readable until :meth:`GlobalThread.stop`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from queue import SimpleQueue

from streamsapp.clock import Clock
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import StateStoreError, TaskCorruptedError, TopicError
from streamsapp.kafka.consumer import Fetched, PartitionConsumer
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import TopicPartition
from streamsapp.runtime.changelogs import Observation
from streamsapp.runtime.failures import ThreadFailure
from streamsapp.runtime.global_stores.progress import GlobalLag, GlobalPartition
from streamsapp.runtime.global_stores.task import GlobalTask
from streamsapp.runtime.listeners import StateRestoreListener
from streamsapp.state.key_value import KeyValueStoreImpl

log = logging.getLogger(__name__)

#: Records per fetch, and how long to wait for one, in seconds.
BATCH = 10_000
PATIENCE = 0.1
#: How often the stores are restored from the beginning before that is given up.
ATTEMPTS = 3
#: Records that a crash may cost to read again, as in Kafka Streams.
UNFLUSHED = 10_000


class GlobalThread(threading.Thread):
    """Restores and updates the global stores of one instance."""

    def __init__(
        self,
        name: str,
        task: GlobalTask,
        consumer: PartitionConsumer,
        admin: TopicAdmin,
        config: StreamsConfig,
        clock: Clock,
        failures: SimpleQueue[ThreadFailure],
        listener: Callable[[], StateRestoreListener | None],
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._task = task
        self._consumer = consumer
        self._admin = admin
        self._config = config
        self._clock = clock
        self._failures = failures
        self._listener = listener
        self._lag = GlobalLag(admin, clock)
        self._begun = threading.Event()
        self._stopping = threading.Event()
        #: Set when all stores are complete: tasks may start.
        self.restored = threading.Event()
        #: Every partition that is read; made anew and not changed, so that other threads may iterate.
        self.partitions: Mapping[TopicPartition, GlobalPartition] = {}
        #: Partitions that are being restored, and the offset at which each is complete.
        self._waiting: dict[TopicPartition, int] = {}
        self._unflushed = 0
        self._next_flush = 0.0

    # ---- other threads -----------------------------------------------------------------------------------------

    @property
    def stores(self) -> Mapping[str, KeyValueStoreImpl]:
        """The stores by name, read-only, for tasks; complete once ``restored`` is set."""
        return self._task.stores.for_tasks

    def statistics(self) -> dict[str, dict[str, int]]:
        """Figures per store."""
        return self._task.stores.statistics()

    def begin(self) -> None:
        """Restore, then go on updating."""
        self._begun.set()

    def stop(self) -> None:
        """End after the batch under way; nobody reads the stores any more."""
        self._stopping.set()
        self._begun.set()

    # ---- global thread -----------------------------------------------------------------------------------------

    def run(self) -> None:
        try:
            self._begun.wait()
            if not self._stopping.is_set():
                self._restore()
            while not self._stopping.is_set():
                self._update()
        except BaseException as error:
            self._failures.put(ThreadFailure(self.name, error))
            self._stopping.wait()
        finally:
            self._close()

    def _close(self) -> None:
        try:
            self._task.close()
        except Exception:
            log.exception("closing the global stores failed; they are read from the last flushed place next time")
        self._consumer.close()

    # ---- restoring ---------------------------------------------------------------------------------------------

    def _restore(self) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._restore_once()
                return
            except TaskCorruptedError as error:
                if attempt == ATTEMPTS:
                    raise
                log.warning("%s; the global stores are wiped and restored from the beginning", error)
                self._consumer.unassign(self._waiting)
                self._waiting.clear()
                self._task.wipe()

    def _restore_once(self) -> None:
        self._task.open()
        self.partitions = self._locate(self._all_partitions())
        self._waiting = {partition: it.observed.end_offset for partition, it in self.partitions.items()}
        if (listener := self._listener()) is not None:
            for partition, it in self.partitions.items():
                listener.on_restore_start(partition, it.store, it.position, self._waiting[partition])
        self._assign(self._waiting)
        self._take_complete()
        while self._waiting and not self._stopping.is_set():
            self._restore_batches(self._consumer.poll(BATCH, PATIENCE))
            self._take_complete()
        if not self._waiting:
            self._task.stores.flush()
            self._task.start()
            self._assign(self.partitions)
            self.restored.set()

    def _all_partitions(self) -> list[TopicPartition]:
        counts = self._admin.partition_counts()
        for topic, of in self._task.by_topic.items():
            if topic not in counts:
                raise TopicError(f"{self._admin.why_missing(topic)}; global store {of.store.name} is filled from it")
        return [TopicPartition(topic, each) for topic in self._task.by_topic for each in range(counts[topic])]

    def _locate(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, GlobalPartition]:
        """Where the stores stand in each partition and where it ends."""
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
        return located

    def _ends(self, partition: TopicPartition, store: str) -> tuple[int, int]:
        """As far as this consumer may read: a transaction that somebody else has open must not be waited for."""
        found = self._consumer.watermarks(partition, cached=False)
        if found is None:
            raise StateStoreError(f"the broker does not tell where {partition} ends, which fills global store {store}")
        return found

    def _restore_batches(self, fetched: Fetched) -> None:
        for partition, records in fetched.records:
            it = self.partitions[partition]
            count = self._task.restore(partition, records)
            it.position = records[-1].offset() + 1
            it.restored += count
            if (listener := self._listener()) is not None:
                listener.on_batch_restored(partition, it.store, it.position - 1, count)
        self._note_ends(fetched)
        for partition in fetched.out_of_range:
            raise TaskCorruptedError(self._truncated(partition))

    def _take_complete(self) -> None:
        """Complete partitions wait for the others: what comes after their ends is for the processors."""
        complete = [each for each, end in self._waiting.items() if self.partitions[each].position >= end]
        self._consumer.unassign(complete)
        for partition in complete:
            del self._waiting[partition]
            it = self.partitions[partition]
            if (listener := self._listener()) is not None:
                listener.on_restore_end(partition, it.store, it.restored)

    # ---- updating ----------------------------------------------------------------------------------------------

    def _update(self) -> None:
        try:
            fetched = self._consumer.poll(BATCH, PATIENCE)
        except TopicError:
            # A topic that comes back under this name is another one.
            self._task.stores.forget_positions()
            raise
        for partition, records in fetched.records:
            self._task.update(partition, records)
            self.partitions[partition].position = records[-1].offset() + 1
            self._unflushed += len(records)
        self._note_ends(fetched)
        for partition in fetched.out_of_range:
            self._task.stores.forget_positions()
            raise StateStoreError(
                f"{self._truncated(partition)}; restart, then the global stores are restored from the beginning"
            )
        self._flush_if_due()
        self._lag.observe(self.partitions)

    def _flush_if_due(self) -> None:
        now = self._clock.monotonic()
        if self._unflushed >= UNFLUSHED and now >= self._next_flush:
            self._next_flush = now + self._config.commit_interval_ms / 1000
            self._unflushed = 0
            self._task.stores.flush()

    # ---- both --------------------------------------------------------------------------------------------------

    def _note_ends(self, fetched: Fetched) -> None:
        """Control records and compacted ones leave gaps: the end is where the broker says it is."""
        for partition, offset in fetched.ends.items():
            it = self.partitions[partition]
            it.position = max(it.position, offset)

    def _assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.assign({each: self.partitions[each].position for each in partitions})

    def _truncated(self, partition: TopicPartition) -> str:
        it = self.partitions[partition]
        return (
            f"{partition} no longer has offset {it.position}, which global store {it.store} reads next: it was "
            "truncated, or the topic was created anew"
        )
