"""Garbage goes when no reader can need it any more, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkpoints import chain_of, checkpoint, content_of, writer_of
from memory_objects import MemoryObjects
from streamsapp.remote.garbage_collection import CollectedObjects, collect
from streamsapp.remote.object_store import ObjectStoreError
from streamsapp.remote.snapshot_writer import SnapshotWriter

HOUR = 3600.0


class Owner:
    """Publishes a checkpoint of other files each time, a minute apart."""

    def __init__(self, objects: MemoryObjects, root: Path) -> None:
        self._objects = objects
        self._root = root
        self._writer: SnapshotWriter = writer_of(objects)
        self._writer.claim()
        self._count = 0

    def publish(self, times: int = 1, *, seconds: float = 60) -> None:
        for _ in range(times):
            self._objects.sleep(seconds)
            self._count += 1
            directory = checkpoint(self._root / str(self._count), {self._count: b"x" * self._count})
            assert self._writer.publish(directory, content_of(self._count)) is not None


@pytest.fixture
def objects() -> MemoryObjects:
    return MemoryObjects()


@pytest.fixture
def owner(objects: MemoryObjects, tmp_path: Path) -> Owner:
    return Owner(objects, tmp_path)


def tables(objects: MemoryObjects) -> list[int]:
    """The numbers of the SST files there are."""
    return sorted(int(key[-10:-4]) for key in objects.objects if key.endswith(".sst"))


def numbers(objects: MemoryObjects) -> list[int]:
    return chain_of(objects).numbers()


def test_an_empty_chain_has_nothing_to_collect(objects: MemoryObjects) -> None:
    assert collect(chain_of(objects), 3, 0) == CollectedObjects(0, 0, 0)


def test_the_newest_snapshots_are_kept_however_old_they_are(objects: MemoryObjects, owner: Owner) -> None:
    owner.publish(5)
    objects.sleep(100 * HOUR)

    collect(chain_of(objects), 3, 0)
    collect(chain_of(objects), 3, 0)

    assert numbers(objects) == [6, 5, 4]
    assert tables(objects) == [3, 4, 5]


def test_files_go_in_a_round_after_their_manifests(objects: MemoryObjects, owner: Owner) -> None:
    owner.publish(5)

    first = collect(chain_of(objects), 3, 0)
    after_first = tables(objects)
    second = collect(chain_of(objects), 3, 0)

    assert (first.manifests, first.files) == (3, 0)
    assert after_first == [1, 2, 3, 4, 5]
    assert second.manifests == 0
    assert second.files >= 2
    assert second.bytes >= 3
    assert tables(objects) == [3, 4, 5]


def test_what_a_reader_may_have_begun_with_within_the_grace_is_kept(objects: MemoryObjects, owner: Owner) -> None:
    """A reader is downloading a snapshot that was the newest ten minutes ago."""
    owner.publish(30)

    collect(chain_of(objects), 3, 600)
    collect(chain_of(objects), 3, 600)

    assert numbers(objects) == list(range(31, 20, -1))
    assert tables(objects) == list(range(20, 31))


def test_time_is_that_of_the_store_and_ends_with_the_newest_manifest(objects: MemoryObjects, owner: Owner) -> None:
    owner.publish(5)
    objects.sleep(100 * HOUR)

    assert collect(chain_of(objects), 3, HOUR) == CollectedObjects(0, 0, 0)


def test_files_that_are_being_uploaded_are_left_alone(objects: MemoryObjects, owner: Owner, tmp_path: Path) -> None:
    """Also where the store's clock is so coarse that they are no later than the newest manifest."""
    owner.publish(3)

    def fail(operation: str, key: str) -> None:
        if operation == "put_new":
            raise ObjectStoreError("out of reach")

    objects.before = fail
    with pytest.raises(ObjectStoreError):
        owner.publish(seconds=0)

    collect(chain_of(objects), 1, 0)
    collect(chain_of(objects), 1, 0)

    assert tables(objects) == [3, 4]


def test_what_a_superseded_writer_left_is_collected(objects: MemoryObjects, owner: Owner, tmp_path: Path) -> None:
    owner.publish(3)
    chain = chain_of(objects)
    name = "files/1-0123456789abcdef/2-0123456789abcdef-000077.sst"
    objects.upload(f"{chain.folder}{name}", checkpoint(tmp_path / "z", {77: b"z"}) / "000077.sst")
    owner.publish()

    assert collect(chain, 9, 61).files == 0
    assert collect(chain, 9, 60).files == 1
    assert tables(objects) == [1, 2, 3, 4]


def test_objects_of_other_names_are_not_ours_to_delete(objects: MemoryObjects, owner: Owner) -> None:
    owner.publish()
    keys = ["orders/0_3/files/readme.txt", "orders/0_3/notes", "orders/0_33/files/x", "orders/0_3/manifests/x"]
    for key in keys:
        objects.put_new(key, b"")
    objects.sleep(100 * HOUR)
    owner.publish(5)

    collect(chain_of(objects), 1, 0)
    collect(chain_of(objects), 1, 0)

    assert set(keys) <= objects.objects.keys()


def test_while_a_manifest_cannot_be_read_no_file_goes(objects: MemoryObjects, owner: Owner) -> None:
    owner.publish(2)
    objects.objects[chain_of(objects).manifest_key(3)] = b"rubbish"
    owner.publish(3)

    for _ in range(2):
        assert collect(chain_of(objects), 4, 0).files == 0
    owner.publish(1)
    collect(chain_of(objects), 4, 0)
    collect(chain_of(objects), 4, 0)

    assert numbers(objects) == [7, 6, 5, 4]
    assert tables(objects) == [3, 4, 5, 6]


def test_a_damaged_snapshot_is_not_counted_among_those_to_retain(objects: MemoryObjects, owner: Owner) -> None:
    owner.publish(5)
    for number in (6, 5):
        objects.objects[chain_of(objects).manifest_key(number)] = b"rubbish"

    collect(chain_of(objects), 2, 0)

    assert numbers(objects) == [6, 5, 4, 3]


def test_claims_that_repeat_a_snapshot_do_not_push_others_out(objects: MemoryObjects, owner: Owner) -> None:
    owner.publish(2)
    for number in range(4):
        objects.sleep(60)
        writer_of(objects, f"pod-{number}").claim()

    collect(chain_of(objects), 2, 0)

    assert numbers(objects) == [7, 6, 5, 4, 3, 2]


def test_a_store_that_is_out_of_reach_is_not_taken_for_a_manifest_nobody_needs(
    objects: MemoryObjects, owner: Owner
) -> None:
    owner.publish(5)
    before = dict(objects.objects)

    def fail(operation: str, key: str) -> None:
        if operation == "read":
            raise ObjectStoreError("out of reach")

    objects.before = fail
    with pytest.raises(ObjectStoreError, match="out of reach"):
        collect(chain_of(objects), 1, 0)
    assert objects.objects == before
