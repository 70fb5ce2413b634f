"""Prepares the directories of new tasks: keeps a local database that is still good, or fetches a snapshot.

The restoration thread begins, cancels and hears of the end; the work is done on a few threads of its own, active tasks
before replicas. A snapshot is never more than a head start: the changelog has everything since.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec
from confluent_kafka import KafkaException

from streamsapp.clock import Clock
from streamsapp.errors import StreamsError
from streamsapp.record import TaskId, TopicPartition
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.object_store import ObjectStoreError
from streamsapp.remote.partial_files import PartialFiles
from streamsapp.remote.snapshot import InputPoint, Snapshot, SnapshotInvalidError
from streamsapp.remote.snapshot_fetch import DATABASE, Verified, fetch
from streamsapp.runtime.application_layout import fingerprint
from streamsapp.runtime.directory_preparation import PreparedDirectory
from streamsapp.runtime.remote_state import restore_progress
from streamsapp.runtime.remote_state.changelog_facts import ChangelogFacts, ChangelogGap, ChangelogInspector
from streamsapp.runtime.remote_state.damaged_files import DamagedFiles
from streamsapp.runtime.remote_state.early_reads import EarlyReads
from streamsapp.runtime.remote_state.early_tasks import EarlyTasks
from streamsapp.runtime.remote_state.local_record import LocalRecord, LocalState
from streamsapp.runtime.remote_state.priority_thread_pool import PriorityThreadPool, WorkItem
from streamsapp.runtime.remote_state.remote_store import RemoteStore
from streamsapp.runtime.remote_state.restore_progress import RestoreProgress, StoreOutage
from streamsapp.runtime.remote_state.restore_time import RestoreRates, RestoreTiming
from streamsapp.runtime.snapshot_content import unknown_changelogs
from streamsapp.tasks.states import TaskRole
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_plan import ConsumedOffset

log = logging.getLogger(__name__)

#: The answer to a question for the newest snapshot and its number, or the error of an object store that does not
#: answer.
_Asked: TypeAlias = tuple[int, Snapshot | None] | ObjectStoreError

#: Tasks whose directories are prepared at the same time.
THREADS = 4

_FOR_ACTIVE, _FOR_REPLICA = 0, 1


class Restores:
    """Prepares directories for the restoration thread."""

    def __init__(
        self,
        workers: PriorityThreadPool,
        remote: RemoteStore,
        changelogs: ChangelogInspector,
        directory: Path,
        rates: RestoreRates,
        clock: Clock,
        *,
        exactly_once: bool,
    ) -> None:
        self.workers = workers
        self._remote = remote
        self._changelogs = changelogs
        self._directory = directory
        self._rates = rates
        self._clock = clock
        self._exactly_once = exactly_once
        self._items: dict[TaskId, WorkItem] = {}
        #: The files that no task may begin with again.
        self.damage = DamagedFiles()
        self._outage = StoreOutage(clock)
        #: The snapshot that a task here began with; read by status.
        self.snapshots: dict[TaskId, Snapshot] = {}
        #: The last restore of each task; read by status and metrics.
        self.timings: dict[TaskId, RestoreTiming] = {}
        self.bytes_downloaded = 0
        #: Tasks that began before all files of their snapshot were here.
        self.early = EarlyTasks(workers, clock, self._outage)

    @property
    def outage(self) -> tuple[float, str] | None:
        """The time since which no restore reaches the object store, in monotonic seconds, and the reason."""
        return self._outage.current

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
        self.early.end(task.id)
        prepare = self._prepare if task.plan.has_snapshots(task.stores) else self._look_for_inputs
        item = WorkItem(partial(self._run, prepare, task, done), after=self._items.get(task.id))
        self._items[task.id] = item
        self.workers.submit(item, _FOR_ACTIVE if task.role is TaskRole.ACTIVE else _FOR_REPLICA)
        return True

    def promoted(self, task: StreamTask) -> None:
        self.workers.submit(self._items[task.id], _FOR_ACTIVE)

    def cancel(self, task: StreamTask) -> None:
        self._items[task.id].cancel()
        self.early.end(task.id)

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
            try:
                self.local(task.id).write_epoch(None)
            except OSError as error:
                log.warning("task %s: its local state is treated like that of a crash: %s", task.id, error)

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
            if isinstance(prepared.missing, EarlyReads):
                self.early.fill(prepared.missing)

    def _look_for_inputs(self, task: StreamTask, item: WorkItem) -> PreparedDirectory:
        """The group knows them, too, as long as it exists, so that no task waits for an object store that is away."""
        try:
            bootstrap = self._outage.observed(self._remote.bootstrap)
        except ObjectStoreError as error:
            log.info("task %s: whether there was a bootstrap is not known: %s", task.id, error)
            return PreparedDirectory(unknown=error)
        return PreparedDirectory({} if bootstrap is None else _consumed(bootstrap.inputs(task.id)))

    def _prepare(self, task: StreamTask, item: WorkItem) -> PreparedDirectory:
        facts = self._changelogs.facts(task)
        item.refuse_if_cancelled()  # after each wait: the directory may be another instance's by then
        local = self.local(task.id)
        local.remove_leftovers()
        early: EarlyReads | None = None
        chain = self._remote.chain(task.id)
        record = local.read()
        asked = self._newest(chain, record, task) if local.has_database else None
        item.refuse_if_cancelled()
        if asked is not None and self._is_good(record, facts, asked, task):
            record, unknown = _known_by(asked, record, facts, task)
        else:
            local.remove_database()
            found = self._fetch(chain, task, facts, local.directory, item)
            early = self.early.reads.get(task.id)
            if isinstance(found, Snapshot):
                record, unknown = LocalRecord().at(found), None
            else:
                # The manifest of a snapshot whose files are damaged, or do not come, says where the task goes on.
                asked = self._newest(chain, LocalRecord(unknown=True), task) if found is None else found
                record, unknown = _known_by(asked, LocalRecord(), facts, task)
                record = msgspec.structs.replace(record, unknown=isinstance(asked, ObjectStoreError))
        item.refuse_if_cancelled()
        local.write(msgspec.structs.replace(record, topics=dict(facts.ids)))
        stores = record.stores if self._exactly_once else {}
        return PreparedDirectory(_consumed(record.inputs), stores, unknown, early)

    # ---- the local database ------------------------------------------------------------------------------------

    def _newest(self, chain: ManifestChain, record: LocalRecord, task: StreamTask) -> _Asked:
        """Also for a database that is good: its own record may be older than the last snapshot, or of none, and the
        group may have lost its offsets. Tasks that do not need the answer wait for a silent object store only once."""
        try:
            if record.epoch is None and not record.unknown and (fault := self._outage.seen) is not None:
                raise fault
            return self._outage.observed(chain.newest)
        except ObjectStoreError as error:
            log.warning("task %s: its owners since then and its last snapshot are not known: %s",
                        task.id, error)  # fmt: skip
            return error

    def _is_good(self, record: LocalRecord, facts: ChangelogFacts, asked: _Asked, task: StreamTask) -> bool:
        for store, topic_id in record.topics.items():
            if facts.ids.get(store, topic_id) != topic_id:
                log.warning(
                    "task %s: the changelog of store %s was deleted and created again; local state is not used",
                    task.id, store,
                )  # fmt: skip
                return False
        if isinstance(asked, ObjectStoreError):
            if record.epoch is None and not record.unknown:
                return True
            verdict = "used, as it stands at a commit" if self._exactly_once else "not used"
            log.warning("task %s: local state is %s", task.id, verdict)
            return self._exactly_once
        if record.unknown:
            log.info("task %s: its local state knows of no snapshot, as the object store did not answer", task.id)
            return False
        return record.epoch is None or self._is_owners(record.epoch, asked, task)

    def _is_owners(self, epoch: int, asked: tuple[int, Snapshot | None], task: StreamTask) -> bool:
        """Return whether no other instance has had the task since this disk did."""
        number, newest = asked
        if newest is not None and newest.number == number and newest.epoch == epoch:
            return True
        log.info("task %s: other instances have owned it since epoch %d; local state is not used", task.id, epoch)
        return False

    # ---- the snapshot ------------------------------------------------------------------------------------------

    def _fetch(
        self, chain: ManifestChain, task: StreamTask, facts: ChangelogFacts, directory: Path, item: WorkItem
    ) -> Snapshot | ObjectStoreError | None:
        """The snapshot that is in the directory now. ``None`` if there is none, or the error of an object store that
        does not answer, leaves everything to the changelog."""
        progress = RestoreProgress(RestoreTiming(self._clock.monotonic()), self._clock, item)
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

        # A replica is to be complete when it takes over: what it lacks could then be missing.
        files = PartialFiles(chain, progress.moved) if task.role is TaskRole.ACTIVE else None
        found = self._fetch_until_stalled(chain, task, directory, objection, progress, item, files)
        if not isinstance(found, Snapshot):
            self.local(task.id).remove_leftovers()
            self.timings.pop(task.id, None)
            if not item.cancelled.is_set():
                self._changelogs.refuse_gaps(gaps, task)
            return found
        if files is not None and files.missing_bytes:
            self.early.begin(task.id, files)
        self._note(found, task, progress, files)
        return found

    def _fetch_until_stalled(
        self,
        chain: ManifestChain,
        task: StreamTask,
        directory: Path,
        objection: Callable[[Snapshot], str | None],
        progress: RestoreProgress,
        item: WorkItem,
        files: PartialFiles | None,
    ) -> Snapshot | ObjectStoreError | None:
        limit, verified = self._remote.config.max_snapshot_bytes, Verified()

        def reach() -> None:
            self._remote.ensure_fit()
            self._remote.bootstrap()  # raises in the middle of one
            chain.numbers()

        reached = True
        while True:
            before, reached = reached, False
            try:
                self._outage.observed(reach)
                reached = True
                if not before:
                    progress.back()
                progress.begin_try(len(verified))
                return fetch(
                    chain, directory, objection, limit, progress.moved, item.cancelled.is_set,
                    verified=verified, partial=files, promised=lambda: self.early.missing_bytes,
                )  # fmt: skip
            except ObjectStoreError as error:
                if item.cancelled.is_set():
                    return None
                if (progress.ended() or self._outage.lasts) and not (reached and progress.give_up()):
                    log.warning("task %s: no snapshot within %.0f s: %s; its changelog is read instead",
                                task.id, restore_progress.STALL_TIMEOUT, error)  # fmt: skip
                    return error
            progress.pause()

    def _note_rate(self, timing: RestoreTiming) -> None:
        self._rates.download.observe(timing.moved_bytes, self._clock.monotonic() - timing.began)
        self.bytes_downloaded += timing.moved_bytes

    def _note(
        self, snapshot: Snapshot, task: StreamTask, progress: RestoreProgress, files: PartialFiles | None
    ) -> None:
        timing, missing = progress.timing, 0 if files is None else files.missing_bytes
        began = self._clock.monotonic()
        timing.download_seconds = began - timing.began
        self.snapshots[task.id] = snapshot
        rest = f", {missing} of them still to come" if missing else ""
        log.info("task %s: begins with snapshot %d of %s, %d bytes%s", task.id, snapshot.number, snapshot.created_at,
                 snapshot.total_bytes, rest)  # fmt: skip
        if snapshot.fingerprint != fingerprint(task.plan.sub_topology):
            log.info("task %s: its snapshot is of another version of the topology", task.id)
        if files is None or not missing:
            self._note_rate(timing)
            return

        def whole() -> None:
            log.info(
                "task %s: all files of its snapshot are here after %.1f s, with %d requests; %d reads waited for them",
                task.id, self._clock.monotonic() - began, files.requests, files.reads,
            )  # fmt: skip
            self._note_rate(timing)

        files.when_whole(whole)


def _known_by(
    asked: _Asked, record: LocalRecord, facts: ChangelogFacts, task: StreamTask
) -> tuple[LocalRecord, StreamsError | None]:
    """The record with the inputs of the task's newest snapshot, which another instance may have taken, unless it stands
    before what is known; and why no record says where the task goes on. A snapshot whose changelog has lost records
    since still says it, but a snapshot of other changelogs or stores does not."""
    if isinstance(asked, ObjectStoreError):
        return record, asked
    number, newest = asked
    if newest is None:
        return record, SnapshotInvalidError(f"none of its manifests up to {number} can be read") if number else None
    if (fault := facts.mismatch(newest, task)) is not None:
        return record, SnapshotInvalidError(f"snapshot {newest.number} is not to be used: {fault}")
    known = record.at(newest)
    return (record if any(known.stores.get(store, 0) < at for store, at in record.stores.items()) else known), None


def _consumed(inputs: tuple[InputPoint, ...]) -> dict[TopicPartition, ConsumedOffset]:
    return {
        TopicPartition(each.topic, each.partition): ConsumedOffset.committed(each.offset, each.metadata, in_group=False)
        for each in inputs
    }
