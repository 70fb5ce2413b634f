"""Notices user code that does not come back, from a record or a punctuator, for too long (``max.poll.interval.ms``).

Runs on the polling thread, about every second; ``/status``, readiness and metrics read what it found on any thread. A
hanging thread cannot be stopped from outside; the instance can only say where it is and end, so that its supervisor
starts it anew.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from queue import SimpleQueue

from streamsapp.errors import ProcessorHangsError
from streamsapp.record import InputRecord, TaskId
from streamsapp.runtime.set_aside import SetAside
from streamsapp.runtime.thread_failure import ThreadFailure
from streamsapp.tasks.punctuation import Firing
from streamsapp.tasks.task_manager import TaskManager

log = logging.getLogger(__name__)

#: Seconds between two checks.
PERIOD = 1.0
#: Code that has not come back for this long is taken to hang, in seconds; or for a tenth of the limit, as a user whose
#: records take long has raised that.
WARN_AFTER, WARN_SHARE = 30.0, 0.1
#: The first record of a task, which may load a model or open a connection, and a punctuator have so long; seconds.
FIRST_AFTER = 60.0
#: So many times as long as anything took that came back has to be waited for.
USUAL = 2.0

_Work = InputRecord | Firing


@dataclass(frozen=True, slots=True)
class Hang:
    """The user's code has not come back from one record or punctuator."""

    task: TaskId
    #: Seconds.
    lasts: float
    #: The record, or the node of the punctuator, in words.
    where: str
    #: Commits and other tasks do not wait for it.
    alone: bool = False

    def __str__(self) -> str:
        return f"{self.where} for {self.lasts:.0f} s"


class HangDetector:
    """Compares what the held tasks do with what they did a second ago."""

    def __init__(
        self, tasks: TaskManager, failures: SimpleQueue[ThreadFailure], limit: float, set_aside: SetAside
    ) -> None:
        self.set_aside = set_aside
        self._tasks = tasks
        self._failures = failures
        self._limit = limit
        self._next_check = 0.0
        self._since: dict[TaskId, tuple[_Work, float]] = {}
        self._warned: set[TaskId] = set()
        #: Tasks in process whose first record has come back; their turn, which counts it, goes on.
        self._passed: set[TaskId] = set()
        #: The longest that code took which came back, in seconds.
        self.usual = 0.0
        #: For how long the user's code has been in the record or punctuator that takes longest now, in seconds.
        #: Of a task that others wait for.
        self.longest = 0.0
        #: The tasks that seem to hang now, the longest first: nothing is committed until they come back.
        self.hanging: tuple[Hang, ...] = ()

    def patience(self, *, first: bool) -> float:
        """Returns the seconds after which code is taken to hang; ``first`` says that it is the first record of its
        task, or a punctuator."""
        usual = max(FIRST_AFTER if first else WARN_AFTER, WARN_SHARE * self._limit, USUAL * self.usual)
        return min(usual, self._limit / 2)

    def check(self, now: float) -> None:
        """Check if it is time to; ``now`` in monotonic seconds."""
        if now < self._next_check:
            return
        self._next_check = now + PERIOD
        in_process: dict[TaskId, tuple[_Work, float]] = {}
        begins: set[TaskId] = set()
        held = self._tasks.held
        for task in held:
            context = task.context
            work = context.firing if context.message is None else context.message
            if work is None:
                continue
            seen = self._since.get(task.id)
            in_process[task.id] = seen if seen is not None and seen[0] is work else (work, now)
            if isinstance(work, Firing) or not (task.processed_records or task.id in self._passed):
                begins.add(task.id)
        for task_id, (work, since) in self._since.items():
            if (now_in := in_process.get(task_id)) is None or now_in[0] is not work:
                self.usual = max(self.usual, now - since - PERIOD)
                if not isinstance(work, Firing) and now_in is not None:
                    self._passed.add(task_id)
        self._since = in_process
        self._passed &= in_process.keys()
        self._warned &= in_process.keys()
        alone = {task.id for task in held if task.id in in_process and self._tasks.hangs_alone(task)}
        self.longest = max((now - at for task, (_, at) in in_process.items() if task not in alone), default=0.0)
        found = [
            Hang(task_id, now - since, _where(task_id, work), task_id in alone)
            for task_id, (work, since) in in_process.items()
        ]
        hanging = (it for it in found if it.lasts > self.patience(first=it.task in begins))
        self.hanging = tuple(sorted(hanging, key=lambda it: -it.lasts))
        for hang in self.hanging:
            self._judge(hang)

    def _judge(self, hang: Hang) -> None:
        if hang.alone:
            self.set_aside.pause(hang.task.subtopology, str(hang))
        elif hang.lasts > self._limit:
            self._since.pop(hang.task)
            error = ProcessorHangsError(
                f"{hang}, longer than max_poll_interval_ms allows; "
                "its processor hangs: raise the limit if it is only slow"
            )
            self._failures.put(ThreadFailure("watch", error))
        elif hang.task not in self._warned:
            self._warned.add(hang.task)
            log.warning("%s; commits wait for it", hang)


def _where(task_id: TaskId, work: _Work) -> str:
    if isinstance(work, Firing):
        return f"task {task_id} has been in a punctuator of {work.node}"
    return f"task {task_id} has had record {work.topic()}-{work.partition()}@{work.offset()} in process"
