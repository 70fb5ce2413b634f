"""RocksDB on disks that fill up, directories that cannot be used, and stores that change between two starts."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from streamsapp.errors import StateStoreError, TaskCorruptedError
from streamsapp.record import TaskId
from streamsapp.serdes.api import Serde
from streamsapp.serdes.serdes import Serdes
from streamsapp.state.api import StoreBuilder
from streamsapp.state.builders import Stores
from streamsapp.state.engine import resources, rocksdb
from streamsapp.state.engine.entries import PlainFormat
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.engine.rocksdb import RocksDBStore, TaskDatabase
from streamsapp.state.engine.write_stalls import Cause
from streamsapp.state.task_stores import TaskStores

BYTES = Serde[bytes](bytes, bytes, immutable=True, name="bytes")
LONG = Serde[int](struct.Struct(">q").pack, lambda raw: struct.unpack(">q", raw)[0], immutable=True, name="long")


def plain(name: str) -> StoreBuilder:
    return Stores.key_value_store_builder(Stores.persistent_key_value_store(name), BYTES, BYTES)


def timestamped(name: str) -> StoreBuilder:
    return Stores.timestamped_key_value_store_builder(Stores.persistent_key_value_store(name), BYTES, BYTES)


def opened(directory: Path, *builders: StoreBuilder) -> TaskStores:
    stores = TaskStores(
        TaskId(0, 0),
        directory,
        builders,
        StateResources(16 << 20),
        default_serdes=(BYTES, BYTES),
        context_timestamp=lambda: 0,
    )
    stores.open()
    return stores


def commit(stores: TaskStores, offset: int) -> None:
    for _ in stores.apply(stores.freeze(), dict.fromkeys(stores.stores, offset)):
        pass


def fill_until_it_fails(stores: TaskStores) -> tuple[int, StateStoreError]:
    """Commits a megabyte at a time; gives the number of the commit that failed."""
    store = stores.stores["store"]
    for epoch in range(1, 200):
        for i in range(16):
            store.put(b"%d-%d" % (epoch, i), os.urandom(1 << 16))
        try:
            commit(stores, epoch)
            stores.flush()
        except StateStoreError as error:
            return epoch, error
    raise AssertionError("the disk never filled up")


def test_a_full_disk_is_named_and_loses_nothing_that_was_committed(small_disk: Path) -> None:
    stores = opened(small_disk / "0_0", plain("store"))
    failed, error = fill_until_it_fails(stores)
    assert str(small_disk / "0_0") in str(error)
    assert "free or enlarge the disk" in str(error)
    store = stores.stores["store"]
    assert all(store.get(b"%d-%d" % (epoch, i)) is not None for epoch in range(1, failed) for i in range(16))
    with pytest.raises(StateStoreError, match="free or enlarge the disk"):
        stores.close()

    reopened = opened_with_room(small_disk)
    offset = reopened.changelog_offset("store") or 0
    assert 0 < offset <= failed
    found = {key for key, _ in reopened.stores["store"].all()}
    assert found >= {b"%d-%d" % (epoch, i) for epoch in range(1, offset + 1) for i in range(16)}
    reopened.close()


def write_until_it_fails(directory: Path) -> StateStoreError:
    """Write and write, faster than RocksDB flushes."""
    database = TaskDatabase(directory, ["store"], StateResources(16 << 20))
    value = os.urandom(20_000)
    for number in range(10_000):
        batch = database.batch()
        batch.writes.put(b"%d" % number, value, batch.family("store"))
        try:
            database.write(batch)
        except StateStoreError as error:
            return error
    raise AssertionError("the disk never filled up")


def test_a_full_disk_holds_up_nobody_who_writes_faster_than_is_flushed(small_disk: Path) -> None:
    script = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
import test_rocksdb_faults as t
print(t.write_until_it_fails(Path({str(small_disk / "0_0")!r})))
"""
    # A writer that waits inside RocksDB lets nothing of its process run, and nothing end it.
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert "No space left on device" in done.stdout
    assert "free or enlarge the disk" in done.stdout


