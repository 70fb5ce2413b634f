"""A group that has lost its offsets: nothing starts if a task does not know where it stood."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from memory_objects import MemoryObjects
from restoring import FakeAdmin, FakeConsumer, Log
from snapshotting import CHANGELOG, IN, Heir, Owner, away
from streamsapp import Serdes, Stores, TaskId, TopicPartition, Topology
from streamsapp.config import RemoteStateConfig
from streamsapp.config.client_properties import ClientProperties
from streamsapp.errors import TopicError
from streamsapp.remote.object_store import ObjectStoreError
from streamsapp.remote.snapshot import InputPoint, StorePoint
from streamsapp.runtime import lost_offsets
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.runtime.lost_offsets import refuse_lost_offsets
from streamsapp.runtime.outdated_state import TombstoneRetention
from streamsapp.runtime.remote_state import restore_progress
from streamsapp.runtime.remote_state.changelog_facts import ChangelogFacts
from streamsapp.runtime.remote_state.local_record import LocalRecord
from streamsapp.runtime.remote_state.restores import _known_by
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.testing import MockClock
from task_parts import Each, config, forwards, task_of

OTHER = TopicPartition("app-t-changelog", 0)
#: Of another task than the task with a snapshot.
INPUT = TopicPartition("in", 1)


def counting(*, on_disk: bool) -> Topology:
    text = Serdes.string()
    make = Stores.persistent_key_value_store if on_disk else Stores.in_memory_key_value_store
    topology = Topology().add_source("source", "in").add_processor("node", lambda: Each(forwards), "source")
    return topology.add_state_store(Stores.key_value_store_builder(make("store"), text, text), "node")


class Broker:
    """Group and topic of an application that ran: its first task has left a snapshot."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.objects = objects = MemoryObjects()
        Owner(directory, objects).publish("a")
        self.consumer = FakeConsumer()
        self.consumer.logs[INPUT] = Log([], end=3)
        #: How it was asked for the group's offsets.
        self.asked: list[str] = []
        monkeypatch.setattr(lost_offsets, "PartitionConsumer", self._made)
        monkeypatch.setattr(lost_offsets, "open_store", lambda remote: objects)

    def _made(self, properties: ClientProperties) -> FakeConsumer:
        self.asked.append(str(properties["isolation.level"]))
        return self.consumer

    def look(self, topology: Topology, processing_guarantee: str = "exactly_once") -> None:
        plan = task_of(topology, INPUT.partition, running=False).plan
        layout = cast(ApplicationLayout, SimpleNamespace(plans={TaskId(0, 1): plan}))
        remote = RemoteStateConfig(url="file:///in-memory")
        settings = config(remote_state=remote, processing_guarantee=processing_guarantee)
        refuse_lost_offsets(layout, settings, cast(Any, FakeAdmin(self.consumer)))


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Broker:
    return Broker(tmp_path, monkeypatch)


def test_a_task_with_stores_in_memory_only_does_not_read_again_what_its_changelog_has_already(broker: Broker) -> None:
    with pytest.raises(TopicError, match="nothing shows how far in-1 were read"):
        broker.look(counting(on_disk=False))
    assert broker.consumer.closed


@pytest.mark.parametrize("written", [0, 4])
def test_changelogs_tell_that_the_application_ran_while_the_object_store_does_not_answer(
    broker: Broker, written: int
) -> None:
    broker.objects.before = away
    broker.consumer.logs[TopicPartition("app-store-changelog", 1)] = Log([], end=written)
    if not written:
        broker.look(counting(on_disk=False))
        return
    with pytest.raises(TopicError, match=r"its changelogs are not empty .*no answer.*how far in-1 were read"):
        broker.look(counting(on_disk=False))


def test_a_task_with_stores_on_disk_goes_on_where_its_snapshot_stands(broker: Broker) -> None:
    broker.look(counting(on_disk=True))


def test_a_task_without_snapshots_starts_where_the_group_has_offsets_or_counting_twice_is_allowed(
    broker: Broker,
) -> None:
    broker.look(counting(on_disk=False), "at_least_once")
    broker.consumer.offsets[INPUT] = 3
    broker.look(counting(on_disk=False))


