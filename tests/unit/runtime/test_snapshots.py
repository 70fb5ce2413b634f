"""Snapshots of active tasks: the time of each, the right to publish, and a task that others have claimed."""

from __future__ import annotations

import errno
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from instances import eventually
from memory_objects import MemoryObjects
from snapshotting import IN, TIMEOUT, Owner, SnapshotThreads, away
from streamsapp import TaskId
from streamsapp.errors import StateStoreError
from streamsapp.record import TopicPartition
from streamsapp.remote.object_store import ObjectStoreError, UnfitObjectStoreError
from streamsapp.remote.snapshot import Snapshot
from streamsapp.remote.snapshot_writer import SnapshotFencedError, SnapshotWriter
from streamsapp.runtime.remote_state import task_snapshots
from streamsapp.runtime.remote_state.local_record import LocalRecord, LocalState
from streamsapp.runtime.remote_state.task_snapshots import TaskSnapshots

TASK = TaskId(0, 0)


# ---- one task ------------------------------------------------------------------------------------------------------


def test_the_first_turn_claims_and_writes_down_the_epoch(owner: Owner) -> None:
    assert owner.turn()

    assert owner.chain.numbers() == [1]
    assert owner.snapshots.local.read().epoch == owner.snapshots.writer.epoch == 1


def test_nothing_is_claimed_while_others_may_have_taken_over(owner: Owner) -> None:
    owner.may_claim = False
    assert not owner.turn()
    assert owner.chain.numbers() == []

    owner.may_claim = True
    assert owner.turn()


def test_a_task_that_leaves_while_it_is_to_be_claimed_is_not_claimed(owner: Owner, objects: MemoryObjects) -> None:
    objects.before = lambda operation, key: owner.snapshots.release()

    assert not owner.turn()

    assert owner.chain.numbers() == []


def test_a_task_that_left_meanwhile_keeps_what_was_written_down_of_it(owner: Owner) -> None:
    owner.snapshots.release()

    owner.turn()

    assert owner.snapshots.local.read().epoch is None


def test_a_snapshot_has_the_offsets_of_its_commit(owner: Owner) -> None:
    snapshot = owner.publish("a", "b")

    assert {name: point.offset for name, point in snapshot.stores.items()} == {"s": 2}
    assert snapshot.stores["s"].topic_id == "id of app-s-changelog"
    assert [(TopicPartition(each.topic, each.partition), each.offset) for each in snapshot.inputs] == [(IN, 2)]


def test_what_did_not_change_is_confirmed_without_a_look_at_any_file(owner: Owner, objects: MemoryObjects) -> None:
    owner.publish("a")
    before = dict(objects.objects)
    owner.clock.advance(60_000)

    assert owner.turn()

    assert objects.objects == before
    assert owner.snapshots.fresh_at_ms == owner.clock.now_ms()
    assert (owner.snapshots.figures.published, owner.snapshots.figures.unchanged) == (1, 1)


def test_what_a_claim_repeats_is_compared_with_what_is_here(
    owner: Owner, objects: MemoryObjects, tmp_path: Path
) -> None:
    """The files of the snapshot may be damaged, and the task restored from its changelog: with the same offsets."""
    owner.publish("a")
    heir = Owner(tmp_path / "heir", objects)
    heir.turn()
    heir.commit("z")

    assert heir.turn()

    assert heir.snapshots.figures.published == 1


def test_a_turn_between_two_slices_of_a_commit_is_none(owner: Owner) -> None:
    owner.publish("a")
    owner.task.stores.stores["s"].put("b", "v")
    owner.task.stores.stores["s"].put("c", "v")
    steps = owner.task.stores.apply(owner.task.stores.freeze(), {"s": 3}, {IN: (3, "")}, slice_size=1)
    next(steps)

    assert not owner.turn()

    list(steps)
    assert owner.turn()
    assert owner.snapshots.last is not None
    assert owner.snapshots.last.stores["s"].offset == 3


