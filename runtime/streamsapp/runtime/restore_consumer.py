"""The restore consumer and everything it reads: records of changelogs go into stores, positions are kept.

Called on the restoration thread, which decides whose changelogs are read and what a failure means. ``readers``,
``replicas_paused`` and ``lag`` are read by other threads, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from confluent_kafka import KafkaException

from streamsapp import native
from streamsapp.clock import Clock
from streamsapp.errors import StateStoreError
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.kafka.fetching.fetched import Fetched
from streamsapp.kafka.partition_offsets import Offsets
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import UNKNOWN_TOPIC, InputRecord, TaskId, TopicPartition
from streamsapp.runtime.changelog_positions import refuse_to_begin_anew, settle_start
from streamsapp.runtime.changelog_reader import ChangelogReader, Observation
from streamsapp.runtime.listeners import SuspendReason
from streamsapp.runtime.outdated_state import TombstoneRetention, objection_to_task
from streamsapp.runtime.replica_lag import ReplicaLag
from streamsapp.runtime.restore_events import RestoreEvents
from streamsapp.runtime.task_lookups import LookupAnswers, TaskLookups
from streamsapp.state.provenance import Provenance
from streamsapp.tasks.states import TaskRole
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_plan import ConsumedOffset

#: Records per fetch: large batches are what makes restoring fast.
BATCH = 10_000
#: A replica that was up to date so lately is, in milliseconds: it is looked at now and then.
PATIENCE_MS = 60_000


class RestoreConsumer:
    """Reads changelogs of active tasks up to their ends, and those of replicas for ever."""

    def __init__(
        self,
        consumer: PartitionConsumer,
        admin: TopicAdmin,
        events: RestoreEvents,
        clock: Clock,
        lookups: TaskLookups | None = None,
    ) -> None:
        self._consumer = consumer
        self._lookups = lookups or TaskLookups(consumer, admin, clock)
        self._admin = admin
        self._events = events
        self._lag = ReplicaLag(consumer, admin, clock)
        self._clock = clock
        self._retention = TombstoneRetention(admin, clock)
        #: Changelogs being read.
        self.readers: dict[TopicPartition, ChangelogReader] = {}
        #: True while replicas stand still.
        self.replicas_paused = False
        #: When it was asked where the changelogs of each task end.
        self._asked_at_ms: dict[TaskId, int] = {}

    def lag(self, task: StreamTask) -> int | None:
        """Records that a replica is behind, over all its stores; ``None`` if not known yet. Any thread."""
        readers = [self.readers.get(partition) for partition in task.plan.all_changelogs.values()]
        observed = [None if reader is None or reader.task is not task else reader.observed for reader in readers]
        return None if None in observed else sum(each.lag for each in observed if each is not None)

    # ---- beginning ---------------------------------------------------------------------------------------------

    def look_up(self, tasks: Sequence[StreamTask], done: Callable[[LookupAnswers | Exception], None]) -> None:
        """Ask what these tasks need to begin; ``done`` gets the answers on another thread."""
        self._lookups.begin(tasks, done)

    def settle(
        self, task: StreamTask, found: LookupAnswers, snapshot: Mapping[TopicPartition, ConsumedOffset]
    ) -> tuple[Offsets, Offsets]:
        """Take what was found about a task: its topics, and where it continues in its inputs; ``snapshot`` says that
        where the group knows nothing. Returns the first and the next offset of its changelogs. Raises
        ``StateStoreError`` if the broker does not say them."""
        named = {each.topic for each in (*task.plan.inputs, *task.plan.all_changelogs.values())}
        task.topics = {name: found.topics[name] for name in named if name in found.topics}
        if task.role is TaskRole.ACTIVE or task.plan.source_changelogs:
            settle_start(self._consumer, task, found.committed, snapshot)
        self._asked_at_ms[task.id] = found.asked_at_ms
        told = found.ends[task.id]
        if isinstance(told, KafkaException):
            raise StateStoreError(
                f"the broker does not report where the changelogs of task {task.id} end: {told.args[0].str()}"
            ) from told
        lows, highs = told
        # A replica reads on while it is asked for; what it has read by now is there.
        return lows, {**highs, **{each: max(highs[each], it.position) for each, it in self._kept(task).items()}}

    def promote(self, replica: StreamTask, task: StreamTask) -> None:
        """The replica is this active task from now on. Its changelogs are read on until ``start``: partitions that are
        fetched anew would wait for the broker's answer to what was asked before. A topic that others write is not: the
        replica stands still where the group has processed it."""
        for reader in list(self.readers.values()):
            if reader.task is replica and reader.limit is None:
                reader.task = task
            elif reader.task is replica:
                self._forget([reader], SuspendReason.PROMOTED)

    def _kept(self, task: StreamTask) -> dict[TopicPartition, ChangelogReader]:
        """The readers of a replica that was promoted to this task."""
        if task.role is not TaskRole.ACTIVE:
            return {}
        partitions = task.plan.changelogs.values()
        readers = [(each, self.readers[each]) for each in partitions if each in self.readers]
        return {partition: reader for partition, reader in readers if reader.task is task and reader.follows}

    def objection(self, task: StreamTask, highs: Offsets) -> str | None:
        """Returns why a task's stores must not go on from where they stand."""
        return objection_to_task(task, highs, self._retention)

    def refuse_to_begin_anew(self, task: StreamTask, unknown: Exception | None) -> None:
        """Raises ``StateStoreError`` if it is not known (``unknown`` says why) where a task goes on that ran."""
        refuse_to_begin_anew(self._admin, task, unknown)

    def start(self, task: StreamTask, found: Sequence[ChangelogReader], highs: Offsets) -> None:
        """Read a task's changelogs, which end at ``highs``, as far as there is anything to read."""
        for reader in found:
            task.changelog_positions[reader.store] = max(reader.position, reader.end or 0)
            self._note_origin(reader, highs[reader.partition])
        wanted = {reader.partition: reader for reader in found if reader.follows or reader.remaining}
        for reader in wanted.values():
            reader.restored, reader.read_at_ms = task.restored_records(reader.store), self._clock.now_ms()
        read_on = self._read_on(task, wanted)
        positions = {each: reader.position for each, reader in wanted.items() if each not in read_on}
        packed = {
            partition
            for partition in positions
            if wanted[partition].restored is None and task.stores.takes_packed(wanted[partition].store)
        }
        self._consumer.assign(positions, packed, task.topics)
        task.stores.write_restored()  # it may have been an active task until now, which has gathered some
        if self.replicas_paused:
            self._consumer.pause([partition for partition, reader in wanted.items() if reader.follows])
        self.readers.update(wanted)
        for reader in wanted.values():
            self._events.started(reader)

    def _read_on(self, task: StreamTask, wanted: Mapping[TopicPartition, ChangelogReader]) -> list[TopicPartition]:
        """End following as a replica; the changelogs that are still wanted, from where they stand, stay assigned."""
        kept = self._kept(task)
        read_on = [each for each, reader in kept.items() if each in wanted and wanted[each].position == reader.position]
        self._forget([reader for each, reader in kept.items() if each not in read_on], SuspendReason.PROMOTED)
        for each in read_on:
            self._events.suspended(self.readers.pop(each), SuspendReason.PROMOTED)
        if self.replicas_paused:
            self._consumer.resume(read_on)
        return read_on

    def _note_origin(self, reader: ChangelogReader, high: int) -> None:
        stores, asked_at_ms = reader.task.stores, self._asked_at_ms[reader.task.id]
        topic = reader.task.topics.get(reader.partition.topic, UNKNOWN_TOPIC)
        known = stores.provenance(reader.store).topic
        if known.topic_id and not topic.topic_id:  # an answer that lacks it takes nothing back
            topic = known
        begins = stores.changelog_offset(reader.store) is None
        if begins or reader.position >= high - 1:
            stores.note_origin(reader.store, Provenance(topic, asked_at_ms))
        else:
            stores.note_origin(reader.store, Provenance(topic, stores.provenance(reader.store).fresh_at_ms))
        reader.goal = Observation(reader.position, high, asked_at_ms)

    def end_wait(self) -> None:
        """End the wait for records, or the next one. Any thread."""
        self._consumer.end_wait()

    # ---- reading -----------------------------------------------------------------------------------------------

    @property
    def restoring(self) -> bool:
        """True if stores of active tasks are incomplete."""
        return any(not reader.follows for reader in self.readers.values())

    def pause_replicas(self, *, paused: bool) -> None:
        """Let the replicas stand still, or go on."""
        if paused == self.replicas_paused:
            return
        self.replicas_paused = paused
        replicas = [partition for partition, reader in self.readers.items() if reader.follows]
        (self._consumer.pause if paused else self._consumer.resume)(replicas)

    def fetch(self, timeout: float) -> Fetched:
        """The next records of all changelogs that are read; waits up to ``timeout`` seconds for the first."""
        return self._consumer.poll(BATCH, timeout)

    def batches(self, fetched: Fetched) -> Iterator[tuple[StreamTask, Callable[[], None]]]:
        """For each batch of records its task, and the function that puts it into its store; without those of readers
        that are forgotten meanwhile."""
        for partition, records in fetched.records:
            if (reader := self.readers.get(partition)) is not None:
                yield reader.task, partial(self._apply, reader, records)
        for partition, packed in fetched.packed:
            if (reader := self.readers.get(partition)) is not None:
                yield reader.task, partial(self._apply_packed, reader, packed)

    def _apply(self, reader: ChangelogReader, records: Sequence[InputRecord]) -> None:
        bound = self._reached(reader, records[-1].offset())
        if bound is not None:
            records = [record for record in records if record.offset() < bound]
        if records:
            last_offset = records[-1].offset()
            readable = records if reader.restored is None else reader.restored.of(records)
            reader.task.stores.restore(reader.store, readable, reader.position)
            self._applied(reader, last_offset, len(records))

    def _apply_packed(self, reader: ChangelogReader, packed: native.PackedRecords) -> None:
        bound = self._reached(reader, packed.last_offset)
        if bound is not None:
            packed.keep_before(bound)
        if count := len(packed):
            last_offset = packed.last_offset
            reader.task.stores.restore_packed(reader.store, packed, reader.position, at_once=reader.follows)
            self._applied(reader, last_offset, count)

    def _reached(self, reader: ChangelogReader, last_offset: int) -> int | None:
        """Advance to behind the last record, or up to where the store may go: then returns where that is."""
        bound = reader.limit if reader.follows else reader.end
        if bound is None or last_offset < bound:
            _advance(reader, last_offset + 1)
            return None
        _advance(reader, bound)
        if reader.follows:
            self._lag.hold(reader)
        return bound

    def _applied(self, reader: ChangelogReader, last_offset: int, count: int) -> None:
        reader.applied += count
        if reader.follows:
            reader.read_at_ms = self._clock.now_ms()
            reader.reach()
        self._events.applied(reader, last_offset, count)

    def note_ends(self, fetched: Fetched) -> None:
        """Control records and compacted ones leave gaps: the end is where the broker says it is."""
        for partition, offset in fetched.ends.items():
            if partition in self.readers:
                _advance(self.readers[partition], offset)

    def ended_changelogs(self, fetched: Fetched) -> Iterator[tuple[StreamTask, str]]:
        """Tasks with a changelog that cannot be read on, and why."""
        ended = dict.fromkeys(fetched.out_of_range, "truncated") | dict.fromkeys(
            fetched.replaced, "deleted and created again"
        )
        for partition, what in ended.items():
            if (reader := self.readers.get(partition)) is not None:
                yield reader.task, f"its changelog {partition} was {what} while it was read"

    def outdated(self, fetched: Fetched) -> Iterator[tuple[StreamTask, str]]:
        """Replicas that stood still for so long that deletions may be missing in their changelogs, and why. One that
        reads all the time does not stand still, however far behind it is: to begin anew would take as long again."""
        latest = self._clock.now_ms() - PATIENCE_MS
        for partition, _ in (*fetched.records, *fetched.packed):
            reader = self.readers.get(partition)
            if reader is None or not reader.follows:
                continue
            followed_at_ms = max(reader.fresh_at_ms or 0, reader.read_at_ms)
            if followed_at_ms <= latest and self._retention.passed(partition.topic, followed_at_ms):
                yield reader.task, f"it has not followed {partition} for longer than its broker keeps deletions"

    def observe_lag(self) -> None:
        """Observe how far behind the replicas are, now and then."""
        self._lag.observe(self.readers)

    # ---- ending ------------------------------------------------------------------------------------------------

    def take_complete(self) -> list[ChangelogReader]:
        """Stop reading the changelogs of stores that are complete now; the listener is still to be called."""
        complete = [reader for reader in self.readers.values() if not reader.follows and not reader.remaining]
        self._consumer.unassign([reader.partition for reader in complete])
        for reader in complete:
            del self.readers[reader.partition]
        return complete

    def ended(self, reader: ChangelogReader) -> None:
        """Write the last of what a store was to get, and report to the listener that it is complete."""
        reader.task.stores.write_restored()
        self._events.ended(reader)

    def note_complete(self, task: StreamTask) -> None:
        """A task's stores have all that their changelogs had when it was asked where they end."""
        for store in task.plan.changelogs:
            task.stores.note_fresh(store, self._asked_at_ms[task.id])

    def forget(self, task: StreamTask, reason: SuspendReason = SuspendReason.MIGRATED) -> None:
        """Stop reading a task's changelogs, before their ends."""
        self._forget([reader for reader in self.readers.values() if reader.task.id == task.id], reason)

    def _forget(self, readers: Sequence[ChangelogReader], reason: SuspendReason) -> None:
        self._consumer.unassign([reader.partition for reader in readers])
        for reader in readers:
            del self.readers[reader.partition]
            self._events.suspended(reader, reason)

    def close(self) -> None:
        """Close the restore consumer."""
        self._consumer.close()


def _advance(reader: ChangelogReader, position: int) -> None:
    if reader.follows and reader.limit is not None:
        position = min(position, reader.limit)
    reader.position = max(reader.position, position)
    if reader.follows:
        reader.task.changelog_positions[reader.store] = reader.position
