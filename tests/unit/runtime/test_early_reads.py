"""A task runs before the files of its snapshot are here: what it reads comes by itself, the rest in the background."""

from __future__ import annotations

import errno
import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from memory_objects import MemoryObjects
from snapshotting import CHANGELOG, IN, TIMEOUT, Heir, Owner, away
from streamsapp import TaskId
from streamsapp.errors import StateOutOfReachError, StateStoreError, TaskCorruptedError
from streamsapp.record import RawRecord
from streamsapp.remote import partial_files, pieces, snapshot_writer
from streamsapp.remote.object_store import ObjectStoreError
from streamsapp.runtime.remote_state import early_reads, early_tasks
from streamsapp.runtime.remote_state.early_reads import EarlyReads
from streamsapp.runtime.remote_state.local_record import LocalState
from streamsapp.tasks.states import TaskRole, TaskState
from streamsapp.tasks.stream_task import StreamTask

TASK = TaskId(0, 0)
KEYS = 6_000


def value(number: int) -> str:
    return random.Random(number).randbytes(60).hex()


def raises(error: Exception) -> Callable[..., Any]:
    def fail(*_: object) -> Any:
        raise error

    return fail


def key(number: int) -> str:
    return f"k{number:06}"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces and tables are small, so that a small state has many."""
    monkeypatch.setattr(pieces, "PIECE_BYTES", 4096)
    monkeypatch.setattr(partial_files, "_WORTH_LEAVING", 4096)
    monkeypatch.setattr(partial_files, "_MOST", 8 * 4096)
    monkeypatch.setattr(early_reads, "PAUSE", 0.01)
    monkeypatch.setattr(early_tasks, "PAUSE", 0.01)


@pytest.fixture
def filling(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Files are filled once this is set."""
    may_fill, fill = threading.Event(), EarlyReads.fill
    monkeypatch.setattr(EarlyReads, "fill", lambda self: not may_fill.wait(0.01) or fill(self))
    yield may_fill
    may_fill.set()


def publish(owner: Owner) -> None:
    """A snapshot with keys in several tables that overlap, some of them written again, and some deleted."""
    assert owner.turn()
    written = owner.task.stores.stores["s"]
    for part in range(3):
        for number in range(part, KEYS, 3):
            written.put(key(number), value(number))
        owner.commit(f"part {part}")
        owner.task.stores.flush()
    for number in range(0, KEYS, 100):
        written.put(key(number), None)
    owner.commit("deleted")
    assert owner.turn()


def restored(heir: Heir) -> StreamTask:
    """A task that runs, with nothing but its snapshot."""
    heir.thread.log(CHANGELOG, end=4)
    task = heir.thread.task()
    heir.restore(task)
    assert heir.thread.restored == [TASK], heir.thread.failed
    return task


def early(heir: Heir) -> EarlyReads:
    return heir.restores.early.reads[TASK]


def wait_until(holds: Callable[[], object]) -> None:
    give_up = time.monotonic() + TIMEOUT
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def all_here(heir: Heir) -> bool:
    return LocalState(heir.directory / str(TASK)).has_database


def expected(numbers: range) -> list[tuple[str, str]]:
    return [(key(number), value(number)) for number in numbers if number % 100]


def everything() -> list[tuple[str, str]]:
    return sorted([("deleted", "v"), *((f"part {part}", "v") for part in range(3)), *expected(range(KEYS))])


def table_of(objects: MemoryObjects) -> str:
    """The key of the largest table."""
    return max((name for name in objects.objects if name.endswith(".sst")), key=lambda name: len(objects.objects[name]))


def test_keys_and_ranges_are_read_before_the_files_are_here(owner: Owner, heir: Heir, filling: threading.Event) -> None:
    publish(owner)
    store = restored(heir).stores.stores["s"]
    whole = early(heir).files.missing_bytes

    for number in random.Random(1).sample(range(KEYS), 20):
        assert store.get(key(number)) == (None if number % 100 == 0 else value(number))
    assert store.get("never written") is None
    assert [*store.range(key(1000), key(1499))] == expected(range(1000, 1500))
    assert [*store.reverse_range(key(1000), key(1499))] == expected(range(1000, 1500))[::-1]

    assert 0 < early(heir).files.missing_bytes < whole
    filling.set()
    heir.passes_until(lambda: all_here(heir))
    assert [*store.all()] == everything()