def test_no_copy_is_left_whatever_happens(owner: Owner, objects: MemoryObjects) -> None:
    owner.publish("a")
    owner.commit("b")
    objects.before = away
    with pytest.raises(ObjectStoreError):
        owner.turn()

    assert [path.name for path in owner.snapshots.local.directory.glob("*.part")] == []


def test_a_task_that_came_back_meanwhile_leaves_the_copy_of_its_life_before_alone(
    owner: Owner, objects: MemoryObjects
) -> None:
    """The life before still waits for the object store, and finds out that it is over when it has an answer."""
    owner.turn()
    owner.commit("a")
    writer = SnapshotWriter(owner.chain, "owner", owner.clock)
    again = TaskSnapshots(owner.task, writer, owner.snapshots.local)

    def come_back(operation: str, key: str) -> None:
        if operation == "upload":
            objects.before = MemoryObjects().before
            assert owner.taker.take(again)
            assert owner.taker.take(again)

    objects.before = come_back

    with pytest.raises(SnapshotFencedError):
        owner.turn()
    assert owner.chain.read(3).epoch == again.writer.epoch == 2


def test_a_copy_that_disappears_is_told_and_ends_nothing(owner: Owner, objects: MemoryObjects) -> None:
    owner.turn()
    owner.commit("a")

    def prepare_anew(operation: str, key: str) -> None:
        owner.snapshots.local.remove_leftovers()

    objects.before = prepare_anew

    with pytest.raises(StateStoreError, match=r"no snapshot of task 0_0 was made, its copy in .* cannot be read"):
        owner.turn()


