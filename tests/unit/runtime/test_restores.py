"""The preparation of a new task's directory, and what may happen meanwhile."""

from __future__ import annotations

import threading
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from memory_objects import MemoryObjects
from restoring import keys
from snapshotting import CHANGELOG, IN, TIMEOUT, Gate, Heir, Owner, away
from streamsapp import TaskId
from streamsapp.remote.object_store import Moved, ObjectStoreError
from streamsapp.remote.snapshot import Snapshot
from streamsapp.remote.snapshot_fetch import fetch
from streamsapp.runtime.remote_state import restore_progress, restores
from streamsapp.runtime.remote_state.changelog_facts import ChangelogFacts, ChangelogInspector
from streamsapp.runtime.remote_state.local_record import LocalState
from streamsapp.tasks.states import TaskRole, TaskState
from streamsapp.tasks.stream_task import StreamTask

TASK = TaskId(0, 0)


def local(heir: Heir) -> LocalState:
    return LocalState(heir.directory / str(TASK))


def new_files(heir: Heir, before: Snapshot, snapshot: Snapshot) -> set[str]:
    """The keys of files that the snapshot before does not have."""
    known = {file.object for file in before.files}
    return {heir.remote.chain(TASK).file_key(file) for file in snapshot.files if file.object not in known}


# ---- beginning -----------------------------------------------------------------------------------------------------


def test_a_task_begins_with_a_snapshot_and_reads_the_rest_of_its_changelog(owner: Owner, heir: Heir) -> None:
    snapshot = owner.publish("a", "b", "c")
    heir.thread.log(CHANGELOG, 3, 4)
    heir.thread.consumer.offsets[IN] = 5
    task = heir.thread.task()

    heir.restore(task)

    assert heir.thread.restored == [TASK]
    assert keys(task) == ["3", "4", "a", "b", "c"]
    assert heir.restores.snapshots[TASK] == snapshot
    assert heir.thread.listener.told[0] == f"start {CHANGELOG} s 3 5"


def test_without_a_snapshot_the_changelog_is_read_from_its_beginning(heir: Heir) -> None:
    heir.thread.log(CHANGELOG, 0, 1)
    task = heir.thread.task()

    heir.restore(task)

    assert keys(task) == ["0", "1"]


def test_a_replica_begins_with_a_snapshot_too(owner: Owner, heir: Heir) -> None:
    owner.publish("a")
    heir.thread.log(CHANGELOG, 1)
    task = heir.thread.task(role=TaskRole.STANDBY)

    heir.thread.thread.add(task)
    heir.passes_until(lambda: task.changelog_positions == {"s": 2})

    assert keys(task) == ["1", "a"]
    assert task.state is TaskState.RUNNING


