"""The inputs that are kept back from their tasks for the sake of others: of tasks that others go before, and of
sub-topologies that are paused.

Called by the input feeder, on the polling thread. Tasks of class bulk fill buffers of a budget of their own. While
these are full their partitions are held, and the other partitions are fetched all the same: a backlog does not keep
records from the tasks that go first. Partitions of a paused sub-topology are not fetched, and what is buffered of them
fills no budget.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.record import TopicPartition
from streamsapp.tasks.record_queue import RecordQueue
from streamsapp.tasks.stream_task import StreamTask

#: Bytes that are buffered for each partition of class bulk, and in all at least and at most.
PARTITION_BYTES, LEAST_BYTES, MOST_BYTES = 128 * 1024, 1024 * 1024, 32 * 1024 * 1024
#: They are fetched again once so much of the budget is used up.
USED = 0.5

Owners = Mapping[TopicPartition, StreamTask]
Filled = dict[TopicPartition, RecordQueue]


class InputClasses:
    """The partitions that are held or not fetched."""

    def __init__(
        self, consumer: PartitionConsumer, budget_bytes: int, is_bulk: Callable[[StreamTask], bool] | None
    ) -> None:
        """``is_bulk`` says which tasks others go before; ``None``: the application has no classes."""
        self._consumer = consumer
        self._most_bytes = min(budget_bytes, MOST_BYTES)
        self._is_bulk = is_bulk
        #: Buffers of class bulk that hold something, and partitions of that class whose records are not taken now.
        self._filled: Filled = {}
        self._held: set[TopicPartition] = set()
        self._bulk: set[TopicPartition] = set()
        #: Partitions of paused sub-topologies, and these; ``None``: it is to be looked which partitions they have.
        self.paused: set[TopicPartition] = set()
        #: Where they begin and end, as far as it is known; replaced by another thread.
        self.bounds: Mapping[TopicPartition, tuple[int, int]] = {}
        self._paused_parts: frozenset[int] | None = frozenset()

    @property
    def holds_back(self) -> bool:
        """True if partitions are held until some of their records were processed."""
        return bool(self._held)

    @property
    def holds_any(self) -> bool:
        """True if a buffer of class bulk has something."""
        return any(self._filled.values())

    def is_bulk(self, task: StreamTask) -> bool:
        """Return whether the buffers of a task have a budget of their own."""
        return self._is_bulk is not None and self._is_bulk(task)

    def assigned(self, owners: Owners) -> None:
        """More partitions are fetched."""
        self._bulk.update(each for each, task in owners.items() if self.is_bulk(task))
        self._paused_parts = None

    def added(self, partition: TopicPartition, queue: RecordQueue) -> None:
        """Records of a partition of class bulk came."""
        self._filled[partition] = queue

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Partitions are not fetched any more."""
        self.paused.difference_update(partitions)
        self._bulk.difference_update(partitions)
        self._held.difference_update(partitions)
        for each in partitions:
            self._filled.pop(each, None)

    def pause(self, sub_topologies: frozenset[int], owners: Owners, filled: Filled) -> None:
        """Have the partitions of just these sub-topologies not fetched. ``filled`` has the buffers of class latency."""
        if sub_topologies == self._paused_parts:
            return
        self._paused_parts = sub_topologies
        paused = {partition for partition, task in owners.items() if task.id.subtopology in sub_topologies}
        self._consumer.pause(paused - self.paused)
        again = self.paused - paused
        self._consumer.resume(again)
        self._held -= again
        for each in paused:
            filled.pop(each, None)
            self._filled.pop(each, None)
        for each in again:
            (self._filled if self.is_bulk(owners[each]) else filled)[each] = owners[each].queues[each]
        self.paused = paused

    def bounds_of_paused(self, partition: TopicPartition) -> tuple[int, int] | None:
        """Returns where a partition of a paused sub-topology begins and ends; ``None`` for another, and if it is not
        known."""
        return self.bounds.get(partition) if partition in self.paused else None

    def balance(self) -> None:
        """Hold the partitions of class bulk, or have them fetched again."""
        if self._is_bulk is None:
            return
        bulk = self._bulk - self.paused
        self._filled = {partition: queue for partition, queue in self._filled.items() if queue}
        buffered = sum(queue.bytes for queue in self._filled.values())
        budget = min(self._most_bytes, max(LEAST_BYTES, PARTITION_BYTES * len(bulk)))
        if buffered >= budget and (more := bulk - self._held):
            self._consumer.hold(more)
            self._held |= more
        elif self._held and buffered <= USED * budget:
            self._consumer.resume(self._held - self.paused)
            self._held = set()
