"""A task: one sub-topology over one partition group, with its buffers, stores and user code.

Created and closed on the polling thread. Restored by the restoration thread while it is at the state manager; processed
by the processing thread that holds its lock while it is at the task manager. That thread also calls ``freeze`` when a
commit begins, between two records.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import StreamsError
from streamsapp.outgoing import OutputRecord
from streamsapp.record import UNKNOWN_TOPIC, InputRecord, TaskId, TopicIdentity, TopicPartition
from streamsapp.serdes.api import or_configured
from streamsapp.state.managed_store import FrozenEpoch
from streamsapp.state.task_stores import TaskStores
from streamsapp.tasks.alignment import NO_LIMIT, TaskPace
from streamsapp.tasks.dead_letters import DeadLetters
from streamsapp.tasks.failures import FailureHandling
from streamsapp.tasks.partition_group import PartitionGroup
from streamsapp.tasks.probes import Probes
from streamsapp.tasks.record_queue import ProcessingControl, RecordQueue, TimedQueue
from streamsapp.tasks.restored_records import RestoredRecords
from streamsapp.tasks.states import TaskRole, TaskState
from streamsapp.tasks.task_context import TaskContext
from streamsapp.tasks.task_plan import ConsumedOffset, TaskPlan
from streamsapp.tasks.task_time import TaskTime
from streamsapp.tasks.tracing import tracing_of
from streamsapp.tasks.wiring import WiredTopology, Wires, Wiring, wire
from streamsapp.topology.nodes import SinkNode, SourceNode

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TaskEpoch:
    """The contribution of one task to one commit: how far it read, and the writes that reading led to."""

    task: StreamTask
    offsets: Mapping[TopicPartition, ConsumedOffset]
    frozen: FrozenEpoch | None
    #: The number of the cut if the task did nothing after it; else 0.
    cut: int = 0


class StreamTask:
    """One task. A standby or warm-up task has stores only; it becomes active by ``recycled``."""

    def __init__(
        self,
        plan: TaskPlan,
        stores: TaskStores,
        context: TaskContext,
        config: StreamsConfig,
        role: TaskRole = TaskRole.ACTIVE,
    ) -> None:
        self.role = role
        self.plan = plan
        self.stores = stores
        self.state = TaskState.CREATED
        self.context = context
        #: Set, the processing loop returns before the next record.
        self.control = ProcessingControl()
        #: Something happened since the last commit that the next one must carry.
        self.touched = False
        self.processed_records = 0
        #: Records the broker has and the task has not processed, observed by the polling thread; ``None`` if unknown.
        self.input_lag: int | None = None
        #: The offsets that were committed when the task was created: it continues from there.
        self.start_offsets: dict[TopicPartition, ConsumedOffset] = {}
        #: The topics that the names of its inputs and changelogs stood for when it was restored.
        self.topics: Mapping[str, TopicIdentity] = {}
        #: Next changelog offset per store, once restored.
        self.changelog_positions: dict[str, int] = {}
        #: Stores whose last transaction ends with a control record that is not counted in their position yet.
        self.unmarked: set[str] = set()
        self._config = config
        self._output: list[OutputRecord] = []
        self._failures = FailureHandling(
            context,
            self._output.append,
            plan.dead_letters or DeadLetters(config.dead_letter_queue_topic),
            config.on_deserialization_error,
            config.on_processing_error,
            config.on_production_error,
        )
        self._failures.held = self._held_records
        self._wire_up(WiredTopology())
        self._group = self._new_group()
        self._committed: dict[TopicPartition, int] = {}

    @cached_property
    def id(self) -> TaskId:
        return self.plan.id

    # ---- life --------------------------------------------------------------------------------------------------

    def transition(self, target: TaskState) -> None:
        """Move to another state; an illegal move is a bug and raises ``StreamsError``."""
        if not self.state.may_become(target):
            raise StreamsError(f"bug: task {self.id} cannot go from {self.state.value} to {target.value}")
        log.debug("task %s: %s -> %s", self.id, self.state.value, target.value)
        self.state = target

    def recycled(self, role: TaskRole) -> StreamTask:
        """The same task in another role: its stores stay open, all else begins anew (Kafka Streams threading proposal).

        User code is closed and no thread holds the task. Writes that were not committed are dropped.
        """
        self.context.reset()
        if self.role is TaskRole.ACTIVE:
            self.stores.revert()
        again = StreamTask(self.plan, self.stores, self.context, self._config, role)
        # A replica runs; the active task that it becomes does not before the rest of its changelog is read.
        runs = role is TaskRole.ACTIVE and self.state is TaskState.RUNNING
        again.state = TaskState.RESTORING if runs else self.state
        again.changelog_positions = dict(self.changelog_positions)
        return again

    def initialize(self) -> None:
        """Bind the topology and start user code: the state is restored."""
        config = self._config
        tracing = tracing_of(self.context, config)
        emit = self._output.append
        wires = Wires(
            context=self.context,
            failures=self._failures,
            stores=self.stores.stores,
            emit=emit if tracing is None else tracing.emit(emit),
            topic_name=self.plan.topic_name,
            partition_count=self.plan.partition_count,
            default_serdes=config.default_serdes,
            tracing=tracing,
            wrapper=config.processor_wrapper,
        )
        for consumed in self.start_offsets.values():
            self.context.stream_time = max(self.context.stream_time, consumed.partition_time)
            self.context.processor_metadata.start(consumed.processor_metadata)
        self._wire_up(wire(self.plan.sub_topology, wires))
        self._group = self._new_group()
        if (flow := self.plan.sub_topology.time) is not None:
            self._group.time = TaskTime(flow, self.context, self.stores.stores[flow.store], self._wired, wires.emit)
        self._group.expiry.begin(self.stores.stores, self._wired.tables, lambda: self.context.stream_time)
        for partition, node in self.plan.inputs.items():
            self.add_input(partition, node)
        self._group.topics = {each: self.topics.get(each.topic, UNKNOWN_TOPIC) for each in self.plan.inputs}
        for partition, consumed in self.start_offsets.items():
            queue = self._group.queues[partition]
            queue.position = consumed.offset
            queue.partition_time = consumed.partition_time
            # The first commit carries those of a snapshot, read on or not: the group has to know all of them.
            if consumed.in_group:
                self._committed[partition] = consumed.offset
        if self.time is not None:
            self.time.begin(self._group.queues.values(), self._group.topics, self.plan)
        self.transition(TaskState.RUNNING)

    @property
    def time(self) -> TaskTime | None:
        """Moves time on where inputs are silent; ``None`` if nothing of the sub-topology goes by that."""
        return self._group.time

    @property
    def pace(self) -> TaskPace | None:
        """Keeps the task together with others in stream time; ``None``: it need not wait for any."""
        return self._group.pace

    def keep_pace(self, pace: TaskPace) -> None:
        """Wait for other tasks from now on."""
        self._group.pace = pace

    @property
    def initialized(self) -> bool:
        """True if the task may have processed anything."""
        return self.role is TaskRole.ACTIVE and self.state is TaskState.RUNNING

    def close_user_code(self) -> None:
        """Close processors and operators; buffered input is dropped."""
        self._group.clear()
        if self.pace is not None:
            self.pace.leave()
        if (ahead := self.stores.read_ahead) is not None:
            ahead.clear()
        wired, empty = self._wired, WiredTopology()
        wired.close()
        self._wire_up(empty)
        self.context.record_errors.warnings.tell_all()

    def _wire_up(self, wired: WiredTopology) -> None:
        self._wired = wired
        #: The probes at its nodes, for viewers.
        self.probes = Probes(wired)

    def add_input(self, partition: TopicPartition, node: SourceNode) -> None:
        """Read one more partition."""
        config = self._config
        key = (node.key_serde or config.default_key_serde).bind(partition.topic, is_key=True)
        value = or_configured(node.value_serde, config.default_serdes).bind(partition.topic, is_key=False)
        kind = RecordQueue if self.time is None else partial(TimedQueue, self.context.clock, self.time.apply)
        queue = kind(
            partition=partition,
            source=node.name,
            push=self._wired.in_use.pushes[node.name],
            key=key,
            value=value,
            extractor=node.timestamp_extractor or config.default_timestamp_extractor,
            failures=self._failures,
        )
        self._group.add_queue(queue)
        if isinstance(queue, TimedQueue) and self.time is not None and self.state is TaskState.RUNNING:
            self.time.add_input(queue)  # others are, once their positions are known

    def _new_group(self) -> PartitionGroup:
        return PartitionGroup(self._config.max_task_idle_ms, self.context, self._fire_by_stream_time)

    # ---- input -------------------------------------------------------------------------------------------------

    def add_records(self, partition: TopicPartition, records: Sequence[InputRecord]) -> None:
        """Append a fetched batch to a partition's buffer (polling thread)."""
        self._group.add(partition, records)
        if self.pace is not None:
            trusted = self._group.queues[partition].trusts_time
            self.pace.arrived(records[0].timestamp()[1] if trusted else None)
        if (ahead := self.stores.read_ahead) is not None:
            queue = self._group.queues[partition]
            ahead.add(records, lambda: queue.position)

    def reached_end(self, partition: TopicPartition, end: int | None = None) -> None:
        """The broker has no more of a partition; the next record has the offset ``end``, or later (polling thread)."""
        self._group.queues[partition].reach_end(end)
        if self.pace is not None:
            self.pace.at_end()

    def begin_at(self, partition: TopicPartition, offset: int) -> None:
        """An input that begins at its end has no records before this offset for the task, nor has any been delivered
        (polling thread). The next commit keeps the place: a task that moves would begin at a later end."""
        self._group.queues[partition].position = offset
        self.touched = True

    def begin_anew(self, partition: TopicPartition, topic: TopicIdentity) -> None:
        """An input whose records are all processed goes on with another topic (polling thread). No thread holds the
        task."""
        self._group.begin_anew(partition, topic)
        self._committed.pop(partition, None)

    def input_topic(self, partition: TopicPartition) -> TopicIdentity:
        """The topic that the position in an input belongs to."""
        return self._group.topics.get(partition, UNKNOWN_TOPIC)

    @property
    def buffered_records(self) -> int:
        """Records waiting to be processed."""
        return len(self._group)

    @property
    def buffered_bytes(self) -> int:
        """Their estimated memory."""
        return self._group.bytes

    @property
    def first_times(self) -> Mapping[TopicPartition, int]:
        """The timestamp of the first record that came of each input, as the broker has it."""
        return self._group.first_times

    @property
    def queues(self) -> Mapping[TopicPartition, RecordQueue]:
        """The input buffers."""
        return self._group.queues

    # ---- processing --------------------------------------------------------------------------------------------

    def wait_ms(self, now_ms: int, epoch: int = 0) -> int | None:
        """Milliseconds until the task may process, 0 for now, ``None`` until more input arrives (KIP-695), calls are
        answered, or other tasks are as far in stream time. It works for the commit ``epoch``."""
        if self.context.execution.calls.full:
            return None
        if self.is_expiring:
            return 0
        wait = self._group.wait_ms(now_ms)
        if self.pace is None or (wait != 0 and self._group):
            return wait
        return wait if self.pace.may_go_on(self._group.next_time, epoch, now_ms) else None

    @property
    def waits_for_others(self) -> bool:
        """True if the task has records and waits until other tasks are as far in stream time."""
        return self.pace is not None and self.pace.waits

    def process(self, control: ProcessingControl, limit: int) -> int:
        """Process up to ``limit`` buffered records; returns how many were taken. Entries of stores that are over are
        deleted first, up to as many: there may be more, and no record was taken."""
        self.touched = True
        probed = self.probes.for_records()
        self._go_through(probed)
        if probed is not None:
            limit = min(limit, self.probes.at_once)
        lateness = self.context.lateness
        lateness.begin_batch(self.context.clock.now_ms())
        until = NO_LIMIT
        if self.pace is not None:
            limit, until = min(limit, self.pace.at_once), self.pace.until
        taken = self._group.expire_and_run(control, limit, self._fire, until)
        self.processed_records += taken
        self.context.record_errors.warnings.taken += taken
        if probed is not None:
            self.probes.took(taken)
        lateness.count(taken)
        return taken

    def expire(self) -> None:
        """Delete all entries of stores that are over by now. ``process`` does so before the next record."""
        self._group.expiry.sweep(self.context.stream_time, self.control, sys.maxsize, self._fire)

    @property
    def is_expiring(self) -> bool:
        """Says whether entries of stores may be over that are not deleted yet. No record is processed before."""
        return self._group.is_expiring

    def _go_through(self, probed: Wiring | None) -> None:
        """Switch to the wiring with probes, or to the plain one. Called between two batches, so that a record goes one
        way to its end."""
        wiring = probed or self._wired.plain
        if wiring is self._wired.in_use:
            return
        self._wired.take(wiring)
        for queue in self._group.queues.values():
            queue.input.push = wiring.pushes[queue.source]

    def punctuate(self) -> None:
        """Fire the callbacks that wait for no record: by wall clock, and by a stream time that was reached before they
        were scheduled, in ``init`` or by the wall clock."""
        self.punctuate_wall_clock()
        self.punctuate_stream_time()

    def punctuate_stream_time(self) -> None:
        """Fire the callbacks by a stream time that was reached before they were scheduled."""
        is_due = self.context.stream_time >= self.context.stream_time_punctuation.next_due
        # A record that has moved the time, and is put off, comes before its callbacks.
        if is_due and not self._group.is_put_off:
            self.touched = True
            self._go_through(self.probes.for_results())
            self._fire_by_stream_time()

    def punctuate_wall_clock(self) -> None:
        """Fire the wall-clock callbacks that are due."""
        now = self.context.clock.now_ms()
        if now >= self.context.record_errors.warnings.next_due:
            self.context.record_errors.warnings.tell_due(now)
        if now >= self.context.wall_clock_punctuation.next_due:
            self.touched = True
            self._go_through(self.probes.for_results())
            self.context.wall_clock_punctuation.fire_due(now, self._fire)

    def _fire_by_stream_time(self) -> None:
        self.context.stream_time_punctuation.fire_due(self.context.stream_time, self._fire)

    def _fire(self, callback: Callable[[int], None], node: str, timestamp: int) -> None:
        self.context.message = None
        self.context.timestamp = timestamp
        self._failures.held = None
        try:
            callback(timestamp)
        except Exception as error:
            self._failures.processing(node, error, timestamp, None)
        finally:
            self._failures.held = self._held_records

    @property
    def has_arrivals(self) -> bool:
        """True if ``deliver`` has something to do."""
        return any([operator.has_arrivals for operator in self._wired.calling.values()])  # noqa: C419 - asks each of them

    def deliver(self) -> bool:
        """Send the results of calls that were answered meanwhile; returns whether there were any."""
        if not self.has_arrivals:
            return False
        self.touched = True
        self._go_through(self.probes.for_results())
        self._wired.deliver()
        return True

    def emit_held(self, limit: int) -> int:
        """Emit results that operators hold back for the commit; returns how many are still held."""
        self._go_through(self.probes.for_results())
        return self._wired.emit_held(limit)

    def _held_records(self) -> str:
        """The records that held results are of, as an error names them. To note the last one of each key costs more
        than a count does."""
        read = [
            f"{partition}@{'' if (first := self._committed.get(partition)) is None else first}..{queue.position - 1}"
            for partition, queue in self._group.queues.items()
            if queue.position is not None and queue.position != self._committed.get(partition)
        ]
        of = f", of one of the records {', '.join(read)}" if read else ""
        return f"in a result held for the commit{of}"

    def emit_all_held(self) -> None:
        """Emit every result that operators hold back: the epoch ends."""
        # More than once: results that came while others were emitted in slices follow those.
        while self.emit_held(sys.maxsize):
            pass

    @property
    def unwritten_bytes(self) -> int:
        """An estimate of the bytes that a commit brings out of memory: writes of stores, and results that operators
        hold back (polling thread)."""
        return self.stores.unwritten_bytes + sum(operator.held_bytes for operator in self._wired.holding.values())

    @property
    def has_output(self) -> bool:
        """True if the task sent anything since ``take_output``."""
        return bool(self._output)

    def take_output(self) -> list[OutputRecord]:
        """The records that the task sent since the last call."""
        output = self._output[:]
        self._output.clear()
        return output

    def sinks_of(self, topic: str) -> list[str]:
        """The nodes that write to a topic, or may: a function names the topic of each record of theirs."""
        plan = self.plan
        sinks = {node.name: node.topic for node in plan.sub_topology.nodes if isinstance(node, SinkNode)}
        fixed = [name for name, of in sinks.items() if isinstance(of, str) and plan.topic_name(of) == topic]
        return fixed or [name for name, of in sinks.items() if not isinstance(of, str)]

    @property
    def read_so_far(self) -> str:
        """The last record that was read of each input, as an error names them (any thread)."""
        read = {each: queue.position for each, queue in list(self.queues.items())}
        return ", ".join(f"{each}@≤{position - 1}" for each, position in read.items() if position)

    # ---- commit ------------------------------------------------------------------------------------------------

    def freeze(self) -> TaskEpoch | None:
        """End the running epoch: fix how far the task read and swap in a fresh write-back layer.

        ``None`` when nothing happened since the last commit. Constant time: processing stands still meanwhile.
        """
        self.touched = False
        if self.control.handed_over:
            return None
        cut = self.control.cut
        moved, metadata = self._group.take_moved(), self.context.processor_metadata.to_commit()
        offsets = {
            partition: ConsumedOffset(position, queue.partition_time, metadata, topic)
            for partition, queue in self._group.queues.items()
            if (topic := self.input_topic(partition)) is not None
            and (position := queue.position) is not None
            and (cut or position != self._committed.get(partition) or partition in moved)
        }
        frozen = self.stores.freeze()
        self.context.commit_requested = False
        adopted = {each: at.offset for each, at in self.start_offsets.items() if not at.in_group}
        if frozen is None and not cut and all(adopted.get(each) == at.offset for each, at in offsets.items()):
            return None
        self._committed.update({partition: consumed.offset for partition, consumed in offsets.items()})
        return TaskEpoch(self, offsets, frozen, cut)

    def restored_records(self, store: str) -> RestoredRecords | None:
        """Reads the records that restore a store, if they are those of a source topic."""
        partition = self.plan.source_changelogs.get(store)
        if partition is None:
            return None
        return RestoredRecords(self.plan.inputs[partition], partition.topic, self._config, self.context)

    def note_fresh(self, now_ms: int) -> None:
        """The stores have all that their changelogs have: a commit is through, and no other instance writes these. Or
        the input that restores a store is read to its end."""
        if self.control.handed_over:
            return  # its heir may write by now
        queues = self._group.queues
        for store in self.plan.changelogs:
            self.stores.note_fresh(store, now_ms)
        for store, partition in self.plan.source_changelogs.items():
            if (queue := queues.get(partition)) is not None and queue.at_end and not queue:
                self.stores.note_fresh(store, now_ms)

    @property
    def committed_offsets(self) -> Mapping[TopicPartition, int]:
        """The next offset of each input at the last commit that was started."""
        return self._committed