def test_a_scan_of_everything_brings_everything_with_few_requests(
    owner: Owner, heir: Heir, filling: threading.Event
) -> None:
    publish(owner)
    store = restored(heir).stores.stores["s"]

    assert [*store.all()] == everything()

    assert all_here(heir)
    assert early(heir).files.requests < 60  # 200 pieces, of three tables at the same time


def test_what_is_written_stays_above_what_comes(owner: Owner, heir: Heir, filling: threading.Event) -> None:
    publish(owner)
    task = restored(heir)
    store = task.stores.stores["s"]

    store.put(key(1), "new")
    store.put(key(2), None)
    seen_before = store.range(key(0), key(5))
    list(task.stores.apply(task.stores.freeze(), {"s": 6}, {IN: (6, "")}))
    task.stores.flush()
    changed = [(key(1), "new"), *expected(range(3, 6))]
    assert [*seen_before] == changed
    filling.set()
    heir.passes_until(lambda: all_here(heir))

    assert [*store.range(key(0), key(5))] == changed


def test_no_snapshot_is_taken_until_all_files_are_here(
    owner: Owner, heir: Heir, filling: threading.Event, tmp_path: Path
) -> None:
    publish(owner)
    task = restored(heir)
    task.stores.restored({"s": 4}, {IN: (4, "")})

    assert task.stores.checkpoint(tmp_path / "early") is None
    filling.set()
    heir.passes_until(lambda: all_here(heir))

    assert task.stores.checkpoint(tmp_path / "whole") is not None
    assert not (tmp_path / "early").exists()


def test_a_directory_whose_files_came_is_used_again(
    owner: Owner, heir: Heir, objects: MemoryObjects, filling: threading.Event
) -> None:
    publish(owner)
    task = restored(heir)
    filling.set()
    heir.passes_until(lambda: all_here(heir))
    task.state = TaskState.RUNNING
    heir.thread.thread.close([task], clean=True)
    heir.passes_until(lambda: not heir.restores.local(TASK).read().epoch)
    objects.calls.clear()

    again = restored(heir)

    assert [*again.stores.stores["s"].all()] == everything()
    assert not objects.asked("read_range") + objects.asked("download")


def test_a_process_that_was_killed_before_its_files_came_begins_anew(
    owner: Owner, heir: Heir, objects: MemoryObjects, filling: threading.Event, tmp_path: Path
) -> None:
    publish(owner)
    restored(heir).stores.stores["s"].get(key(1))
    copied = tmp_path / "killed"
    shutil.copytree(heir.directory, copied)

    with closing(Heir(copied, objects)) as successor:
        assert not LocalState(copied / str(TASK)).has_database
        task = restored(successor)
        filling.set()
        assert [*task.stores.stores["s"].all()] == everything()


def test_a_database_with_holes_is_not_opened_without_its_snapshot(
    owner: Owner, heir: Heir, filling: threading.Event
) -> None:
    publish(owner)
    task = restored(heir)
    task.stores.close()

    with pytest.raises(TaskCorruptedError, match="not whole"):
        task.stores.open()
    task.stores.wipe()
    task.stores.open()

    assert [*task.stores.stores["s"].all()] == []


def test_a_replica_waits_for_all_files(owner: Owner, heir: Heir, filling: threading.Event) -> None:
    publish(owner)
    heir.thread.log(CHANGELOG, end=4)
    task = heir.thread.task(role=TaskRole.STANDBY)

    heir.thread.thread.add(task)
    heir.passes_until(lambda: task.changelog_positions == {"s": 4})

    assert TASK not in heir.restores.early.reads
    assert [*task.stores.stores["s"].all()] == everything()


def test_a_snapshot_without_checksums_of_pieces_is_fetched_whole(
    owner: Owner, heir: Heir, filling: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_writer, "MOST_BYTES", 0)
    publish(owner)

    store = restored(heir).stores.stores["s"]

    assert TASK not in heir.restores.early.reads
    assert [*store.all()] == everything()


