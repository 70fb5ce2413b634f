"""A writer appends to its task's chain until another writer has claimed it, and sends no file twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from checkpoints import chain_of, checkpoint, claimed, content_of, published, saved_files, stored, writer_of
from memory_objects import MemoryObjects
from streamsapp.errors import FencedError, StateStoreError
from streamsapp.remote import snapshot_writer
from streamsapp.remote.pieces import FileContent, describe
from streamsapp.remote.snapshot_writer import ClaimGivenUpError, SnapshotFencedError


@pytest.fixture
def objects() -> MemoryObjects:
    return MemoryObjects()


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

    def observed(path: Path) -> FileContent:
        hashed.append(path.name)
        return describe(path)

    monkeypatch.setattr(snapshot_writer, "describe", observed)
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


def test_a_claim_that_is_not_wanted_any_more_overtakes_nobody(objects: MemoryObjects) -> None:
    wanted = [True, False]

    def race(operation: str, key: str) -> None:
        if operation == "put_new":
            objects.before = lambda operation, key: None
            claimed(objects, "pod-2")

    objects.before = race
    with pytest.raises(ClaimGivenUpError, match=r"^task 0_3 is not to be claimed any more$"):
        writer_of(objects, "pod-1").claim(wanted=lambda: wanted.pop(0))

    assert chain_of(objects).numbers() == [1]
    assert chain_of(objects).read(1).instance == "pod-2"


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

    with pytest.raises(StateStoreError, match=f"{name} is not a file of a flushed checkpoint"):
        claimed(objects).publish(directory, content_of(10))
    assert objects.asked("upload") == []


def test_publishing_before_claiming_is_refused(objects: MemoryObjects, tmp_path: Path) -> None:
    with pytest.raises(StateStoreError, match="claim it first"):
        writer_of(objects).publish(checkpoint(tmp_path / "1", {}), content_of(1))
    assert objects.calls == []
