"""A fetch brings exactly what was published; with any fault of a snapshot, it tries the one before."""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from checkpoints import chain_of, checkpoint, content_of, files_in, saved_files, writer_of
from memory_objects import MemoryObjects
from streamsapp.errors import StateStoreError
from streamsapp.record import TaskId
from streamsapp.remote.directory_store import DirectoryStore
from streamsapp.remote.object_store import Moved, ObjectStoreError, unobserved
from streamsapp.remote.snapshot import Snapshot, encode
from streamsapp.remote.snapshot_fetch import Verified, fetch

PLENTY = 1 << 30


def welcome(snapshot: Snapshot) -> str | None:
    """Any snapshot will do."""
    return None


class World(NamedTuple):
    """Two snapshots of a task, the place they are in, and an empty disk."""

    objects: MemoryObjects
    older: Snapshot
    newer: Snapshot
    files: dict[int, dict[str, bytes]]
    task: Path

    def fetch(
        self,
        acceptable: Callable[[Snapshot], str | None] = welcome,
        limit: int = PLENTY,
        moved: Moved = unobserved,
        cancelled: Callable[[], bool] = lambda: False,
        verified: Verified | None = None,
        promised: Callable[[], int] = lambda: 0,
    ) -> Snapshot | None:
        return fetch(
            chain_of(self.objects), self.task, acceptable, limit, moved, cancelled,
            downloads=3, verified=verified, promised=promised,
        )  # fmt: skip

    def key(self, snapshot: Snapshot, name: str) -> str:
        (file,) = [file for file in snapshot.files if file.name == name]
        return chain_of(self.objects).file_key(file)

    def forge(self, snapshot: Snapshot) -> None:
        """Put a manifest that was made up on top of the chain."""
        self.objects.objects[chain_of(self.objects).manifest_key(snapshot.number)] = encode(snapshot)

    def database(self) -> dict[str, bytes]:
        """Returns the files that were restored, and nothing else is there."""
        assert [path.name for path in self.task.iterdir()] == ["rocksdb"]
        return files_in(self.task / "rocksdb")


@pytest.fixture
def world(tmp_path: Path) -> World:
    objects = MemoryObjects()
    writer = writer_of(objects)
    writer.claim()
    first = checkpoint(tmp_path / "1", {8: b"eight" * 100, 9: b"nine" * 100})
    older = writer.publish(first, content_of(10))
    second = checkpoint(tmp_path / "2", {8: b"eight" * 100, 10: b"ten" * 100})
    newer = writer.publish(second, content_of(20))
    assert older is not None
    assert newer is not None
    files = {older.number: saved_files(first), newer.number: saved_files(second)}
    return World(objects, older, newer, files, tmp_path / "task")


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]

    return told


def test_brings_the_newest_snapshot(world: World, warnings: Callable[[], list[str]]) -> None:
    assert world.fetch() == world.newer
    assert world.database() == world.files[world.newer.number]
    assert warnings() == []


def test_tells_how_many_bytes_came(world: World) -> None:
    received: list[int] = []

    world.fetch(moved=received.append)

    assert sum(received) == world.newer.total_bytes


def test_a_task_without_snapshots_has_none_to_bring(tmp_path: Path) -> None:
    objects = MemoryObjects()
    assert fetch(chain_of(objects), tmp_path / "task", welcome, PLENTY) is None

    writer_of(objects).claim()

    assert fetch(chain_of(objects), tmp_path / "task", welcome, PLENTY) is None
    assert files_in(tmp_path / "task") == {}


def test_an_empty_claim_does_not_hide_the_snapshot_before_it(world: World) -> None:
    empty = msgspec.structs.replace(world.newer, number=4, epoch=4, files=(), stores={}, inputs=())
    world.forge(empty)

    assert world.fetch() == world.newer


