"""A new task goes on with the database of an earlier life if no other instance has had the task since."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from memory_objects import MemoryObjects
from restoring import keys
from snapshotting import CHANGELOG, IN, Gate, Heir, Owner, away
from streamsapp import TaskId
from streamsapp.runtime.remote_state import restore_progress
from streamsapp.runtime.remote_state.local_record import LocalRecord, LocalState
from streamsapp.tasks.states import TaskState

TASK = TaskId(0, 0)


def local(heir: Heir) -> LocalState:
    return LocalState(heir.directory / str(TASK))


def leave_on_disk(heir: Heir, epoch: int | None) -> None:
    """An earlier life of the instance left key ``mine`` at offset 1."""
    heir.thread.leave_on_disk("mine", 1)
    local(heir).write(LocalRecord(epoch, {"s": f"id of {CHANGELOG.topic}"}))
    heir.thread.log(CHANGELOG, end=2)


@pytest.mark.parametrize("epoch", [None, 1])
def test_a_local_database_is_used_that_nobody_else_has_had_since(owner: Owner, heir: Heir, epoch: int | None) -> None:
    owner.publish("a")
    leave_on_disk(heir, epoch)
    task = heir.thread.task()

    heir.restore(task)

    assert keys(task) == ["mine"]
    assert TASK not in heir.restores.snapshots


def test_a_local_database_is_not_used_when_somebody_else_has_claimed_the_task_since(
    owner: Owner, heir: Heir, tmp_path: Path, objects: MemoryObjects
) -> None:
    owner.publish("a")
    Owner(tmp_path / "next", objects, "next").publish("b")
    leave_on_disk(heir, epoch=1)
    task = heir.thread.task()

    heir.restore(task)

    assert keys(task) == ["b"]


@pytest.mark.parametrize(("exactly_once", "used"), [(True, ["mine"]), (False, [])])
def test_who_had_the_task_since_is_unknown_while_the_object_store_is_away(
    tmp_path: Path, objects: MemoryObjects, exactly_once: bool, used: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore_progress, "STALL_TIMEOUT", -1.0)
    heir = Heir(tmp_path / "heir", objects, exactly_once=exactly_once)
    objects.before = away
    leave_on_disk(heir, epoch=1)
    heir.thread.consumer.offsets[IN] = 2
    task = heir.thread.task()

    heir.restore(task)

    assert keys(task) == used
    heir.close()


@pytest.mark.parametrize(("back", "used"), [(False, ["mine"]), (True, ["a"])])
def test_a_database_filled_while_the_object_store_was_away_is_kept_until_it_answers(
    owner: Owner, heir: Heir, objects: MemoryObjects, back: bool, used: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.publish("a")
    if not back:
        monkeypatch.setattr(restore_progress, "STALL_TIMEOUT", -1.0)
        objects.before = away
    leave_on_disk(heir, epoch=None)
    local(heir).write(msgspec.structs.replace(local(heir).read(), unknown=True))
    heir.thread.consumer.offsets |= {} if back else {IN: 2}
    task = heir.thread.task()

    heir.restore(task)

    assert keys(task) == used
    assert local(heir).read().unknown is not back


def test_a_local_database_of_a_topic_that_was_created_again_is_not_used(heir: Heir) -> None:
    leave_on_disk(heir, epoch=None)
    heir.thread.admin.ids[CHANGELOG.topic] = "another"
    task = heir.thread.task()

    heir.restore(task)

    assert keys(task) == []


def test_a_damaged_local_database_is_replaced_by_a_snapshot(owner: Owner, heir: Heir) -> None:
    owner.publish("a")
    leave_on_disk(heir, epoch=None)
    (heir.directory / "0_0" / "rocksdb" / "CURRENT").write_text("MANIFEST-999999\n")
    task = heir.thread.task()

    heir.restore(task)

    assert keys(task) == ["a"]


def test_a_record_that_cannot_be_read_is_nobodys(owner: Owner, heir: Heir) -> None:
    owner.publish("a")
    leave_on_disk(heir, epoch=1)
    (heir.directory / "0_0" / "local.json").write_text("{")
    task = heir.thread.task()

    heir.restore(task)

    assert keys(task) == ["a"]


def test_a_database_is_nobodys_if_the_process_that_fetched_it_ended_before_it_wrote_its_record(
    owner: Owner, heir: Heir
) -> None:
    owner.publish("a")
    local(heir).remove_database()
    heir.thread.leave_on_disk("mine", 1)
    heir.thread.log(CHANGELOG, end=2)
    task = heir.thread.task()

    heir.restore(task)

    assert keys(task) == ["a"]


def test_ending_in_good_order_leaves_a_database_that_is_as_good_as_a_replicas(heir: Heir) -> None:
    leave_on_disk(heir, epoch=None)
    task = heir.thread.task()
    heir.restore(task)
    task.initialize()
    local(heir).write_epoch(5)

    heir.thread.thread.close([task], clean=True)
    heir.thread.passes()

    assert local(heir).read().epoch is None


def test_a_task_that_has_not_run_leaves_the_database_to_whom_it_was(owner: Owner, heir: Heir) -> None:
    owner.publish("a")
    leave_on_disk(heir, epoch=1)
    task = heir.thread.task()
    heir.restore(task)

    heir.thread.thread.close([task], clean=True)
    heir.thread.passes()

    assert local(heir).read().epoch == 1


def test_the_record_of_a_directory_that_is_being_prepared_is_written_by_nobody_else(
    owner: Owner, heir: Heir, objects: MemoryObjects
) -> None:
    owner.publish("a")
    gate = Gate(objects)
    heir.thread.log(CHANGELOG, end=1)
    leaves, comes = heir.thread.task(), heir.thread.task()
    heir.thread.thread.add(leaves)
    heir.passes_until(gate.reached.is_set)
    before = local(heir).read()

    heir.thread.thread.close([leaves], clean=True)
    heir.thread.passes()
    assert leaves.state is TaskState.CLOSED
    assert local(heir).read() == before

    heir.thread.thread.add(comes)
    gate.open()
    heir.passes_until(lambda: not heir.thread.thread.restored.empty())
    assert heir.thread.failed == []
    assert keys(comes) == ["a"]


def test_what_a_killed_process_left_half_done_is_removed(heir: Heir) -> None:
    left = heir.directory / "0_0" / "checkpoint.part"
    left.mkdir(parents=True)
    heir.thread.log(CHANGELOG, 0)

    heir.restore(heir.thread.task())

    assert not left.exists()
