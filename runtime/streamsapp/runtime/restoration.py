"""The restoration thread: brings stores up to the end of their changelogs, and keeps replicas there.

It is the state updater of the Kafka Streams threading proposal.

Tasks come in by a queue from the polling thread; from then on until it is handed back, a task belongs to this thread.
Active tasks leave when their stores are complete, standby and warm-up tasks stay until they are promoted or closed.
With remote state, other threads prepare a new task's directory first, with a snapshot perhaps: it waits here meanwhile.
The thread owns the restore consumer. One pass of its loop:

    1. take what was asked: open the stores of new tasks, have it found where they stand; promote or let go of replicas
    2. fetch from the restore consumer: replicas wait while an active task is being restored
    3. apply each batch to its store, call the listener
    4. hand over active tasks whose stores are all complete
    5. observe how far behind the replicas are
"""

from __future__ import annotations

import enum
import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue

from streamsapp.clock import Clock
from streamsapp.deadline import Deadline
from streamsapp.errors import ReplicaLostError, TaskCorruptedError
from streamsapp.kafka.partition_offsets import Offsets
from streamsapp.record import TaskId
from streamsapp.remote.transfer_rates import MeasuredRate
from streamsapp.runtime.changelog_positions import locate, refuse_to_repeat
from streamsapp.runtime.corruptions import Corruptions
from streamsapp.runtime.directory_preparation import NOTHING_TO_PREPARE, DirectoryPreparer, PreparedDirectory
from streamsapp.runtime.restore_consumer import RestoreConsumer
from streamsapp.runtime.task_lookups import LookupAnswers
from streamsapp.runtime.thread_failure import ThreadFailure
from streamsapp.state.task_stores import TaskStores
from streamsapp.tasks.states import TaskRole, TaskState
from streamsapp.tasks.stream_task import StreamTask

log = logging.getLogger(__name__)

#: How long to wait for records, and for work when nothing is read, in seconds. Requests and answers end either wait.
READ_WAIT, WORK_WAIT = 0.1, 1.0
#: How long requests are worked on before records are, in seconds: opening a store takes milliseconds.
REQUESTS_SLICE = 0.02
#: Rounds of look-ups at a time; tasks that arrive meanwhile share the next one.
MOST_ROUNDS = 4
#: Records in a batch that shows how fast restoring is.
MEASURABLE = 1000


class RestorePhase(enum.Enum):
    """The steps of a task on this thread."""

    #: Other threads prepare its directory.
    PREPARING = "preparing"
    #: Its stores are open, or about to be; brokers are still to be asked where its changelogs begin and end.
    ARRIVED = "arrived"
    #: Other threads ask them.
    LOCATING = "locating"
    #: Its changelogs are read to their ends, or for ever.
    READING = "reading"


@dataclass(eq=False)
class RestoringTask:
    """A task that is here."""

    task: StreamTask
    phase: RestorePhase = RestorePhase.ARRIVED
    prepared: PreparedDirectory = field(default_factory=PreparedDirectory)
    #: Its stores were found to be of another topic or too old, and begun anew.
    rejected: bool = False