def test_the_database_that_was_there_is_replaced_when_the_new_one_is_complete(world: World) -> None:
    old = checkpoint(world.task / "rocksdb", {5: b"old"})
    seen: list[bool] = []

    world.fetch(moved=lambda count: seen.append((old / "000005.sst").exists()))

    assert seen
    assert all(seen)
    assert world.database() == world.files[world.newer.number]


def damage_newest_manifest(world: World) -> None:
    key = chain_of(world.objects).manifest_key(world.newer.number)
    world.objects.objects[key] = world.objects.objects[key].replace(b'"offset":20', b'"offset":99')


def flip_bit_of_file(world: World) -> None:
    key = world.key(world.newer, "000010.sst")
    data = bytearray(world.objects.objects[key])
    data[len(data) // 2] ^= 4
    world.objects.objects[key] = bytes(data)


def truncate_file(world: World) -> None:
    key = world.key(world.newer, "000010.sst")
    world.objects.objects[key] = world.objects.objects[key][:-1]


def lengthen_file(world: World) -> None:
    world.objects.objects[world.key(world.newer, "000010.sst")] += b"x"


def delete_file(world: World) -> None:
    del world.objects.objects[world.key(world.newer, "000010.sst")]


def swap_files(world: World) -> None:
    first, second = world.key(world.newer, "000010.sst"), world.key(world.newer, "MANIFEST-000005")
    objects = world.objects.objects
    objects[first], objects[second] = objects[second], objects[first]


def swap_with_another_task(world: World) -> None:
    other = msgspec.structs.replace(world.newer, task="0_4")
    world.objects.objects[chain_of(world.objects).manifest_key(3)] = encode(other)


def swap_with_another_application(world: World) -> None:
    other = msgspec.structs.replace(world.newer, application_id="payments")
    world.objects.objects[chain_of(world.objects).manifest_key(3)] = encode(other)


def put_older_in_place_of_newer(world: World) -> None:
    chain = chain_of(world.objects)
    world.objects.objects[chain.manifest_key(3)] = world.objects.objects[chain.manifest_key(2)]


def name_a_path(world: World) -> None:
    file = msgspec.structs.replace(world.newer.files[0], name="../../x")
    world.forge(msgspec.structs.replace(world.newer, files=(file, *world.newer.files[1:])))


def claim_ten_terabytes(world: World) -> None:
    file = msgspec.structs.replace(world.newer.files[0], size=10 * 10**12)
    world.forge(msgspec.structs.replace(world.newer, files=(file, *world.newer.files[1:])))


def point_elsewhere(world: World) -> None:
    """All hashes are right, and yet RocksDB would open a file of an attacker's choice."""
    current = checkpoint(world.task.parent / "evil", {})
    (current / "CURRENT").write_bytes(b"../../MANIFEST-000005\n")
    writer = writer_of(world.objects, "evil")
    writer.claim()
    assert writer.publish(current, content_of(30)) is not None
    world.objects.objects.pop(chain_of(world.objects).manifest_key(4))


FAULTS = [
    (damage_newest_manifest, "sha256 differs"),
    (flip_bit_of_file, r"000010.sst is damaged"),
    (truncate_file, "299 bytes instead of 300"),
    (lengthen_file, "301 bytes instead of 300"),
    (delete_file, "its file is missing"),
    (swap_files, "its file"),
    (swap_with_another_task, "task 0_4"),
    (swap_with_another_application, "payments"),
    (put_older_in_place_of_newer, "number 2 of task"),
    (name_a_path, "damaged"),
    (claim_ten_terabytes, "10000000000"),
    (point_elsewhere, "CURRENT names"),
]


@pytest.mark.parametrize(("damage", "found"), FAULTS, ids=[damage.__name__ for damage, _ in FAULTS])
def test_a_damaged_or_malicious_snapshot_is_told_once_and_the_one_before_is_taken(
    world: World, warnings: Callable[[], list[str]], damage: Callable[[World], None], found: str
) -> None:
    damage(world)
    expected = world.newer if damage is point_elsewhere else world.older

    restored = world.fetch()

    assert restored == expected
    assert world.database() == world.files[expected.number]
    (warning,) = warnings()
    assert "task 0_3" in warning
    assert f"snapshot {5 if damage is point_elsewhere else 3} " in warning
    assert found.replace("\\", "") in warning
    assert not (world.task.parent / "x").exists()


def test_every_bit_flip_in_a_file_is_found(world: World) -> None:
    key = world.key(world.newer, "CURRENT")
    good = world.objects.objects[key]
    assert world.key(world.older, "CURRENT") == key

    for place in range(len(good)):
        for bit in range(8):
            flipped = bytearray(good)
            flipped[place] ^= 1 << bit
            world.objects.objects[key] = bytes(flipped)
            assert world.fetch() is None
            assert files_in(world.task) == {}


def test_nothing_is_downloaded_of_a_snapshot_that_is_too_large(world: World, warnings: Callable[[], list[str]]) -> None:
    assert world.fetch(limit=world.newer.total_bytes - 1) is not world.newer
    assert world.fetch(limit=10) is None

    assert not [key for key in world.objects.asked("download") if key == world.key(world.newer, "000010.sst")]
    assert f"it has {world.newer.total_bytes} bytes, at most 10 are allowed" in " ".join(warnings())


def test_nothing_is_downloaded_that_does_not_fit_on_the_disk(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(world.task.parent)._replace(total=10_000, free=100)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    needed = world.newer.total_bytes

    with pytest.raises(StateStoreError) as raised:
        world.fetch()

    told = str(raised.value)
    assert f"needs {needed} bytes, and the disk of {world.task} has 100 free: {needed - 100} bytes are missing" in told
    assert f"a volume of {10_000 + needed - 100} bytes at least" in told
    assert "run more instances" in told
    assert world.objects.asked("download") == []


def test_sizes_that_no_object_has_are_no_reason_to_refuse(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(world.task.parent)._replace(free=100)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    world.objects.objects[world.key(world.newer, "CURRENT")] = b"cut"  # which the older one has, too

    assert world.fetch() is None


def test_room_that_files_of_other_tasks_will_take_is_not_free(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = world.newer.total_bytes
    usage = shutil.disk_usage(world.task.parent)._replace(free=needed + 1_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)

    with pytest.raises(StateStoreError, match="free, of which files of its other tasks will take 1001: 1 bytes are"):
        world.fetch(promised=lambda: 1_001)
    assert world.fetch(promised=lambda: 1_000) == world.newer


def test_a_snapshot_that_is_not_acceptable_is_passed_over_and_told_with_the_reason(
    world: World, warnings: Callable[[], list[str]]
) -> None:
    def fits(snapshot: Snapshot) -> str | None:
        return None if snapshot.number == 2 else "its changelog was deleted since"

    assert world.fetch(acceptable=fits) == world.older
    assert warnings() == ["snapshot 3 of task 0_3: its changelog was deleted since; the one before is tried"]
    assert world.key(world.newer, "000010.sst") not in world.objects.asked("download")


def test_nothing_wrong_is_left_when_no_snapshot_can_be_used(world: World) -> None:
    for key in list(world.objects.objects):
        if "/files/" in key:
            world.objects.objects[key] = b"rubbish"

    assert world.fetch() is None
    assert files_in(world.task) == {}


def test_files_that_both_snapshots_have_come_once(world: World) -> None:
    flip_bit_of_file(world)

    assert world.fetch() == world.older
    assert world.database() == world.files[2]
    downloads = world.objects.asked("download")
    assert downloads.count(world.key(world.older, "000008.sst")) == 1


def test_leftovers_of_a_crash_are_removed_and_links_are_not_followed(world: World, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"keep")
    world.task.mkdir()
    (world.task / "snapshot-3.part").symlink_to(outside)
    checkpoint(world.task / "snapshot-2.part", {1: b"half"})
    (world.task / "rocksdb").symlink_to(outside)

    assert world.fetch() == world.newer

    assert world.database() == world.files[3]
    assert files_in(outside) == {"precious": b"keep"}


def test_a_snapshot_that_is_collected_while_it_is_downloaded_is_replaced_by_the_newest(
    world: World, tmp_path: Path, warnings: Callable[[], list[str]]
) -> None:
    later = checkpoint(tmp_path / "3", {8: b"eight" * 100, 11: b"eleven"})

    def collect_meanwhile(operation: str, key: str) -> None:
        if operation == "download" and key == world.key(world.newer, "000010.sst"):
            world.objects.before = lambda operation, key: None
            writer = writer_of(world.objects, "pod-2")
            writer.claim()
            assert writer.publish(later, content_of(30)) is not None
            world.objects.delete([key])

    world.objects.before = collect_meanwhile
    restored = world.fetch()

    assert restored is not None
    assert restored.number == 5
    assert world.database() == saved_files(later)
    assert warnings() == []


def test_a_chain_that_grows_all_the_time_does_not_lead_round_in_circles(world: World) -> None:
    del world.objects.objects[world.key(world.newer, "000010.sst")]
    numbers = iter(range(4, 100))

    def grow(operation: str, key: str) -> None:
        if operation == "download" and key == world.key(world.newer, "000010.sst"):
            number = next(numbers)
            world.forge(msgspec.structs.replace(world.newer, number=number))

    world.objects.before = grow

    assert world.fetch() == world.older


def test_who_is_cancelled_leaves_the_old_database_and_nothing_else(world: World) -> None:
    checkpoint(world.task / "rocksdb", {5: b"old"})
    received: list[int] = []

    assert world.fetch(moved=received.append, cancelled=lambda: bool(received)) is None

    assert received
    assert "000005.sst" in world.database()


def test_a_store_that_is_out_of_reach_is_an_error_and_no_reason_to_take_an_older_snapshot(world: World) -> None:
    def fail(operation: str, key: str) -> None:
        if operation == "download":
            raise ObjectStoreError("out of reach")

    world.objects.before = fail
    with pytest.raises(ObjectStoreError, match="out of reach"):
        world.fetch()
    assert files_in(world.task) == {}


@pytest.mark.parametrize("collected", [False, True])
def test_a_call_that_is_repeated_brings_only_what_is_missing(world: World, *, collected: bool) -> None:
    """Also when there is another newest snapshot by then."""
    lost = world.key(world.newer, "CURRENT")

    def fail(operation: str, key: str) -> None:
        if (operation, key) == ("download", lost):
            raise ObjectStoreError("out of reach")

    verified: Verified = {}
    world.objects.before = fail
    for _ in range(2):
        with pytest.raises(ObjectStoreError, match="out of reach"):
            world.fetch(verified=verified)
    world.objects.before = MemoryObjects().before
    if collected:
        del world.objects.objects[chain_of(world.objects).manifest_key(world.newer.number)]

    found = world.fetch(verified=verified)

    assert found == (world.older if collected else world.newer)
    assert world.database() == world.files[found.number]
    downloads = Counter(world.objects.asked("download"))
    assert downloads.pop(lost) == 3
    assert set(downloads.values()) == {1}


def test_a_disk_that_cannot_be_written_is_told_with_a_remedy(world: World) -> None:
    world.task.write_text("a file in the way", encoding="utf-8")

    with pytest.raises(StateStoreError, match=r"snapshot of task 0_3 cannot be written to .*task.*free or enlarge"):
        world.fetch()


def test_restores_from_a_directory_of_another_instance(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    objects = DirectoryStore(tmp_path / "store")
    task_id = TaskId(2, 0)
    writer = writer_of(objects, task_id=task_id)
    writer.claim()
    directory = checkpoint(tmp_path / "1", {8: b"eight"})
    published = writer.publish(directory, content_of(10))

    assert fetch(chain_of(objects, task_id=task_id), tmp_path / "task", welcome, PLENTY) == published
    assert files_in(tmp_path / "task" / "rocksdb") == saved_files(directory)
