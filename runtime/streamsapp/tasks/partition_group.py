"""The input buffers of one task: which record is next, and whether the task may go on without one of its inputs.

Records are taken in the order of their timestamps across the task's partitions (KIP-353): the buffer with the lowest
head goes first, which is chosen in C (``native/push/loop.c``). A task with an empty buffer waits while the broker still
has records for it, and after that for ``max.task.idle.ms`` (KIP-695).

``add`` is called on the polling thread, everything else on the processing thread that holds the task.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from streamsapp import native
from streamsapp.record import InputRecord, TopicIdentity, TopicPartition
from streamsapp.tasks.alignment import NO_LIMIT, TaskPace
from streamsapp.tasks.expiry import EntryExpiry
from streamsapp.tasks.punctuation import Fire
from streamsapp.tasks.record_queue import ProcessingControl, RecordQueue
from streamsapp.tasks.task_context import TaskContext
from streamsapp.tasks.task_time import TaskTime

#: ``max.task.idle.ms`` that never waits.
NO_IDLING = -1


class PartitionGroup:
    """All record queues of a task. ``punctuate`` is called when callbacks by stream time are due."""

    def __init__(self, max_task_idle_ms: int, context: TaskContext, punctuate: Callable[[], None]) -> None:
        self.queues: dict[TopicPartition, RecordQueue] = {}
        #: The topic that the position in each input belongs to, as far as it is known.
        self.topics: dict[TopicPartition, TopicIdentity] = {}
        #: The timestamp of the first record that came of each, as the broker has it.
        self.first_times: dict[TopicPartition, int] = {}
        self._queues: list[RecordQueue] = []
        self._inputs: list[native.Input] = []
        #: Keeps the task together with others in stream time, if it has to wait for any.
        self.pace: TaskPace | None = None
        #: Moves time on where inputs are silent, if anything of the task goes by that.
        self.time: TaskTime | None = None
        self._max_task_idle_ms = max_task_idle_ms
        self._context = context
        #: The stores whose entries have a time to live.
        self.expiry = EntryExpiry()
        self._loop = native.Loop(inputs=self._inputs, context=context, punctuate=punctuate)
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
        self._inputs.append(queue.input)

    def add(self, partition: TopicPartition, records: Sequence[InputRecord]) -> None:
        """Append a batch to a partition's buffer (polling thread)."""
        queue = self.queues[partition]
        if not queue and len(self._queues) > 1:
            self._arrivals.append(queue)
        if partition not in self.first_times:
            self.first_times[partition] = records[0].timestamp()[1]
        queue.add(records)

    def begin_anew(self, partition: TopicPartition, topic: TopicIdentity) -> None:
        """An input goes on with another topic (polling thread). No thread holds the task."""
        queue = self.queues[partition]
        # Before the topic, which a commit looks at first: the offset is never that of one and the topic the other.
        queue.position = None
        queue.at_end = False
        if self.time is not None:
            self.time.begin_anew(partition, topic.id_bytes)
        self.topics[partition] = topic

    def clear(self) -> None:
        """Drop all buffered records."""
        for queue in self._queues:
            queue.clear()
        self._loop.clear()
        self._arrivals.clear()
        self._idle_until_ms.clear()

    @property
    def is_put_off(self) -> bool:
        """Says whether the next record has moved the stream time, and waits."""
        return self._loop.put_off is not None

    def take_moved(self) -> frozenset[TopicPartition]:
        """Returns the inputs that moved time on without a record that is processed: since the last call by a marker, or
        by their next record, which is put off until entries are deleted. A commit has their places and times."""
        marked = frozenset() if self.time is None else self.time.take_moved()
        waiting = self._loop.put_off
        return marked.union(each.partition for each in self._queues if each.input is waiting)

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

    @property
    def next_time(self) -> int | None:
        """The timestamp of the record that is processed next, ``None`` when there is none. Drops records that cannot be
        read on the way."""
        heads = [queue.head_timestamp() for queue in self._queues if queue]
        return min((head for head in heads if head is not None), default=None)

    @property
    def is_expiring(self) -> bool:
        """Says whether entries of stores may be over that are not deleted yet."""
        return self._context.stream_time >= self.expiry.next_due

    def expire_and_run(self, control: ProcessingControl, limit: int, fire: Fire, until: int = NO_LIMIT) -> int:
        """Processes records as :meth:`run` does, and deletes entries that are over before the records that would find
        them: up to ``limit`` of both. Returns how many records were taken."""
        taken, room = 0, limit
        while True:
            if self.is_expiring:
                room -= self.expiry.sweep(self._context.stream_time, control, room, fire)
                if self.is_expiring:
                    return taken
            taken += self.run(control, max(1, min(room, limit - taken)), until)
            if taken >= limit or not self.is_expiring:
                return taken

    def run(self, control: ProcessingControl, limit: int, until: int = NO_LIMIT) -> int:
        """Process up to ``limit`` records in time order, of times up to ``until``; returns how many were taken. With
        several inputs it ends when the one whose turn it is has no record left: whether to go on without it is decided
        anew, by ``wait_ms``.

        Stops early when ``control.stop`` is set. Raises what the exception handlers don't absorb; the record that
        failed is then not counted as processed, so that its offset is not committed. A record that moves the stream
        time to where entries of stores are over is put off: they are to be deleted before the next call.
        """
        if self.time is not None:
            self.time.restore()
        if len(self._queues) > 1:
            self._offer_heads()
        loop, context = self._loop, self._context
        try:
            due = context.stream_time_punctuation
            return loop.run(control=control, due=due, expiry=self.expiry, limit=limit, until=until)
        finally:
            context.lateness.observe(loop.late, loop.most)

    def _offer_heads(self) -> None:
        arrived = [self._arrivals.popleft() for _ in range(len(self._arrivals))]
        # All the others too: an arrival is not noted when the last record was taken at that very moment.
        for queue in (*arrived, *self._queues):
            self._loop.offer(queue.input)
