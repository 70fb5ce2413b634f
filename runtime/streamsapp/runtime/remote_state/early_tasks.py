"""The tasks of an instance that run before their files are here, and how these are filled.

Begun and ended by the threads that prepare directories and by the restoration thread; filled on the former.
"""

from __future__ import annotations

import logging

from streamsapp.clock import Clock
from streamsapp.errors import StreamsError, TaskCorruptedError
from streamsapp.record import TaskId
from streamsapp.remote.partial_files import PartialFiles
from streamsapp.runtime.remote_state.early_reads import EarlyReads
from streamsapp.runtime.remote_state.precedence import Precedence
from streamsapp.runtime.remote_state.priority_thread_pool import PriorityThreadPool, WorkItem
from streamsapp.runtime.remote_state.restore_progress import PAUSE, StoreOutage
from streamsapp.state.engine.read_ahead import READERS

log = logging.getLogger(__name__)

#: Seconds for which a thread fills the files of one task, before others get their turn.
_FILLING = 1.0
#: Of work for the threads that prepare directories: after everything that a task waits for.
TO_FILL = 2


class EarlyTasks:
    """The tasks share threads that fill files, threads that read ahead, and the order between both."""

    def __init__(self, workers: PriorityThreadPool, clock: Clock, outage: StoreOutage) -> None:
        #: Threads that read ahead. They start with the first task.
        self.readers = workers.beside("read-ahead", READERS)
        #: Read by status and metrics.
        self.reads: dict[TaskId, EarlyReads] = {}
        self._workers = workers
        self._clock = clock
        self._outage = outage
        self._precedence = Precedence(len(workers.threads))

    @property
    def missing_bytes(self) -> int:
        """The bytes that all of them lack, and the disk will have to take."""
        return sum(each.files.missing_bytes for each in list(self.reads.values()))

    def begin(self, task_id: TaskId, files: PartialFiles) -> None:
        """A task is about to be opened with these files."""
        self.reads[task_id] = EarlyReads(task_id, files, self._clock, self.readers, self._precedence)

    def end(self, task_id: TaskId) -> None:
        """The files that a task began with are not filled any more."""
        if (early := self.reads.pop(task_id, None)) is not None:
            early.close()

    def fill(self, early: EarlyReads) -> None:
        """Fill the files of a task, on all threads that have nothing else to do."""
        for _ in self._workers.threads:
            self._fill_soon(early)

    def _fill_soon(self, early: EarlyReads) -> None:
        """Once no task waits to be prepared: then for a moment each, so that all tasks' files come."""
        self._workers.submit(WorkItem(lambda _: self._fill(early)), TO_FILL)

    def _fill(self, early: EarlyReads) -> None:
        until, more = self._clock.monotonic() + _FILLING, True
        try:
            while more and self._clock.monotonic() < until:
                more = self._outage.observed(early.fill)
        except Exception as error:
            if isinstance(error, TaskCorruptedError) or not isinstance(error, StreamsError):
                if early.give_up():
                    self._workers.failed(early.task_id, error)
                return
            if early.is_worth_telling():
                log.warning("task %s: its files do not come, it goes on with what it has: %s", early.task_id, error)
            early.pause(PAUSE)
        if more:
            self._fill_soon(early)