def test_a_task_without_snapshots_starts_where_there_is_nothing_to_read(broker: Broker) -> None:
    broker.consumer.logs[INPUT] = Log([], end=3, low=3)
    broker.look(counting(on_disk=False))


def test_who_starts_does_not_wait_for_a_transaction_that_a_killed_process_left_open(broker: Broker) -> None:
    broker.consumer.offsets[INPUT] = 3
    broker.look(counting(on_disk=False))
    assert broker.asked == ["read_uncommitted"]


def test_a_first_commit_under_way_is_waited_for_before_offsets_count_as_lost(broker: Broker) -> None:
    with pytest.raises(TopicError):
        broker.look(counting(on_disk=False))
    assert broker.asked == ["read_uncommitted", "read_committed"]


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_task_without_offsets_does_not_begin_anew_while_the_object_store_does_not_tell_where_it_stood(
    tmp_path: Path, exactly_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = MemoryObjects()
    Owner(tmp_path / "owner", objects).publish("a", "b")
    monkeypatch.setattr(restore_progress, "STALL_TIMEOUT", -1.0)
    objects.before = away

    for _ in range(2):
        with closing(Heir(tmp_path / "heir", objects, exactly_once=exactly_once)) as heir:
            task = restored(heir)
            ((failed, error),) = heir.thread.failed
            task.stores.close()
        assert failed == task.id
        for told in ("store s stands at offset 2", "does not report the task's position (no answer)"):
            assert told in error
    monkeypatch.undo()
    objects.before = lambda operation, key: None
    with closing(Heir(tmp_path / "heir", objects, exactly_once=exactly_once)) as heir:
        assert restored(heir).start_offsets[IN].offset == 2
        assert heir.thread.restored == [failed]


def restored(heir: Heir) -> StreamTask:
    """A task with two records in its changelog, and as many to read."""
    heir.thread.log(CHANGELOG, 0, 1)
    heir.thread.log(IN, end=2)
    task = heir.thread.task()
    heir.restore(task)
    return task


@pytest.mark.parametrize(("written", "to_read"), [(0, 1), (2, 0)], ids=["new", "written-by-a-punctuator"])
def test_a_task_that_has_read_nothing_begins_at_its_inputs_while_the_object_store_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int, to_read: int
) -> None:
    monkeypatch.setattr(restore_progress, "STALL_TIMEOUT", -1.0)
    objects = MemoryObjects()
    objects.before = away
    with closing(Heir(tmp_path / "heir", objects)) as heir:
        heir.thread.log(CHANGELOG, *range(written))
        heir.thread.log(IN, end=to_read)
        task = heir.thread.task()

        heir.restore(task)

        assert heir.thread.restored == [TaskId(0, 0)]
        assert task.start_offsets == {}


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Heir]:
    """An instance with a database that began without a snapshot; the owner has taken one since."""
    objects = MemoryObjects()
    Owner(tmp_path / "owner", objects).publish("a", "b")
    with closing(Heir(tmp_path / "heir", objects)) as heir:
        heir.thread.leave_on_disk("a", 1)
        yield heir


@pytest.mark.parametrize("epoch", [None, 1], ids=["replica", "owner"])
@pytest.mark.parametrize("record", [LocalRecord(), LocalRecord(inputs=(InputPoint("in", 0, 1, ""),), stores={"s": 1})])
def test_a_database_that_was_kept_goes_on_where_the_last_snapshot_stands_whoever_took_it(
    kept: Heir, epoch: int | None, record: LocalRecord
) -> None:
    kept.restores.local(TaskId(0, 0)).write(msgspec.structs.replace(record, epoch=epoch))

    task = restored(kept)

    assert (kept.thread.restored, task.start_offsets[IN].offset) == ([task.id], 2)
    assert kept.restores.local(task.id).read().inputs[0].offset == 2


