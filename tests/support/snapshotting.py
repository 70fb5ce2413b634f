"""A task's owner with remote state in memory, and tasks elsewhere that begin with its snapshots.

Called by the tests of the runtime.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, cast

from memory_objects import MemoryObjects
from restoring import FakeAdmin, Restoring
from streamsapp import TaskId, TopicPartition
from streamsapp.clock import SystemClock
from streamsapp.config import RemoteStateConfig
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.object_store import ObjectStoreError, unobserved
from streamsapp.remote.snapshot import Snapshot
from streamsapp.remote.snapshot_writer import SnapshotWriter
from streamsapp.remote.transfer_rates import MeasuredRate
from streamsapp.runtime.directory_preparation import DirectoryPreparer
from streamsapp.runtime.remote_state.changelog_facts import ChangelogInspector
from streamsapp.runtime.remote_state.download_sampler import DownloadSampler
from streamsapp.runtime.remote_state.local_record import LocalRecord, LocalState
from streamsapp.runtime.remote_state.priority_thread_pool import PriorityThreadPool
from streamsapp.runtime.remote_state.remote_store import RemoteStore
from streamsapp.runtime.remote_state.restore_time import RestoreRates
from streamsapp.runtime.remote_state.restores import THREADS, Restores
from streamsapp.runtime.remote_state.snapshots import Snapshots
from streamsapp.runtime.remote_state.task_snapshots import SnapshotTaker, TaskSnapshots
from streamsapp.runtime.thread_failure import ThreadFailure
from streamsapp.tasks.states import TaskState
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.testing import MockClock

CHANGELOG = TopicPartition("app-s-changelog", 0)
IN = TopicPartition("in", 0)
TIMEOUT = 60.0


class Owner:
    """An instance that runs task 0_0 and takes its snapshots when the test says so."""

    def __init__(self, directory: Path, objects: MemoryObjects, name: str = "owner") -> None:
        self.clock = MockClock(1_700_000_000_000)
        self.remote = RemoteStore(objects, "app", RemoteStateConfig(url="file:///in-memory"))
        self.directory = directory
        self._restoring = Restoring(directory)
        self.task = self._restoring.task()
        self.task.stores.open()
        self.task.state = TaskState.RUNNING
        self.task.stores.restored({"s": 0}, {IN: (0, "")})
        self.may_claim = True
        rate = MeasuredRate()
        self.taker = SnapshotTaker(
            self.remote, unobserved, DownloadSampler(rate, directory, self.clock), self.clock, lambda: self.may_claim
        )
        local = LocalState(directory / "0_0")
        local.write(LocalRecord(topics={"s": f"id of {CHANGELOG.topic}"}))
        writer = SnapshotWriter(self.chain, name, self.clock)
        self.snapshots = TaskSnapshots(self.task, writer, local)
        self.offset = 0

    @property
    def chain(self) -> ManifestChain:
        return self.remote.chain(TaskId(0, 0))

    def commit(self, *keys: str) -> None:
        """Count one input record per key, and commit."""
        for key in keys:
            self.task.stores.stores["s"].put(key, "v")
        self.offset += len(keys)
        list(self.task.stores.apply(self.task.stores.freeze(), {"s": self.offset}, {IN: (self.offset, "")}))

    def turn(self) -> bool:
        return self.taker.take(self.snapshots)

    def publish(self, *keys: str) -> Snapshot:
        """Commit, and take a snapshot of that."""
        if self.snapshots.writer.epoch is None:
            assert self.turn()
        self.commit(*keys)
        assert self.turn()
        last = self.snapshots.last
        assert last is not None
        return last


class SnapshotThreads:
    """Snapshot threads over the pieces of one owner, by the real clock."""

    def __init__(self, owner: Owner, interval: float = 3600.0) -> None:
        object.__setattr__(owner.remote.config, "snapshot_interval", interval)
        self.failures: SimpleQueue[ThreadFailure] = SimpleQueue()
        restores = SimpleNamespace(local=lambda task_id: owner.snapshots.local)
        self.snapshots = Snapshots(
            "snapshot", "owner", owner.remote, owner.taker, cast(Any, restores), self.failures, SystemClock()
        )

    def start(self) -> None:
        for thread in self.snapshots.threads:
            thread.start()

    def stop(self) -> None:
        self.snapshots.stop()
        for thread in self.snapshots.threads:
            if thread.ident is not None:
                thread.join(TIMEOUT)


class Heir:
    """A restoration thread elsewhere, whose tasks are prepared by real threads with what the objects have."""

    def __init__(self, directory: Path, objects: MemoryObjects, *, exactly_once: bool = True) -> None:
        self.remote = RemoteStore(objects, "app", RemoteStateConfig(url="file:///in-memory"))
        self.exactly_once = exactly_once
        self.directory = directory
        #: Of tasks that run already: their files could not be filled.
        self.failures: SimpleQueue[ThreadFailure] = SimpleQueue()
        self.thread = Restoring(directory, self._make)
        for thread in self.restores.workers.threads:
            thread.start()

    def _make(self, admin: FakeAdmin, clock: MockClock) -> DirectoryPreparer:
        rates = RestoreRates(MeasuredRate(), MeasuredRate())
        changelogs = ChangelogInspector(cast(Any, admin), clock)
        workers = PriorityThreadPool("restore", THREADS, self.failures)
        self.restores = Restores(
            workers, self.remote, changelogs, self.directory, rates, clock, exactly_once=self.exactly_once
        )
        return self.restores

    def close(self) -> None:
        self.restores.workers.stop()
        self.restores.early.readers.stop()
        for thread in (*self.restores.workers.threads, *self.restores.early.readers.running):
            thread.join(TIMEOUT)

    def passes_until(self, holds: Callable[[], object]) -> None:
        """Let the restoration thread go on until it is so."""
        give_up = time.monotonic() + TIMEOUT
        while not holds():
            assert time.monotonic() < give_up, self.thread.failed
            self.thread.passes()

    def restore(self, task: StreamTask) -> None:
        """Hand over, and go on until it comes back."""
        self.thread.thread.add(task)
        self.passes_until(lambda: not self.thread.thread.restored.empty() or not self.thread.failures.empty())


class Gate:
    """Holds up downloads until it is opened."""

    def __init__(self, objects: MemoryObjects) -> None:
        self.reached = threading.Event()
        self._open = threading.Event()
        objects.before = self._wait

    def open(self) -> None:
        self._open.set()

    def _wait(self, operation: str, key: str) -> None:
        if operation == "download" and not self._open.is_set():
            self.reached.set()
            assert self._open.wait(TIMEOUT)


def away(operation: str, key: str) -> None:
    """An object store that does not answer."""
    raise ObjectStoreError("no answer")
