"""The snapshots of one active task: claimed when it starts to run, then one after the other as long as it is here.

Used by one snapshot thread at a time; released by the polling thread.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from streamsapp.clock import Clock
from streamsapp.errors import StateStoreError
from streamsapp.remote.garbage_collection import collect
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.object_store import Moved, ObjectStoreError
from streamsapp.remote.snapshot import Snapshot
from streamsapp.remote.snapshot_writer import ClaimGivenUpError, SnapshotContent, SnapshotWriter
from streamsapp.runtime.remote_state.download_sampler import DownloadSampler
from streamsapp.runtime.remote_state.local_record import LocalState
from streamsapp.runtime.remote_state.remote_store import RemoteStore
from streamsapp.runtime.snapshot_content import snapshot_content
from streamsapp.state.commit_point import CommitPoint
from streamsapp.state.engine.verification import verify
from streamsapp.tasks.stream_task import StreamTask

log = logging.getLogger(__name__)

#: Objects that are no longer needed are looked for with the first snapshot and with every so many.
COLLECT_EVERY = 10


@dataclass
class SnapshotFigures:
    """The cost of one task's snapshots, for metrics."""

    published: int = 0
    unchanged: int = 0
    failures: int = 0
    uploaded_bytes: int = 0
    reused_files: int = 0
    #: Of the last one that was published.
    seconds: float | None = None


@dataclass
class TaskSnapshots:
    """One task's place in the object store."""

    task: StreamTask
    writer: SnapshotWriter
    local: LocalState
    figures: SnapshotFigures = field(default_factory=SnapshotFigures)
    #: Wall-clock milliseconds of the last time when what the object store has was known to be this fresh.
    fresh_at_ms: int | None = None
    #: True if the files that the claim repeats were compared with the files that are here: they may have been damaged,
    #: and the task restored from others.
    compared: bool = False
    #: True if the epoch of the claim is written down beside the database: else it is claimed once more.
    noted: bool = False
    #: Failed tries since the last that did not.
    attempts: int = 0
    _released: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def released(self) -> bool:
        """True if the task is no longer active here."""
        return self._released

    def release(self) -> None:
        """The task leaves: what its directory is worth is written down by others from now on."""
        with self._lock:
            self._released = True

    def claimed(self, epoch: int) -> None:
        """Note that the database is written under this epoch from now on."""
        with self._lock:
            if not self._released:
                try:
                    self.local.write_epoch(epoch)
                except OSError as error:
                    raise StateStoreError(
                        f"the epoch of task {self.task.id} cannot be written to {self.local.directory}: {error}; "
                        "is the disk of the state directory full?"
                    ) from error
                self.noted = True

    def published(self, snapshot: Snapshot) -> None:
        """Note that the object store has the database up to there."""
        with self._lock:
            if not self._released:
                self.local.write_snapshot(snapshot)

    @property
    def last(self) -> Snapshot | None:
        """The newest snapshot with files, as far as it is known here."""
        last = self.writer.last
        return last if last is not None and last.files else None


