"""Removing what tasks left behind, noticing topics that changed, and threads that wake up now and then."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Any, cast

import pytest

from streamsapp import TaskId, Topology
from streamsapp.errors import StateStoreError, TopicError
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.runtime.housekeeping import CLEANUP_DELAY, Cleanup, PeriodicThread, StoreStatistics, TopicWatch
from streamsapp.runtime.layouts import Layouts
from streamsapp.runtime.thread_failure import ThreadFailure
from task_parts import config

LONG_AGO = time.time() - CLEANUP_DELAY - 60
SOON = 10.0


def task_directory(root: Path, name: str, *, old: bool = True) -> Path:
    """A task's directory as RocksDB leaves it."""
    database = root / name / "rocksdb"
    database.mkdir(parents=True)
    for file in (database / "LOCK", database / "000008.sst"):
        file.touch()
    if old:
        age(root / name)
    return root / name


def age(directory: Path, at: float = LONG_AGO) -> None:
    for path in [*directory.rglob("*"), directory]:
        os.utime(path, (at, at), follow_symlinks=False)


def clean(root: Path, *owned: TaskId) -> None:
    Cleanup(root, lambda: owned).run()


def test_removes_a_directory_nobody_has_used_for_a_while(tmp_path: Path) -> None:
    directory = task_directory(tmp_path, "0_1")

    clean(tmp_path)

    assert not directory.exists()


def test_keeps_the_directories_of_the_instances_own_tasks(tmp_path: Path) -> None:
    directory = task_directory(tmp_path, "0_1")

    clean(tmp_path, TaskId(0, 1))

    assert directory.exists()


def test_keeps_a_directory_that_was_used_lately(tmp_path: Path) -> None:
    directory = task_directory(tmp_path, "0_1", old=False)

    clean(tmp_path)

    assert directory.exists()


def test_keeps_a_directory_in_which_a_single_file_is_new(tmp_path: Path) -> None:
    directory = task_directory(tmp_path, "0_1")
    (directory / "rocksdb" / "000008.sst").write_text("new", encoding="utf-8")

    clean(tmp_path)

    assert directory.exists()


def test_keeps_what_is_not_a_tasks_directory(tmp_path: Path) -> None:
    other = task_directory(tmp_path, "notes")

    clean(tmp_path)

    assert other.exists()


def test_keeps_no_more_bytes_than_are_allowed_of_those_that_were_left_first(tmp_path: Path) -> None:
    ages = {"0_1": 500, "0_2": 400, "0_3": 300, "0_4": 10}
    for name, seconds in ages.items():
        directory = task_directory(tmp_path, name)
        (directory / "rocksdb" / "000008.sst").write_bytes(bytes(1_000_000))
        age(directory, time.time() - seconds)

    Cleanup(tmp_path, lambda: (), most_unused_bytes=2_100_000).run()

    assert sorted(path.name for path in tmp_path.iterdir()) == ["0_2", "0_3", "0_4"]


def test_a_directory_that_was_left_a_moment_ago_is_kept_however_large(tmp_path: Path) -> None:
    directory = task_directory(tmp_path, "0_1", old=False)
    (directory / "rocksdb" / "000008.sst").write_bytes(bytes(1_000_000))

    Cleanup(tmp_path, lambda: (), most_unused_bytes=1).run()

    assert directory.exists()


def test_what_a_killed_process_left_half_done_is_removed_when_it_is_old(tmp_path: Path) -> None:
    old, new = task_directory(tmp_path, "sample.part"), task_directory(tmp_path, "0_2.part", old=False)

    clean(tmp_path)

    assert (old.exists(), new.exists()) == (False, True)


def test_a_directory_whose_task_comes_back_meanwhile_is_kept(tmp_path: Path) -> None:
    directory = task_directory(tmp_path, "0_1")
    answers = iter([(), (TaskId(0, 1),)])

    Cleanup(tmp_path, lambda: next(answers)).run()

    assert directory.exists()


