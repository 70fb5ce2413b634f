"""Prepares the directories of new tasks: keeps a local database that is still good, or fetches a snapshot.

The restoration thread begins, cancels and hears of the end; the work is done on a few threads of its own, active tasks
before replicas. What a task gets here is never more than a head start: the changelog has everything since.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from confluent_kafka import KafkaException

from streamsapp.clock import Clock
from streamsapp.record import TaskId, TopicPartition
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.object_store import ObjectStoreError
from streamsapp.remote.snapshot import InputPoint, Snapshot, SnapshotFile
from streamsapp.remote.snapshot_fetch import DATABASE, Verified, fetch
from streamsapp.runtime.application_layout import fingerprint
from streamsapp.runtime.directory_preparation import PreparedDirectory
from streamsapp.runtime.remote_state.changelog_facts import ChangelogFacts, ChangelogGap, Changelogs
from streamsapp.runtime.remote_state.damaged_files import DamagedFiles
from streamsapp.runtime.remote_state.local_record import LocalRecord, LocalState
from streamsapp.runtime.remote_state.priority_thread_pool import PriorityThreadPool, WorkItem
from streamsapp.runtime.remote_state.remote_store import RemoteStore
from streamsapp.runtime.remote_state.restore_time import RestoreRates, RestoreTiming
from streamsapp.runtime.snapshot_content import unknown_changelogs
from streamsapp.tasks.states import TaskRole
from streamsapp.tasks.stream_task import ConsumedOffset, StreamTask

log = logging.getLogger(__name__)

T = TypeVar("T")

#: How long a restore that makes no progress waits for the object store, in seconds.
STALL_TIMEOUT = 30.0
#: Between two tries, in seconds.
PAUSE = 1.0
THREADS = 4

_FOR_ACTIVE, _FOR_REPLICA = 0, 1


class Restores:
    """Prepares directories for the restoration thread."""

    def __init__(
        self,
        name: str,
        remote: RemoteStore,
        changelogs: Changelogs,
        directory: Path,
        rates: RestoreRates,
        clock: Clock,
        *,
        exactly_once: bool,
    ) -> None:
        self._remote = remote
        self._changelogs = changelogs
        self._directory = directory
        self._rates = rates
        self._clock = clock
        self._exactly_once = exactly_once
        self.workers = PriorityThreadPool(name, THREADS)
        self._items: dict[TaskId, WorkItem] = {}
        #: The files that no task may begin with again.
        self.damage = DamagedFiles()
        self._outage = _Outage(clock)
        #: The snapshot that a task here began with; read by status.
        self.snapshots: dict[TaskId, Snapshot] = {}
        #: The last restore of each task; read by status and metrics.
        self.timings: dict[TaskId, RestoreTiming] = {}
        self.bytes_downloaded = 0

    def local(self, task_id: TaskId) -> LocalState:
        """The directory of a task."""
        return LocalState(self._directory / str(task_id))

    # ---- restoration thread ------------------------------------------------------------------------------------

    def begin(self, task: StreamTask, done: Callable[[PreparedDirectory], None]) -> bool:
        """Prepare the directory if there may be a snapshot, which takes stores that a changelog continues. For an
        active task without any there may have been a bootstrap, which says where it continues."""
        if not (task.plan.has_snapshots(task.stores) or task.role is TaskRole.ACTIVE):
            return False
        self.snapshots.pop(task.id, None)
        prepare = self._prepare if task.plan.has_snapshots(task.stores) else self._look_for_inputs
        item = WorkItem(partial(self._run, prepare, task, done), after=self._items.get(task.id))
        self._items[task.id] = item
        self.workers.submit(item, _FOR_ACTIVE if task.role is TaskRole.ACTIVE else _FOR_REPLICA)
        return True

    def promoted(self, task: StreamTask) -> None:
        self.workers.submit(self._items[task.id], _FOR_ACTIVE)

    def cancel(self, task: StreamTask) -> None:
        self._items[task.id].cancel()

    def complete(self, task: StreamTask) -> None:
        timing = self.timings.get(task.id)
        if timing is None or timing.observed_seconds is not None:
            return
        timing.observed_seconds = self._clock.monotonic() - timing.began
        predicted = "unknown" if timing.predicted is None else f"{timing.predicted:.1f} s"
        log.info(
            "task %s: restored from a snapshot of %d bytes in %.1f s, %.1f s of them for the download; predicted: %s",
            task.id, timing.total_bytes, timing.observed_seconds, timing.download_seconds or 0.0, predicted,
        )  # fmt: skip

    def damaged(self, task: StreamTask, error: Exception) -> None:
        self.damage.note(task.id, error, self.local(task.id).directory / DATABASE, self.snapshots.get(task.id))

    def handed_over(self, task: StreamTask) -> None:
        if task.plan.has_snapshots(task.stores):
            self.local(task.id).write_epoch(None)

    # ---- threads of its own ------------------------------------------------------------------------------------

    def _run(
        self,
        prepare: Callable[[StreamTask, WorkItem], PreparedDirectory],
        task: StreamTask,
        done: Callable[[PreparedDirectory], None],
        item: WorkItem,
    ) -> None:
        try:
            prepared = prepare(task, item)
        except KafkaException as error:
            prepared = PreparedDirectory(error=unknown_changelogs(task.id, error))
        except Exception as error:
            prepared = PreparedDirectory(error=error)
        if not item.cancelled.is_set():
            done(prepared)

    def _look_for_inputs(self, task: StreamTask, item: WorkItem) -> PreparedDirectory:
        """The group knows them, too, as long as it exists, so that nobody waits for an object store that is away."""
        try:
            bootstrap = self._outage.observed(self._remote.bootstrap)
        except ObjectStoreError as error:
            log.info("task %s: whether there was a bootstrap is not known: %s", task.id, error)
            return PreparedDirectory()
        return PreparedDirectory({} if bootstrap is None else _consumed(bootstrap.inputs(task.id)))

    def _prepare(self, task: StreamTask, item: WorkItem) -> PreparedDirectory:
        facts = self._changelogs.facts(task)
        local = self.local(task.id)
        local.remove_leftovers()
        chain = self._remote.chain(task.id)
        record = local.read()
        if not (local.has_database and self._is_good(record, facts, chain, task)):
            local.remove_database()
            snapshot = self._fetch(chain, task, facts, local.directory, item)
            record = LocalRecord(inputs=() if snapshot is None else snapshot.inputs)
        local.write(LocalRecord(record.epoch, dict(facts.ids), record.inputs))
        return PreparedDirectory(_consumed(record.inputs))

    # ---- the local database ------------------------------------------------------------------------------------

    def _is_good(self, record: LocalRecord, facts: ChangelogFacts, chain: ManifestChain, task: StreamTask) -> bool:
        for store, topic_id in record.topics.items():
            if facts.ids.get(store, topic_id) != topic_id:
                log.warning(
                    "task %s: the changelog of store %s was deleted and created again; local state is not used",
                    task.id, store,
                )  # fmt: skip
                return False
        return record.epoch is None or self._is_owners(record.epoch, chain, task)

    def _is_owners(self, epoch: int, chain: ManifestChain, task: StreamTask) -> bool:
        """Return whether nobody else has had the task since this disk did."""
        try:
            number, newest = self._outage.observed(chain.newest)
        except ObjectStoreError as error:
            verdict = "used, as it stands at a commit" if self._exactly_once else "not used"
            log.warning("task %s: who has had it since is not known (%s); local state is %s", task.id, error, verdict)
            return self._exactly_once
        if newest is not None and newest.number == number and newest.epoch == epoch:
            return True
        log.info("task %s: others have had it since epoch %d; local state is not used", task.id, epoch)
        return False

    # ---- the snapshot ------------------------------------------------------------------------------------------

    def _fetch(
        self, chain: ManifestChain, task: StreamTask, facts: ChangelogFacts, directory: Path, item: WorkItem
    ) -> Snapshot | None:
        """The snapshot that is in the directory now; ``None`` leaves everything to the changelog."""
        progress = _Progress(RestoreTiming(self._clock.monotonic()), self._clock, item)
        gaps: list[ChangelogGap] = []

        def objection(snapshot: Snapshot) -> str | None:
            fault = self.damage.objection(snapshot) or progress.objection(snapshot) or facts.objection(snapshot, task)
            if fault is None:
                progress.expect(
                    snapshot.total_bytes, self._rates.predict(snapshot.total_bytes, facts.tail(snapshot, task))
                )
                self.timings[task.id] = progress.timing
            else:
                gaps.extend(facts.gaps(snapshot, task))
            return fault

        snapshot = self._fetch_until_stalled(chain, task, directory, objection, progress, item)
        if snapshot is None:
            self.local(task.id).remove_leftovers()
            self.timings.pop(task.id, None)
            if not item.cancelled.is_set():
                self._changelogs.refuse_gaps(gaps, task)
            return None
        self._note(snapshot, task, progress)
        return snapshot

    def _fetch_until_stalled(
        self,
        chain: ManifestChain,
        task: StreamTask,
        directory: Path,
        objection: Callable[[Snapshot], str | None],
        progress: _Progress,
        item: WorkItem,
    ) -> Snapshot | None:
        limit, verified = self._remote.config.max_snapshot_bytes, Verified()

        def reach() -> None:
            self._remote.ensure_fit()
            self._remote.bootstrap()  # raises in the middle of one
            chain.numbers()

        while True:
            reached = False
            try:
                self._outage.observed(reach)
                reached = True
                progress.begin_try(len(verified))
                return fetch(chain, directory, objection, limit, progress.moved, progress.ended, verified=verified)
            except ObjectStoreError as error:
                if item.cancelled.is_set():
                    return None
                if (progress.ended() or self._outage.lasts) and not (reached and progress.give_up()):
                    log.warning("task %s: no snapshot within %.0f s: %s; its changelog is read instead",
                                task.id, STALL_TIMEOUT, error)  # fmt: skip
                    return None
            progress.pause()

    def _note(self, snapshot: Snapshot, task: StreamTask, progress: _Progress) -> None:
        timing = progress.timing
        timing.download_seconds = self._clock.monotonic() - timing.began
        self._rates.download.observe(timing.moved_bytes, timing.download_seconds)
        self.bytes_downloaded += timing.moved_bytes
        self.snapshots[task.id] = snapshot
        log.info("task %s: begins with snapshot %d of %s, %d bytes", task.id, snapshot.number, snapshot.created_at,
                 snapshot.total_bytes)  # fmt: skip
        if snapshot.fingerprint != fingerprint(task.plan.sub_topology):
            log.info("task %s: its snapshot is of another version of the topology", task.id)


class _Outage:
    """The object store is away for all tasks of an instance at once: the first that wait find out, and the others need
    not wait as long again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        #: The times at which it was found away first and last, and the error.
        self._found: tuple[float, float, ObjectStoreError] | None = None

    @property
    def lasts(self) -> ObjectStoreError | None:
        """The fault that has lasted for as long as a restore waits, and was seen a moment ago; ``None`` without one."""
        found, now = self._found, self._clock.monotonic()
        return found[2] if found is not None and now - found[0] > STALL_TIMEOUT >= now - found[1] else None

    def observed(self, request: Callable[[], T]) -> T:
        """The result of ``request``; raises ``ObjectStoreError`` as it does, and at once while the outage lasts."""
        if (error := self.lasts) is not None:
            raise error
        try:
            result = request()
        except ObjectStoreError as failure:
            now = self._clock.monotonic()
            with self._lock:
                self._found = (self._found[0] if self._found is not None else now, now, failure)
            raise
        self._found = None
        return result