class SnapshotTaker:
    """Takes snapshots, one task at a time per thread."""

    def __init__(
        self,
        remote: RemoteStore,
        moved: Moved,
        sampler: DownloadSampler,
        clock: Clock,
        permitted: Callable[[], bool],
        ended: Callable[[], bool] = lambda: False,
        objection: Callable[[Snapshot], str | None] = lambda _: None,
    ) -> None:
        """``permitted`` says whether a task may be claimed now, ``ended`` whether the instance has no more time,
        ``objection`` why a snapshot must not be repeated."""
        self._remote = remote
        self._moved = moved
        self._sampler = sampler
        self._clock = clock
        self._permitted = permitted
        self._ended = ended
        self._objection = objection

    def take(self, it: TaskSnapshots) -> bool:
        """Claim the task, or have the object store know what it stands at now; whether that was possible. Raises
        ``SnapshotFencedError`` and what the object store raises."""
        if it.writer.epoch is None or not it.noted:
            return self._claim(it)
        point = it.task.stores.commit_point
        if point is None:
            return False
        at_ms = self._clock.now_ms()
        if it.compared and self._is_same(it, point):
            it.writer.confirm()
            it.figures.unchanged += 1
        elif not self._publish(it):
            return False
        it.fresh_at_ms = at_ms
        return True

    def _claim(self, it: TaskSnapshots) -> bool:
        """Claim the task, unless others may have taken over: that would take it away from them."""
        if not self._permitted():
            return False
        self._remote.ensure_fit()
        try:
            claimed = it.writer.claim(self._objection, lambda: self._permitted() and not it.released)
        except ClaimGivenUpError as error:
            log.info("%s", error)
            return False
        it.claimed(claimed.epoch)
        log.info("task %s: this instance writes its snapshots now, under epoch %d", it.task.id, claimed.epoch)
        return True

    def _is_same(self, it: TaskSnapshots, point: CommitPoint) -> bool:
        content, last = self._content(it, point), it.last
        return last is not None and (content.stores, content.inputs) == (last.stores, last.inputs)

    def _publish(self, it: TaskSnapshots) -> bool:
        began = self._clock.monotonic()
        before = {file.object for file in it.last.files} if it.last is not None else set()
        # Not the name of the task's next life here, which may begin while this one still waits for the object store.
        copy = it.local.directory / f"checkpoint-{it.writer.epoch}.part"
        shutil.rmtree(copy, ignore_errors=True)
        try:
            point = it.task.stores.checkpoint(copy)
            if point is None:
                return False
            scratch = it.local.directory / f"verified-{it.writer.epoch}.part"
            published = it.writer.publish(
                copy, self._content(it, point), partial(self._sent, it), lambda files: verify(files, scratch)
            )
            if published is not None:
                it.published(published)
        except OSError as error:
            # A task that has left is prepared anew, perhaps, and that preparation clears its directory.
            raise StateStoreError(
                f"no snapshot of task {it.task.id} was made, its copy in {copy} cannot be read: {error}; "
                "is the disk of the state directory full, or did another process remove files there?"
            ) from error
        finally:
            shutil.rmtree(copy, ignore_errors=True)
        it.compared = True
        if published is None:
            it.figures.unchanged += 1
        else:
            it.figures.reused_files += sum(file.object in before for file in published.files)
            self._note(it, published, self._clock.monotonic() - began)
        return True

    def _sent(self, it: TaskSnapshots, count: int) -> None:
        """Raises in the middle of an upload that is not needed any more."""
        if it.released or self._ended():
            raise ObjectStoreError(f"task {it.task.id} has left before its snapshot was complete")
        self._moved(count)

    def _note(self, it: TaskSnapshots, published: Snapshot, seconds: float) -> None:
        figures = it.figures
        figures.published += 1
        figures.uploaded_bytes += published.new_bytes
        figures.seconds = seconds
        log.info(
            "task %s: snapshot %d has %d bytes, %d of them new, after %.1f s",
            it.task.id, published.number, published.total_bytes, published.new_bytes, seconds,
        )  # fmt: skip
        chain = self._remote.chain(it.task.id)
        if figures.published % COLLECT_EVERY == 1:
            self._collect(it.task, chain)
        self._sampler.sample(chain, published)

    def _collect(self, task: StreamTask, chain: ManifestChain) -> None:
        """The snapshot is published, whatever becomes of this."""
        try:
            collected = collect(chain, self._remote.config.retain, self._remote.config.grace)
        except ObjectStoreError as error:
            log.warning("task %s: old snapshots were not deleted, which is tried again later: %s", task.id, error)
            return
        if any(collected):
            log.info("task %s: deleted %d old snapshots and %d of their files, %d bytes", task.id, *collected)

    def _content(self, it: TaskSnapshots, point: CommitPoint) -> SnapshotContent:
        """The ids of the changelogs are those of the topics that the stores were restored from."""
        return snapshot_content(it.task.plan, it.task.stores.families, point, it.local.read().topics)
