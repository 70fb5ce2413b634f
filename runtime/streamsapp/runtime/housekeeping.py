"""The threads that look after an instance: cleanup, metrics, topics, retention. Each wakes up now and then and does one
thing.

None of them touches a task: they read what the polling thread publishes, and directories that no task owns.
"""

from __future__ import annotations

import fcntl
import logging
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from streamsapp.errors import StateStoreError
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import TaskId
from streamsapp.remote.snapshot_fetch import DATABASE
from streamsapp.runtime.layouts import Layouts
from streamsapp.runtime.thread_failure import ThreadFailure
from streamsapp.state.task_stores import TaskStores
from streamsapp.web.history import STEP_MS

log = logging.getLogger(__name__)

#: Seconds between two runs of each thread.
CLEANUP_PERIOD, METRICS_PERIOD, RETENTION_PERIOD = 60.0, STEP_MS / 1000, 2.0
CHANGELOGS_PERIOD = 5.0
#: How long a task's directory must have been unused before it is removed (``state.cleanup.delay.ms``), in seconds.
CLEANUP_DELAY = 600.0
#: And how long it must be before it is looked at, in seconds: its task may have been given up a moment ago.
AT_REST = 120.0

#: The end of the name of a file that is not needed any more, should it be there when no thread works on it.
_REMAINS = ".part"


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
    """Removes directories of tasks that moved away: first the directories that were not used for long. Where the others
    together have too many bytes, it also removes the ones that tasks left first."""

    def __init__(
        self, directory: Path, owned: Callable[[], Collection[TaskId]], most_unused_bytes: int | None = None
    ) -> None:
        self._directory = directory
        self._owned = owned
        self._most_unused_bytes = most_unused_bytes

    def run(self) -> None:
        """Look through the directories once; a directory that cannot be removed is logged and tried again."""
        if not self._directory.is_dir():
            return
        now = time.time()  # noqa: TID251 - compared with files
        room = self._most_unused_bytes
        for left in sorted(self._left(now - AT_REST), reverse=True):
            room = None if room is None else room - left.bytes
            if now - left.changed >= CLEANUP_DELAY:
                self._remove(left.path, f"its task has not been here for {CLEANUP_DELAY:.0f} s")
            elif room is not None and room < 0:
                self._remove(left.path, f"tasks that moved away may leave {self._most_unused_bytes} bytes")

    def _left(self, before: float) -> Iterator[_Left]:
        """Directories of tasks that are not here, and very old remains of removals and downloads."""
        owned = {str(task_id) for task_id in self._owned()}
        for path in self._directory.iterdir():
            try:
                if path.name in owned or not (_is_task(path.name) or path.name.endswith(_REMAINS)):
                    continue
                # Looking at the lock of a database that this very process has open would take it away.
                if (changed := _changed(path)) < before and not _in_use(path):
                    yield _Left(changed, sum(file.stat().st_size for file in path.rglob("*")), path)
            except OSError as error:  # in use by another process, whose files come and go, or not ours to look at
                log.warning("cannot clean up %s: %s", path, error)

    def _remove(self, path: Path, reason: str) -> None:
        """Out of the way at once: the task may come back while its files are deleted one by one."""
        if path.name in {str(task_id) for task_id in self._owned()}:
            return
        try:
            log.info("removing %s: %s", path, reason)
            remains = path if path.name.endswith(_REMAINS) else path.rename(path.with_name(f"{path.name}{_REMAINS}"))
            shutil.rmtree(remains)
        except OSError as error:
            log.warning("cannot clean up %s: %s", path, error)


class _Left(NamedTuple):
    """A directory that no task here uses."""

    #: Seconds since the epoch, as files have them.
    changed: float
    bytes: int
    path: Path


class TopicWatch:
    """Notices source topics that gained partitions or went away, and new topics that match a pattern."""

    def __init__(self, admin: TopicAdmin, layouts: Callable[[], Layouts | None]) -> None:
        self._admin = admin
        self._layouts = layouts

    def run(self) -> None:
        """Check the topics once; raises ``TopicError`` that names the topic. A broker out of reach is no evidence."""
        layouts = self._layouts()
        if layouts is not None:
            layouts.look(self._admin)


class StoreStatistics:
    """RocksDB's figures of all tasks, read now and then: reading them per scrape would slow processing."""

    def __init__(self, stores: Callable[[], dict[TaskId, TaskStores]]) -> None:
        self._stores = stores
        #: Figures by task and store, as of the last run.
        self.figures: dict[TaskId, dict[str, dict[str, int]]] = {}

    def run(self) -> None:
        """Read the statistics once; a task that is being closed has none."""
        figures = {}
        for task_id, stores in self._stores().items():
            with suppress(StateStoreError):
                figures[task_id] = stores.statistics()
        self.figures = figures


def _is_task(name: str) -> bool:
    try:
        TaskId.parse(name)
    except ValueError:
        return False
    return True


def _changed(directory: Path) -> float:
    return max(file.stat().st_mtime for file in [directory, *directory.rglob("*")])


def _in_use(directory: Path) -> bool:
    """Return whether a process has its database open."""
    lock = directory / DATABASE / "LOCK"
    if not lock.exists():
        return False
    with lock.open("r+") as handle:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
