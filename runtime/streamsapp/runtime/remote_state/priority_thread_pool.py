"""A pool of threads that do work items in the order of their priority.

The items come from the restoration thread. The threads are daemons: a transfer that hangs does not keep a process
alive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from itertools import count
from queue import PriorityQueue, SimpleQueue

from streamsapp.record import TaskId
from streamsapp.runtime.thread_failure import ThreadFailure


class WorkItem:
    """Something to do once; ``run`` must not raise."""

    def __init__(self, run: Callable[[WorkItem], None], after: WorkItem | None = None) -> None:
        """``after`` is an item that has to have ended before this one begins."""
        self._run = run
        self._after = after
        self._lock = threading.Lock()
        self._taken = False
        self.cancelled = threading.Event()
        self.ended = threading.Event()

    def cancel(self) -> None:
        """An item that has begun is asked to end; any other never begins."""
        self.cancelled.set()
        if self._take():
            self.ended.set()

    def work(self) -> None:
        """Do it, unless another thread does, or it is not wanted any more."""
        if not self._take():
            return
        try:
            if self._after is not None:
                self._after.wait_for_all()
            if not self.cancelled.is_set():
                self._run(self)
        finally:
            self._after = None
            self.ended.set()

    def wait_for_all(self) -> None:
        """Return when it has ended, and those before it: an item that never begins ends before them."""
        item: WorkItem | None = self
        while item is not None:
            item.ended.wait()
            item = item._after

    def refuse_if_cancelled(self) -> None:
        """Raise ``CancelledError`` in the middle of work that is not wanted any more."""
        if self.cancelled.is_set():
            raise CancelledError

    def _take(self) -> bool:
        with self._lock:
            taken, self._taken = self._taken, True
            return not taken


class PriorityThreadPool:
    """Threads and the work that waits for them."""

    def __init__(self, name: str, number: int, failures: SimpleQueue[ThreadFailure]) -> None:
        """``failures`` gets what an item reports after the thread that submitted it has gone on."""
        self._name = name
        self._failures = failures
        self._queue: PriorityQueue[tuple[int, int, WorkItem | None]] = PriorityQueue()
        self._order = count()
        self._starting = threading.Lock()
        self.threads = [
            threading.Thread(target=self._work, name=f"{name}-{each}", daemon=True) for each in range(1, number + 1)
        ]

    def beside(self, name: str, number: int) -> PriorityThreadPool:
        """Returns another pool, whose failures are reported as those of this one."""
        return PriorityThreadPool(f"{self._name}-{name}", number, self._failures)

    def start(self) -> None:
        """Starts the threads, unless they run."""
        with self._starting:
            for thread in self.threads:
                if thread.ident is None:
                    thread.start()

    @property
    def running(self) -> list[threading.Thread]:
        """The threads that were started."""
        return [thread for thread in self.threads if thread.ident is not None]

    def submit(self, item: WorkItem, priority: int) -> None:
        """Have an item done; one with a lower priority is done sooner. An item that waits already may be submitted
        again, with another priority."""
        self._queue.put((priority, next(self._order), item))

    def failed(self, task_id: TaskId, error: Exception) -> None:
        """An item of a task ended with an error that no caller waits for."""
        self._failures.put(ThreadFailure(threading.current_thread().name, error, task_id))

    def stop(self) -> None:
        """Return after the items under way; waiting ones are not begun."""
        for _ in self.threads:
            self._queue.put((-1, next(self._order), None))

    def _work(self) -> None:
        while (item := self._queue.get()[2]) is not None:
            item.work()
