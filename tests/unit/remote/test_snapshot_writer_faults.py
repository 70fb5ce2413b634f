"""A writer whose object store fails, answers late, or loses objects: nothing is published twice or by halves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from checkpoints import chain_of, checkpoint, claimed, content_of, published, saved_files, stored, writer_of
from memory_objects import MemoryObjects
from streamsapp.remote.object_store import ObjectStoreError
from streamsapp.remote.snapshot import Snapshot


@pytest.fixture
def objects() -> MemoryObjects:
    return MemoryObjects()


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


def assert_follow_each_other(objects: MemoryObjects, first: Path, second: Path, newest: Snapshot) -> None:
    """Both checkpoints were published, one after the claim and one after the other."""
    assert newest.number == 3
    assert stored(objects, newest) == saved_files(second)
    assert stored(objects, chain_of(objects).read(2)) == saved_files(first)


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

    assert_follow_each_other(objects, first, second, snapshot)


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

    assert_follow_each_other(objects, first, second, snapshot)


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
