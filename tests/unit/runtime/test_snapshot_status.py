"""Remote state in status and metrics; and the small parts that its threads are made of."""

from __future__ import annotations

import threading
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, cast

import pytest

from memory_objects import MemoryObjects
from snapshotting import TIMEOUT, Owner
from streamsapp.errors import ConfigError
from streamsapp.remote.request_figures import RequestFigures
from streamsapp.remote.snapshot import timestamp
from streamsapp.remote.transfer_rates import MeasuredRate
from streamsapp.runtime.directory_lock import DirectoryLock
from streamsapp.runtime.remote_state import snapshot_status
from streamsapp.runtime.remote_state.priority_thread_pool import PriorityThreadPool, WorkItem
from streamsapp.runtime.remote_state.restore_time import RestoreRates, RestoreTiming
from streamsapp.tasks.states import TaskRole


class Remote:
    """The part of remote state that status reads."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.requests = RequestFigures()
        self.rates = RestoreRates(MeasuredRate(), MeasuredRate())
        self.restores = SimpleNamespace(snapshots={}, timings={}, early=SimpleNamespace(reads={}), bytes_downloaded=7)
        self.snapshots = SimpleNamespace(of=self._of, tasks={owner.task.id: owner.snapshots})

    def _of(self, task_id: object) -> object:
        return self.owner.snapshots if task_id == self.owner.task.id else None

    def known(self) -> snapshot_status.KnownSnapshot | None:
        return snapshot_status.newest_snapshot(cast(Any, self), self.owner.task)

    def restore(self) -> dict[str, Any]:
        return snapshot_status.restore_figures(cast(Any, self), self.owner.task, self.known())

    def samples(self) -> dict[str, float]:
        found = snapshot_status.samples(cast(Any, self), self.owner.clock.now_ms())
        return {sample.name: sample.value for sample in found}


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return Remote(Owner(tmp_path, MemoryObjects()))


def test_a_store_shows_the_newest_snapshot_that_its_task_has_written(remote: Remote) -> None:
    assert snapshot_status.store_snapshot(remote.known(), "s") is None
    snapshot = remote.owner.publish("a")
    remote.owner.clock.advance(60_000)
    assert remote.owner.turn()

    assert snapshot_status.store_snapshot(remote.known(), "s") == {
        "epoch": 1,
        "offset": 1,
        "createdAt": snapshot.created_at,
        "confirmedAt": "2023-11-14T22:14:20.000Z",
    }
    assert snapshot_status.store_snapshot(remote.known(), "another") is None


def test_a_replica_shows_what_it_began_with(remote: Remote) -> None:
    snapshot = remote.owner.publish("a")
    remote.owner.task.role = TaskRole.STANDBY
    assert remote.known() is None

    remote.restores.snapshots[remote.owner.task.id] = snapshot

    assert remote.known() == snapshot_status.KnownSnapshot(snapshot, None)


def test_a_prediction_is_unknown_until_it_is_known_how_fast_the_store_is_read(remote: Remote) -> None:
    snapshot = remote.owner.publish("a")
    assert remote.restore() == {"predictedSeconds": None}  # the position of the task is unknown

    remote.owner.task.changelog_positions = {"s": 101}
    assert remote.restore() == {"predictedSeconds": None}
    remote.rates.download.observe(snapshot.total_bytes, 2.0)
    assert remote.restore() == {"predictedSeconds": 2.105}, "100 records, replayed no faster than is sure"
    remote.rates.replay.observe(100, 0.5)
    assert remote.restore() == {"predictedSeconds": 2.6}


def test_what_a_restore_took_is_shown_beside(remote: Remote) -> None:
    timing = RestoreTiming(0.0, 1.0, total_bytes=9, moved_bytes=4)
    remote.restores.timings[remote.owner.task.id] = timing
    assert remote.restore() == {
        "predictedSeconds": None,
        "downloadSeconds": None,
        "observedSeconds": None,
        "downloadedBytes": 4,
        "totalBytes": 9,
    }

    timing.observed_seconds = 1.25

    assert remote.restore()["observedSeconds"] == 1.25
    found = remote.samples()
    assert found["kafka_stream_task_restore_predicted_seconds"] == 1.0
    assert found["kafka_stream_task_restore_observed_seconds"] == 1.25


def test_what_is_still_to_come_of_a_task_that_runs_is_shown(remote: Remote) -> None:
    files = SimpleNamespace(missing_bytes=1_000, requests=12, reads=3)
    remote.restores.early.reads[remote.owner.task.id] = SimpleNamespace(files=files)

    assert remote.restore() == {"predictedSeconds": None, "missingBytes": 1_000, "requests": 12, "readsThatWaited": 3}
    found = remote.samples()
    assert found["kafka_stream_task_snapshot_missing_bytes"] == 1_000
    assert found["kafka_stream_task_snapshot_requests_total"] == 12
    assert found["kafka_stream_task_snapshot_waiting_reads_total"] == 3


def test_requests_to_the_object_store_are_shown_and_how_many_it_refused(
    remote: Remote, caplog: pytest.LogCaptureFixture
) -> None:
    clock = remote.owner.clock
    assert snapshot_status.request_figures(cast(Any, remote), clock) == {
        "requests": {},
        "throttled": 0,
        "throttledAt": None,
    }
    for verb in ("read", "read", "list"):
        remote.requests.count(verb)
    remote.requests.throttle("s3://bucket/p")
    remote.requests.throttle("s3://bucket/p")

    told = snapshot_status.request_figures(cast(Any, remote), clock)
    assert told is not None
    assert (told["requests"], told["throttled"]) == ({"read": 2, "list": 1}, 2)
    assert told["throttledAt"] <= timestamp(clock.now_ms())
    counted = list(snapshot_status.samples(cast(Any, remote), clock.now_ms()))
    assert {each.labels["operation"]: each.value for each in counted if "object_store_requests" in each.name} == {
        "read": 2,
        "list": 1,
    }
    assert remote.samples()["kafka_stream_object_store_throttled_requests_total"] == 2
    assert caplog.text.count("s3://bucket/p refuses requests for a while") == 1


def test_snapshots_are_counted_and_grow_old(remote: Remote) -> None:
    assert "kafka_stream_task_snapshot_age_seconds" not in remote.samples()
    first = remote.owner.publish("a")
    second = remote.owner.publish("b")
    remote.owner.clock.advance(5_000)

    found = remote.samples()

    assert found["kafka_stream_task_snapshot_total"] == 2
    assert found["kafka_stream_task_snapshot_age_seconds"] == 5.0
    assert found["kafka_stream_task_snapshot_uploaded_bytes_total"] == first.new_bytes + second.new_bytes
    assert found["kafka_stream_task_snapshot_reused_files_total"] > 0
    assert found["kafka_stream_snapshot_downloaded_bytes_total"] == 7


# ---- parts ---------------------------------------------------------------------------------------------------------


def test_what_somebody_waits_for_is_done_before_what_nobody_does() -> None:
    done: list[str] = []
    ended = threading.Event()
    workers = PriorityThreadPool("worker", 1, SimpleQueue())

    def job(name: str) -> WorkItem:
        return WorkItem(lambda _: done.append(name))

    replica, promoted, cancelled = job("replica"), job("promoted"), job("cancelled")
    for each in (replica, promoted, cancelled):
        workers.submit(each, 1)
    workers.submit(job("active"), 0)
    workers.submit(promoted, 0)
    cancelled.cancel()
    workers.submit(WorkItem(lambda _: ended.set()), 2)
    workers.threads[0].start()

    assert ended.wait(TIMEOUT)
    assert done == ["active", "promoted", "replica"]
    workers.stop()
    workers.threads[0].join(TIMEOUT)
    assert not workers.threads[0].is_alive()


class SlowFirst:
    """Two workers; one has begun with a job that waits."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.go_on, begun = threading.Event(), threading.Event()

        def slow(job: WorkItem) -> None:
            begun.set()
            assert self.go_on.wait(TIMEOUT)
            self.done.append("first")

        self.first = WorkItem(slow)
        self.workers = PriorityThreadPool("worker", 2, SimpleQueue())
        for thread in self.workers.threads:
            thread.start()
        self.workers.submit(self.first, 1)
        assert begun.wait(TIMEOUT)

    def job(self, name: str, after: WorkItem) -> WorkItem:
        return WorkItem(lambda _: self.done.append(name), after=after)


def test_a_job_waits_for_the_end_of_the_one_before() -> None:
    it = SlowFirst()
    second = it.job("second", it.first)
    it.first.cancel()
    it.workers.submit(second, 0)
    it.go_on.set()

    assert second.ended.wait(TIMEOUT)
    assert it.done == ["first", "second"]
    it.workers.stop()


def test_a_job_waits_also_for_the_end_of_one_whose_successor_never_began() -> None:
    it = SlowFirst()
    second = it.job("second", it.first)
    third = it.job("third", second)
    fourth = it.job("fourth", third)
    for each in (it.first, second):
        each.cancel()
    it.workers.submit(third, 0)
    assert not third.ended.wait(0.2)
    third.cancel()  # it waits on its thread
    it.go_on.set()
    it.workers.submit(fourth, 0)

    assert fourth.ended.wait(TIMEOUT)
    assert it.done == ["first", "fourth"]
    it.workers.stop()


def test_a_state_directory_has_one_user_at_a_time(tmp_path: Path) -> None:
    directory = tmp_path / "app"
    first = DirectoryLock(directory)

    with pytest.raises(ConfigError, match=f"^state_dir: another instance uses {directory}"):
        DirectoryLock(directory)

    first.release()
    DirectoryLock(directory).release()
