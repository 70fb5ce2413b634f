"""The store that fails on purpose keeps to what a real one may do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from faulty_store import FaultyStore
from streamsapp.remote.directory_store import DirectoryStore
from streamsapp.remote.object_store import ObjectExistsError, ObjectMissingError, ObjectStoreError


@pytest.fixture
def inner(tmp_path: Path) -> DirectoryStore:
    store = DirectoryStore(tmp_path / "objects")
    store.probe()
    return store


def attempts(call: Callable[[int], object], count: int = 200) -> list[str]:
    """How each of many calls ended."""
    ends = []
    for number in range(count):
        try:
            call(number)
            ends.append("ok")
        except ObjectStoreError as error:
            ends.append(type(error).__name__)
    return ends


def test_the_same_seed_fails_in_the_same_places(inner: DirectoryStore, tmp_path: Path) -> None:
    other = DirectoryStore(tmp_path / "other")
    other.probe()
    one, two = FaultyStore(inner, 7, share=0.4), FaultyStore(other, 7, share=0.4)
    first = attempts(lambda number: one.put_new(f"k/{number}", b"x"))

    assert first == attempts(lambda number: two.put_new(f"k/{number}", b"x"))
    assert one.faults == two.faults
    assert {fault for _, _, fault in one.faults} >= {"503 SlowDown", "409 ConditionalRequestConflict", "own"}


def test_a_new_object_that_was_refused_may_be_there_and_is_never_replaced(inner: DirectoryStore) -> None:
    store = FaultyStore(inner, 1, share=0.5)
    ends = attempts(lambda number: store.put_new(f"k/{number}", b"first"))
    there = [f"k/{number}" in {info.key for info in inner.list("k/")} for number in range(200)]

    assert {"ok", "ObjectStoreError", "ObjectExistsError"} == set(ends)
    assert all(found for end, found in zip(ends, there, strict=True) if end != "ObjectStoreError")
    assert {found for end, found in zip(ends, there, strict=True) if end == "ObjectStoreError"} == {True, False}
    store.share = 0
    for number in (number for number, found in enumerate(there) if found):
        with pytest.raises(ObjectExistsError):
            store.put_new(f"k/{number}", b"second")


def test_a_download_that_failed_leaves_no_file_and_others_are_whole(inner: DirectoryStore, tmp_path: Path) -> None:
    inner.put_new("a", b"12345")
    store = FaultyStore(inner, 3, share=0.5)
    ends = attempts(lambda number: store.download("a", tmp_path / str(number), 5), 60)

    assert {"ok", "ObjectStoreError"} == set(ends)
    for number, end in enumerate(ends):
        file = tmp_path / str(number)
        assert file.read_bytes() == b"12345" if end == "ok" else not file.exists()


def test_an_upload_is_whole_or_not_there(inner: DirectoryStore, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(bytes(1000))
    store = FaultyStore(inner, 4, share=0.5)
    ends = attempts(lambda number: store.upload(f"k/{number}", tmp_path / "source"))

    assert {"ok", "ObjectStoreError"} == set(ends)
    assert {info.size for info in inner.list("k/")} == {1000}
    assert ends.count("ok") < len(list(inner.list("k/"))) < len(ends)


def test_a_deletion_that_failed_may_have_deleted_some(inner: DirectoryStore) -> None:
    keys = [f"k/{number}" for number in range(20)]
    left = set()
    for seed in range(20):
        for key in {*keys} - {info.key for info in inner.list("k/")}:
            inner.put_new(key, b"x")
        with pytest.raises(ObjectStoreError):
            FaultyStore(inner, seed, share=1).delete(keys)
        left.add(len(list(inner.list("k/"))))
    assert left >= {0, 20}
    assert left - {0, 20}


def test_a_store_that_is_down_does_nothing_at_all(inner: DirectoryStore) -> None:
    store = FaultyStore(inner, 1)
    store.down = True
    assert attempts(lambda number: store.put_new(f"k/{number}", b"x"), 20) == ["ObjectStoreError"] * 20
    assert list(inner.list("")) == []
    store.down = False
    store.put_new("k", b"x")
    assert [info.key for info in store.list("")] == ["k"]


def test_its_clock_may_be_another_and_its_blocks_slow(inner: DirectoryStore, tmp_path: Path) -> None:
    inner.put_new("a", b"x")
    store = FaultyStore(inner, 1)
    store.skew = timedelta(hours=-3)
    store.seconds_per_block = 0.001
    (real,), (shown,) = inner.list(""), store.list("")
    moved: list[int] = []
    store.download("a", tmp_path / "target", 1, moved.append)

    assert shown.modified == real.modified - timedelta(hours=3)
    assert moved == [1]


def test_objects_at_rest_can_be_damaged(inner: DirectoryStore) -> None:
    store = FaultyStore(inner, 5)
    for key in "abcd":
        inner.put_new(key, key.encode() * 50)
    store.flip("a")
    store.truncate("b")
    store.swap("c", "d")
    store.delete(["c"])

    flipped = int.from_bytes(inner.read("a", 99), "big") ^ int.from_bytes(b"a" * 50, "big")
    assert flipped.bit_count() == 1
    assert b"b" * 50 != inner.read("b", 99) == b"b" * len(inner.read("b", 99))
    assert inner.read("d", 99) == b"c" * 50
    with pytest.raises(ObjectMissingError):
        store.read("c", 99)
