"""The duties of an object store, asked of a bucket on a real S3 server and of a folder alike."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from s3_server import S3Server
from streamsapp.config.remote_state import RemoteStateConfig
from streamsapp.remote.object_store import (
    ObjectDamagedError,
    ObjectExistsError,
    ObjectMissingError,
    ObjectStore,
    ObjectStoreError,
)
from streamsapp.remote.object_store_factory import open_store

MIB = 1024 * 1024
#: Sizes of objects that move in one piece, and the size of an object of several ranges with a short last one.
SIZES = [0, 1, 3 * MIB, 37 * MIB + 11]


@pytest.fixture(params=["s3", "directory"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> RemoteStateConfig:
    if request.param == "directory":
        return RemoteStateConfig(url=f"file://{tmp_path}/objects")
    server: S3Server = request.getfixturevalue("s3_server")
    return server.config(prefix=f"tests/{uuid4().hex}")


@pytest.fixture
def store(settings: RemoteStateConfig) -> ObjectStore:
    opened = open_store(settings)
    opened.probe()
    return opened


def keys(store: ObjectStore, prefix: str = "") -> list[str]:
    return [info.key for info in store.list(prefix)]


def file_of(path: Path, size: int) -> Path:
    path.write_bytes(os.urandom(size))
    return path


def test_a_probe_leaves_nothing_behind(store: ObjectStore) -> None:
    assert keys(store) == []


def test_a_new_object_is_written_once_and_never_replaced(store: ObjectStore) -> None:
    store.put_new("a/1.json", b"first")
    with pytest.raises(ObjectExistsError, match=r"a/1\.json exists already"):
        store.put_new("a/1.json", b"second")
    assert store.read("a/1.json", 100) == b"first"


def test_of_sixteen_writers_of_a_new_object_exactly_one_wins(store: ObjectStore, settings: RemoteStateConfig) -> None:
    stores = [store, open_store(settings)]
    begin = threading.Barrier(16)

    def write(number: int) -> list[str]:
        won = []
        for key in (f"race/{turn}" for turn in range(30)):
            begin.wait(60)
            try:
                stores[number % 2].put_new(key, str(number).encode())
                won.append(f"{key} {number}")
            except ObjectExistsError:
                pass
        return won

    with ThreadPoolExecutor(16) as pool:
        won = sorted(each for some in pool.map(write, range(16)) for each in some)

    assert Counter(each.split()[0] for each in won) == Counter(f"race/{turn}" for turn in range(30))
    assert won == sorted(f"{key} {store.read(key, 10).decode()}" for key in keys(store))


@pytest.mark.parametrize("share", [0.01, 0.5, 1.0])
@pytest.mark.parametrize("size", SIZES)
def test_gives_back_what_was_uploaded_and_tells_every_byte_and_their_hash(
    store: ObjectStore, tmp_path: Path, size: int, share: float
) -> None:
    source, target = file_of(tmp_path / "source", size), tmp_path / "target"
    sent: list[int] = []
    received: list[int] = []

    store.upload("files/1-000012.sst", source, sent.append)
    digest = store.download("files/1-000012.sst", target, size, received.append, share)

    assert target.read_bytes() == source.read_bytes()
    assert digest == hashlib.sha256(source.read_bytes()).hexdigest()
    assert (sum(sent), sum(received)) == (size, size)
    assert [(info.key, info.size) for info in store.list("")] == [("files/1-000012.sst", size)]


@pytest.mark.parametrize("size", [5, 20 * MIB])
def test_an_upload_replaces_what_was_there(store: ObjectStore, tmp_path: Path, size: int) -> None:
    store.upload("a", file_of(tmp_path / "old", 7))
    new = file_of(tmp_path / "new", size)
    store.upload("a", new)

    assert store.read("a", size) == new.read_bytes()


def test_an_upload_that_was_given_up_is_not_seen(store: ObjectStore, tmp_path: Path) -> None:
    class GivenUp(Exception):
        pass

    def give_up(count: int) -> None:
        raise GivenUp

    for size in (5, 40 * MIB):
        with pytest.raises(GivenUp):
            store.upload("a", file_of(tmp_path / "source", size), give_up)
    assert keys(store) == []


def test_a_file_that_cannot_be_read_is_named(store: ObjectStore, tmp_path: Path) -> None:
    with pytest.raises(ObjectStoreError, match=f"{tmp_path}/none"):
        store.upload("a", tmp_path / "none")


def test_reads_no_object_that_is_too_large(store: ObjectStore) -> None:
    store.put_new("a", b"12345")

    assert store.read("a", 5) == b"12345"
    with pytest.raises(ObjectDamagedError, match="/a "):
        store.read("a", 4)


@pytest.mark.parametrize("wrong", [0, 4, 6, 20 * MIB])
def test_a_download_of_another_size_leaves_no_file(store: ObjectStore, tmp_path: Path, wrong: int) -> None:
    store.put_new("a", b"12345")
    with pytest.raises(ObjectDamagedError, match="/a "):
        store.download("a", tmp_path / "target", wrong)
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("share", [0.01, 1.0])
def test_a_download_of_a_larger_object_writes_no_more_than_was_asked_for(
    store: ObjectStore, tmp_path: Path, share: float
) -> None:
    store.upload("a", file_of(tmp_path / "source", 40 * MIB))
    received: list[int] = []
    with pytest.raises(ObjectDamagedError, match=f"{40 * MIB} bytes instead of {20 * MIB}"):
        store.download("a", tmp_path / "target", 20 * MIB, received.append, share)
    assert received == []


@pytest.mark.parametrize(("begin", "end"), [(0, 1), (0, 20 * MIB), (7, 9 * MIB), (20 * MIB - 1, 20 * MIB)])
def test_a_range_of_an_object_is_read(store: ObjectStore, tmp_path: Path, begin: int, end: int) -> None:
    source = file_of(tmp_path / "source", 20 * MIB)
    store.upload("a", source)

    assert store.read_range("a", begin, end, 20 * MIB) == source.read_bytes()[begin:end]


def test_a_range_of_an_object_of_another_size_or_of_none_is_refused(store: ObjectStore, tmp_path: Path) -> None:
    store.upload("a", file_of(tmp_path / "source", 5))
    for size in (3, 4, 6, 20 * MIB):
        with pytest.raises(ObjectDamagedError, match="/a "):
            store.read_range("a", 0, 3, size)
    with pytest.raises(ObjectMissingError, match="gone/1 does not exist"):
        store.read_range("gone/1", 0, 3, 5)


def test_an_object_that_is_not_there_is_told_apart(store: ObjectStore, tmp_path: Path) -> None:
    for size in (5, 20 * MIB):
        with pytest.raises(ObjectMissingError, match="gone/1 does not exist"):
            store.download("gone/1", tmp_path / "target", size)
    with pytest.raises(ObjectMissingError, match="gone/1 does not exist"):
        store.read("gone/1", 5)
    assert not (tmp_path / "target").exists()


def test_a_download_never_touches_a_file_that_is_there(store: ObjectStore, tmp_path: Path) -> None:
    store.put_new("a", b"12345")
    (tmp_path / "target").write_text("mine")
    with pytest.raises(ObjectStoreError, match="target"):
        store.download("a", tmp_path / "target", 5)
    assert (tmp_path / "target").read_text() == "mine"


@pytest.mark.parametrize("share", [0.01, 1.0])
def test_a_download_that_was_given_up_leaves_neither_file_nor_thread(
    store: ObjectStore, tmp_path: Path, share: float
) -> None:
    class GivenUp(Exception):
        pass

    def give_up(count: int) -> None:
        raise GivenUp

    store.upload("a", file_of(tmp_path / "source", 40 * MIB))
    before = set(threading.enumerate())
    with pytest.raises(GivenUp):
        store.download("a", tmp_path / "target", 40 * MIB, give_up, share)
    assert not (tmp_path / "target").exists()
    assert set(threading.enumerate()) <= before


def test_a_download_never_mixes_two_versions_of_an_object(
    store: ObjectStore, settings: RemoteStateConfig, tmp_path: Path
) -> None:
    size = 160 * MIB
    old, new = tmp_path / "old", tmp_path / "new"
    for path, letter in ((old, b"o"), (new, b"n")):
        path.write_bytes(letter * size)
    first, replaced = threading.Lock(), threading.Event()

    def overwrite(count: int) -> None:
        """Before any range is complete, so that the last ones are asked for afterwards."""
        if first.acquire(blocking=False):
            open_store(settings).upload("a", new)
            replaced.set()
        replaced.wait(60)

    store.upload("a", old)
    if isinstance(settings.location, Path):
        store.download("a", tmp_path / "target", size, overwrite)
        assert (tmp_path / "target").read_bytes() == old.read_bytes()
    else:
        with pytest.raises(ObjectDamagedError, match="was replaced while it was read"):
            store.download("a", tmp_path / "target", size, overwrite)
        assert not (tmp_path / "target").exists()
    assert replaced.is_set()


def test_lists_by_prefix_in_the_order_of_keys_on_any_number_of_pages(store: ObjectStore) -> None:
    numbers = [f"app/0_1/manifests/{number:016d}.json" for number in range(1, 1006)]
    others = ["app/0_1/files/1-ab/2-CURRENT", "app/0_10/manifests/1", "app-2/x", "zebra"]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda key: store.put_new(key, b"x"), [*numbers, *others]))

    assert keys(store, "app/0_1/manifests/") == numbers
    assert keys(store, "app/0_1/") == ["app/0_1/files/1-ab/2-CURRENT", *numbers]
    assert keys(store, "app/0_1/manifests/00000000000010") == numbers[999:]
    assert keys(store) == sorted([*numbers, *others])
    assert keys(store, "nothing/") == []

    store.delete([*numbers, "never/was"])
    assert keys(store) == sorted(others)


def test_an_object_says_when_it_was_written_with_time_zone(store: ObjectStore) -> None:
    store.put_new("a", b"x")
    (info,) = store.list("a")
    assert abs(info.modified - datetime.now(UTC)) < timedelta(minutes=1)


def test_deleting_what_is_not_there_is_no_error(store: ObjectStore) -> None:
    store.put_new("a/b", b"x")
    store.delete(["a/b", "a/b", "a/c"])
    store.delete([])
    assert keys(store) == []


@pytest.mark.parametrize(
    "key", ["../x", "a/../../x", "a/./b", "/a", "a/", "a//b", "", "a b", "a\n", "a\\b", "~incoming/x"]
)
def test_a_key_never_leaves_the_prefix(store: ObjectStore, tmp_path: Path, key: str) -> None:
    source = file_of(tmp_path / "source", 1)
    for action in (
        lambda: store.put_new(key, b"x"),
        lambda: store.upload(key, source),
        lambda: store.read(key, 5),
        lambda: store.download(key, tmp_path / "target", 1),
        lambda: store.delete([key]),
    ):
        with pytest.raises(ObjectStoreError, match="is not a key"):
            action()
    assert not (tmp_path / "target").exists()
    with pytest.raises(ObjectStoreError, match="is not a key"):
        list(store.list("../"))


def test_two_prefixes_of_a_place_do_not_see_each_other(settings: RemoteStateConfig) -> None:
    one, other = (open_store(replace(settings, url=f"{settings.url}/{name}")) for name in "ab")
    for store in (one, other):
        store.probe()
    one.put_new("x", b"1")
    assert (keys(one), keys(other)) == (["x"], [])
