"""The snapshot threads: they keep the object store up to date with the active tasks of this instance.

The polling thread says which tasks are active here; only a caller that asks to wait ever waits for these threads. While
the object store is away, processing goes on and snapshots grow old, which ``/status`` and the metrics show. A task that
another instance has claimed is lost here: that ends like a commit that was fenced.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from itertools import count
from queue import SimpleQueue

from streamsapp.clock import Clock
from streamsapp.errors import StreamsError, TaskCorruptedError
from streamsapp.record import TaskId
from streamsapp.remote.object_store import ObjectStoreError, UnfitObjectStoreError
from streamsapp.remote.snapshot_writer import SnapshotFencedError, SnapshotWriter
from streamsapp.runtime.remote_state.remote_store import RemoteStore
from streamsapp.runtime.remote_state.restores import Restores
from streamsapp.runtime.remote_state.snapshot_schedule import ScheduledSnapshot, SnapshotSchedule
from streamsapp.runtime.remote_state.task_snapshots import SnapshotTaker, TaskSnapshots
from streamsapp.runtime.thread_failure import ThreadFailure
from streamsapp.tasks.stream_task import StreamTask

log = logging.getLogger(__name__)

#: Threads: while one task's files are sent, another's are hashed.
THREADS = 2
#: First and longest pause after a failure, and how often the user hears of failures, in seconds.
FIRST_PAUSE, LONGEST_PAUSE, REMINDER = 1.0, 60.0, 60.0
#: Seconds between two signs of life of a caller that waits for snapshots.
BEAT = 1.0
#: Seconds before another try with a task that stands at no commit just now.
SOON = 0.2
#: Seconds after a failure until a thread looks whether the object store is back, if no task tries it before.
LOOK_AGAIN = 5.0

#: Spreads numbers 1, 2, 3, ... evenly over the interval, however many there are.
_GOLDEN = 0.618034


class Snapshots:
    """The active tasks of an instance and the threads that take their snapshots."""

    def __init__(
        self,
        name: str,
        instance: str,
        remote: RemoteStore,
        taker: SnapshotTaker,
        restores: Restores,
        failures: SimpleQueue[ThreadFailure],
        clock: Clock,
    ) -> None:
        self._instance = instance
        self._remote = remote
        self._taker = taker
        self._restores = restores
        self._failures = failures
        self._clock = clock
        self._schedule: SnapshotSchedule[TaskSnapshots] = SnapshotSchedule(clock)
        self._spread = count(1)
        self._outage = _SnapshotOutage(clock)
        self.threads = [
            threading.Thread(target=self._run, name=f"{name}-{number}", daemon=True) for number in range(1, THREADS + 1)
        ]

    # ---- polling thread ----------------------------------------------------------------------------------------

    def own(self, task: StreamTask) -> None:
        """A task runs here now: claim it, then take its snapshots."""
        if task.plan.has_snapshots(task.stores):
            writer = SnapshotWriter(self._remote.chain(task.id), self._instance, self._clock)
            self._schedule.add(task.id, TaskSnapshots(task, writer, self._restores.local(task.id)))

    def release(self, task: StreamTask) -> None:
        """A task leaves."""
        left = self._schedule.remove(task.id)
        if left is not None:
            left.release()

    def request_all(self) -> None:
        """Snapshots of everything, as soon as possible."""
        self._schedule.request_all()

    # ---- any thread --------------------------------------------------------------------------------------------

    @property
    def tasks(self) -> dict[TaskId, TaskSnapshots]:
        """The tasks that run here, with their snapshots."""
        return self._schedule.all

    @property
    def outage(self) -> tuple[float, str] | None:
        """The time since which no snapshot can be written, in monotonic seconds, and the reason."""
        return self._outage.current

    def of(self, task_id: TaskId) -> TaskSnapshots | None:
        """The snapshots of one task; ``None`` if it does not run here."""
        return self._schedule.get(task_id)

    def take_all(self, timeout: float) -> bool:
        """Return whether the object store has, within ``timeout`` seconds, what every task stood at when this was
        called, or later."""
        return self._schedule.wait(self._schedule.request_all(), timeout)

    def take(self, tasks: Collection[TaskId], patience: float, alive: Callable[[], object]) -> bool:
        """Return whether the object store has what these tasks stand at: as long as their files are sent, and for
        ``patience`` seconds while it does not take them. ``alive`` is called every second."""
        wanted, give_up_at = self._schedule.request(tasks), self._clock.monotonic() + patience
        while not (done := self._schedule.taken(wanted, BEAT)) and self._clock.monotonic() < give_up_at:
            alive()
            if self._schedule.under_way(wanted):
                give_up_at = self._clock.monotonic() + patience
        return done

    def stop(self) -> None:
        """Return after the snapshots under way."""
        self._schedule.close()

    # ---- snapshot threads --------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._reach()
            while not self._schedule.closed:
                entry = self._schedule.take()
                if entry is not None:
                    self._take(entry)
                elif self._outage.look_is_due():
                    self._look_again()
        except BaseException as error:
            self._failures.put(ThreadFailure(threading.current_thread().name, error))

    def _reach(self) -> bool:
        """Return whether the object store answers. A store that can never work is reported at once, and ends the
        instance; a store that is away is tried again later."""
        try:
            self._remote.reach()
        except ObjectStoreError as error:
            if isinstance(error, UnfitObjectStoreError) and not self._remote.fit:
                raise
            self._outage.not_reached(error)
            return False
        return True

    def _look_again(self) -> None:
        """Tasks that failed wait for up to a minute, and tasks that left try nothing any more: neither soon shows that
        the object store is back. Tasks that it still refuses by then are left to their pauses."""
        if not self._reach():
            return
        if not self._schedule.failed:
            self._outage.over("the object store answers again")
        elif self._outage.reached_again():
            self._schedule.hurry()

    def _take(self, entry: ScheduledSnapshot[TaskSnapshots]) -> None:
        it = entry.work
        claiming = it.writer.epoch is None
        try:
            answered = done = self._taker.take(it)
            if claiming and done and entry.serving > entry.served:
                done = self._taker.take(it)
        except SnapshotFencedError as error:
            self._lost(entry, error)
        except TaskCorruptedError as error:
            it.figures.failures += 1
            self._lost(entry, error)
        except StreamsError as error:
            if isinstance(error, UnfitObjectStoreError) and not self._remote.fit:
                raise
            self._failed(entry, error)
        else:
            if answered:  # else the object store was not asked
                self._outage.over("snapshots are written again")
                it.attempts = 0
            self._schedule.give_back(entry, pause=self._pause(claiming) if done else SOON, succeeded=done or None)

    def _pause(self, claiming: bool) -> float:
        """The first snapshots of tasks that came together are spread over the interval."""
        interval = self._remote.config.snapshot_interval
        return interval * (next(self._spread) * _GOLDEN % 1) if claiming else interval

    def _failed(self, entry: ScheduledSnapshot[TaskSnapshots], error: StreamsError) -> None:
        it = entry.work
        it.figures.failures += 1
        it.attempts += 1
        if not entry.removed:
            self._outage.failed(error)
        self._schedule.give_back(entry, pause=min(FIRST_PAUSE * 2 ** (it.attempts - 1), LONGEST_PAUSE), succeeded=False)

    def _lost(self, entry: ScheduledSnapshot[TaskSnapshots], error: SnapshotFencedError | TaskCorruptedError) -> None:
        """The task goes on elsewhere, or from what was stored before. An instance that has lost it since has nothing to
        stop."""
        task, left = entry.work.task, entry.removed
        self._schedule.give_back(entry, pause=LONGEST_PAUSE, succeeded=False)
        if not left:
            self._schedule.remove(task.id)
            self._failures.put(ThreadFailure(threading.current_thread().name, error, task.id))


class _SnapshotOutage:
    """Logs failures once in a while, and their end."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._since: float | None = None
        self._error = ""
        #: Says whether it is the object store's fault, and not that of a disk here.
        self._is_of_store = False
        self._tell_at = self._look_at = 0.0
        self._looked_in_vain = False

    @property
    def current(self) -> tuple[float, str] | None:
        with self._lock:
            return None if self._since is None or not self._is_of_store else (self._since, self._error)

    def failed(self, error: Exception) -> None:
        with self._lock:
            now = self._clock.monotonic()
            self._since = now if self._since is None else self._since
            self._error, self._is_of_store = str(error), isinstance(error, ObjectStoreError)
            self._look_at = now + LOOK_AGAIN
            if now < self._tell_at:
                return
            self._tell_at = now + REMINDER
            seconds = now - self._since
        log.warning("snapshots have not been written for %.0f s: %s; processing goes on, trying again", seconds, error)

    def not_reached(self, error: Exception) -> None:
        """Not even a look at the object store was possible."""
        self._looked_in_vain = True
        self.failed(error)

    def reached_again(self) -> bool:
        """Return whether the last look was in vain, which this one was not."""
        before, self._looked_in_vain = self._looked_in_vain, False
        return before

    def look_is_due(self) -> bool:
        """Return whether no task has tried for a while, once for each look."""
        with self._lock:
            now = self._clock.monotonic()
            if self._since is None or now < self._look_at:
                return False
            self._look_at = now + LOOK_AGAIN
            return True

    def over(self, told: str) -> None:
        with self._lock:
            since, self._since = self._since, None
            self._tell_at = 0.0
            self._looked_in_vain = False
        if since is not None:
            log.info("%s, after %.0f s", told, self._clock.monotonic() - since)
