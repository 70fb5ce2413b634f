"""The active tasks that are ready to be processed, and the thread that may touch each of them right now.

The polling thread adds and removes tasks, marks tasks with new input, and asks for an epoch to end. Processing threads
take a task, run it, and give it back. One lock guards everything. A task is in exactly one place:

    idle     nothing to do until input arrives, a callback is due or a commit wants its epoch
    ready    worth a processing thread's time
    held     by one processing thread, which alone may touch its buffers' heads, stores and user code
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterable
from functools import partial

from streamsapp.clock import SystemClock
from streamsapp.deadline import Deadline
from streamsapp.errors import StreamsError
from streamsapp.record import TaskId
from streamsapp.tasks.fair_scheduler import FairScheduler
from streamsapp.tasks.gate import TaskGate
from streamsapp.tasks.scheduled_task import ScheduledTask
from streamsapp.tasks.scheduler import TaskScheduler
from streamsapp.tasks.stream_task import StreamTask, TaskEpoch


class EpochEnd:
    """A commit's wish that every task that did something ends its epoch; filled by the processing threads."""

    def __init__(self, waiting: set[TaskId]) -> None:
        self.waiting = waiting
        self.epochs: list[TaskEpoch] = []
        #: A task failed before it ended its epoch: what it sent is out, how far it read is not.
        self.broken = False

    @property
    def done(self) -> bool:
        """True if every task has ended its epoch."""
        return not self.waiting