class RestorationThread(threading.Thread):
    """Restores active tasks and updates replicas, one restore consumer for all of them."""

    def __init__(
        self,
        name: str,
        reading: RestoreConsumer,
        failures: SimpleQueue[ThreadFailure],
        clock: Clock,
        preparer: DirectoryPreparer = NOTHING_TO_PREPARE,
        replay: MeasuredRate | None = None,
        on_restored: Callable[[], None] = lambda: None,
    ) -> None:
        """``replay`` learns how many records per second of busy time are applied; ``on_restored`` is called here when a
        task was added to ``restored``."""
        super().__init__(name=name, daemon=True)
        self.reading = reading
        self._failures = failures
        self._clock = clock
        self._preparer = preparer
        self._replay = replay or MeasuredRate()
        self._on_restored = on_restored
        #: The polling thread's requests, in its order.
        self._requests: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._stopping = False
        #: Active tasks whose stores are complete, for the polling thread.
        self.restored: SimpleQueue[StreamTask] = SimpleQueue()
        self._here: dict[TaskId, RestoringTask] = {}
        #: Rounds of look-ups under way, and the answers of ended rounds, each with its tasks.
        self._rounds = 0
        self._found: SimpleQueue[tuple[list[tuple[RestoringTask, StreamTask]], LookupAnswers | Exception]] = (
            SimpleQueue()
        )
        #: Tasks that are here no more because of a failure that was not theirs, for the polling thread.
        self._dropped: SimpleQueue[StreamTask] = SimpleQueue()
        #: How often state was found damaged; looked at by health.
        self.corruptions = Corruptions(clock)
        #: Set by the polling thread while the application is paused (KIP-834).
        self.paused = False

    # ---- any thread --------------------------------------------------------------------------------------------

    def _ask(self, request: Callable[[], None]) -> None:
        """Have this thread do something soon, in order."""
        self._requests.put(request)
        self.reading.end_wait()

    # ---- polling thread ----------------------------------------------------------------------------------------

    def add(self, task: StreamTask) -> None:
        """Hand a task over. An active one comes back by ``restored`` or as a failure; a replica stays."""
        self._ask(partial(self._guarded, task, partial(self._take, task)))

    def promote(self, task: StreamTask) -> None:
        """A replica that is here goes on as this active task: restored to the end, then handed back."""
        self._ask(partial(self._guarded, task, partial(self._promote, task)))

    def close(self, tasks: Collection[StreamTask], *, wipe: bool = False, clean: bool = False) -> None:
        """Close tasks' stores, also of tasks that are not here; ``wipe`` deletes them, ``clean`` says that they
        ended at a commit. A later request for the same task finds its directory free."""
        for task in tasks:
            self._ask(partial(self._guarded, task, partial(self._close, task, wipe, clean)))

    def damaged(self, task: StreamTask, error: TaskCorruptedError) -> None:
        """A task's state was found damaged and is about to be wiped. Any thread."""
        self.corruptions.note(task.id, error)
        self._preparer.damaged(task, error)

    def prepares(self, task_id: TaskId) -> bool:
        """Return whether a task's directory is being prepared. Any thread."""
        here = self._here.get(task_id)
        return here is not None and here.phase is RestorePhase.PREPARING

    def take_dropped(self) -> list[StreamTask]:
        """The tasks that a failure of this thread itself took from it since the last call; no thread restores them."""
        dropped: list[StreamTask] = []
        while not self._dropped.empty():
            dropped.append(self._dropped.get_nowait())
        return dropped

    def wait_until_done(self, timeout: float, deadline: Deadline) -> bool:
        """Wait until everything that was asked for is done; whether it was in time, and before the deadline."""
        done = threading.Event()
        self._ask(done.set)
        return deadline.wait(done.wait, timeout) or not self.is_alive()

    def stop(self) -> None:
        """Return after the batch under way."""
        self._stopping = True
        self._ask(lambda: None)  # ends a wait for requests

    # ---- restoration thread ------------------------------------------------------------------------------------

    def run(self) -> None:
        try:
            while not self._stopping:
                self._pass()
            self._take_requests()
        except BaseException as error:
            self._failures.put(ThreadFailure(self.name, error))
        finally:
            self.reading.close()

    def _pass(self) -> None:
        """Make one pass; what it raises concerns all tasks here, and tasks that are handed over afterwards are
        tried."""
        try:
            self._run_once()
        except Exception as error:
            self._fail(list(self._here.values()), error)

    def _run_once(self) -> None:
        self._take_requests()
        self._start_arrived()
        if self.reading.readers:
            # Other threads wait for the active tasks.
            self.reading.pause_replicas(paused=self.reading.restoring or self.paused)
            self._read(READ_WAIT)
        self._hand_over()
        self.reading.observe_lag()

    def _take_requests(self) -> None:
        """Do requests for a short while, in their order: a promoted task does not wait until all new replicas are
        open."""
        try:
            request = self._requests.get(timeout=0 if self.reading.readers or self._stopping else WORK_WAIT)
            until = self._clock.monotonic() + REQUESTS_SLICE
            request()
            while self._clock.monotonic() < until or self._stopping:
                self._requests.get_nowait()()
        except Empty:
            return

    def _take(self, task: StreamTask) -> None:
        """Open a task's stores, or go on with the open ones of a task that was active here."""
        here = self._here[task.id] = RestoringTask(task)
        if task.state is not TaskState.CREATED:
            self._preparer.handed_over(task)
            return
        task.transition(TaskState.RESTORING)
        if not self._prepare(here):
            self._open(here)

    def _open(self, here: RestoringTask) -> None:
        task = here.task
        try:
            task.stores.open(here.prepared.missing)
        except TaskCorruptedError as error:
            if not self._wipe(here, error):
                return
        if task.role is not TaskRole.ACTIVE and task.state is TaskState.RESTORING:
            task.transition(TaskState.RUNNING)

    def _promote(self, task: StreamTask) -> None:
        here = self._here.get(task.id)
        if here is None or here.task.stores is not task.stores:
            raise ReplicaLostError(f"task {task.id} is to be promoted and is not here: it failed meanwhile")
        replica, here.task = here.task, task
        self.reading.promote(replica, task)
        # It may have been recycled before its stores were open.
        task.state = TaskState.RESTORING
        task.changelog_positions = dict(replica.changelog_positions)
        if here.phase is RestorePhase.PREPARING:
            self._preparer.promoted(task)
        else:
            here.phase = RestorePhase.ARRIVED

    def _close(self, task: StreamTask, wipe: bool, clean: bool) -> None:
        here = self._here.get(task.id)
        if here is not None and here.task is task:
            self._drop(task)
        # The directory of another one is what its preparation, which may still be under way, has written down.
        ran = task.role is TaskRole.ACTIVE and task.state is TaskState.RUNNING
        if task.state is not TaskState.CLOSED:
            task.transition(TaskState.CLOSED)
        if clean and ran:
            task.note_fresh(self._clock.now_ms())
        (task.stores.wipe if wipe else task.stores.close)()
        if clean and ran:
            self._preparer.handed_over(task)

    # ---- prepared elsewhere ------------------------------------------------------------------------------------

    def _prepare(self, here: RestoringTask) -> bool:
        """Return whether the task waits for its directory to be prepared; then it is opened later."""

        def done(prepared: PreparedDirectory) -> None:
            self._ask(partial(self._prepared, stores, prepared))

        stores = here.task.stores
        if not self._preparer.begin(here.task, done):
            return False
        here.phase = RestorePhase.PREPARING
        return True

    def _prepared(self, stores: TaskStores, prepared: PreparedDirectory) -> None:
        """The task may have been promoted, closed or replaced meanwhile."""
        here = next((each for each in self._here.values() if each.task.stores is stores), None)
        if here is not None:
            here.phase, here.prepared = RestorePhase.ARRIVED, prepared
            self._guarded(here.task, partial(self._go_on, here))

    def _go_on(self, here: RestoringTask) -> None:
        if here.prepared.error is not None:
            raise here.prepared.error
        self._open(here)

    # ---- where stores stand ------------------------------------------------------------------------------------

    def _start_arrived(self) -> None:
        """Ask where the changelogs of all new tasks begin and end, and start reading those with an answer."""
        arrived = [here for here in self._here.values() if here.phase is RestorePhase.ARRIVED]
        if arrived and self._rounds < MOST_ROUNDS:
            self._rounds += 1
            for here in arrived:
                here.phase = RestorePhase.LOCATING
            asked = [(here, here.task) for here in arrived]
            self.reading.look_up([here.task for here in arrived], partial(self._answered, asked))
        while not self._found.empty():
            self._rounds -= 1
            self._take_found(*self._found.get_nowait())

    def _answered(self, asked: list[tuple[RestoringTask, StreamTask]], found: LookupAnswers | Exception) -> None:
        """Called on the thread of a look-up."""
        self._found.put((asked, found))
        self._ask(lambda: None)  # ends a wait for requests

    def _take_found(self, asked: list[tuple[RestoringTask, StreamTask]], found: LookupAnswers | Exception) -> None:
        """Tasks may have been closed, promoted or replaced meanwhile: then the answer is not theirs."""
        waiting = [
            here
            for here, task in asked
            if self._here.get(task.id) is here and here.task is task and here.phase is RestorePhase.LOCATING
        ]
        if isinstance(found, Exception):
            if waiting:
                self._fail(waiting, found)
            return
        for here in waiting:
            here.phase = RestorePhase.READING
            self._guarded(here.task, partial(self._locate, here, found))

    def _locate(self, here: RestoringTask, found: LookupAnswers) -> None:
        self._start(here, *self.reading.settle(here.task, found, here.prepared.inputs))

    def _start(self, here: RestoringTask, lows: Offsets, highs: Offsets) -> None:
        if (why := self.reading.objection(here.task, highs)) is not None:
            log.warning("task %s: %s; its local state is wiped, and restored", here.task.id, why)
            # The snapshot that it began with is no better.
            prepares, here.rejected = not here.rejected, True
            if not self._begin_anew(here, prepares=prepares):
                return
        try:
            found = locate(here.task, lows, highs)
        except TaskCorruptedError as error:
            if not self._wipe(here, error):
                return
            found = locate(here.task, lows, highs)
        self.reading.start(here.task, found, highs)

    def _wipe(self, here: RestoringTask, error: TaskCorruptedError) -> bool:
        self.damaged(here.task, error)
        return self._begin_anew(here)

    def _begin_anew(self, here: RestoringTask, *, prepares: bool = True) -> bool:
        """Restore the task from the beginning, with empty stores; returns whether they are open already."""
        self.reading.forget(here.task)
        here.task.changelog_positions.clear()
        here.task.stores.wipe()
        if prepares and self._prepare(here):
            return False
        here.task.stores.open()
        return True

    # ---- reading -----------------------------------------------------------------------------------------------

    def _read(self, timeout: float) -> None:
        began = self._clock.monotonic()
        fetched = self.reading.fetch(timeout)
        for task, why in self.reading.outdated(fetched):
            self._guarded(task, partial(self._start_over, task, why))
        for task, apply in self.reading.batches(fetched):
            self._guarded(task, apply)
        self.reading.note_ends(fetched)
        for task, why in self.reading.ended_changelogs(fetched):
            self._guarded(task, partial(self._start_over, task, why))
        count = fetched.count
        if count >= MEASURABLE:
            self._replay.observe(count, self._clock.monotonic() - began)

    def _start_over(self, task: StreamTask, why: str) -> None:
        """The changelog cannot be read on, or must not be."""
        log.warning("task %s: %s; its local state is wiped", task.id, why)
        here = self._here[task.id]
        if self._begin_anew(here):
            here.phase = RestorePhase.ARRIVED

    def _hand_over(self) -> None:
        for reader in self.reading.take_complete():
            self._guarded(reader.task, partial(self.reading.ended, reader))
        incomplete = {reader.task.id for reader in self.reading.readers.values()}
        for here in list(self._here.values()):
            task = here.task
            if task.role is TaskRole.ACTIVE and here.phase is RestorePhase.READING and task.id not in incomplete:
                self._guarded(task, partial(self._complete, here))

    def _complete(self, here: RestoringTask) -> None:
        self.reading.refuse_to_begin_anew(here.task, here.prepared.unknown)
        refuse_to_repeat(here.task, here.prepared.stores)
        self.reading.note_complete(here.task)
        self._preparer.complete(here.task)
        del self._here[here.task.id]
        self.restored.put(here.task)
        self._on_restored()

    # ---- failing -----------------------------------------------------------------------------------------------

    def _guarded(self, task: StreamTask, action: Callable[[], None]) -> None:
        """A failure of one task goes to the handler; the others go on."""
        try:
            action()
        except Exception as error:
            self._drop(task)
            self._failures.put(ThreadFailure(self.name, error, task.id))

    def _fail(self, some: Collection[RestoringTask], error: Exception) -> None:
        """A failure concerns several tasks, and none of them in particular."""
        for here in some:
            self._drop(here.task)
            self._dropped.put(here.task)
        self._failures.put(ThreadFailure(self.name, error))

    def _drop(self, task: StreamTask) -> None:
        """The task is not restored any further."""
        here = self._here.pop(task.id, None)
        if here is not None and here.phase is RestorePhase.PREPARING:
            self._preparer.cancel(task)
        self.reading.forget(task)
