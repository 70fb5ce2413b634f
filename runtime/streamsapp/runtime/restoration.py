"""The restoration thread: brings stores up to the end of their changelogs, and keeps replicas there.

It is the state updater of the Kafka Streams threading proposal.

Tasks come in by a queue from the polling thread; from then on until it is handed back, a task belongs to this thread.
Active tasks leave when their stores are complete, standby and warm-up tasks stay until they are promoted or closed.
With remote state, other threads prepare a new task's directory first, with a snapshot perhaps: it waits here meanwhile.
The thread owns the restore consumer. One pass of its loop:

    1. take what was asked: open the stores of new tasks, find where they stand; promote or let go of replicas
    2. fetch from the restore consumer: replicas wait while an active task is being restored
    3. apply each batch to its store, tell the listener
    4. hand over active tasks whose stores are all complete
    5. observe how far behind the replicas are
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from queue import Empty, SimpleQueue

from confluent_kafka import KafkaException

from streamsapp.clock import Clock
from streamsapp.deadline import Deadline
from streamsapp.errors import StateStoreError, TaskCorruptedError
from streamsapp.kafka.consumer import Fetched, PartitionConsumer
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import InputRecord, TaskId, TopicPartition
from streamsapp.remote.transfer_rates import MeasuredRate
from streamsapp.runtime.changelog_positions import Offsets, ends, locate, read_committed
from streamsapp.runtime.changelogs import ChangelogReader
from streamsapp.runtime.corruption import Corruptions
from streamsapp.runtime.directory_preparation import NOTHING_TO_PREPARE, Prepared, Preparer
from streamsapp.runtime.failures import ThreadFailure
from streamsapp.runtime.listeners import SuspendReason
from streamsapp.runtime.replica_lag import ReplicaLag
from streamsapp.runtime.restore_events import RestoreEvents
from streamsapp.state.task_stores import TaskStores
from streamsapp.tasks.states import TaskRole, TaskState
from streamsapp.tasks.stream_task import ConsumedOffset, StreamTask

log = logging.getLogger(__name__)

#: Records per fetch: large batches are what makes restoring fast.
BATCH = 10_000
#: How long to wait for records while restoring, for records of replicas, and for work when there is none, in seconds. A
#: replica that is to be promoted, or a task that has been prepared, waits for the fetch under way.
RESTORE_WAIT, FOLLOW_WAIT, PATIENCE = 0.1, 0.02, 0.1
#: How long requests are worked on before records are, in seconds: opening a store takes milliseconds.
REQUESTS_SLICE = 0.02
#: Records in a batch that shows how fast restoring is.
MEASURABLE = 1000


class RestorationThread(threading.Thread):
    """Restores active tasks and updates replicas, one restore consumer for all of them."""

    def __init__(
        self,
        name: str,
        consumer: PartitionConsumer,
        admin: TopicAdmin,
        failures: SimpleQueue[ThreadFailure],
        events: RestoreEvents,
        clock: Clock,
        preparer: Preparer = NOTHING_TO_PREPARE,
        replay: MeasuredRate | None = None,
    ) -> None:
        """``replay`` is told how many records per second of busy time are applied."""
        super().__init__(name=name, daemon=True)
        self._consumer = consumer
        self._admin = admin
        self._failures = failures
        self._events = events
        self._clock = clock
        self._preparer = preparer
        self._lag = ReplicaLag(consumer, admin, clock)
        #: What the polling thread asked for, in its order.
        self._requests: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._stopping = False
        #: Changelogs being read; looked at by status and metrics.
        self.readers: dict[TopicPartition, ChangelogReader] = {}
        #: Active tasks whose stores are complete, for the polling thread.
        self.restored: SimpleQueue[StreamTask] = SimpleQueue()
        #: Tasks that are here.
        self._tasks: dict[TaskId, StreamTask] = {}
        #: Tasks of which the directory is being prepared; looked at by status.
        self.preparing: set[TaskId] = set()
        #: Where tasks go on in inputs of which the group knows nothing.
        self._inputs: dict[TaskId, Mapping[TopicPartition, ConsumedOffset]] = {}
        self._replay = replay or MeasuredRate()
        #: Tasks of this pass whose changelogs are to be located.
        self._arrived: list[StreamTask] = []
        #: Whether replicas stand still; looked at by status.
        self.replicas_paused = False
        #: How often state was found damaged; looked at by health.
        self.corruptions = Corruptions(clock)
        #: Set by the polling thread while the application is paused (KIP-834).
        self.paused = False

    # ---- polling thread ----------------------------------------------------------------------------------------

    def add(self, task: StreamTask) -> None:
        """Hand a task over. An active one comes back by ``restored`` or as a failure; a replica stays."""
        self._requests.put(partial(self._guarded, task, partial(self._take, task)))

    def promote(self, task: StreamTask) -> None:
        """A replica that is here goes on as this active task: restored to the end, then handed back."""
        self._requests.put(partial(self._guarded, task, partial(self._promote, task)))

    def close(self, tasks: Collection[StreamTask], *, wipe: bool = False, clean: bool = False) -> None:
        """Close tasks' stores, also of tasks that are not here; ``wipe`` deletes them, ``clean`` says that they
        ended at a commit. What is asked afterwards for the same task finds its directory free."""
        for task in tasks:
            self._requests.put(partial(self._guarded, task, partial(self._close, task, wipe, clean)))

    def damaged(self, task: StreamTask, error: TaskCorruptedError) -> None:
        """A task's state was found damaged and is about to be wiped. Any thread."""
        self.corruptions.note(task.id, error)
        self._preparer.damaged(task, error)

    def settle(self, timeout: float, deadline: Deadline) -> bool:
        """Wait until everything that was asked for is done; whether it was in time, and before the deadline."""
        done = threading.Event()
        self._requests.put(done.set)
        return deadline.wait(done.wait, timeout) or not self.is_alive()

    def lag(self, task: StreamTask) -> int | None:
        """Records that a replica is behind, over all its stores; ``None`` if not known yet. Any thread."""
        readers = [self.readers.get(partition) for partition in task.plan.all_changelogs.values()]
        observed = [None if reader is None or reader.task is not task else reader.observed for reader in readers]
        return None if None in observed else sum(each.lag for each in observed if each is not None)

    def stop(self) -> None:
        """Return after the batch under way."""
        self._stopping = True

    # ---- restoration thread ------------------------------------------------------------------------------------

    def run(self) -> None:
        try:
            while not self._stopping:
                self._pass()
            self._take_requests()
        except BaseException as error:
            self._failures.put(ThreadFailure(self.name, error))
        finally:
            self._consumer.close()

    def _pass(self) -> None:
        """One pass; what it raises concerns all tasks here, and those that are handed over afterwards are tried."""
        try:
            self._run_once()
        except Exception as error:
            for task in self._tasks.values():
                self._stop_preparing(task)
                self._forget(task)
            self._tasks.clear()
            self._arrived.clear()
            self._failures.put(ThreadFailure(self.name, error))

    def _run_once(self) -> None:
        self._take_requests()
        self._start_arrived()
        if self.readers:
            restoring = any(not reader.follows for reader in self.readers.values())
            self._pause_replicas(restoring or self.paused)
            self._read(restoring)
        self._hand_over()
        self._lag.observe(self.readers.values())

    def _read(self, restoring: bool) -> None:
        began = self._clock.monotonic()
        fetched = self._consumer.poll(BATCH, RESTORE_WAIT if restoring and not self.preparing else FOLLOW_WAIT)
        self._apply(fetched)
        count = sum(len(records) for _, records in fetched.records)
        if count >= MEASURABLE:
            self._replay.observe(count, self._clock.monotonic() - began)

    def _take_requests(self) -> None:
        """For a short while, in their order: who was promoted first does not wait until all new replicas are open."""
        try:
            request = self._requests.get(timeout=0 if self.readers or self._stopping else PATIENCE)
            until = self._clock.monotonic() + REQUESTS_SLICE
            request()
            while self._clock.monotonic() < until or self._stopping:
                self._requests.get_nowait()()
        except Empty:
            return

    def _take(self, task: StreamTask) -> None:
        """Open a task's stores, or go on with the open ones of a task that was active here."""
        self._tasks[task.id] = task
        if task.state is not TaskState.CREATED:
            self._preparer.handed_over(task)
            self._arrived.append(task)
            return
        task.transition(TaskState.RESTORING)
        if not self._prepare(task):
            self._open(task)

    def _open(self, task: StreamTask) -> None:
        try:
            task.stores.open()
        except TaskCorruptedError as error:
            if not self._wipe(task, error):
                return
        if task.role is not TaskRole.ACTIVE and task.state is TaskState.RESTORING:
            task.transition(TaskState.RUNNING)
        self._arrived.append(task)

    def _promote(self, task: StreamTask) -> None:
        known = self._tasks.get(task.id)
        if known is None or known.stores is not task.stores:
            raise StateStoreError(f"task {task.id} is to be promoted and is not here: it failed meanwhile")
        self._forget(known, SuspendReason.PROMOTED)
        self._tasks[task.id] = task
        # It may have been recycled before its stores were open.
        task.state = TaskState.RESTORING
        task.changelog_positions = dict(known.changelog_positions)
        if task.id in self.preparing:
            self._preparer.promoted(task)
            return
        self._arrived = [*(each for each in self._arrived if each.id != task.id), task]

    def _close(self, task: StreamTask, wipe: bool, clean: bool) -> None:
        if self._tasks.get(task.id) is task:
            del self._tasks[task.id]
            self._stop_preparing(task)
            self._forget(task)
            self._arrived = [each for each in self._arrived if each is not task]
        if task.state is not TaskState.CLOSED:
            task.transition(TaskState.CLOSED)
        (task.stores.wipe if wipe else task.stores.close)()
        if clean:
            self._preparer.handed_over(task)

    # ---- prepared elsewhere ------------------------------------------------------------------------------------

    def _prepare(self, task: StreamTask) -> bool:
        """Whether the task waits for its directory to be prepared; then it is opened later."""

        def done(prepared: Prepared) -> None:
            self._requests.put(partial(self._prepared, stores, prepared))

        stores = task.stores
        if not self._preparer.begin(task, done):
            return False
        self.preparing.add(task.id)
        return True

    def _prepared(self, stores: TaskStores, prepared: Prepared) -> None:
        """The task may have been promoted, closed or replaced meanwhile."""
        task = next((each for each in self._tasks.values() if each.stores is stores), None)
        if task is not None:
            self.preparing.discard(task.id)
            self._inputs[task.id] = prepared.inputs
            self._guarded(task, partial(self._go_on, task, prepared))

    def _go_on(self, task: StreamTask, prepared: Prepared) -> None:
        if prepared.error is not None:
            raise prepared.error
        self._open(task)

    def _stop_preparing(self, task: StreamTask) -> None:
        self._inputs.pop(task.id, None)
        if task.id in self.preparing:
            self.preparing.discard(task.id)
            self._preparer.cancel(task)

    # ---- where stores stand ------------------------------------------------------------------------------------

    def _start_arrived(self) -> None:
        """Find out where the changelogs of all new tasks begin and end, in one go, and start reading."""
        arrived, self._arrived = self._arrived, []
        if not arrived:
            return
        active_or_shared = [task for task in arrived if task.role is TaskRole.ACTIVE or task.plan.source_changelogs]
        read_committed(self._consumer, active_or_shared, self._inputs)
        try:
            lows, highs = ends(self._admin, [each for task in arrived for each in task.plan.all_changelogs.values()])
        except KafkaException:
            if len(arrived) > 1:
                log.info("the broker does not tell where all changelogs end; asking for each task alone")
            for task in arrived:
                self._guarded(task, partial(self._start_alone, task))
            return
        for task in arrived:
            self._guarded(task, partial(self._start, task, lows, highs))

    def _start_alone(self, task: StreamTask) -> None:
        try:
            lows, highs = ends(self._admin, list(task.plan.all_changelogs.values()))
        except KafkaException as error:
            raise StateStoreError(
                f"the broker does not tell where the changelogs of task {task.id} end: {error.args[0].str()}"
            ) from error
        self._start(task, lows, highs)

    def _start(self, task: StreamTask, lows: Offsets, highs: Offsets) -> None:
        try:
            found = locate(task, lows, highs)
        except TaskCorruptedError as error:
            if not self._wipe(task, error):
                return
            found = locate(task, lows, highs)
        for reader in found:
            task.changelog_positions[reader.store] = max(reader.position, reader.end or 0)
        wanted = {reader.partition: reader for reader in found if reader.follows or reader.remaining}
        self._consumer.assign({partition: reader.position for partition, reader in wanted.items()})
        if self.replicas_paused:
            self._consumer.pause([partition for partition, reader in wanted.items() if reader.follows])
        self.readers.update(wanted)
        for reader in wanted.values():
            self._events.started(reader)

    def _wipe(self, task: StreamTask, error: TaskCorruptedError) -> bool:
        self.damaged(task, error)
        return self._begin_anew(task)

    def _begin_anew(self, task: StreamTask) -> bool:
        """With empty stores; whether they are open already."""
        task.changelog_positions.clear()
        task.stores.wipe()
        if self._prepare(task):
            return False
        task.stores.open()
        return True

    # ---- reading -----------------------------------------------------------------------------------------------

    def _pause_replicas(self, paused: bool) -> None:
        """Active tasks first: somebody waits for them."""
        if paused == self.replicas_paused:
            return
        self.replicas_paused = paused
        replicas = [partition for partition, reader in self.readers.items() if reader.follows]
        (self._consumer.pause if paused else self._consumer.resume)(replicas)

    def _apply(self, fetched: Fetched) -> None:
        for partition, records in fetched.records:
            reader = self.readers.get(partition)
            if reader is not None:
                self._guarded(reader.task, partial(self._apply_batch, reader, records))
        for partition, offset in fetched.ends.items():
            if partition in self.readers:
                # Control records and compacted ones leave gaps: the end is where the broker says it is.
                self._advance(self.readers[partition], offset)
        for partition in fetched.out_of_range:
            reader = self.readers.get(partition)
            if reader is not None:
                self._guarded(reader.task, partial(self._start_over, reader.task))

    def _apply_batch(self, reader: ChangelogReader, records: Sequence[InputRecord]) -> None:
        bound = reader.limit if reader.follows else reader.end
        if bound is not None and records[-1].offset() >= bound:
            records = [record for record in records if record.offset() < bound]
            self._advance(reader, bound)
            if reader.follows:
                self._lag.hold(reader)
        else:
            self._advance(reader, records[-1].offset() + 1)
        if records:
            reader.task.stores.restore(reader.store, records, reader.position)
            reader.applied += len(records)
            self._events.applied(reader, records[-1].offset(), len(records))

    @staticmethod
    def _advance(reader: ChangelogReader, position: int) -> None:
        if reader.follows and reader.limit is not None:
            position = min(position, reader.limit)
        reader.position = max(reader.position, position)
        if reader.follows:
            reader.task.changelog_positions[reader.store] = reader.position

    def _start_over(self, task: StreamTask) -> None:
        """The broker deleted what was about to be read."""
        log.warning("task %s: its changelog was truncated while it was read; its local state is wiped", task.id)
        self._forget(task)
        if self._begin_anew(task):
            self._arrived.append(task)

    def _hand_over(self) -> None:
        complete = [reader for reader in self.readers.values() if not reader.follows and not reader.remaining]
        self._consumer.unassign([reader.partition for reader in complete])
        for reader in complete:
            del self.readers[reader.partition]
        for reader in complete:
            self._guarded(reader.task, partial(self._events.ended, reader))
        busy = {reader.task.id for reader in self.readers.values()} | {task.id for task in self._arrived}
        busy |= self.preparing
        ready = [task for task in self._tasks.values() if task.role is TaskRole.ACTIVE and task.id not in busy]
        for task in ready:
            self._inputs.pop(task.id, None)
            self._preparer.complete(task)
            self.restored.put(self._tasks.pop(task.id))

    # ---- failing -----------------------------------------------------------------------------------------------

    def _guarded(self, task: StreamTask, action: Callable[[], None]) -> None:
        """A failure of one task goes to the handler; the others go on."""
        try:
            action()
        except Exception as error:
            self._stop_preparing(task)
            self._forget(task)
            self._tasks.pop(task.id, None)
            self._failures.put(ThreadFailure(self.name, error, task.id))

    def _forget(self, task: StreamTask, reason: SuspendReason = SuspendReason.MIGRATED) -> None:
        """Stop reading a task's changelogs, before their ends."""
        readers = [reader for reader in self.readers.values() if reader.task.id == task.id]
        self._consumer.unassign([reader.partition for reader in readers])
        for reader in readers:
            del self.readers[reader.partition]
            self._events.suspended(reader, reason)