def test_a_disk_that_is_full_when_a_snapshot_is_noted_is_told_and_ends_nothing(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.publish("a")
    owner.commit("b")

    def full(snapshot: Snapshot) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(owner.snapshots.local, "write_snapshot", full)

    with pytest.raises(StateStoreError, match=r"task 0_0.*No space left on device.*is the disk .* full"):
        owner.turn()


@pytest.mark.parametrize("reason", ["left", "ended"])
def test_an_upload_breaks_off_when_the_task_leaves_or_the_instance_ends(
    owner: Owner, objects: MemoryObjects, reason: str
) -> None:
    owner.publish("a")
    owner.commit("b")
    if reason == "left":
        owner.snapshots.release()
    else:
        owner.taker._ended = lambda: True

    with pytest.raises(ObjectStoreError, match="task 0_0 has left before its snapshot was complete"):
        owner.turn()


def test_a_snapshot_is_published_though_old_ones_cannot_be_deleted(
    owner: Owner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuses(*_: object) -> tuple[int, int, int]:
        raise ObjectStoreError("no right to delete")

    monkeypatch.setattr(task_snapshots, "collect", refuses)

    assert owner.publish("a").number == 2

    assert owner.snapshots.fresh_at_ms == owner.clock.now_ms()
    assert "task 0_0: old snapshots were not deleted, which is tried again later: no right to delete" in caplog.text


def test_a_claim_that_is_not_written_down_is_made_again(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: LocalState, record: LocalRecord) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(LocalState, "write", full)
        with pytest.raises(
            StateStoreError, match=r"the epoch of task 0_0 cannot be written .* is the disk of the state"
        ):
            owner.turn()

    assert owner.turn()
    assert owner.snapshots.local.read().epoch == owner.snapshots.writer.epoch == 2


def test_old_snapshots_are_collected_now_and_then(
    owner: Owner, objects: MemoryObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_snapshots, "COLLECT_EVERY", 2)
    for number in range(9):
        objects.sleep(3600)
        owner.publish(f"key{number}")

    assert len(owner.chain.numbers()) <= 6


def test_how_fast_the_store_is_read_is_measured_with_a_part_of_a_snapshot(owner: Owner, objects: MemoryObjects) -> None:
    owner.publish("a")
    sampled = objects.asked("download")
    owner.publish("b")

    assert sampled
    assert objects.asked("download") == sampled  # not again so soon


# ---- the threads ---------------------------------------------------------------------------------------------------


def test_a_task_that_starts_to_run_is_claimed_at_once_and_copied_on_demand(
    owner: Owner, threads: SnapshotThreads
) -> None:
    threads.start()
    owner.commit("a")
    threads.snapshots.own(owner.task)

    assert threads.snapshots.take_all(TIMEOUT)

    _, newest = owner.chain.newest()
    assert newest is not None
    assert newest.stores["s"].offset == 1


def test_snapshots_are_taken_by_themselves_every_interval(owner: Owner) -> None:
    threads = SnapshotThreads(owner, interval=0.01)
    threads.start()
    threads.snapshots.own(owner.task)
    owner.commit("a")

    def taken() -> bool:
        it = threads.snapshots.of(TASK)
        return it is not None and it.figures.unchanged >= 2

    try:
        eventually(taken, "the snapshots")
    finally:
        threads.stop()


def test_a_task_that_others_claimed_is_a_failure_of_this_instance(
    owner: Owner, threads: SnapshotThreads, tmp_path: Path, objects: MemoryObjects
) -> None:
    threads.start()
    threads.snapshots.own(owner.task)
    assert threads.snapshots.take_all(TIMEOUT)
    Owner(tmp_path / "other", objects, "pod-7").turn()

    assert not threads.snapshots.take_all(TIMEOUT)

    failure = threads.failures.get(timeout=TIMEOUT)
    assert failure.task_id == TASK
    assert isinstance(failure.error, SnapshotFencedError)
    assert "pod-7 claimed it with epoch" in str(failure.error)
    assert threads.snapshots.of(TASK) is None


def test_a_task_that_left_is_nobodys_failure(
    owner: Owner, threads: SnapshotThreads, tmp_path: Path, objects: MemoryObjects
) -> None:
    threads.snapshots.own(owner.task)
    entry = threads.snapshots._schedule.take()
    assert entry is not None
    threads.snapshots._take(entry)
    Owner(tmp_path / "other", objects).turn()

    threads.snapshots.request_all()
    entry = threads.snapshots._schedule.take()
    assert entry is not None
    threads.snapshots.release(owner.task)
    threads.snapshots._take(entry)

    assert threads.failures.empty()


def test_a_store_that_can_never_be_used_ends_the_instance(
    owner: Owner, threads: SnapshotThreads, objects: MemoryObjects
) -> None:
    def unfit(operation: str, key: str) -> None:
        raise UnfitObjectStoreError("no conditional writes")

    objects.before = unfit
    threads.start()

    failure = threads.failures.get(timeout=TIMEOUT)
    assert isinstance(failure.error, UnfitObjectStoreError)
    assert failure.task_id is None


def test_a_task_whose_stores_are_closed_meanwhile_is_no_failure_of_the_threads(
    owner: Owner, threads: SnapshotThreads
) -> None:
    threads.start()
    threads.snapshots.own(owner.task)
    assert threads.snapshots.take_all(TIMEOUT)
    owner.commit("a")
    point = owner.task.stores.commit_point
    owner.task.stores.close()
    owner.task.stores._standing.point = point  # it was looked at a moment before

    assert not threads.snapshots.take_all(TIMEOUT)
    assert threads.failures.empty()
    with pytest.raises(StateStoreError):
        owner.task.stores.checkpoint(owner.directory / "copy")


def test_the_first_snapshots_of_tasks_that_came_together_are_spread_over_the_interval(owner: Owner) -> None:
    threads = SnapshotThreads(owner, interval=60.0)

    pauses = sorted(threads.snapshots._pause(claiming=True) for _ in range(10))

    assert all(0 < later - earlier < 15 for earlier, later in pairwise(pauses))
    assert threads.snapshots._pause(claiming=False) == 60.0


def test_a_task_that_keeps_nothing_on_disk_has_no_snapshots(owner: Owner, threads: SnapshotThreads) -> None:
    stateless = SimpleNamespace(
        id=TaskId(0, 5), stores=SimpleNamespace(families={}), plan=SimpleNamespace(has_snapshots=lambda stores: False)
    )

    threads.snapshots.own(cast(Any, stateless))

    assert threads.snapshots.tasks == {}
