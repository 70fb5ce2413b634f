"""Notices user code that does not come back, from a record or a punctuator, for too long (``max.poll.interval.ms``).

Runs on the polling thread, about every second. A hanging thread cannot be stopped from outside; what can be done is to
say where it is, and to end the instance, so that whoever watches it starts it anew.
"""

from __future__ import annotations

import logging
from queue import SimpleQueue

from streamsapp.errors import ProcessorHangsError
from streamsapp.record import InputRecord, TaskId
from streamsapp.runtime.thread_failure import ThreadFailure
from streamsapp.tasks.punctuation import Firing
from streamsapp.tasks.task_manager import TaskManager

log = logging.getLogger(__name__)

#: Seconds between two checks.
PERIOD = 1.0
#: Code that has not come back for this long is worth a warning, in seconds.
WARN_AFTER = 30.0

_Work = InputRecord | Firing


class HangDetector:
    """Compares what the held tasks do with what they did a second ago."""

    def __init__(self, tasks: TaskManager, failures: SimpleQueue[ThreadFailure], limit: float) -> None:
        self._tasks = tasks
        self._failures = failures
        self._limit = limit
        self._next_check = 0.0
        self._since: dict[TaskId, tuple[_Work, float]] = {}
        self._warned: set[TaskId] = set()
        #: For how long the user's code has been in the record or punctuator that takes longest now, in seconds.
        self.longest = 0.0

    def check(self, now: float) -> None:
        """Check if it is time to; ``now`` in monotonic seconds."""
        if now < self._next_check:
            return
        self._next_check = now + PERIOD
        in_process: dict[TaskId, tuple[_Work, float]] = {}
        for task in self._tasks.held:
            context = task.context
            work = context.firing if context.message is None else context.message
            if work is None:
                continue
            seen = self._since.get(task.id)
            in_process[task.id] = seen if seen is not None and seen[0] is work else (work, now)
        self._since = in_process
        self._warned &= in_process.keys()
        self.longest = max((now - since for _, since in in_process.values()), default=0.0)
        for task_id, (work, since) in list(in_process.items()):
            self._judge(task_id, work, now - since)

    def _judge(self, task_id: TaskId, work: _Work, seconds: float) -> None:
        if isinstance(work, Firing):
            where = f"task {task_id} has been in a punctuator of {work.node}"
        else:
            where = f"task {task_id} has had record {work.topic()}-{work.partition()}@{work.offset()} in process"
        if seconds > self._limit:
            self._since.pop(task_id)
            error = ProcessorHangsError(
                f"{where} for {seconds:.0f} s, longer than max_poll_interval_ms allows; "
                "its processor hangs: raise the limit if it is only slow"
            )
            self._failures.put(ThreadFailure("watch", error))
        elif seconds > min(WARN_AFTER, self._limit / 2) and task_id not in self._warned:
            self._warned.add(task_id)
            log.warning("%s for %.0f s; commits wait for it", where, seconds)