LOCKS = """
import fcntl, sys
with open(sys.argv[1], "r+") as handle:
    fcntl.lockf(handle, fcntl.LOCK_EX)
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_keeps_a_directory_that_another_process_has_open(tmp_path: Path) -> None:
    directory = task_directory(tmp_path, "0_1")
    command = [sys.executable, "-c", LOCKS, str(directory / "rocksdb" / "LOCK")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        age(directory)

        clean(tmp_path)
        assert directory.exists()
        other.stdin.close()

    clean(tmp_path)
    assert not directory.exists()


def test_a_file_that_vanishes_meanwhile_does_not_end_the_round(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another instance's RocksDB deletes files whenever it compacts."""
    changing = task_directory(tmp_path, "0_1")
    (changing / "000009.sst").symlink_to("gone")
    abandoned = task_directory(tmp_path, "0_2")

    clean(tmp_path)

    assert changing.exists()
    assert "cannot clean up" in caplog.text
    assert not abandoned.exists()


def test_there_may_be_no_directory_at_all(tmp_path: Path) -> None:
    clean(tmp_path / "not there")

    assert list(tmp_path.iterdir()) == []


# ---- topics ------------------------------------------------------------------------------------------------------


class Admin:
    def __init__(self, counts: dict[str, int] | TopicError) -> None:
        self._counts = counts

    def partition_counts(self) -> dict[str, int]:
        if isinstance(self._counts, TopicError):
            raise self._counts
        return self._counts


LAYOUT = ApplicationLayout(plans={}, sources={"orders": 4}, repartition_topics=frozenset())


def look(counts: dict[str, int] | TopicError, layout: ApplicationLayout | None = LAYOUT) -> None:
    layouts = None if layout is None else Layouts(Topology(), config(), layout)
    TopicWatch(cast(Any, Admin(counts)), lambda: layouts).run()


def test_topics_that_did_not_change_are_fine() -> None:
    look({"orders": 4, "other": 1})


def test_a_source_topic_that_gained_partitions_ends_the_application_by_name() -> None:
    with pytest.raises(TopicError, match="orders had 4 partitions when the application started and now has 6"):
        look({"orders": 6})


def test_a_source_topic_that_went_away_ends_the_application_by_name() -> None:
    with pytest.raises(TopicError, match="source topic orders is gone"):
        look({})


def test_a_broker_that_cannot_be_reached_tells_nothing_about_topics(caplog: pytest.LogCaptureFixture) -> None:
    look(TopicError("no broker"))

    assert "topics were not checked: no broker" in caplog.text


def test_topics_are_not_looked_at_before_the_layout_is_known() -> None:
    look(TopicError("never asked"), layout=None)


# ---- threads -----------------------------------------------------------------------------------------------------


def test_a_periodic_thread_calls_its_action_again_and_again_until_stopped() -> None:
    thrice = threading.Semaphore(0)
    failures: SimpleQueue[ThreadFailure] = SimpleQueue()
    thread = PeriodicThread("cleanup", 0.001, thrice.release, failures)
    thread.start()
    for _ in range(3):
        assert thrice.acquire(timeout=SOON)

    thread.stop()
    thread.join(SOON)

    assert not thread.is_alive()
    assert failures.empty()


def test_what_a_periodic_thread_raises_goes_to_the_exception_queue() -> None:
    def fail() -> None:
        raise TopicError("gone")

    failures: SimpleQueue[ThreadFailure] = SimpleQueue()
    thread = PeriodicThread("topics", 0.001, fail, failures)
    thread.start()

    failure = failures.get(timeout=SOON)

    assert (failure.thread, str(failure.error), failure.task_id) == ("topics", "gone", None)


def test_a_task_that_is_closed_meanwhile_has_no_statistics() -> None:
    class Closed:
        def statistics(self) -> dict[str, dict[str, int]]:
            raise StateStoreError("it is closed")

    class Open:
        def statistics(self) -> dict[str, dict[str, int]]:
            return {"counts": {"scans": 1}}

    statistics = StoreStatistics(lambda: {TaskId(0, 0): cast(Any, Closed()), TaskId(0, 1): cast(Any, Open())})

    statistics.run()

    assert statistics.figures == {TaskId(0, 1): {"counts": {"scans": 1}}}


def test_store_statistics_are_those_of_the_last_reading() -> None:
    class Stores:
        reads = 0

        def statistics(self) -> dict[str, dict[str, int]]:
            self.reads += 1
            return {"counts": {"scans": self.reads}}

    stores = Stores()
    statistics = StoreStatistics(lambda: {TaskId(0, 0): cast(Any, stores)})
    assert statistics.figures == {}

    statistics.run()
    statistics.run()

    assert statistics.figures == {TaskId(0, 0): {"counts": {"scans": 2}}}
