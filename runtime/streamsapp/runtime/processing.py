"""A processing thread: takes a task, runs it for a time slice, gives it back. Never touches a Kafka client.

Processing threads are the only callers of user code (Kafka Streams threading proposal). An error that a task raises
goes to the exception queue, which the polling thread reads; the thread itself continues with the other tasks.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue

from streamsapp.clock import Clock
from streamsapp.collector.record_collector import RecordCollector
from streamsapp.metrics.samples import Histogram
from streamsapp.runtime.thread_failure import ThreadFailure
from streamsapp.tasks.scheduled_task import ScheduledTask
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_manager import TaskManager

#: How long a thread stays with a task while others wait, in seconds.
TIME_SLICE = 0.1
#: Records between two looks at the clock and the outgoing buffers.
BATCH = 512
#: Results of a task that is apart which wait for the end of its epoch, at most: it asks for a commit then.
MOST_KEPT = 10_000
#: Results held for the commit that are emitted at a time, and how many may be left for the moment the epoch ends.
EMIT_BATCH = 2000
EMIT_REST = 100
#: How long to wait for a task, and for room in the outgoing buffers while other tasks wait, in seconds.
TASK_WAIT = 1.0
ROOM_WAIT = 0.005


class ProcessingThread(threading.Thread):
    """One of the N threads that process tasks."""

    def __init__(
        self,
        name: str,
        tasks: TaskManager,
        collector: RecordCollector,
        failures: SimpleQueue[ThreadFailure],
        clock: Clock,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._tasks = tasks
        self._collector = collector
        self._failures = failures
        self._clock = clock
        self._stopping = False
        self._exactly_once = not collector.prompt
        #: How long tasks stood still to end an epoch: the only time a commit stops processing.
        self.epoch_end = Histogram()

    def stop(self) -> None:
        """Return after the slice under way."""
        self._stopping = True

    def run(self) -> None:
        try:
            while not self._stopping:
                self._run_once()
        except BaseException as error:  # a bug of ours: the handler decides, nothing dies silently
            self._failures.put(ThreadFailure(self.name, error))

    def _run_once(self) -> None:
        task = self._tasks.take(TASK_WAIT)
        if task is None:
            return
        more = False
        try:
            more = self._run_slice(task)
        except BaseException as error:
            alone = self._tasks.failed(task)
            self._failures.put(ThreadFailure(self.name, error, task.id, alone))
        finally:
            working = self._tasks.give_back(task, more=more)
        if not working:
            self._collector.no_more()

    def _run_slice(self, task: StreamTask) -> bool:
        """Work on a held task until its slice ends or it has nothing to do; whether it has more to do."""
        clock = self._clock
        ends = clock.monotonic() + self._tasks.turn(task, TIME_SLICE)
        # It was not its turn: with commits that come as fast as slices, the others would never get theirs.
        scheduled = self._tasks.scheduling(task)
        out_of_turn = scheduled.epoch_end_wanted
        if not self._tasks.keeps_back(scheduled):
            task.punctuate()
            self._send(scheduled)
        while True:
            if scheduled.ends_epoch and (held := self._emit_held(scheduled)) <= EMIT_REST:
                self._end_epoch(scheduled, held)
                if out_of_turn:
                    return task.has_arrivals or self._goes_on(scheduled)
            if self._tasks.keeps_back(scheduled) or not self._has_room(scheduled):
                return True
            # Records do not come between results that are sent: they would hold others, perhaps more than are sent
            # meanwhile, and a result that they change would be sent before earlier ones.
            taken = 0
            if not scheduled.ends_epoch:
                if task.deliver():
                    self._send(scheduled)
                if self._goes_on(scheduled):
                    taken = task.process(task.control, BATCH)
                    self._send(scheduled)
                elif not scheduled.epoch_end_wanted:
                    return False
                scheduled.input_first = False
            if clock.monotonic() >= ends or self._stopping or not (taken or scheduled.epoch_end_wanted):
                return True

    def _goes_on(self, scheduled: ScheduledTask) -> bool:
        """True if the task has something to do now; else it is noted when it may have."""
        now = self._clock.now_ms()
        wait = scheduled.task.wait_ms(now, scheduled.epoch)
        if wait != 0:
            scheduled.wake_at_ms = None if wait is None else now + wait
        return wait == 0

    def _emit_held(self, scheduled: ScheduledTask) -> int:
        """Sends some of the results that are held for the commit; how many remain."""
        remain = scheduled.task.emit_held(EMIT_BATCH)
        self._send(scheduled)
        return remain

    def _end_epoch(self, scheduled: ScheduledTask, held: int) -> None:
        """The task stands still here for a commit, and while the results that are still held are sent."""
        began, task = self._clock.monotonic(), scheduled.task
        if held:
            task.emit_all_held()
            self._send(scheduled)
        if scheduled.apart:
            if not self._tasks.join_commit(task):
                return
            self._send_kept(scheduled)
        self._tasks.epoch_ended(task, task.freeze())
        self.epoch_end.observe(self._clock.monotonic() - began)

    def _send(self, scheduled: ScheduledTask) -> None:
        if not scheduled.task.has_output:
            return
        output = scheduled.task.take_output()
        if scheduled.apart and self._exactly_once:
            scheduled.kept += output
        else:
            self._collector.add(output, scheduled.epoch, urgent=scheduled.urgent)

    def _send_kept(self, scheduled: ScheduledTask) -> None:
        """The epoch ends, and its results become part of the transaction."""
        if kept := scheduled.kept:
            scheduled.kept = []
            self._collector.add(kept, scheduled.epoch, urgent=scheduled.urgent)

    def _has_room(self, scheduled: ScheduledTask) -> bool:
        """Wait a moment for room in the outgoing buffers; whether there is any."""
        if len(scheduled.kept) >= MOST_KEPT and not scheduled.ends_epoch:
            self._tasks.await_commit(scheduled)
            return False
        return self._collector.wait_for_room(ROOM_WAIT, urgent=scheduled.urgent)