def test_a_database_that_was_kept_and_goes_further_than_the_last_snapshot_stops_the_task(kept: Heir) -> None:
    kept.thread.log(CHANGELOG, 0, 1, 2)
    kept.thread.log(IN, end=3)
    task = kept.thread.task()

    kept.restore(task)

    ((_, error),) = kept.thread.failed
    for told in ("offset 2 of in-0", "store s stands at offset 3", "would count twice", "--reset-offsets"):
        assert told in error


@pytest.mark.parametrize("epoch", [None, 1], ids=["replica", "owner"])
def test_a_database_that_was_kept_does_not_begin_anew_while_the_object_store_does_not_answer(
    kept: Heir, epoch: int | None
) -> None:
    kept.restores.local(TaskId(0, 0)).write(LocalRecord(epoch=epoch))
    cast(MemoryObjects, kept.remote.objects).before = away

    restored(kept)

    ((_, error),) = kept.thread.failed
    assert "does not report the task's position (no answer)" in error


def test_a_snapshot_of_a_changelog_that_was_created_again_tells_a_kept_database_nothing(kept: Heir) -> None:
    kept.thread.admin.ids[CHANGELOG.topic] = "another"
    kept.restores.local(TaskId(0, 0)).write(LocalRecord(topics={"s": "another"}))
    kept.thread.consumer.offsets[IN] = 1

    task = restored(kept)

    assert task.start_offsets[IN].offset == 1
    assert kept.restores.local(task.id).read().inputs == ()


def test_a_kept_database_without_offsets_does_not_begin_anew_where_its_snapshot_is_of_another_changelog(
    kept: Heir,
) -> None:
    kept.thread.admin.ids[CHANGELOG.topic] = "another"
    kept.restores.local(TaskId(0, 0)).write(LocalRecord(topics={"s": "another"}))

    restored(kept)

    ((_, error),) = kept.thread.failed
    for told in ("does not report the task's position (snapshot", "is not to be used", "created again"):
        assert told in error


def test_a_kept_database_of_which_no_manifest_can_be_read_does_not_begin_anew(kept: Heir) -> None:
    objects = cast(MemoryObjects, kept.remote.objects).objects
    for key in [each for each in objects if "/manifests/" in each]:
        objects[key] = b"{"

    restored(kept)

    ((_, error),) = kept.thread.failed
    assert "none of its manifests" in error


def test_databases_that_are_good_by_themselves_wait_for_a_silent_object_store_but_once(kept: Heir) -> None:
    asked: list[str] = []

    def silent(operation: str, key: str) -> None:
        asked.append(key)
        away(operation, key)

    cast(MemoryObjects, kept.remote.objects).before = silent
    kept.thread.consumer.offsets[IN] = 1
    restored(kept).stores.close()
    once = len(asked)
    assert (once > 0, kept.thread.restored.pop()) == (True, TaskId(0, 0))

    restored(kept)

    assert (len(asked), kept.thread.restored) == (once, [TaskId(0, 0)])


@dataclass
class Broken:
    """Snapshots whose manifests or files an instance without a disk cannot use."""

    owner: Owner
    heir: Heir

    def spoil(self, folder: str) -> None:
        objects = self.owner.remote.objects
        assert isinstance(objects, MemoryObjects)
        for key in [each for each in objects.objects if f"/{folder}/" in each]:
            objects.objects[key] = b"{"

    def hang(self) -> None:
        """Downloads end with an error each time, until the restore gives them up."""

        def stalls(operation: str, key: str) -> None:
            if operation == "download":
                raise ObjectStoreError("the download hangs")

        cast(MemoryObjects, self.owner.remote.objects).before = stalls


@pytest.fixture(params=[True, False], ids=["exactly-once", "at-least-once"])
def broken(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broken]:
    monkeypatch.setattr(restore_progress, "STALL_TIMEOUT", -1.0)
    objects = MemoryObjects()
    owner = Owner(tmp_path / "owner", objects)
    owner.publish("a", "b")
    with closing(Heir(tmp_path / "heir", objects, exactly_once=request.param)) as heir:
        yield Broken(owner, heir)