# ---- faults --------------------------------------------------------------------------------------------------------


def test_a_damaged_piece_is_found_by_the_read_that_needs_it_and_its_snapshot_is_refused(
    owner: Owner, heir: Heir, objects: MemoryObjects, filling: threading.Event
) -> None:
    publish(owner)
    task = restored(heir)
    name = table_of(objects)
    data = bytearray(objects.objects[name])
    for at in range(0, len(data), 4096):  # a bit of each piece, as the one that a key is in is not known
        data[at] ^= 1
    objects.objects[name] = bytes(data)

    with pytest.raises(TaskCorruptedError, match=r"damaged.*\.sst") as raised:
        [*task.stores.stores["s"].all()]

    heir.thread.thread.damaged(task, raised.value)
    refused = heir.restores.damage.objection(heir.restores.snapshots[TASK])
    assert refused is not None
    assert name.rpartition("-")[2] in refused


def test_a_damaged_piece_that_no_read_needs_ends_the_task_too(
    owner: Owner, heir: Heir, objects: MemoryObjects, filling: threading.Event
) -> None:
    publish(owner)
    restored(heir)
    name = table_of(objects)
    objects.objects[name] = b"\1" * len(objects.objects[name])

    filling.set()

    failure = heir.failures.get(timeout=TIMEOUT)
    assert failure.task_id == TASK
    assert isinstance(failure.error, TaskCorruptedError)
    assert "damaged" in str(failure.error)


def test_a_read_waits_for_an_object_store_that_is_away(
    owner: Owner, heir: Heir, objects: MemoryObjects, filling: threading.Event
) -> None:
    publish(owner)
    store = restored(heir).stores.stores["s"]
    refused: list[str] = []

    def away_for_a_while(operation: str, name: str) -> None:
        if operation == "read_range" and len(refused) < 5:
            refused.append(name)
            raise ObjectStoreError("503 SlowDown")

    objects.before = away_for_a_while

    assert store.get(key(1)) == value(1)
    assert len(refused) == 5