class _Waits:
    """The lock that guards everything, and the waits for what changes under it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        #: Processing threads wait for work, other threads for what becomes of it.
        self.work, self.progress = threading.Condition(self.lock), threading.Condition(self.lock)
        #: Threads that wait for work.
        self.idle = 0


class TaskManager:
    """Hands tasks to processing threads, one thread per task at a time."""

    def __init__(
        self,
        scheduler: TaskScheduler,
        deadline: Deadline | None = None,
        on_due_sooner: Callable[[], None] = lambda: None,
    ) -> None:
        """After the ``deadline`` no caller waits for a processing thread to let go of a task. ``on_due_sooner`` is
        called on a processing thread when ``mark_due`` is needed sooner than ``due_ms`` said before."""
        self._deadline = deadline or Deadline(SystemClock())
        self._scheduler = scheduler
        #: The scheduler, if the application says how its sub-topologies are scheduled.
        self.fair = scheduler if isinstance(scheduler, FairScheduler) else None
        self._waits = _Waits()
        self._tasks: dict[TaskId, ScheduledTask] = {}
        self._ready: dict[TaskId, StreamTask] = {}
        self._held: dict[TaskId, ScheduledTask] = {}
        self._gate = TaskGate()
        self._epoch = 0
        self._epoch_end: EpochEnd | None = None
        self._on_due_sooner = on_due_sooner
        #: How often a task was given back.
        self.rounds = 0
        #: When ``mark_due`` has something to do, by wall-clock time: then or later.
        self.due_ms: float = math.inf

    # ---- polling thread ----------------------------------------------------------------------------------------

    @property
    def tasks(self) -> dict[TaskId, StreamTask]:
        """A copy of the tasks by id."""
        with self._waits.lock:
            return {task_id: scheduled.task for task_id, scheduled in self._tasks.items()}

    @property
    def held(self) -> list[StreamTask]:
        """The tasks that processing threads hold now."""
        with self._waits.lock:
            return [scheduled.task for scheduled in self._held.values()]

    @property
    def resting(self) -> bool:
        """True if no task is processed, nor will be before input arrives or it is due."""
        with self._waits.lock:
            if self._gate.paused_parts:
                return not (self._held or any(map(self._may_be_taken, map(self._tasks.__getitem__, self._ready))))
            return not (self._ready or self._held)

    @property
    def busy(self) -> bool:
        """True if a task is processed, or about to be."""
        with self._waits.lock:
            return self._working

    def anything_touched(self) -> bool:
        """Return whether a commit would have anything to do."""
        with self._waits.lock:
            return any(map(self._unfinished, self._tasks.values()))

    def abandon_commit(self) -> int:
        """Give up waiting for the epochs to end; returns the epoch that tasks added from now on are in."""
        with self._waits.lock:
            self._epoch_end = None
            return self._epoch

    def wait_for_rest(self, timeout: float) -> bool:
        """Return when no task is processed or about to be, or after ``timeout`` seconds; and say whether it is so."""
        with self._waits.lock:
            return self._waits.progress.wait_for(lambda: not self._working, timeout)

    def wait_for_progress(self, timeout: float) -> None:
        """Let processing threads run: returns when a task was given back that has more to do, when there is nothing to
        do, when all epochs have ended, or after ``timeout`` seconds."""
        with self._waits.lock:
            self._waits.progress.wait(timeout)

    def add(self, task: StreamTask) -> None:
        """Take over a restored, initialised task."""
        with self._waits.lock:
            if task.id in self._tasks:
                raise StreamsError(f"bug: task {task.id} is at the task manager already")
            calls, control = task.context.execution.calls, task.control
            calls.wake, calls.stop = partial(self.mark_ready, [task]), partial(setattr, control, "stop", True)
            scheduled = self._tasks[task.id] = ScheduledTask(task, self._epoch)
            if self.fair is not None:
                scheduled.urgent, scheduled.apart = self.fair.is_latency(task), self.fair.is_apart(task)
            self._ready[task.id] = task
            self._waits.work.notify()

    def remove(self, task_id: TaskId, timeout: float) -> StreamTask | None:
        """Give a task up; ``None`` if it is not here. Raises ``StreamsError`` when a processing thread still holds it
        after ``timeout`` seconds."""
        with self._waits.lock:
            scheduled = self._tasks.pop(task_id, None)
            self._ready.pop(task_id, None)
            if scheduled is None:
                return None
            scheduled.task.control.stop = True
            if not self._wait(lambda: task_id not in self._held, timeout):
                raise StreamsError(f"task {task_id} hangs in user code and cannot be taken away; restart the process")
            self._leave_commit(scheduled)
            return scheduled.task

    def retire(self, task_ids: Collection[TaskId]) -> None:
        """Mark just these tasks as to be given up: they end their epoch when a commit asks for it, and do nothing
        else."""
        with self._waits.lock:
            self._gate.any_retired = not self._tasks.keys().isdisjoint(task_ids)
            for task_id, scheduled in self._tasks.items():
                scheduled.retired = task_id in task_ids
                scheduled.task.control.stop |= scheduled.retired
            self._waits.work.notify_all()

    def at_rest(self, task_ids: Collection[TaskId]) -> bool:
        """Return whether nothing of these retired tasks is left to be committed."""
        with self._waits.lock:
            here = [self._tasks[task_id] for task_id in task_ids if task_id in self._tasks]
            return not any(each.awaits_commit or self._unfinished(each) for each in here)

    def mark_ready(self, tasks: Iterable[StreamTask]) -> None:
        """These tasks have something to do."""
        with self._waits.lock:
            for task in tasks:
                self._mark_ready(task.id)
            self._make_way()
            self._waits.work.notify_all()

    def mark_due(self, now_ms: int) -> None:
        """Tasks whose callbacks by wall-clock time or idle waits are due have something to do."""
        if now_ms < self.due_ms:
            return
        with self._waits.lock:
            # When the others are due is known once they are given back.
            idle = self._tasks.keys() - self._ready.keys() - self._held.keys()
            due_ms = {task_id: self._tasks[task_id].due_ms for task_id in idle}
            due = [task_id for task_id, at in due_ms.items() if at <= now_ms]
            self.due_ms = min((at for at in due_ms.values() if at > now_ms), default=math.inf)
            for task_id in due:
                self._mark_ready(task_id)
            if due:
                self._make_way()
                self._waits.work.notify_all()

    def end_epochs(self, *, input_first: bool = False) -> EpochEnd:
        """Ask every task that did something since the last commit to end its epoch at its next record boundary; with
        ``input_first`` after the records that it has, as far as one batch takes them.

        A task that did nothing is in the next epoch at once: what it sends from now on waits for the next commit.
        """
        with self._waits.lock:
            self._epoch += 1
            end = self._epoch_end = EpochEnd(set())
            for task_id, scheduled in self._tasks.items():
                if scheduled.failed:
                    end.broken |= not scheduled.fails_alone
                elif scheduled.awaits_commit and task_id in self._held:
                    pass  # it has not come back
                elif not (self._unfinished(scheduled) or (input_first and task_id in self._ready)):
                    scheduled.epoch = self._epoch
                else:
                    end.waiting.add(task_id)
                    scheduled.epoch_end_wanted = True
                    scheduled.input_first = input_first and not self._gate.keeps_back(scheduled)
                    scheduled.awaits_commit = False
                    scheduled.task.control.stop |= not scheduled.input_first
                    if task_id not in self._held:
                        self._ready[task_id] = scheduled.task
            self._gate.any_awaits_commit &= any(each.awaits_commit for each in self._tasks.values())
            self._waits.work.notify_all()
            return end

    def end_epochs_now(self) -> None:
        """Ask the tasks that have not ended their epoch to do so before another record."""
        with self._waits.lock:
            for task_id in self._tasks.keys() & (set() if self._epoch_end is None else self._epoch_end.waiting):
                self._tasks[task_id].input_first = False
                self._tasks[task_id].task.control.stop = True

    def leave_out(self) -> None:
        """Let the commit go on without the tasks that are apart and have not come to a record boundary."""
        with self._waits.lock:
            end = self._epoch_end
            waiting = () if end is None else [self._held[each] for each in end.waiting & self._held.keys()]
            for scheduled in waiting:
                if scheduled.fails_alone:
                    scheduled.epoch_end_wanted = scheduled.input_first = False
                    scheduled.awaits_commit = self._gate.any_awaits_commit = scheduled.task.control.stop = True
                    self._leave_commit(scheduled)

    @property
    def stuck(self) -> list[StreamTask]:
        """The tasks that a commit was begun without, and that have not come back since."""
        if not self._gate.any_awaits_commit:
            return []
        with self._waits.lock:
            return [each.task for each in self._held.values() if each.awaits_commit]

    def pause_parts(self, sub_topologies: frozenset[int]) -> None:
        """Process nothing more of just these sub-topologies; what is processed is still committed. Any thread."""
        with self._waits.lock:
            self._gate.paused_parts = sub_topologies
            for scheduled in self._held.values():
                scheduled.task.control.stop |= self._gate.keeps_back(scheduled)
            self._ready_all()

    @property
    def paused_parts(self) -> frozenset[int]:
        """The sub-topologies that are paused, by their numbers."""
        return self._gate.paused_parts

    def is_paused(self, task: StreamTask) -> bool:
        """Return whether nothing of a task is processed until further notice."""
        return self._gate.paused or task.id.subtopology in self._gate.paused_parts

    def hangs_alone(self, task: StreamTask) -> bool:
        """Return whether others go on without a task that does not come back, and no instance waits to get it."""
        with self._waits.lock:
            scheduled = self._held.get(task.id)
            return scheduled is not None and scheduled.fails_alone and not scheduled.retired

    def pause(self) -> None:
        """Process nothing more; processed records are still committed."""
        with self._waits.lock:
            self._gate.paused = True
            self._stop_held()

    def resume(self) -> None:
        """Process again after ``pause``."""
        with self._waits.lock:
            self._gate.paused = False
            self._ready_all()

    @property
    def paused(self) -> bool:
        """True if tasks are given out only to end their epochs."""
        return self._gate.paused

    def stand_still(self, timeout: float) -> bool:
        """Let no thread hold a task, whatever for, but for the ``stuck`` ones; whether that was reached within
        ``timeout`` seconds."""
        with self._waits.lock:
            self._gate.standing_still = True
            self._stop_held()
            return self._wait(lambda: all(each.awaits_commit for each in self._held.values()), timeout)

    def go_on(self) -> None:
        """End ``stand_still``."""
        with self._waits.lock:
            self._gate.standing_still = False
            self._ready_all()

    def close(self) -> None:
        """Give out no task any more; waiting threads return."""
        with self._waits.lock:
            self._gate.closed = True
            self._stop_held()
            self._waits.work.notify_all()

    # ---- processing threads ------------------------------------------------------------------------------------

    def take(self, timeout: float) -> StreamTask | None:
        """Hold the task that the scheduler picks; ``None`` when there was none for ``timeout`` seconds."""
        with self._waits.lock:
            takeable = self._takeable()
            if not takeable:
                self._waits.idle += 1
                self._waits.work.wait_for(lambda: self._gate.closed or bool(self._takeable()), timeout)
                self._waits.idle -= 1
                takeable = self._takeable()
                if not takeable:
                    return None
            # A commit comes first: a thread that waits for room in the outgoing buffers waits for the commit, too.
            task = self._ending(takeable) or self._scheduler.pick(takeable)
            del self._ready[task.id]
            scheduled = self._held[task.id] = self._tasks[task.id]
            scheduled.has_news = False
            task.control.stop = False
            return task

    def scheduling(self, task: StreamTask) -> ScheduledTask:
        """The scheduling entry of a task; only its holder may use it."""
        return self._held.get(task.id) or self._tasks[task.id]

    def keeps_back(self, scheduled: ScheduledTask) -> bool:
        """Return whether a held task does nothing more but end its epoch."""
        return self._gate.chooses and self._gate.keeps_back(scheduled)

    def turn(self, task: StreamTask, usual: float) -> float:
        """The seconds that a thread stays with a task while others wait."""
        return usual if self.fair is None else self.fair.turn(task)

    def join_commit(self, task: StreamTask) -> bool:
        """A held task is about to end its epoch: from now on no commit goes on without it. Returns whether that still
        makes sense; if not, the next commit carries the epoch."""
        with self._waits.lock:
            scheduled = self.scheduling(task)
            scheduled.joined = scheduled.epoch_end_wanted
            return scheduled.joined

    def await_commit(self, scheduled: ScheduledTask) -> None:
        """A held task has as many results as may wait for the commit: it is given out again to end its epoch."""
        with self._waits.lock:
            scheduled.task.context.commit_requested = True
            scheduled.awaits_commit = self._gate.any_awaits_commit = not scheduled.epoch_end_wanted

    def give_back(self, task: StreamTask, *, more: bool) -> bool:
        """Stop holding a task; with ``more`` it is ready again at once. Returns whether any task is processed, or about
        to be."""
        with self._waits.lock:
            self.rounds += 1
            scheduled = self._held.pop(task.id)
            if self.fair is not None:
                self.fair.gave_back(task)
            more |= scheduled.awaits_commit
            wanted = more or scheduled.has_news or scheduled.epoch_end_wanted
            here = self._tasks.get(task.id) is scheduled and not scheduled.failed
            if here and wanted:
                self._ready[task.id] = task
                self._make_way()
                self._waits.work.notify()
            due_sooner = here and not wanted and scheduled.due_ms < self.due_ms
            if due_sooner:
                self.due_ms = scheduled.due_ms
            # Not each time: of many tasks with a record each, every one would wake the polling thread in vain.
            working = self._working
            if more or not here or self._gate.standing_still or not working:
                self._waits.progress.notify_all()
        if due_sooner:
            self._on_due_sooner()
        return working

    def epoch_ended(self, task: StreamTask, epoch: TaskEpoch | None) -> None:
        """A held task has ended its epoch, and everything it sent in it is with the record collector."""
        with self._waits.lock:
            scheduled = self.scheduling(task)
            scheduled.epoch = self._epoch
            scheduled.epoch_end_wanted = scheduled.input_first = scheduled.joined = False
            task.control.stop = False
            self._make_way()
            if self._epoch_end is not None and task.id in self._epoch_end.waiting:
                self._epoch_end.waiting.discard(task.id)
                if epoch is not None:
                    self._epoch_end.epochs.append(epoch)
                if self._epoch_end.done:
                    self._waits.progress.notify_all()

    def failed(self, task: StreamTask) -> bool:
        """A held task failed: it is not scheduled, and no commit waits for it, until it was revived. Returns whether
        nothing that it did since its last epoch ended concerns others."""
        with self._waits.lock:
            scheduled = self.scheduling(task)
            scheduled.failed = True
            self._leave_commit(scheduled)
            return scheduled.fails_alone

    # ---- under the lock ----------------------------------------------------------------------------------------

    def _wait(self, holds: Callable[[], bool], timeout: float) -> bool:
        return self._deadline.wait(partial(self._waits.progress.wait_for, holds), timeout)

    @property
    def _working(self) -> bool:
        return bool(self._held or self._takeable())

    def _unfinished(self, scheduled: ScheduledTask) -> bool:
        """Return whether the task did something, or does, that the next commit has to carry."""
        if scheduled.task.id in self._held:
            return not scheduled.awaits_commit
        return scheduled.task.touched

    def _may_be_taken(self, scheduled: ScheduledTask) -> bool:
        return scheduled.epoch_end_wanted or not self._gate.keeps_back(scheduled)

    def _mark_ready(self, task_id: TaskId) -> None:
        scheduled = self._tasks.get(task_id)
        if scheduled is None:
            return
        scheduled.has_news = True
        if task_id not in self._held and not scheduled.failed:
            self._ready[task_id] = scheduled.task

    def _takeable(self) -> Collection[StreamTask]:
        if self._gate.shut:
            return ()
        if self._gate.chooses:
            return [task for task_id, task in self._ready.items() if self._may_be_taken(self._tasks[task_id])]
        return self._ready.values()

    def _make_way(self) -> None:
        """Have tasks given back that others go before."""
        if self.fair is not None and self._held:
            held = [scheduled.task for scheduled in self._held.values()]
            for task in self.fair.gives_way(held, self._takeable(), self._waits.idle):
                task.control.stop = True

    def _ending(self, takeable: Iterable[StreamTask]) -> StreamTask | None:
        if self._epoch_end is None or self._epoch_end.done:
            return None
        return next((task for task in takeable if self._tasks[task.id].epoch_end_wanted), None)

    def _stop_held(self) -> None:
        for scheduled in self._held.values():
            scheduled.task.control.stop = True

    def _ready_all(self) -> None:
        for task_id, scheduled in self._tasks.items():
            if not scheduled.failed and task_id not in self._held:
                self._ready[task_id] = scheduled.task
        self._waits.work.notify_all()

    def _leave_commit(self, scheduled: ScheduledTask) -> None:
        """A task will not end its epoch any more: no commit waits for it."""
        task_id = scheduled.task.id
        if self._epoch_end is not None and task_id in self._epoch_end.waiting:
            self._epoch_end.waiting.discard(task_id)
            self._epoch_end.broken |= not scheduled.fails_alone
            if self._epoch_end.done:
                self._waits.progress.notify_all()
