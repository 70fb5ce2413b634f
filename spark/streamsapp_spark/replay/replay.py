"""Replays one task over the history of its inputs: the runtime's own task code, with all of the input at hand.

Used in Spark's Python workers, on one thread; knows neither Spark nor Kafka. Records are taken as the runtime takes
them: in offset order per partition, and among partitions the one whose next record is the earliest. The task sends
the same whenever it is run over the same input, so a run that was lost can be repeated.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from streamsapp.clock import SystemClock
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.outgoing import OutputRecord
from streamsapp.record import InputRecord, TopicPartition
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.kinds.key_value import KeyValueStoreImpl
from streamsapp.state.managed_store import FrozenEpoch
from streamsapp.tasks.assembly import TaskAssembly
from streamsapp.tasks.record_queue import ProcessingControl, TimedQueue
from streamsapp.tasks.task_context import over_history
from streamsapp.tasks.task_plan import ConsumedOffset, TaskPlan
from streamsapp.tasks.time_markers import TimeMarker
from streamsapp_spark.replay.task_inputs import InputBatches

#: Records between two looks at how much there is to commit, and between two commits at most. Fixed numbers: what is
#: held back for a commit must be sent at the same places each time.
STEP, COMMIT_EVERY = 2_000, 1_000_000
#: Bytes of writes that wait for a commit at most.
UNCOMMITTED_BYTES = 64 << 20
#: Later than any timestamp.
NO_BOUND = 1 << 63


class RecordedMarkers(NamedTuple):
    """The markers of one input, and the id of its topic, which is empty if it is not known."""

    markers: Sequence[TimeMarker]
    topic_id: bytes = b""


@dataclass(frozen=True)
class Advance:
    """The work of a task since the last advance."""

    records: int
    #: In the order in which they were sent.
    outputs: Sequence[OutputRecord]
    #: The writes of a commit interval that ended here.
    writes: FrozenEpoch | None = None


class Replay:
    """Replays one task. Use it as a context manager, and call ``run`` once, or ``begin`` and what goes on from
    there."""

    def __init__(
        self,
        plan: TaskPlan,
        config: StreamsConfig,
        directory: Path,
        resources: StateResources,
        global_stores: Mapping[str, KeyValueStoreImpl] | None = None,
        starts: Mapping[TopicPartition, ConsumedOffset] | None = None,
    ) -> None:
        """Takes in ``starts`` the positions that the state in ``directory`` stands at; it begins empty where there is
        none."""
        self._plan = plan
        config = replace(config, tracing=False)  # of history, traces are long past
        assembly = TaskAssembly(config, resources, SystemClock(), global_stores or {}, over_history)
        self._task = assembly.started(plan, directory, starts=starts)
        self.stores = self._task.stores
        self._control = ProcessingControl()
        self._inputs: dict[TopicPartition, InputBatches] = {}
        self._since_step = self._since_commit = 0

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, *_: object) -> None:
        for batches in self._inputs.values():
            close = getattr(batches, "close", None)
            if close is not None:
                close()
        try:
            self._task.close_user_code()
        finally:
            self.stores.close()

    def run(self, inputs: Mapping[TopicPartition, InputBatches]) -> Iterator[Advance]:
        """Processes everything; partitions that are not in ``inputs`` have no records. Each advance has to be taken
        before the next: its writes are applied then."""
        self.begin(inputs)
        while self._fill():
            yield from self.advance(STEP)
        yield from self.commit()

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """The input partitions of the task."""
        return self._plan.inputs

    # ---- by steps ----------------------------------------------------------------------------------------------

    def begin(self, inputs: Mapping[TopicPartition, InputBatches]) -> None:
        """Takes the inputs, which are not read yet."""
        self._inputs = dict(inputs)
        for partition in self._plan.inputs.keys() - self._inputs.keys():
            self._task.reached_end(partition)

    def add_recorded(self, markers: Mapping[TopicPartition, RecordedMarkers]) -> None:
        """Applies time markers where they were recorded, before anything is processed."""
        for partition, recorded in markers.items():
            queue = self._task.queues[partition]
            if self._task.time is not None and isinstance(queue, TimedQueue):
                self._task.time.add_recorded(queue, recorded.markers, recorded.topic_id)

    def add(self, partition: TopicPartition, records: Sequence[InputRecord]) -> None:
        """Appends records to a partition that is not among the inputs."""
        self._task.add_records(partition, records)

    def earliest(self) -> int:
        """Returns the timestamp of the next record, ``NO_BOUND`` if none is left."""
        while self._fill():
            heads = [queue.head_timestamp() for queue in self._task.queues.values()]
            found = [each for each in heads if each is not None]
            if found:  # not if none could be read
                return min(found)
        return NO_BOUND

    def advance(self, limit: int) -> Iterator[Advance]:
        """Processes some records, at most ``limit``; yields one advance."""
        taken = self._task.process(self._control, min(limit, STEP - self._since_step))
        self._since_step += taken
        self._since_commit += taken
        if (self._since_step >= STEP or self._task.is_expiring) and self._commit_is_due():
            yield from self.commit(taken)
        else:
            yield Advance(taken, self._task.take_output())
        self._since_step %= STEP

    def commit(self, taken: int = 0) -> Iterator[Advance]:
        """Ends a commit interval; yields one advance, with all that was held back for the commit."""
        self._task.emit_all_held()
        outputs = self._task.take_output()
        frozen = self.stores.freeze()
        yield Advance(taken, outputs, frozen)
        if frozen is not None:
            for _ in self.stores.apply(frozen, {}):
                pass
        self._since_commit = 0

    def go_on(self) -> None:
        """Passes over the callbacks by stream time that were called up to where the state stands."""
        context = self._task.context
        if context.stream_time >= 0:
            context.stream_time_punctuation.fire_due(context.stream_time, lambda *_: None)

    @property
    def waits_for_wall_clock(self) -> bool:
        """Says whether user code has scheduled callbacks by wall clock, which no replay calls."""
        return self._task.context.wall_clock_punctuation.next_due < math.inf

    # ---- results -----------------------------------------------------------------------------------------------

    def positions(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, ConsumedOffset]:
        """Returns the position of the task: at the ends of its inputs, at the times that it has seen there."""
        metadata = self._task.context.processor_metadata.to_commit()
        return {
            partition: ConsumedOffset(ends[partition], queue.partition_time, metadata)
            for partition, queue in self._task.queues.items()
        }

    def standing(self) -> dict[TopicPartition, ConsumedOffset]:
        """Returns the position of the task after the last record that it was given of each input."""
        return self.positions({each: queue.position or 0 for each, queue in self._task.queues.items()})

    def observed(self, topics: Collection[str]) -> dict[TopicPartition, int]:
        """Returns the input partitions of these topics whose records' offsets user code has asked for, with their
        ends."""
        seen = self._task.context.observed_topics.intersection(topics)
        return {
            partition: queue.position
            for partition, queue in self._task.queues.items()
            if partition.topic in seen and queue.position is not None
        }

    def _fill(self) -> bool:
        """Fetches a record of each input that has any, and says whether there is one at all."""
        for partition, queue in self._task.queues.items():
            while not queue and partition in self._inputs:
                records = next(self._inputs[partition], None)
                if records is None:
                    del self._inputs[partition]
                    self._task.reached_end(partition)
                else:
                    self._task.add_records(partition, records)
        return self._task.buffered_records > 0

    def _commit_is_due(self) -> bool:
        return self._since_commit >= COMMIT_EVERY or self.stores.uncommitted_bytes > UNCOMMITTED_BYTES