@pytest.mark.parametrize("fault", ["damaged", "hangs"])
def test_a_snapshot_whose_files_cannot_be_had_tells_all_the_same_where_the_task_goes_on(
    broken: Broken, fault: str
) -> None:
    if fault == "damaged":
        broken.spoil("files")
    else:
        broken.hang()

    task = restored(broken.heir)

    assert (broken.heir.thread.restored, task.start_offsets[IN].offset) == ([task.id], 2)


def test_a_snapshot_whose_changelog_has_lost_what_came_after_it_tells_all_the_same_where_the_task_goes_on(
    broken: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = broken.heir.thread
    monkeypatch.setattr(thread.admin, "only_compacts", lambda topic: False)
    thread.consumer.logs[CHANGELOG] = Log([], end=3, low=3)
    thread.log(IN, end=2)
    task = thread.task()

    broken.heir.restore(task)

    assert (thread.restored, task.start_offsets[IN].offset) == ([task.id], 2)


#: No broker is asked.
NEVER = TombstoneRetention(cast(Any, None), MockClock())


def test_a_changelog_that_was_created_again_counts_also_beside_one_that_has_lost_records(broken: Broken) -> None:
    facts = ChangelogFacts({"s": "1", "t": "new"}, {CHANGELOG: 3, OTHER: 0}, {CHANGELOG: 3, OTHER: 2}, NEVER)
    points = {
        "s": StorePoint("s", CHANGELOG.topic, 0, "1", 2),
        "t": StorePoint("t", OTHER.topic, 0, "old", 2),
    }
    _, newest = broken.owner.remote.chain(TaskId(0, 0)).newest()
    assert newest is not None
    snapshot = msgspec.structs.replace(newest, stores=points)
    plan = SimpleNamespace(all_changelogs={"s": CHANGELOG, "t": OTHER})
    task = cast(StreamTask, SimpleNamespace(plan=plan, stores=SimpleNamespace(families={"s": "s", "t": "t"})))

    record, unknown = _known_by((2, snapshot), LocalRecord(), facts, task)

    assert (record, len(facts.gaps(snapshot, task))) == (LocalRecord(), 1)
    assert "store t was made from a topic" in str(unknown)


def test_a_snapshot_of_another_changelog_does_not_make_every_start_read_the_changelog_again(broken: Broken) -> None:
    broken.heir.thread.admin.ids[CHANGELOG.topic] = "another"
    broken.heir.thread.consumer.offsets[IN] = 1

    task = restored(broken.heir)

    assert not broken.heir.restores.local(task.id).read().unknown


def test_state_that_goes_further_than_a_snapshot_whose_files_cannot_be_had_stops_exactly_once(broken: Broken) -> None:
    broken.spoil("files")
    broken.heir.thread.log(CHANGELOG, 0, 1, 2)
    broken.heir.thread.log(IN, end=3)
    task = broken.heir.thread.task()

    broken.heir.restore(task)

    failed = [error for _, error in broken.heir.thread.failed]
    assert ["would count twice" in error for error in failed] == [True] * broken.heir.exactly_once
    assert task.start_offsets[IN].offset == 2


def test_a_task_of_which_no_manifest_can_be_read_does_not_begin_anew(broken: Broken) -> None:
    broken.spoil("manifests")

    restored(broken.heir)

    ((_, error),) = broken.heir.thread.failed
    for told in ("no offsets of in-0", "store s stands at offset 2", "none of its manifests", "streamsapp reset"):
        assert told in error


def test_a_task_that_died_before_its_first_commit_starts_with_and_without_the_object_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = MemoryObjects()
    assert Owner(tmp_path / "owner", objects).turn()  # a claim, and no snapshot
    for before in (away, lambda operation, key: None):
        objects.before = before
        with monkeypatch.context() as patched, closing(Heir(tmp_path / "heir", objects)) as heir:
            if before is away:
                patched.setattr(restore_progress, "STALL_TIMEOUT", -1.0)
            heir.thread.log(CHANGELOG, end=3)  # of a transaction that was aborted
            heir.thread.log(IN, end=2)
            task = heir.thread.task()

            heir.restore(task)

            assert (heir.thread.restored, task.start_offsets) == ([task.id], {})
            task.stores.close()