def test_what_it_took_is_compared_with_what_was_predicted(
    owner: Owner, heir: Heir, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    snapshot = owner.publish("a")
    heir.restores._rates.download.observe(snapshot.total_bytes * 2, 1.0)
    heir.restores._rates.replay.observe(2, 1.0)
    heir.thread.log(CHANGELOG, 1)
    heir.thread.consumer.offsets[IN] = 2

    heir.restore(heir.thread.task())

    timing = heir.restores.timings[TASK]
    assert timing.predicted == pytest.approx(1.1)
    assert timing.moved_bytes == timing.total_bytes == snapshot.total_bytes
    assert timing.observed_seconds == 0.0  # by a clock that stands still
    assert "predicted: 1.1 s" in caplog.text


def test_inputs_that_the_group_knows_nothing_of_go_on_where_the_snapshot_stands(owner: Owner, heir: Heir) -> None:
    owner.publish("a", "b")
    heir.thread.log(CHANGELOG, end=2)
    task = heir.thread.task()

    heir.restore(task)

    assert task.start_offsets[IN].offset == 2


@pytest.mark.parametrize("exactly_once", [True, False])
def test_state_of_records_after_the_snapshot_does_not_count_twice_when_the_group_has_no_offsets(
    tmp_path: Path, owner: Owner, objects: MemoryObjects, exactly_once: bool
) -> None:
    owner.publish("a", "b")
    with closing(Heir(tmp_path / "heir", objects, exactly_once=exactly_once)) as heir:
        heir.thread.log(CHANGELOG, 2)

        heir.restore(heir.thread.task())

        if exactly_once:
            ((failed, error),) = heir.thread.failed
            assert failed == TASK
            for told in ("stands at offset 2 of in-0", "store s stands at offset 3", "streamsapp reset"):
                assert told in error
        else:
            assert heir.thread.restored == [TASK]


def test_a_disk_knows_the_inputs_of_the_last_snapshot_that_was_published_from_it(owner: Owner) -> None:
    owner.publish("a")
    published = owner.publish("b", "c")

    record = owner.snapshots.local.read()

    assert record.inputs == published.inputs
    assert record.stores == {"s": 3}


def test_offsets_that_the_group_has_committed_win(owner: Owner, heir: Heir) -> None:
    owner.publish("a", "b")
    heir.thread.log(CHANGELOG, end=2)
    heir.thread.consumer.offsets[IN] = 7
    task = heir.thread.task()

    heir.restore(task)

    assert task.start_offsets[IN].offset == 7


# ---- meanwhile -----------------------------------------------------------------------------------------------------


def test_other_tasks_are_restored_while_one_is_downloaded(owner: Owner, heir: Heir, objects: MemoryObjects) -> None:
    owner.publish("a")
    gate = Gate(objects)
    heir.thread.log(CHANGELOG, end=1)
    heir.thread.log(CHANGELOG._replace(partition=1), 0)
    slow, fast = heir.thread.task(), heir.thread.task(1)

    heir.thread.thread.add(slow)
    heir.restore(fast)

    assert heir.thread.restored == [TaskId(0, 1)]
    assert heir.thread.thread.prepares(TASK)
    assert slow.state is TaskState.RESTORING
    gate.open()
    heir.passes_until(lambda: not heir.thread.thread.restored.empty())
    assert keys(slow) == ["a"]


def test_a_replica_is_promoted_while_its_snapshot_is_downloaded(
    owner: Owner, heir: Heir, objects: MemoryObjects
) -> None:
    owner.publish("a")
    gate = Gate(objects)
    heir.thread.log(CHANGELOG, 1)
    heir.thread.consumer.offsets[IN] = 2
    replica = heir.thread.task(role=TaskRole.STANDBY)
    heir.thread.thread.add(replica)
    heir.passes_until(gate.reached.is_set)

    active = replica.recycled(TaskRole.ACTIVE)
    heir.thread.thread.promote(active)
    heir.thread.passes(2)
    assert heir.thread.restored == []
    gate.open()
    heir.passes_until(lambda: not heir.thread.thread.restored.empty())

    assert heir.thread.failed == []
    assert heir.thread.thread.restored.get_nowait() is active
    assert keys(active) == ["1", "a"]


def test_a_task_is_closed_while_its_snapshot_is_downloaded_and_may_come_back(
    owner: Owner, heir: Heir, objects: MemoryObjects
) -> None:
    owner.publish("a")
    gate = Gate(objects)
    heir.thread.log(CHANGELOG, end=1)
    first, second = heir.thread.task(), heir.thread.task()
    heir.thread.thread.add(first)
    heir.passes_until(gate.reached.is_set)

    heir.thread.thread.close([first])
    heir.thread.thread.add(second)
    heir.thread.passes(2)
    assert first.state is TaskState.CLOSED
    assert heir.thread.thread.prepares(TASK)
    gate.open()
    heir.passes_until(lambda: not heir.thread.thread.restored.empty())

    assert heir.thread.thread.restored.get_nowait() is second
    assert heir.thread.failed == []
    assert keys(second) == ["a"]


def test_a_preparation_that_nobody_wants_any_more_leaves_the_directory_alone(
    owner: Owner, heir: Heir, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.publish("a")
    begun, go_on = threading.Event(), threading.Event()
    facts = ChangelogInspector.facts

    def hangs(it: ChangelogInspector, task: StreamTask) -> ChangelogFacts:
        begun.set()
        assert go_on.wait(TIMEOUT)
        return facts(it, task)

    monkeypatch.setattr(ChangelogInspector, "facts", hangs)
    heir.thread.log(CHANGELOG, end=1)
    heir.thread.thread.add(task := heir.thread.task())
    heir.passes_until(begun.is_set)
    heir.thread.thread.close([task])
    heir.thread.passes()
    left = local(heir).directory / "checkpoint-1.part"
    left.mkdir(parents=True)

    go_on.set()
    heir.close()

    assert [path.name for path in local(heir).directory.iterdir()] == [left.name]


# ---- what cannot be used -------------------------------------------------------------------------------------------


def test_a_snapshot_that_rocksdb_cannot_open_is_not_fetched_twice(
    owner: Owner, heir: Heir, objects: MemoryObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.publish("a")
    heir.thread.log(CHANGELOG, 0)
    task = heir.thread.task()

    def breaks_it(*arguments: object, **named: object) -> object:
        found = fetch(*arguments, **named)  # type: ignore[arg-type]
        if found is not None:
            (heir.directory / "0_0" / "rocksdb" / "CURRENT").write_text("MANIFEST-999999\n")
        return found

    monkeypatch.setattr(restores, "fetch", breaks_it)
    heir.restore(task)

    assert heir.thread.restored == [TASK]
    assert keys(task) == ["0"]


def test_a_snapshot_of_a_topic_that_was_created_again_is_not_used(owner: Owner, heir: Heir) -> None:
    owner.publish("a")
    heir.thread.log(CHANGELOG, 0, 1)
    heir.thread.admin.ids[CHANGELOG.topic] = "another"
    task = heir.thread.task()

    heir.restore(task)

    assert keys(task) == ["0", "1"]
    assert local(heir).read().topics == {"s": "another"}


def test_a_snapshot_beyond_the_end_of_the_changelog_is_not_used(owner: Owner, heir: Heir) -> None:
    owner.publish("a", "b", "c")
    heir.thread.log(CHANGELOG, 0)
    task = heir.thread.task()

    heir.restore(task)

    assert keys(task) == ["0"]


@pytest.mark.parametrize("compacts", [True, False])
def test_a_gap_between_snapshot_and_changelog_is_an_error_unless_the_topic_deletes_by_policy(
    owner: Owner, heir: Heir, compacts: bool
) -> None:
    owner.publish("a")
    heir.thread.log(CHANGELOG, 5, low=4)
    heir.thread.admin.compacts = compacts
    task = heir.thread.task()

    heir.restore(task)

    if compacts:
        ((failed, error),) = heir.thread.failed
        assert failed == TASK
        for told in ("task 0_0", "store s", f"{CHANGELOG} begins at offset 4", "stands at 1", "streamsapp reset"):
            assert told in error
    else:
        assert keys(task) == ["5"]


def test_an_object_store_that_does_not_answer_is_waited_for_and_then_left(
    owner: Owner, heir: Heir, objects: MemoryObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.publish("a")
    monkeypatch.setattr(restore_progress, "PAUSE", 0.01)
    objects.before = away
    heir.thread.log(CHANGELOG, 0)
    heir.thread.consumer.offsets[IN] = 1
    task = heir.thread.task()

    heir.thread.thread.add(task)
    heir.passes_until(lambda: len(objects.asked("probe")) > 2)
    assert heir.thread.restored == []
    heir.thread.clock.advance(31_000)
    heir.passes_until(lambda: not heir.thread.thread.restored.empty())

    assert keys(task) == ["0"]


def test_what_came_before_the_object_store_went_away_is_not_downloaded_again_nor_left_behind(
    owner: Owner, heir: Heir, objects: MemoryObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.publish("a")
    objects.calls.clear()
    monkeypatch.setattr(restore_progress, "PAUSE", 0.01)

    def never(operation: str, key: str) -> None:
        if operation == "download" and key.endswith("CURRENT"):
            away(operation, key)

    objects.before = never
    heir.thread.log(CHANGELOG, 0)
    task = heir.thread.task()

    def tries() -> int:
        return sum(key.endswith("CURRENT") for key in objects.asked("download"))

    heir.thread.thread.add(task)
    heir.passes_until(lambda: tries() > 3)
    heir.thread.clock.advance(31_000)
    heir.passes_until(lambda: not heir.thread.thread.restored.empty())

    others = [key for key in objects.asked("download") if not key.endswith("CURRENT")]
    assert len(others) == len(set(others)) > 1
    assert keys(task) == ["0"]
    assert not [*heir.directory.rglob("*.part")]


def test_a_file_that_is_cut_off_every_time_leads_to_the_snapshot_before(
    owner: Owner, heir: Heir, objects: MemoryObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = owner.publish("a")
    second = owner.publish("b")
    monkeypatch.setattr(restore_progress, "PAUSE", 0.01)
    cut = new_files(heir, first, second)
    download, tries = objects.download, 0

    def cuts_off(key: str, target: Path, size: int, moved: Moved, share: float) -> str:
        nonlocal tries
        if key not in cut:
            return download(key, target, size, moved, share)
        tries += 1
        heir.thread.clock.advance(5_000)
        moved(1)
        raise ObjectStoreError("the connection ended")

    monkeypatch.setattr(objects, "download", cuts_off)
    heir.thread.log(CHANGELOG, 1)
    task = heir.thread.task()

    heir.restore(task)

    assert heir.restores.snapshots[TASK] == first
    assert keys(task) == ["1", "a"]
    assert tries > 3


def test_an_object_store_that_was_away_for_long_is_given_time_when_it_is_back(
    owner: Owner, heir: Heir, objects: MemoryObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = owner.publish("a")
    monkeypatch.setattr(restore_progress, "PAUSE", 0.01)

    def comes_back(operation: str, key: str) -> None:
        if not heir.restores.outage:
            away(operation, key)
        heir.thread.clock.advance(29_000)  # and then the first answer takes a while, too
        objects.before = lambda operation, key: heir.thread.clock.advance(500)

    objects.before = comes_back
    heir.thread.log(CHANGELOG, 1)
    task = heir.thread.task()

    heir.restore(task)

    assert heir.restores.snapshots[TASK] == published
    assert keys(task) == ["1", "a"]


def test_a_download_that_stands_still_leads_to_the_snapshot_before(
    owner: Owner, heir: Heir, objects: MemoryObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = owner.publish("a"), owner.publish("b")
    monkeypatch.setattr(restore_progress, "PAUSE", 0.01)
    monkeypatch.setattr(restores, "fetch", partial(fetch, downloads=1))
    stands = new_files(heir, first, second)
    download = objects.download

    def stands_still(key: str, target: Path, size: int, moved: Moved, share: float) -> str:
        if key in stands:
            heir.thread.clock.advance(31_000)
        return download(key, target, size, lambda count: None if key in stands else moved(count), share)

    monkeypatch.setattr(objects, "download", stands_still)
    heir.thread.log(CHANGELOG, 1)
    task = heir.thread.task()

    heir.restore(task)

    assert heir.restores.snapshots[TASK] == first
    assert keys(task) == ["1", "a"]