class Refusing:
    """RocksDB that refuses writes: for a stall that passes, then for an error that lasts."""

    def __init__(self) -> None:
        self.reasons = iter(["Write stall", "IO error: No space left on device"])

    def write(self, *_: object) -> None:
        raise RuntimeError(f"Result incomplete: {next(self.reasons)}")


def test_a_stall_that_an_error_keeps_up_is_told_and_not_waited_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = TaskDatabase(tmp_path, ["store"], StateResources(16 << 20))
    batch = database.batch()
    with monkeypatch.context() as faulty:
        faulty.setattr(database, "_db", Refusing())
        with pytest.raises(StateStoreError, match="free or enlarge the disk"):
            database.write(batch)
    told = RocksDBStore(database, "store", PlainFormat(Serdes.bytes())).statistics()
    assert told["write_stall_milliseconds"] >= 5, "the time until RocksDB was asked again"
    assert told["is_write_stopped"] == 0
    database.close()


@pytest.mark.parametrize(("most_files", "cause"), [(2, "compaction"), (1000, "flush")])
def test_writes_that_wait_for_rocksdb_say_what_for_and_how_long(
    most_files: int, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small write buffers fill up while they are flushed, and few files may wait to be merged."""
    monkeypatch.setattr(resources, "_MEMTABLE_BYTES", 64 << 10)
    monkeypatch.setattr(resources, "_GATHERED_FILES", 2)
    for module in (resources, rocksdb):
        monkeypatch.setattr(module, "MOST_FILES", most_files)
    database, told = TaskDatabase(tmp_path, ["store"], StateResources(16 << 20)), list[str | None]()
    stalls, goes_on, value = database.stalls, database.stalls.goes_on, os.urandom(100_000)

    def note(cause: Cause, lasts: float) -> None:
        goes_on(cause, lasts)
        told.append(stalls.waits_for)

    monkeypatch.setattr(stalls, "goes_on", note)
    for number in range(5_000):
        batch = database.batch()
        batch.writes.put(b"%d" % number, value, batch.family("store"))
        database.write(batch)
        if cause == "compaction":
            database.flush_data()
        if cause in told:
            break

    assert cause in told, "it is known while a write waits"
    assert stalls.waits_for is None
    assert 0 < stalls.longest <= stalls.seconds
    database.close()


def test_rocksdb_never_slows_writers_down_with_the_interpreter_held(tmp_path: Path) -> None:
    """It stops them, which is noticed by asking, before it would slow them down."""
    stores = opened(tmp_path, plain("store"))
    stores.close()
    newest = max((tmp_path / "rocksdb").glob("OPTIONS-*"), key=lambda path: path.name)
    found = dict(re.findall(r"^  (\w+)=(\d+)$", newest.read_text(), re.MULTILINE))
    assert found["level0_slowdown_writes_trigger"] == found["level0_stop_writes_trigger"] == str(resources.MOST_FILES)
    assert found["soft_pending_compaction_bytes_limit"] == found["hard_pending_compaction_bytes_limit"]
    assert int(found["max_write_buffer_number"]) <= 3, "with more it would"


def opened_with_room(disk: Path) -> TaskStores:
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
    return opened(disk / "0_0", plain("store"))


def test_a_file_size_limit_is_named_too(tmp_path: Path) -> None:
    script = f"""
import resource, signal, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
import test_rocksdb_faults as t
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
stores = t.opened(Path({str(tmp_path)!r}), t.plain("store"))
print(t.fill_until_it_fails(stores)[1])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert str(tmp_path) in done.stdout
    assert "free or enlarge the disk" in done.stdout


def test_options_of_every_column_family_survive_a_restart(tmp_path: Path) -> None:
    for _ in range(3):
        stores = opened(tmp_path, plain("one"), timestamped("two"))
        stores.stores["one"].put(b"key", b"value")
        commit(stores, 1)
        stores.close()
    newest = max((tmp_path / "rocksdb").glob("OPTIONS-*"), key=lambda path: path.name)
    text = newest.read_text()
    assert text.count("[CFOptions ") == 3
    assert len(re.findall(r"filter_policy=bloomfilter", text)) == 3
    assert len(re.findall(r"^  compression=kLZ4Compression", text, re.MULTILINE)) == 3
    assert "atomic_flush=true" in text


def test_a_store_that_left_the_topology_is_kept_and_continues_where_it_stood_when_it_returns(tmp_path: Path) -> None:
    stores = opened(tmp_path, plain("stays"), plain("goes"))
    for store in stores.stores.values():
        store.put(b"key", b"value")
    commit(stores, 7)
    stores.close()

    without = opened(tmp_path, plain("stays"))
    assert without.stores["stays"].get(b"key") == b"value"
    without.stores["stays"].put(b"key", b"newer")
    commit(without, 8)
    without.close()

    again = opened(tmp_path, plain("stays"), plain("goes"))
    assert (again.changelog_offset("stays"), again.changelog_offset("goes")) == (8, 7)
    assert again.stores["goes"].get(b"key") == b"value"
    again.close()


def test_a_store_whose_kind_changed_starts_over_instead_of_misreading_its_bytes(tmp_path: Path) -> None:
    stores = opened(tmp_path, plain("store"))
    stores.stores["store"].put(b"key", b"a value longer than a timestamp")
    commit(stores, 7)
    stores.close()
    changed = opened(tmp_path, timestamped("store"))
    assert changed.changelog_offset("store") is None
    assert list(changed.stores["store"].all()) == []
    changed.close()


def test_a_damaged_database_asks_to_be_wiped_and_can_be(tmp_path: Path) -> None:
    stores = opened(tmp_path, plain("store"))
    stores.stores["store"].put(b"key", b"value")
    commit(stores, 1)
    stores.close()
    (tmp_path / "rocksdb" / "CURRENT").write_text("nonsense")
    with pytest.raises(TaskCorruptedError, match=re.escape(str(tmp_path))):
        opened(tmp_path, plain("store"))
    stores.wipe()
    fresh = opened(tmp_path, plain("store"))
    assert fresh.changelog_offset("store") is None
    fresh.close()


def test_a_table_file_that_is_gone_asks_to_be_wiped(tmp_path: Path) -> None:
    stores = opened(tmp_path, plain("store"))
    stores.stores["store"].put(b"key", b"value")
    commit(stores, 1)
    stores.close()
    for table in (tmp_path / "rocksdb").glob("*.sst"):
        table.unlink()
    with pytest.raises(TaskCorruptedError, match="restored"):
        opened(tmp_path, plain("store"))


def test_a_directory_in_use_says_so(tmp_path: Path) -> None:
    stores = opened(tmp_path, plain("store"))
    with pytest.raises(StateStoreError, match="another instance uses it"):
        opened(tmp_path, plain("store"))
    stores.close()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateStoreError, match=re.escape(str(tmp_path / "file"))):
        opened(tmp_path / "file", plain("store"))


def test_an_open_scan_does_not_hold_the_directory_after_close(tmp_path: Path) -> None:
    stores = opened(tmp_path, plain("store"))
    stores.stores["store"].put_all([(b"1", b"a"), (b"2", b"b")])
    commit(stores, 1)
    scan = stores.stores["store"].all()
    next(scan)
    stores.close()
    opened(tmp_path, plain("store")).close()
    assert [key for key, _ in scan] == [b"2"]  # had not been written to RocksDB when the scan began


def test_a_closed_store_refuses_reads_and_writes(tmp_path: Path) -> None:
    stores = opened(tmp_path, plain("store"))
    store = stores.stores["store"]
    store.put(b"key", b"value")
    stores.close()
    with pytest.raises(StateStoreError, match="closed"):
        store.get(b"key")
    with pytest.raises(StateStoreError, match="'store' is closed"):
        store.put(b"key", b"value")
    with pytest.raises(StateStoreError, match="closed"):
        store.all()
