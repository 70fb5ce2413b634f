"""The threads that look after an instance: cleanup, metrics, topics. Each wakes up now and then and does one thing.

None of them touches a task: they read what the polling thread publishes, and directories that no task owns.
"""

from __future__ import annotations

import fcntl
import logging
import shutil
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from queue import SimpleQueue

from streamsapp.errors import TopicError
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import TaskId
from streamsapp.runtime.failures import ThreadFailure
from streamsapp.runtime.layout import Layout
from streamsapp.state.task_stores import TaskStores

log = logging.getLogger(__name__)

#: Seconds between two runs of each thread.
CLEANUP_PERIOD, METRICS_PERIOD, TOPICS_PERIOD = 60.0, 10.0, 30.0
#: How long nobody must have used a task's directory before it is removed (``state.cleanup.delay.ms``), in seconds.
CLEANUP_DELAY = 600.0


class PeriodicThread(threading.Thread):
    """Calls ``action`` every ``period`` seconds; what it raises goes to the exception queue and ends the thread."""

    def __init__(
        self, name: str, period: float, action: Callable[[], None], failures: SimpleQueue[ThreadFailure]
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._period = period
        self._action = action
        self._failures = failures
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Return instead of the next call."""
        self._stopped.set()

    def run(self) -> None:
        try:
            while not self._stopped.wait(self._period):
                self._action()
        except Exception as error:
            self._failures.put(ThreadFailure(self.name, error))


class Cleanup:
    """Removes directories of tasks that moved away."""

    def __init__(self, directory: Path, owned: Callable[[], Collection[TaskId]]) -> None:
        self._directory = directory
        self._owned = owned

    def run(self) -> None:
        """One round; a directory that cannot be removed is logged and tried again."""
        if not self._directory.is_dir():
            return
        owned = {str(task_id) for task_id in self._owned()}
        for directory in sorted(self._directory.iterdir()):
            if directory.name in owned or not _is_task(directory.name):
                continue
            try:
                if _unused(directory):
                    log.info("removing %s: its task has not been here for %.0f s", directory, CLEANUP_DELAY)
                    shutil.rmtree(directory)
            except OSError as error:  # in use by another process, whose files come and go, or not ours to remove
                log.warning("cannot clean up %s: %s", directory, error)


class TopicWatch:
    """Notices source topics that gained partitions or went away."""

    def __init__(self, admin: TopicAdmin, layout: Callable[[], Layout | None]) -> None:
        self._admin = admin
        self._layout = layout

    def run(self) -> None:
        """One look; raises ``TopicError`` that names the topic. A broker out of reach tells nothing."""
        layout = self._layout()
        if layout is None:
            return
        try:
            existing = self._admin.partition_counts()
        except TopicError as error:
            log.warning("topics were not checked: %s", error)
            return
        change = layout.changes(existing)
        if change is not None:
            raise TopicError(change)


class StoreStatistics:
    """RocksDB's figures of all tasks, read now and then: reading them per scrape would slow processing."""

    def __init__(self, stores: Callable[[], dict[TaskId, TaskStores]]) -> None:
        self._stores = stores
        #: Figures by task and store, as of the last run.
        self.figures: dict[TaskId, dict[str, dict[str, int]]] = {}

    def run(self) -> None:
        """One reading."""
        self.figures = {task_id: stores.statistics() for task_id, stores in self._stores().items()}


def _is_task(name: str) -> bool:
    try:
        TaskId.parse(name)
    except ValueError:
        return False
    return True


def _unused(directory: Path) -> bool:
    """Whether nobody changed it lately and no process has its database open."""
    files = [directory, *directory.rglob("*")]
    if time.time() - max(file.stat().st_mtime for file in files) < CLEANUP_DELAY:  # noqa: TID251 - compared with files
        return False
    lock = directory / "rocksdb" / "LOCK"
    if not lock.exists():
        return True
    with lock.open("r+") as handle:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True
