"""A folder as an object store: cases that only folders have, such as other processes, and volumes that are not
mounted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from streamsapp.remote.directory_store import DirectoryStore
from streamsapp.remote.object_store import (
    ObjectDamagedError,
    ObjectExistsError,
    ObjectStoreError,
    UnfitObjectStoreError,
)

#: Writes forty objects at the same time as others do, and prints those it was the one to write.
RACER = """
import sys
from pathlib import Path
from streamsapp.remote.directory_store import DirectoryStore
from streamsapp.remote.object_store import ObjectExistsError
store = DirectoryStore(Path(sys.argv[1]))
print(flush=True)
sys.stdin.readline()
for number in range(40):
    try:
        store.put_new(f"race/{number}", b"x")
        print(number)
    except ObjectExistsError:
        pass
"""


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    opened = DirectoryStore(tmp_path / "objects")
    opened.probe()
    return opened


def test_of_several_processes_exactly_one_writes_a_new_object(store: DirectoryStore, tmp_path: Path) -> None:
    command = [sys.executable, "-c", RACER, str(tmp_path / "objects")]
    racers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for racer in racers:
        assert racer.stdout is not None
        racer.stdout.readline()
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    won = [number for racer in racers for number in racer.communicate(timeout=60)[0].split()]

    assert Counter(won) == Counter(str(number) for number in range(40))
    assert not any((tmp_path / "objects" / "~incoming").iterdir())


def test_a_volume_that_is_not_mounted_is_not_a_store_without_objects(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "volume")
    for action in (lambda: list(store.list("")), lambda: store.read("a", 1), lambda: store.put_new("a", b"x")):
        with pytest.raises(UnfitObjectStoreError, match=r"volume: the folder does not exist; mount the volume"):
            action()
    assert not (tmp_path / "volume").exists()


def test_a_volume_that_goes_away_during_a_write_is_not_made_anew(store: DirectoryStore, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"x")
    with pytest.raises(UnfitObjectStoreError, match=r"objects: the folder does not exist; mount the volume"):
        store.upload("a/b", tmp_path / "source", lambda count: shutil.rmtree(tmp_path / "objects"))
    assert not (tmp_path / "objects").exists()


def test_a_probe_makes_the_folder(tmp_path: Path) -> None:
    DirectoryStore(tmp_path / "a" / "b").probe()
    assert (tmp_path / "a" / "b").is_dir()


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(UnfitObjectStoreError, match=r"file/objects: cannot be written: .*give a folder"):
        DirectoryStore(tmp_path / "file" / "objects").probe()


def test_what_dead_writers_left_is_removed_a_day_later(store: DirectoryStore, tmp_path: Path) -> None:
    incoming = tmp_path / "objects" / "~incoming"
    for name in ("old", "fresh"):
        (incoming / name).write_bytes(b"half")
    yesterday = incoming.stat().st_mtime - 25 * 3600
    os.utime(incoming / "old", (yesterday, yesterday))

    assert list(store.list("")) == []
    store.probe()

    assert [left.name for left in incoming.iterdir()] == ["fresh"]


def test_a_write_that_fails_in_the_middle_leaves_nothing(store: DirectoryStore, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(bytes(3_000_000))
    (tmp_path / "objects" / "a").write_bytes(b"")

    def fail(count: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(ObjectStoreError, match=r"cannot write file://.*/b: .*No space left.*is there room"):
        store.upload("b", tmp_path / "source", fail)
    with pytest.raises(ObjectStoreError, match=r"cannot write file://.*/a/b: .*File exists"):
        store.put_new("a/b", b"x")

    assert [info.key for info in store.list("")] == ["a"]
    assert not any((tmp_path / "objects" / "~incoming").iterdir())


def test_a_download_that_ends_too_early_leaves_nothing(store: DirectoryStore, tmp_path: Path) -> None:
    source = tmp_path / "objects" / "a"
    source.write_bytes(bytes(3_000_000))

    def shrink(count: int) -> None:
        os.truncate(source, 1_500_000)

    with pytest.raises(ObjectStoreError, match=r"ended \d+ bytes too early"):
        store.download("a", tmp_path / "target", 3_000_000, shrink)
    assert not (tmp_path / "target").exists()


def test_a_pipe_in_place_of_an_object_is_a_damaged_object_whose_writer_nobody_waits_for(
    store: DirectoryStore, tmp_path: Path
) -> None:
    (tmp_path / "objects" / "a").mkdir()
    os.mkfifo(tmp_path / "objects" / "a" / "pipe")

    assert [info.key for info in store.list("a/")] == ["a/pipe"]
    with pytest.raises(ObjectDamagedError, match="a/pipe is not a file"):
        store.read("a/pipe", 100)
    with pytest.raises(ObjectDamagedError, match="a/pipe is not a file"):
        store.download("a/pipe", tmp_path / "target", 0)
    with pytest.raises(ObjectExistsError):
        store.put_new("a/pipe", b"x")