def test_state_that_stays_out_of_reach_is_restored_anew_and_nothing_counts_as_damaged(
    owner: Owner, heir: Heir, objects: MemoryObjects, filling: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(owner)
    task = restored(heir)
    objects.before = away
    monkeypatch.setattr(heir.thread.clock, "monotonic", count(1000.0, 20.0).__next__)

    with pytest.raises(StateOutOfReachError, match="has not given for 30 s: no answer; it is restored anew") as raised:
        task.stores.stores["s"].get(key(1))

    heir.restores.damaged(task, raised.value)
    assert heir.restores.damage.objection(heir.restores.snapshots[TASK]) is None


def test_a_snapshot_that_is_deleted_while_it_is_read_is_given_up(
    owner: Owner, heir: Heir, objects: MemoryObjects, filling: threading.Event
) -> None:
    publish(owner)
    task = restored(heir)
    del objects.objects[table_of(objects)]

    with pytest.raises(StateOutOfReachError, match="was deleted meanwhile"):
        [*task.stores.stores["s"].all()]
    filling.set()

    assert isinstance(heir.failures.get(timeout=TIMEOUT).error, StateOutOfReachError)


def test_a_full_disk_fails_the_read_and_the_next_one_finds_room(
    owner: Owner, heir: Heir, filling: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(owner)
    store = restored(heir).stores.stores["s"]
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", raises(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
        with pytest.raises(StateStoreError, match=r"No space left.*free or enlarge the disk"):
            store.get(key(1))

    assert store.get(key(1)) == value(1)


def test_a_read_that_waits_ends_when_the_task_is_closed(
    owner: Owner, heir: Heir, objects: MemoryObjects, filling: threading.Event
) -> None:
    publish(owner)
    task = restored(heir)
    asked = threading.Event()

    def never(operation: str, name: str) -> None:
        asked.set()
        raise ObjectStoreError("no answer")

    objects.before = never
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit(task.stores.stores["s"].get, key(1))
        assert asked.wait(TIMEOUT)
        early(heir).close()

        with pytest.raises(StateStoreError, match="closed"):
            read.result(TIMEOUT)


def test_the_files_of_a_task_that_left_before_it_was_opened_are_not_filled(
    owner: Owner, heir: Heir, filling: threading.Event
) -> None:
    publish(owner)
    heir.thread.log(CHANGELOG, end=4)
    task = heir.thread.task()
    heir.thread.thread.add(task)
    heir.thread.thread._take_requests()
    wait_until(lambda: TASK in heir.restores.early.reads)
    files = early(heir).files

    heir.restores.cancel(task)
    filling.set()

    assert files.closed
    assert TASK not in heir.restores.early.reads
    assert not files.fill()


@pytest.mark.seeds(2)
def test_readers_of_every_kind_are_right_while_files_come_from_a_store_that_fails(
    owner: Owner, heir: Heir, objects: MemoryObjects, filling: threading.Event, seed: int
) -> None:
    publish(owner)
    view = restored(heir).stores.views["s"]
    chance = random.Random(seed)

    def sometimes(operation: str, name: str) -> None:
        if operation == "read_range" and chance.random() < 0.2:
            raise ObjectStoreError("503 SlowDown")

    def read(reader: int) -> None:
        own = random.Random(seed + reader)
        for _ in range(60):
            number = own.randrange(KEYS - 50)
            if reader % 2:
                found = view.get(key(number).encode(), committed=True)
                assert view.value(found) == (None if number % 100 == 0 else value(number))
            else:
                scanned = view.range(key(number).encode(), key(number + 50).encode(), committed=True)
                assert [(each.decode(), view.value(entry)) for each, entry in scanned] == expected(
                    range(number, number + 50)
                )

    objects.before = sometimes
    filling.set()
    with ThreadPoolExecutor(4) as readers:
        list(readers.map(read, range(4)))
    heir.passes_until(lambda: all_here(heir))

    files = early(heir).files
    assert files.requests < 400
    assert heir.failures.empty()


# ---- reading ahead -------------------------------------------------------------------------------------------------


class SlowStore:
    """Answers come when so many requests for parts of files wait together, or no more can come."""

    def __init__(self, objects: MemoryObjects, together: int) -> None:
        self.most = 0
        self._together = together
        self._waiting = 0
        self._changed = threading.Condition()
        objects.before = self._wait

    def _wait(self, operation: str, name: str) -> None:
        if operation != "read_range":
            return
        with self._changed:
            self._waiting += 1
            self.most = max(self.most, self._waiting)
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self.most >= self._together, TIMEOUT)
            self._waiting -= 1


def records_of(numbers: list[int], begin: int = 0) -> list[RawRecord]:
    keys = [key(each).encode() for each in numbers]
    return [RawRecord(IN.topic, IN.partition, begin + at, each, b"v", 0) for at, each in enumerate(keys)]


def test_what_waiting_records_need_comes_side_by_side(
    owner: Owner, heir: Heir, objects: MemoryObjects, filling: threading.Event
) -> None:
    publish(owner)
    task = restored(heir)
    slow = SlowStore(objects, together=12)
    numbers = random.Random(1).sample(range(KEYS), 200)

    assert task.stores.read_ahead is not None
    task.stores.read_ahead.add(records_of(numbers), lambda: None)

    wait_until(lambda: slow.most >= 12)
    wait_until(lambda: task.stores.read_ahead is None or not task.stores.read_ahead.waits)
    before = early(heir).files.reads
    store = task.stores.stores["s"]
    assert [store.get(key(each)) for each in numbers] == [value(each) if each % 100 else None for each in numbers]
    assert early(heir).files.reads == before
    filling.set()
    wait_until(lambda: all_here(heir) and task.stores.read_ahead is None)


def test_a_task_that_is_closed_does_not_wait_for_what_is_read_ahead_or_by_a_query(
    owner: Owner, heir: Heir, objects: MemoryObjects, filling: threading.Event
) -> None:
    publish(owner)
    task = restored(heir)
    objects.before = away
    assert task.stores.read_ahead is not None
    task.stores.read_ahead.add(records_of(list(range(100))), lambda: None)
    wait_until(lambda: objects.asked("read_range"))
    with ThreadPoolExecutor(1) as threads:
        threads.submit(task.stores.close).result(TIMEOUT / 3)

    task.stores.wipe()
