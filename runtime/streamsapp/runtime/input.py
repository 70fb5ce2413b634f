"""From the main consumer to the tasks' input buffers. Runs on the polling thread.

Bounded by memory: nothing is fetched while the buffers are full, and a partition that fills its share while others
starve (because it is ahead of them in time, or because its task is slow) is paused until half of its share is used.
Full buffers whose task waits for another of its inputs would never empty: then the large ones are paused, and the
fetching goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streamsapp.kafka.consumer import Fetched, PartitionConsumer
from streamsapp.record import TopicPartition
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_manager import TaskManager

#: Records per fetch.
BATCH = 2000
#: More than this buffered in Python buys nothing: the consumer has a queue of its own.
MAX_BUFFERED_BYTES = 32 * 1024 * 1024
MIN_PARTITION_BYTES = 256 * 1024
#: Seconds between two observations of the input lag.
LAG_PERIOD = 0.5


class InputFeeder:
    """Distributes fetched records to the tasks that own their partitions."""

    def __init__(self, consumer: PartitionConsumer, tasks: TaskManager, budget_bytes: int) -> None:
        self._consumer = consumer
        self._tasks = tasks
        self._budget_bytes = min(budget_bytes, MAX_BUFFERED_BYTES)
        self._owners: dict[TopicPartition, StreamTask] = {}
        self._paused: set[TopicPartition] = set()
        #: Records taken from the broker since start.
        self.records_consumed = 0
        self._next_observation = 0.0

    def add(self, task: StreamTask, positions: Mapping[TopicPartition, int]) -> None:
        """Fetch a task's partitions from these offsets on."""
        self._owners.update(dict.fromkeys(positions, task))
        self._consumer.assign(positions)

    def remove(self, task: StreamTask) -> None:
        """Stop fetching a task's partitions."""
        partitions = [partition for partition, owner in self._owners.items() if owner is task]
        for partition in partitions:
            del self._owners[partition]
            self._paused.discard(partition)
        self._consumer.unassign(partitions)

    @property
    def full(self) -> bool:
        """Whether the buffers hold as much as they may, and no task waits for a partition that is empty."""
        return self._over_budget() and not self._anyone_starves()

    def feed(self, timeout: float) -> Fetched:
        """Fetch once and fill buffers; waits up to ``timeout`` seconds for the first record."""
        self._resume_emptied()
        if self._over_budget():
            self._pause_overfull(self._owners)
        fetched = self._consumer.poll(BATCH, timeout)
        touched: dict[int, StreamTask] = {}
        for partition, records in fetched.records:
            task = self._owners[partition]
            task.add_records(partition, records)
            touched[id(task)] = task
            self.records_consumed += len(records)
        for partition in fetched.ends:
            task = self._owners[partition]
            task.reached_end(partition)
            if task.buffered_records:
                touched[id(task)] = task
        if touched:
            self._tasks.mark_ready(touched.values())
            self._pause_overfull([partition for partition, _ in fetched.records])
        return fetched

    def observe_lag(self, now: float) -> None:
        """Publish how many records each task still has to process, about every half second (monotonic ``now``)."""
        if now < self._next_observation:
            return
        self._next_observation = now + LAG_PERIOD
        lags: dict[int, int | None] = {}
        for partition, task in self._owners.items():
            lag, so_far = self._lag(task, partition), lags.get(id(task), 0)
            lags[id(task)] = None if lag is None or so_far is None else lag + so_far
            task.input_lag = lags[id(task)]

    def _lag(self, task: StreamTask, partition: TopicPartition) -> int | None:
        queue = task.queues[partition]
        if queue.at_end and not queue:
            return 0
        watermarks = self._consumer.watermarks(partition, cached=True)
        if watermarks is None:
            return None
        low, high = watermarks
        return max(0, high - (low if queue.position is None else queue.position))

    def _over_budget(self) -> bool:
        tasks = {id(task): task for task in self._owners.values()}.values()
        return sum(task.buffered_bytes for task in tasks) >= self._budget_bytes

    def _anyone_starves(self) -> bool:
        """Whether a partition is empty although the broker may have more of it."""
        queues = (task.queues[partition] for partition, task in self._owners.items())
        return any(not queue and not queue.at_end for queue in queues)

    def _share(self) -> int:
        return max(MIN_PARTITION_BYTES, self._budget_bytes // max(1, len(self._owners)))

    def _pause_overfull(self, filled: Iterable[TopicPartition]) -> None:
        share = self._share()
        full = [each for each in filled if self._owners[each].queues[each].bytes > share]
        if full and self._anyone_starves():
            self._consumer.pause(full)
            self._paused.update(full)

    def _resume_emptied(self) -> None:
        if not self._paused:
            return
        half = self._share() // 2
        emptied = [each for each in self._paused if self._owners[each].queues[each].bytes < half]
        if emptied:
            self._consumer.resume(emptied)
            self._paused.difference_update(emptied)
