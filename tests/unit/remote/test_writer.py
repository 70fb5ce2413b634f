"""A writer appends to its task's chain until somebody else has claimed it, and sends no file twice."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkpoints import chain_of, checkpoint, content_of, saved_files, writer_of
from memory_objects import MemoryObjects
from streamsapp.errors import FencedError, StateStoreError
from streamsapp.remote.objects import ObjectStoreError
from streamsapp.remote.snapshot import Snapshot
from streamsapp.remote.writer import SnapshotFencedError, SnapshotWriter


@pytest.fixture
def objects() -> MemoryObjects:
    return MemoryObjects()


def claimed(objects: MemoryObjects, instance: str = "pod-1") -> SnapshotWriter:
    writer = writer_of(objects, instance)
    writer.claim()
    return writer


def published(writer: SnapshotWriter, directory: Path, offset: int) -> Snapshot:
    snapshot = writer.publish(directory, content_of(offset))
    assert snapshot is not None
    return snapshot


def stored(objects: MemoryObjects, snapshot: Snapshot) -> dict[str, bytes]:
    """The files of a snapshot as the object store has them."""
    return {file.name: objects.objects[f"orders/0_3/{file.object}"] for file in snapshot.files}


class Faults:
    """Raises at the first calls of an operation that a condition holds for."""

    def __init__(self, operation: str, condition: Callable[[str], bool] = lambda key: True, *, times: int = 1) -> None:
        self._operation = operation
        self._condition = condition
        self._left = times

    def __call__(self, operation: str, key: str) -> None:
        if self._left and operation == self._operation and self._condition(key):
            self._left -= 1
            raise ObjectStoreError(f"{operation} timed out")


def test_the_first_claim_is_an_empty_manifest_whose_number_is_the_epoch(objects: MemoryObjects) -> None:
    writer = writer_of(objects)
    unclaimed = writer.epoch

    claim = writer.claim()

    assert unclaimed is None
    assert (claim.number, claim.epoch, claim.instance, claim.files) == (1, 1, "pod-1", ())
    assert (writer.epoch, writer.last) == (1, claim)
    assert chain_of(objects).read(1) == claim


def test_a_snapshot_holds_the_files_of_the_checkpoint_and_what_they_stand_for(
    objects: MemoryObjects, tmp_path: Path
) -> None:
    directory = checkpoint(tmp_path / "1", {8: b"eight", 9: b"nine"})

    snapshot = published(claimed(objects), directory, 10)

    assert stored(objects, snapshot) == saved_files(directory)
    assert snapshot == chain_of(objects).newest()[1]
    assert (snapshot.number, snapshot.epoch) == (2, 1)
    assert snapshot.stores["counts"].offset == 10
    assert [point.offset for point in snapshot.inputs] == [20]
    assert snapshot.new_bytes == snapshot.total_bytes


def test_only_files_that_the_last_snapshot_lacks_are_uploaded(objects: MemoryObjects, tmp_path: Path) -> None:
    writer = claimed(objects)
    first = checkpoint(tmp_path / "1", {8: b"eight"})
    published(writer, first, 10)
    objects.calls.clear()

    second = checkpoint(tmp_path / "2", {8: b"eight", 9: b"nine"}, links=first)
    snapshot = published(writer, second, 20)

    assert sorted(key.rpartition("-")[2] for key in objects.asked("upload")) == ["000005", "000009.sst"]
    assert stored(objects, snapshot) == saved_files(second)
    assert snapshot.new_bytes == 4 + len(saved_files(second)["MANIFEST-000005"])


def test_an_unchanged_table_is_not_read_again(
    objects: MemoryObjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = claimed(objects)
    first = checkpoint(tmp_path / "1", {8: b"eight"})
    published(writer, first, 10)
    hashed: list[str] = []
    digest = hashlib.file_digest

    def observed(file: Any, name: str) -> Any:
        hashed.append(Path(file.name).name)
        return digest(file, name)

    monkeypatch.setattr(hashlib, "file_digest", observed)
    published(writer, checkpoint(tmp_path / "2", {8: b"eight", 9: b"nine"}, links=first), 20)

    assert "000009.sst" in hashed
    assert "000008.sst" not in hashed


def test_an_equal_file_that_is_no_link_is_hashed_and_not_uploaded(objects: MemoryObjects, tmp_path: Path) -> None:
    writer = claimed(objects)
    published(writer, checkpoint(tmp_path / "1", {8: b"eight"}), 10)
    objects.calls.clear()

    published(writer, checkpoint(tmp_path / "2", {8: b"eight"}), 20)

    assert objects.asked("upload") == []


def test_a_file_of_the_same_name_and_size_with_other_bytes_is_uploaded(objects: MemoryObjects, tmp_path: Path) -> None:
    writer = claimed(objects)
    earlier = published(writer, checkpoint(tmp_path / "1", {8: b"eight"}), 10)

    later = published(writer, checkpoint(tmp_path / "2", {8: b"EIGHT"}), 20)

    assert stored(objects, later)["000008.sst"] == b"EIGHT"
    assert stored(objects, earlier)["000008.sst"] == b"eight"


def test_a_snapshot_in_which_nothing_changed_is_not_published(objects: MemoryObjects, tmp_path: Path) -> None:
    writer = claimed(objects)
    first = checkpoint(tmp_path / "1", {8: b"eight"})
    published(writer, first, 10)
    objects.calls.clear()

    assert writer.publish(checkpoint(tmp_path / "2", {8: b"eight"}, links=first), content_of(10)) is None
    assert {operation for operation, _ in objects.calls} == {"list"}


def test_an_offset_that_moved_is_published_without_any_upload(objects: MemoryObjects, tmp_path: Path) -> None:
    writer = claimed(objects)
    first = checkpoint(tmp_path / "1", {8: b"eight"})
    published(writer, first, 10)

    snapshot = published(writer, checkpoint(tmp_path / "2", {8: b"eight"}, links=first), 11)

    assert (snapshot.number, snapshot.new_bytes) == (3, 0)


def test_a_claim_repeats_the_snapshot_before_and_its_files_are_not_sent_again(
    objects: MemoryObjects, tmp_path: Path
) -> None:
    directory = checkpoint(tmp_path / "1", {8: b"eight"})
    before = published(claimed(objects, "pod-1"), directory, 10)

    heir = claimed(objects, "pod-2")

    claim = heir.last
    assert claim is not None
    assert (claim.number, claim.epoch, claim.instance) == (3, 3, "pod-2")
    assert (claim.files, claim.stores, claim.inputs) == (before.files, before.stores, before.inputs)
    assert claim.created_at == before.created_at
    assert claim.claim_id != before.claim_id
    objects.calls.clear()
    published(heir, directory, 11)
    assert objects.asked("upload") == []


def test_who_was_superseded_may_not_publish_and_says_by_whom(objects: MemoryObjects, tmp_path: Path) -> None:
    zombie = claimed(objects, "pod-1")
    claimed(objects, "pod-2")
    objects.calls.clear()

    with pytest.raises(SnapshotFencedError, match=r"task 0_3 stops.*pod-2 claimed it with epoch 2.*2023-11-14T22:13"):
        zombie.publish(checkpoint(tmp_path / "1", {8: b"eight"}), content_of(10))

    assert objects.asked("upload") == []
    assert chain_of(objects).numbers() == [2, 1]


def test_after_it_was_fenced_a_writer_refuses_everything(objects: MemoryObjects, tmp_path: Path) -> None:
    zombie = claimed(objects, "pod-1")
    heir = claimed(objects, "pod-2")
    directory = checkpoint(tmp_path / "1", {8: b"eight"})
    with pytest.raises(FencedError):
        zombie.confirm()
    objects.calls.clear()

    def publish() -> object:
        return zombie.publish(directory, content_of(1))

    actions: list[Callable[[], object]] = [zombie.claim, zombie.confirm, publish]
    for forbidden in actions:
        with pytest.raises(SnapshotFencedError, match="pod-2"):
            forbidden()

    assert objects.calls == []
    assert published(heir, directory, 1).number == 3


def test_is_fenced_by_a_manifest_that_cannot_be_read(objects: MemoryObjects, tmp_path: Path) -> None:
    writer = claimed(objects)
    objects.put_new(chain_of(objects).manifest_key(2), b"rubbish")

    with pytest.raises(SnapshotFencedError, match="somebody else wrote number 2, which cannot be read"):
        writer.publish(checkpoint(tmp_path / "1", {8: b"eight"}), content_of(10))


def test_a_damaged_newest_manifest_cannot_make_a_claim_write_its_number_again(objects: MemoryObjects) -> None:
    claimed(objects, "pod-1")
    objects.objects[chain_of(objects).manifest_key(1)] = b"rubbish"

    assert claimed(objects, "pod-2").epoch == 2


def test_a_claim_made_while_files_are_uploaded_fences(objects: MemoryObjects, tmp_path: Path) -> None:
    writer = claimed(objects, "pod-1")

    def take_over(operation: str, key: str) -> None:
        if operation == "upload" and key.endswith(".sst"):
            claimed(objects, "pod-2")

    objects.after = take_over
    with pytest.raises(SnapshotFencedError, match="pod-2 claimed it with epoch 2"):
        writer.publish(checkpoint(tmp_path / "1", {8: b"eight"}), content_of(10))


def test_a_number_that_is_free_again_because_it_was_collected_does_not_make_an_old_writer_the_owner(
    objects: MemoryObjects, tmp_path: Path
) -> None:
    zombie = claimed(objects, "pod-1")
    directory = checkpoint(tmp_path / "1", {8: b"eight"})
    chain = chain_of(objects)

    def others_go_on(operation: str, key: str) -> None:
        if operation == "upload" and key.endswith(".sst"):
            objects.after = lambda operation, key: None
            for number in range(2, 6):
                assert claimed(objects, f"pod-{number}").epoch == number
            objects.delete([chain.manifest_key(number) for number in range(2, 5)])

    objects.after = others_go_on
    with pytest.raises(SnapshotFencedError, match="pod-5 claimed it with epoch 5"):
        zombie.publish(directory, content_of(10))


def test_a_chain_that_was_deleted_stops_its_writer(objects: MemoryObjects) -> None:
    writer = claimed(objects)
    objects.objects.clear()

    with pytest.raises(SnapshotFencedError, match="its snapshots were deleted while it ran"):
        writer.confirm()


def test_a_claim_that_loses_the_race_for_a_number_takes_the_next(objects: MemoryObjects) -> None:
    def race(operation: str, key: str) -> None:
        if operation == "put_new":
            objects.before = lambda operation, key: None
            claimed(objects, "pod-2")

    objects.before = race
    claim = writer_of(objects, "pod-1").claim()

    assert (claim.number, claim.instance) == (2, "pod-1")
    assert chain_of(objects).read(1).instance == "pod-2"


def test_a_claim_that_the_store_says_exists_is_its_own_if_it_went_through_unnoticed(objects: MemoryObjects) -> None:
    put_new = objects.put_new

    def twice(key: str, data: bytes) -> None:
        put_new(key, data)
        put_new(key, data)

    objects.put_new = twice  # type: ignore[method-assign]
    claim = writer_of(objects).claim()

    assert claim.number == 1
    assert chain_of(objects).numbers() == [1]


def test_what_was_published_although_it_raised_is_found_by_the_next(objects: MemoryObjects, tmp_path: Path) -> None:
    writer = claimed(objects)
    directory = checkpoint(tmp_path / "1", {8: b"eight"})
    objects.after = Faults("put_new")
    with pytest.raises(ObjectStoreError, match="timed out"):
        writer.publish(directory, content_of(10))
    assert writer.last is not None
    assert writer.last.number == 1

    assert writer.publish(directory, content_of(10)) is None

    assert writer.last.number == 2
    assert chain_of(objects).numbers() == [2, 1]


def test_what_raised_and_went_through_is_never_overwritten_by_the_next_checkpoint(
    objects: MemoryObjects, tmp_path: Path
) -> None:
    writer = claimed(objects)
    first, second = checkpoint(tmp_path / "1", {8: b"eight"}), checkpoint(tmp_path / "2", {9: b"nine"})
    objects.after = Faults("put_new")
    with pytest.raises(ObjectStoreError):
        writer.publish(first, content_of(10))

    snapshot = published(writer, second, 20)

    assert snapshot.number == 3
    assert stored(objects, snapshot) == saved_files(second)
    assert stored(objects, chain_of(objects).read(2)) == saved_files(first)


def test_a_manifest_that_arrives_late_and_shuts_out_the_next_one_is_followed_by_it(
    objects: MemoryObjects, tmp_path: Path
) -> None:
    writer = claimed(objects)
    first, second = checkpoint(tmp_path / "1", {8: b"eight"}), checkpoint(tmp_path / "2", {9: b"nine"})
    late: list[tuple[str, bytes]] = []
    put_new = objects.put_new

    def delayed(key: str, data: bytes) -> None:
        if not late:
            late.append((key, data))
            raise ObjectStoreError("timed out")
        if len(late) == 1:
            put_new(*late[0])
            late.append((key, data))
        put_new(key, data)

    objects.put_new = delayed  # type: ignore[method-assign]
    with pytest.raises(ObjectStoreError):
        writer.publish(first, content_of(10))
    snapshot = published(writer, second, 20)

    assert snapshot.number == 3
    assert stored(objects, snapshot) == saved_files(second)
    assert stored(objects, chain_of(objects).read(2)) == saved_files(first)


def test_a_retry_uploads_only_what_is_missing_and_nothing_was_published_meanwhile(
    objects: MemoryObjects, tmp_path: Path
) -> None:
    writer = claimed(objects)
    directory = checkpoint(tmp_path / "1", {8: b"eight", 9: b"nine"})
    objects.before = Faults("upload", lambda key: key.endswith("OPTIONS-000007"))
    with pytest.raises(ObjectStoreError):
        writer.publish(directory, content_of(10))
    assert chain_of(objects).numbers() == [1]
    there = {key for key in objects.objects if "/files/" in key}
    objects.calls.clear()

    snapshot = published(writer, directory, 10)

    assert len(there) >= 2
    assert not there & set(objects.asked("upload"))
    assert stored(objects, snapshot) == saved_files(directory)


def test_what_was_deleted_or_cut_off_is_uploaded_again_by_the_next_owner(
    objects: MemoryObjects, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = checkpoint(tmp_path / "1", {8: b"eight", 9: b"nine", 10: b"ten"})
    before = published(claimed(objects, "pod-1"), directory, 10)
    keys = {file.name: f"orders/0_3/{file.object}" for file in before.files}
    del objects.objects[keys["000008.sst"]]
    objects.objects[keys["000009.sst"]] = b"nin"
    heir = claimed(objects, "pod-2")
    objects.calls.clear()

    snapshot = published(heir, directory, 10)

    assert stored(objects, snapshot) == saved_files(directory)
    assert len(objects.asked("upload")) == 2
    assert "task 0_3: 2 objects of its snapshot 3 were deleted or cut off" in caplog.text


def test_what_was_found_deleted_is_remembered_when_the_upload_fails(objects: MemoryObjects, tmp_path: Path) -> None:
    directory = checkpoint(tmp_path / "1", {8: b"eight"})
    before = published(claimed(objects, "pod-1"), directory, 10)
    for file in before.files:
        del objects.objects[f"orders/0_3/{file.object}"]
    heir = claimed(objects, "pod-2")
    objects.before = Faults("upload", times=4)
    with pytest.raises(ObjectStoreError):
        heir.publish(directory, content_of(10))
    objects.before = lambda operation, key: None

    assert stored(objects, published(heir, directory, 10)) == saved_files(directory)


def test_an_owner_finds_what_was_deleted_some_snapshots_later(objects: MemoryObjects, tmp_path: Path) -> None:
    writer = claimed(objects)
    first = checkpoint(tmp_path / "0", {8: b"eight"})
    snapshot = published(writer, first, 1)
    (key,) = [key for key in objects.objects if key.endswith("-000008.sst")]
    del objects.objects[key]

    for number in range(2, 25):
        snapshot = published(writer, checkpoint(tmp_path / str(number), {8: b"eight"}, links=first), number)

    assert stored(objects, snapshot) == saved_files(first)


def test_tells_how_many_bytes_were_sent(objects: MemoryObjects, tmp_path: Path) -> None:
    sent: list[int] = []
    directory = checkpoint(tmp_path / "1", {8: b"eight"})

    snapshot = claimed(objects).publish(directory, content_of(10), sent.append)

    assert snapshot is not None
    assert sum(sent) == snapshot.total_bytes


@pytest.mark.parametrize(("name", "data"), [("000011.log", b"unflushed"), ("surprise", b"")])
def test_refuses_a_directory_that_is_no_flushed_checkpoint(
    objects: MemoryObjects, tmp_path: Path, name: str, data: bytes
) -> None:
    directory = checkpoint(tmp_path / "1", {8: b"eight"})
    (directory / name).write_bytes(data)

    with pytest.raises(StateStoreError, match=f"{name} is no file of a flushed checkpoint"):
        claimed(objects).publish(directory, content_of(10))
    assert objects.asked("upload") == []


def test_publishing_before_claiming_is_refused(objects: MemoryObjects, tmp_path: Path) -> None:
    with pytest.raises(StateStoreError, match="claim it first"):
        writer_of(objects).publish(checkpoint(tmp_path / "1", {}), content_of(1))
    assert objects.calls == []
