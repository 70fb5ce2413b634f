"""The inputs of a process that runs lanes: one consumer for all of its tasks, which fetches ahead between batches.

Used on the thread that runs lanes. A task gets what its order says and not more: what was fetched beyond that waits
here for the next batch.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from streamsapp.clock import Clock
from streamsapp.config import client_properties
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import StreamsError
from streamsapp.kafka.consumer import BEGINNING, PartitionConsumer
from streamsapp.record import UNKNOWN_TOPIC, InputRecord, TopicPartition
from streamsapp.runtime.micro_batches.model import InputTarget
from streamsapp.runtime.micro_batches.planning import fair_parts
from streamsapp.runtime.start_positions import DEFAULT_POLICY, StartPositions
from streamsapp.runtime.topics_created_anew import ended
from streamsapp.tasks.stream_task import StreamTask

log = logging.getLogger(__name__)

#: Records per fetch, and how many of a partition, with how many bytes of values, may wait here before it is not
#: fetched any more.
_FETCH, _AHEAD, _AHEAD_BYTES = 2_000, 20_000, 8 * 1024 * 1024
#: The time that one fetch waits for records, in seconds.
_WAIT = 0.05


class LaneInputs:
    """All partitions of all tasks that are here."""

    def __init__(self, config: StreamsConfig, clock: Clock) -> None:
        self._clock = clock
        self._give_up_after = config.max_poll_interval_ms / 1000
        properties = client_properties.main_consumer(config)
        self._consumer = PartitionConsumer(properties, has_handler=True)
        # Its own open transaction must not be waited for.
        self._group = PartitionConsumer(properties | {"isolation.level": "read_uncommitted"})
        self._owners: dict[TopicPartition, StreamTask] = {}
        self._ahead: dict[TopicPartition, deque[Sequence[InputRecord]]] = {}
        self._ahead_bytes: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        #: Partitions that the broker had no more records of when they were fetched last.
        self._at_end: set[TopicPartition] = set()
        #: The offset up to which everything was fetched, and up to which everything was given to the task.
        self._fetched: dict[TopicPartition, int] = {}
        self.given: dict[TopicPartition, int] = {}

    def add(self, task: StreamTask, positions: Mapping[TopicPartition, int]) -> None:
        """Fetch a task's partitions from these offsets on."""
        for partition, position in positions.items():
            self._owners[partition] = task
            self._ahead[partition], self._ahead_bytes[partition] = deque(), 0
            self._fetched[partition] = self.given[partition] = position
        self._consumer.assign(positions, topics=task.topics)

    def remove(self, task: StreamTask) -> None:
        """Stop fetching them."""
        leaving = [partition for partition in task.plan.inputs if self._owners.pop(partition, None) is not None]
        for partition in leaving:
            del self._ahead[partition], self._ahead_bytes[partition], self._fetched[partition], self.given[partition]
            self._paused.discard(partition)
            self._at_end.discard(partition)
        self._consumer.unassign(leaving)

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()
        self._group.close()

    def confirm(self) -> Callable[[], bool]:
        """Begin to find out whether all records that were given to tasks are of the topics that their positions belong
        to. The returned function says whether that is known by now. It raises ``TopicError`` if some may be of topics
        that were created anew, and ``KafkaException`` if no broker answers."""
        found = self._consumer.confirm()

        def known() -> bool:
            replaced = found()
            if replaced:
                raise ended(replaced[0].topic)
            return replaced is not None

        return known

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, str]]:
        """The group's offsets, whatever transaction is open."""
        return self._group.committed(partitions)

    def give(self, targets: Mapping[TopicPartition, InputTarget]) -> set[TopicPartition]:
        """Give tasks the fetched records up to their targets; returns the partitions that wait for more."""
        waiting = set()
        for partition, target in targets.items():
            self._give(partition, target.until)
            if self.given[partition] < target.until:
                waiting.add(partition)
            elif target.at_end:
                self._owners[partition].reached_end(partition)
        return waiting

    def give_all(self, tasks: Sequence[StreamTask], most: int | None) -> bool:
        """Give tasks what was fetched of their inputs: ``most`` records at most, if there is such a limit, and one of
        each input at least. An input gets no more while many of its records wait for another input. Returns whether
        some are left because of the limit."""
        inputs = {each: task for task in tasks for each in task.plan.inputs if len(task.queues[each]) < _AHEAD}
        firsts = {each: self._first_ahead(each) for each in inputs}
        pending = {each: self._fetched[each] - first for each, first in firsts.items()}
        parts = fair_parts(pending, most)
        for partition, task in inputs.items():
            self._give(partition, firsts[partition] + parts[partition])
            if partition in self._at_end and not self._ahead[partition]:
                self._at_end.discard(partition)
                task.reached_end(partition)
        return parts != pending

    def fetch_on(self, seconds: float, *, wait: bool) -> None:
        """Fetch for so long, or until there are no more records by now, for which it may ``wait`` a moment. Raises as
        ``fetch`` does."""
        self.resume(self._paused)
        until = time.monotonic() + seconds
        fetched = self.fetch(wait=wait)
        while fetched and time.monotonic() < until:
            fetched = self.fetch(wait=False)

    def fetch(self, *, wait: bool) -> bool:
        """Fetch once; returns whether anything came. Raises ``StreamsError`` for errors that the consumer cannot go on
        after."""
        fetched = self._consumer.poll(_FETCH, _WAIT if wait else 0.0)
        for partition, records in fetched.records:
            self._ahead[partition].append(records)
            self._ahead_bytes[partition] += sum(map(len, records))
            self._fetched[partition] = records[-1].offset() + 1
            self._at_end.discard(partition)
        for partition, end in fetched.ends.items():
            self._fetched[partition] = max(end, self._fetched[partition])
            self._at_end.add(partition)
        for partition in fetched.replaced:
            raise ended(partition.topic)
        for partition in fetched.out_of_range:
            self._begin_anew(partition)
        self._pause_those_ahead()
        return bool(fetched.records or fetched.ends)

    def resume(self, partitions: set[TopicPartition]) -> None:
        """Fetch these again if they were not fetched any more."""
        paused = [each for each in partitions & self._paused if not self._ahead[each]]
        if paused:
            self._consumer.resume(paused)
            self._paused.difference_update(paused)

    def stalled(self, partitions: set[TopicPartition], seconds: float) -> None:
        """Nothing has come for so long; raises ``StreamsError`` when it is too long."""
        if seconds > self._give_up_after:
            some = ", ".join(map(str, sorted(partitions)[:3]))
            raise StreamsError(
                f"the broker has sent nothing of {some} for {seconds:.0f} s, and there is more: is it reachable from "
                "here, under the names that it advertises?"
            )

    def _first_ahead(self, partition: TopicPartition) -> int:
        """The offset of the next record that was fetched; offsets before it have none."""
        waiting = self._ahead[partition]
        return waiting[0][0].offset() if waiting else self._fetched[partition]

    def _give(self, partition: TopicPartition, until: int) -> None:
        waiting, task = self._ahead[partition], self._owners[partition]
        while waiting and waiting[0][0].offset() < until:
            records = waiting.popleft()
            if records[-1].offset() >= until:
                cut = next(index for index, record in enumerate(records) if record.offset() >= until)
                waiting.appendleft(records[cut:])
                records = records[:cut]
            task.add_records(partition, records)
            self._ahead_bytes[partition] -= sum(map(len, records))
        # Offsets without a record, of control records and compacted ones, are passed over.
        self.given[partition] = max(self.given[partition], min(until, self._first_ahead(partition)))

    def _pause_those_ahead(self) -> None:
        full = [
            partition
            for partition, waiting in self._ahead.items()
            if partition not in self._paused
            and (sum(map(len, waiting)) > _AHEAD or self._ahead_bytes[partition] > _AHEAD_BYTES)
        ]
        if full:
            self._consumer.pause(full)
            self._paused.update(full)

    def _begin_anew(self, partition: TopicPartition) -> None:
        """The broker no longer has what was to be fetched next."""
        task = self._owners[partition]
        topics = self._consumer.topics([partition.topic])
        if topics.get(partition.topic, UNKNOWN_TOPIC).is_other(task.input_topic(partition)):
            raise ended(partition.topic)
        log.warning(
            "task %s: records of %s were deleted before they were read; going on from the %s offset",
            task.id, partition, task.plan.inputs[partition].offset_reset or DEFAULT_POLICY,
        )  # fmt: skip
        position = StartPositions(self._consumer, self._clock).reset(task.plan, partition)
        marks = self._consumer.watermarks(partition, cached=False)
        if position < 0 and marks is not None:
            position = marks[0] if position == BEGINNING else marks[1]
        self._consumer.reposition({partition: position}, topics)
        self._fetched[partition] = position
