"""The input buffers of one task: which record is next, and whether the task may go on without one of its inputs.

Records are taken in the order of their timestamps across the task's partitions (KIP-353): the buffer with the lowest
head goes first. A task with an empty buffer waits while the broker still has records for it, and after that for
``max.task.idle.ms`` (KIP-695).

``add`` is called on the polling thread, everything else on the processing thread that holds the task.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from operator import attrgetter

from streamsapp.record import InputRecord, TopicIdentity, TopicPartition
from streamsapp.tasks.priority_queue import PriorityQueue
from streamsapp.tasks.record_queue import NO_BOUND, NO_MORE, ProcessingControl, RecordQueue

#: ``max.task.idle.ms`` that never waits.
NO_IDLING = -1

#: Taking a queue out of the heap and putting it back leaves the order of this many others alone. With more, every
#: record has to go through the heap for ties to fall as they do in Kafka Streams.
_RUN_BESIDE = 2


class PartitionGroup:
    """All record queues of a task."""

    def __init__(self, max_task_idle_ms: int) -> None:
        self.queues: dict[TopicPartition, RecordQueue] = {}
        #: The topic that the position in each input belongs to, as far as it is known.
        self.topics: dict[TopicPartition, TopicIdentity] = {}
        #: The timestamp of the first record that came of each, as the broker has it.
        self.first_times: dict[TopicPartition, int] = {}
        self._queues: list[RecordQueue] = []
        self._max_task_idle_ms = max_task_idle_ms
        #: Queues that have a record, by the timestamp of their head.
        self._heads: PriorityQueue[RecordQueue] = PriorityQueue(attrgetter("head_time"))
        self._queued: set[TopicPartition] = set()
        #: The queue whose turn it is, while records are processed.
        self._running: RecordQueue
        #: Queues that got a record when they had none, in that order: among equal timestamps it decides.
        self._arrivals: deque[RecordQueue] = deque()
        #: Per empty input: until when it is waited for.
        self._idle_until_ms: dict[TopicPartition, int] = {}

    def __len__(self) -> int:
        return sum(map(len, self._queues))

    @property
    def bytes(self) -> int:
        """Estimated memory of everything buffered."""
        return sum(queue.bytes for queue in self._queues)

    def add_queue(self, queue: RecordQueue) -> None:
        """Add an input, before processing starts."""
        self.queues[queue.partition] = queue
        self._queues.append(queue)

    def add(self, partition: TopicPartition, records: Sequence[InputRecord]) -> None:
        """Append a batch to a partition's buffer (polling thread)."""
        queue = self.queues[partition]
        if not queue:
            self._arrivals.append(queue)
        if partition not in self.first_times:
            self.first_times[partition] = records[0].timestamp()[1]
        queue.add(records)

    def clear(self) -> None:
        """Drop all buffered records."""
        for queue in self._queues:
            queue.clear()
        self._heads.clear()
        self._queued.clear()
        self._arrivals.clear()
        self._idle_until_ms.clear()

    def wait_ms(self, now_ms: int) -> int | None:
        """The milliseconds that the task has to wait before it may process; ``None``: until more input arrives."""
        empty = [queue for queue in self._queues if not queue]
        if len(empty) == len(self._queues):
            return None
        if not empty or self._max_task_idle_ms == NO_IDLING:
            self._idle_until_ms.clear()
            return 0
        if not all(queue.at_end for queue in empty):
            return None
        until = now_ms + self._max_task_idle_ms
        self._idle_until_ms = {each.partition: self._idle_until_ms.get(each.partition, until) for each in empty}
        return max(0, max(self._idle_until_ms.values()) - now_ms)

    def run(self, control: ProcessingControl, limit: int) -> int:
        """Process up to ``limit`` records in time order; returns how many were taken."""
        if len(self._queues) == 1:
            return self._queues[0].run(control, NO_BOUND, limit)
        self._enqueue_heads()
        if not len(self._heads) or control.stop:
            return 0
        self._running = self._heads.poll()
        try:
            # Ends when a buffer is empty: whether to go on without this input is decided anew, by wait_ms.
            return self._running.run(control, self._bound(), limit, self._next_turn)
        finally:
            if self._running.head_timestamp() is None:
                self._queued.discard(self._running.partition)
            else:
                self._heads.offer(self._running)

    def _next_turn(self, queue: RecordQueue) -> tuple[RecordQueue, int]:
        """Puts the queue back whose turn it was; returns the one whose turn it is, and until when."""
        others = self._heads.items
        if len(others) == 1:  # two inputs, which do this for every record
            other = others[0]
            if queue.head_time < other.head_time:
                return queue, other.head_time - 1
            others[0], self._running = queue, other
            return other, queue.head_time - 1
        self._heads.offer(queue)
        self._running = following = self._heads.poll()
        return following, self._bound()

    def _bound(self) -> int:
        """Returns up to which timestamp records may follow the head of the queue whose turn it is."""
        heads = self._heads
        nearest = heads.peek()
        if nearest is None:
            return NO_BOUND
        # Not including the next queue's head: at a tie the heap decides whose turn it is.
        return nearest.head_time - 1 if len(heads) <= _RUN_BESIDE else NO_MORE

    def _enqueue_heads(self) -> None:
        arrived = [self._arrivals.popleft() for _ in range(len(self._arrivals))]
        # All the others too: an arrival is not noted when the last record was taken at that very moment.
        for queue in (*arrived, *self._queues):
            if queue.partition not in self._queued and queue.head_timestamp() is not None:
                self._queued.add(queue.partition)
                self._heads.offer(queue)
