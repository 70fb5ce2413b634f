"""Replays tasks that get records back from each other: those of sub-topologies that read each other's internal topics,
as the two sides of a foreign-key join do.

Used in Spark's Python workers, on one thread; knows neither Spark nor Kafka. None of the tasks can be replayed before
the others, so one worker has them all, and always processes the earliest record that any of them has. A record
for another of them is handed over at once, in memory, and comes before later history.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from streamsapp.outgoing import OutputRecord
from streamsapp.record import InputRecord, TaskId, TopicPartition
from streamsapp.tasks.fed_records import fed_record
from streamsapp_spark.replay.partitioning import partition_of
from streamsapp_spark.replay.replay import NO_BOUND, Advance, Replay
from streamsapp_spark.replay.task_inputs import InputBatches


def group_advances(
    replays: Mapping[TaskId, Replay],
    readers: Mapping[TopicPartition, TaskId],
    inputs: Mapping[TopicPartition, InputBatches],
) -> Iterator[tuple[TaskId, Advance]]:
    """Replays the tasks of one Spark task: several that send each other records, in topics with these ``readers``, or
    one."""
    if not readers:
        ((task_id, replay),) = replays.items()
        yield from ((task_id, advance) for advance in replay.run(inputs))
        return
    by_task = {
        task_id: {each: inputs[each] for each in replay.partitions if each in inputs}
        for task_id, replay in replays.items()
    }
    yield from LoopReplay(replays, readers).run(by_task)


class LoopReplay:
    """The replays of the tasks, which stay open for their whole length. Call ``run`` once."""

    def __init__(self, replays: Mapping[TaskId, Replay], readers: Mapping[TopicPartition, TaskId]) -> None:
        """Takes in ``readers`` the task that reads each partition of the topics that the tasks send each other."""
        self._replays = replays
        self._readers = readers
        self._partitions = Counter(each.topic for each in readers)
        self._sent: Counter[TaskId] = Counter()
        self._next_offset: Counter[TopicPartition] = Counter()
        #: Timestamp of the next record of each task.
        self._due: dict[TaskId, int] = {}

    def run(self, inputs: Mapping[TaskId, Mapping[TopicPartition, InputBatches]]) -> Iterator[tuple[TaskId, Advance]]:
        """Processes everything, as :meth:`Replay.run` does; yields each task's advances."""
        for task_id, replay in self._replays.items():
            replay.begin(inputs[task_id])
            self._due[task_id] = replay.earliest()
        yield from self._until_nothing_is_left()
        while True:
            # Records that tasks have held back for the commit may make others go on.
            for task_id, replay in self._replays.items():
                yield from self._handed_over(task_id, replay.commit())
            if min(self._due.values()) == NO_BOUND:
                return
            yield from self._until_nothing_is_left()

    def _until_nothing_is_left(self) -> Iterator[tuple[TaskId, Advance]]:
        due = self._due
        while due[task_id := min(due, key=due.__getitem__)] < NO_BOUND:
            replay = self._replays[task_id]
            yield from self._handed_over(task_id, replay.advance(1))
            due[task_id] = replay.earliest()

    def _handed_over(self, task_id: TaskId, advances: Iterator[Advance]) -> Iterator[tuple[TaskId, Advance]]:
        for advance in advances:
            for partition, records in self._looped(task_id, advance.outputs).items():
                reader = self._readers[partition]
                self._replays[reader].add(partition, records)
                self._due[reader] = self._replays[reader].earliest()
            yield task_id, advance

    def _looped(self, writer: TaskId, outputs: Sequence[OutputRecord]) -> dict[TopicPartition, list[InputRecord]]:
        """Returns the records that one of the tasks reads, with the offsets that they have in their partitions."""
        found: defaultdict[TopicPartition, list[InputRecord]] = defaultdict(list)
        for record in outputs:
            topic, value, key, _, _, _, timestamp, headers = record
            partitions = self._partitions.get(topic)
            if partitions is None:
                continue
            partition = TopicPartition(topic, partition_of(record, partitions, self._sent[writer]))
            self._sent[writer] += 1
            offset = self._next_offset[partition]
            self._next_offset[partition] += 1
            found[partition].append(fed_record(*partition, offset, key, value, timestamp, headers))
        return found