class _Progress:
    """A fetch under way. What it moves keeps it going, but not what an earlier try had moved already: a file that is
    cut off at the same place every time is no progress."""

    def __init__(self, timing: RestoreTiming, clock: Clock, item: WorkItem) -> None:
        self.timing = timing
        self._clock = clock
        self._item = item
        self._last = timing.began
        self._lock = threading.Lock()
        #: Bytes of this try, and the most that any try had since the last file was complete.
        self._moved = self._most = 0
        self._complete = 0
        self._current: Snapshot | None = None
        #: Files of snapshots that did not come within the time.
        self._given_up: set[tuple[SnapshotFile, ...]] = set()

    def expect(self, total: int, predicted: float | None) -> None:
        self.timing.total_bytes, self.timing.predicted = total, predicted

    def moved(self, count: int) -> None:
        if self._item.cancelled.is_set():
            raise ObjectStoreError("nobody waits for this snapshot any more")
        with self._lock:
            self.timing.moved_bytes += count
            self._moved += count
            if self._moved > self._most:
                self._most, self._last = self._moved, self._clock.monotonic()

    def begin_try(self, complete: int) -> None:
        """``complete`` files need not be fetched any more."""
        with self._lock:
            self._moved = 0
            self._current = None
            if complete > self._complete:
                self._complete, self._most = complete, 0

    def objection(self, snapshot: Snapshot) -> str | None:
        """The reason not to take a snapshot that was given up before; any other becomes the current one."""
        if snapshot.files in self._given_up:
            return f"its files did not come within {STALL_TIMEOUT:.0f} s"
        self._current = snapshot
        return None

    def give_up(self) -> bool:
        """The current snapshot; whether there was one, so that the one before may be tried."""
        if self._current is None:
            return False
        self._given_up.add(self._current.files)
        self._most, self._last = 0, self._clock.monotonic()
        return True

    def ended(self) -> bool:
        return self._item.cancelled.is_set() or self._clock.monotonic() - self._last > STALL_TIMEOUT

    def pause(self) -> None:
        self._item.cancelled.wait(PAUSE)


def _consumed(inputs: tuple[InputPoint, ...]) -> dict[TopicPartition, ConsumedOffset]:
    return {
        TopicPartition(each.topic, each.partition): ConsumedOffset.committed(each.offset, each.metadata)
        for each in inputs
    }
