"""The restoration thread: brings the stores of new tasks up to the end of their changelogs (seed 000).

Tasks come in by a queue from the polling thread and leave by one: from then on until it is handed back, a task belongs
to this thread. The thread owns the restore consumer. One pass of its loop:

    1. take the tasks that were added or are to be removed; open the stores of the new ones, find where they stand
    2. fetch from the restore consumer
    3. apply each batch to its store, tell the listener
    4. hand over tasks whose stores are all complete
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue

from streamsapp.errors import StateStoreError, TaskCorruptedError
from streamsapp.kafka.consumer import Fetched, PartitionConsumer
from streamsapp.record import InputRecord, TaskId, TopicPartition
from streamsapp.runtime.failures import ThreadFailure
from streamsapp.runtime.listeners import StateRestoreListener
from streamsapp.tasks.states import TaskState
from streamsapp.tasks.stream_task import StreamTask

log = logging.getLogger(__name__)

#: Records per fetch: large batches are what makes restoring fast.
BATCH = 10_000
#: How long to wait for records, and for new tasks when there is nothing to restore, in seconds.
PATIENCE = 0.1


@dataclass
class ChangelogRestore:
    """One store on its way to the end of its changelog."""

    task: StreamTask
    store: str
    #: Next offset to apply.
    position: int
    #: Offset at which the store is complete.
    end: int
    restored: int = 0

    @property
    def remaining(self) -> int:
        """Records left, at most (control records and compaction make it fewer)."""
        return max(0, self.end - self.position)


class RestorationThread(threading.Thread):
    """Restores active tasks, one restore consumer for all of them."""

    def __init__(
        self,
        name: str,
        consumer: PartitionConsumer,
        failures: SimpleQueue[ThreadFailure],
        listener: Callable[[], StateRestoreListener | None],
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._consumer = consumer
        self._failures = failures
        self._listener = listener
        #: Tasks handed over and asked back, in the order in which that happened.
        self._requests: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._stopping = False
        #: Changelogs being restored; read by status and metrics.
        self.restoring: dict[TopicPartition, ChangelogRestore] = {}
        #: Tasks whose stores are complete, for the polling thread.
        self.restored: SimpleQueue[StreamTask] = SimpleQueue()
        self._unfinished: dict[TaskId, StreamTask] = {}

    # ---- polling thread ----------------------------------------------------------------------------------------

    def add(self, task: StreamTask) -> None:
        """Hand a task over; it comes back by ``restored`` or as a failure."""
        self._requests.put(partial(self._guarded, task, partial(self._start, task)))

    def remove(self, task_id: TaskId, timeout: float) -> bool:
        """Take a task back before it is complete; whether the thread let go of it in time."""
        done = threading.Event()
        self._requests.put(partial(self._let_go, task_id, done))
        return done.wait(timeout) or not self.is_alive()

    def stop(self) -> None:
        """Return after the batch under way."""
        self._stopping = True

    # ---- restoration thread ------------------------------------------------------------------------------------

    def run(self) -> None:
        try:
            while not self._stopping:
                self._pass()
        except BaseException as error:
            self._failures.put(ThreadFailure(self.name, error))
        finally:
            self._consumer.close()

    def _pass(self) -> None:
        """One pass; what it raises concerns all tasks here, and those that are handed over afterwards are tried."""
        try:
            self._run_once()
        except Exception as error:
            for task in self._unfinished.values():
                self._forget(task)
            self._unfinished.clear()
            self._failures.put(ThreadFailure(self.name, error))

    def _run_once(self) -> None:
        self._take_requests()
        if self.restoring:
            self._apply(self._consumer.poll(BATCH, PATIENCE))
        self._hand_over()

    def _take_requests(self) -> None:
        try:
            request = self._requests.get(timeout=0 if self.restoring else PATIENCE)
            while True:
                request()
                request = self._requests.get_nowait()
        except Empty:
            return

    def _let_go(self, task_id: TaskId, done: threading.Event) -> None:
        task = self._unfinished.pop(task_id, None)
        if task is not None:
            self._forget(task)
        done.set()

    def _start(self, task: StreamTask) -> None:
        task.transition(TaskState.RESTORING)
        self._unfinished[task.id] = task
        try:
            task.stores.open()
            found = self._locate(task)
        except TaskCorruptedError as error:
            log.warning("task %s: %s; its local state is wiped and restored from the changelog", task.id, error)
            task.stores.wipe()
            task.stores.open()
            found = self._locate(task)
        for restore in found.values():
            task.changelog_positions[restore.store] = max(restore.position, restore.end)
        incomplete = {partition: restore for partition, restore in found.items() if restore.remaining}
        self._consumer.assign({partition: restore.position for partition, restore in incomplete.items()})
        self.restoring.update(incomplete)
        if (listener := self._listener()) is not None:
            for partition, restore in incomplete.items():
                listener.on_restore_start(partition, restore.store, restore.position, restore.end)

    def _locate(self, task: StreamTask) -> dict[TopicPartition, ChangelogRestore]:
        """Where each store of a task stands and where its changelog ends."""
        found: dict[TopicPartition, ChangelogRestore] = {}
        for store, partition in {**task.plan.changelogs, **task.plan.source_changelogs}.items():
            watermarks = self._consumer.watermarks(partition, cached=False)
            if watermarks is None:
                raise StateStoreError(f"the broker does not tell where {partition}, changelog of {store}, ends")
            low, high = watermarks
            if store in task.plan.source_changelogs:
                consumed = task.start_offsets.get(partition)
                high = low if consumed is None else min(high, consumed.offset)
            stored = task.stores.changelog_offset(store)
            if stored is not None and not low <= stored <= max(high, low):
                raise TaskCorruptedError(
                    f"store {store} stands at offset {stored} of {partition}, which has offsets {low} to {high}"
                )
            found[partition] = ChangelogRestore(task, store, low if stored is None else stored, high)
        return found

    def _apply(self, fetched: Fetched) -> None:
        for partition, records in fetched.records:
            restore = self.restoring.get(partition)
            if restore is not None:
                self._guarded(restore.task, partial(self._apply_batch, partition, restore, records))
        for partition, offset in fetched.ends.items():
            if partition in self.restoring:
                # Control records and compacted ones leave gaps: the end is where the broker says it is.
                self.restoring[partition].position = max(self.restoring[partition].position, offset)
        for partition in fetched.out_of_range:
            restore = self.restoring.get(partition)
            if restore is not None:
                self._guarded(restore.task, partial(self._start_over, restore.task))

    def _apply_batch(
        self, partition: TopicPartition, restore: ChangelogRestore, records: Sequence[InputRecord]
    ) -> None:
        if records[-1].offset() >= restore.end:
            records = [record for record in records if record.offset() < restore.end]
            restore.position = restore.end
        else:
            restore.position = records[-1].offset() + 1
        if not records:
            return
        restore.task.stores.restore(restore.store, records, restore.position)
        restore.restored += len(records)
        last = records[-1].offset()
        if (listener := self._listener()) is not None:
            listener.on_batch_restored(partition, restore.store, last, len(records))

    def _start_over(self, task: StreamTask) -> None:
        """The broker deleted what was about to be restored."""
        log.warning("task %s: its changelog was truncated while restoring; its local state is wiped", task.id)
        self._forget(task, suspended=False)
        task.stores.wipe()
        task.transition(TaskState.SUSPENDED)
        self._start(task)

    def _hand_over(self) -> None:
        complete = {partition: restore for partition, restore in self.restoring.items() if not restore.remaining}
        self._consumer.unassign(complete)
        for partition in complete:
            del self.restoring[partition]
        for partition, restore in complete.items():
            if (listener := self._listener()) is not None:
                ended = partial(listener.on_restore_end, partition, restore.store, restore.restored)
                self._guarded(restore.task, ended)
        busy = {restore.task.id for restore in self.restoring.values()}
        for task_id in [each for each in self._unfinished if each not in busy]:
            self.restored.put(self._unfinished.pop(task_id))

    def _guarded(self, task: StreamTask, action: Callable[[], None]) -> None:
        """A failure of one task goes to the handler; the others are restored."""
        try:
            action()
        except Exception as error:
            self._forget(task)
            self._unfinished.pop(task.id, None)
            self._failures.put(ThreadFailure(self.name, error, task.id))

    def _forget(self, task: StreamTask, *, suspended: bool = True) -> None:
        partitions = [each for each, restore in self.restoring.items() if restore.task is task]
        self._consumer.unassign(partitions)
        for partition in partitions:
            restore = self.restoring.pop(partition)
            if suspended and (listener := self._listener()) is not None:
                try:
                    listener.on_restore_suspended(partition, restore.store, restore.restored)
                except Exception:
                    log.exception("the restore listener raised in on_restore_suspended; going on")
