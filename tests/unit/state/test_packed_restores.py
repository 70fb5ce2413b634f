"""Stores in RocksDB that are restored of packed records, which are written many at a time."""

from __future__ import annotations

import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import data_paths
from restoring import packed_records
from streamsapp import Serdes, TaskId, TopicPartition
from streamsapp.errors import StateStoreError
from streamsapp.record import RawRecord
from streamsapp.state import persistence
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.engine.entries import Entry
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.kinds.key_value import KEY_VALUE, TIMESTAMPED_KEY_VALUE
from streamsapp.state.task_stores import TaskStores
from task_parts import raw

PLAIN, TIMED = "plain", "timed"


@pytest.fixture
def path() -> ModuleType:
    return data_paths.compiled()


def open_stores(directory: Path, **resources: int) -> TaskStores:
    stores = TaskStores(
        TaskId(0, 0),
        directory,
        [
            StoreBuilder(PLAIN, KEY_VALUE, Engine.ROCKSDB),
            StoreBuilder(TIMED, TIMESTAMPED_KEY_VALUE, Engine.ROCKSDB),
            StoreBuilder("memory", KEY_VALUE, Engine.MEMORY),
        ],
        StateResources(8 << 20, **resources),
        default_serdes=(Serdes.bytes(), Serdes.bytes()),
        context_timestamp=lambda: 0,
    )
    stores.open()
    return stores


def history(rng: random.Random, begin: int, count: int) -> list[RawRecord]:
    """Updates and deletions of a few keys."""
    return [
        raw(offset, key=b"%d" % rng.randrange(30), value=rng.choice([None, b"%d" % offset]), timestamp=offset)
        for offset in range(begin, begin + count)
    ]


def gather(stores: TaskStores, path: ModuleType, records: list[RawRecord], store: str = PLAIN, **how: Any) -> None:
    packed = packed_records(TopicPartition("t", 0), records)
    stores.restore_packed(store, packed, records[-1].offset() + 1, **{"at_once": False} | how)


def entries(stores: TaskStores, store: str) -> dict[bytes, Entry]:
    return dict(stores._managed[store].engine.scan(b"", None, reverse=False))


@pytest.mark.parametrize("store", [PLAIN, TIMED])
@pytest.mark.seeds(10)
def test_a_store_has_the_same_entries_as_of_records(path: ModuleType, tmp_path: Path, seed: int, store: str) -> None:
    rng = random.Random(seed)
    one, other = open_stores(tmp_path / "one"), open_stores(tmp_path / "other")
    assert one.takes_packed(store)
    begin = 0
    for _ in range(rng.randrange(1, 9)):
        records = history(rng, begin, rng.randrange(1, 60))
        begin = records[-1].offset() + 1
        if rng.random() < 0.3:  # as when librdkafka has to fetch from now on
            one.restore(store, records, begin)
        else:
            gather(one, path, records, store, at_once=rng.random() < 0.3)
        other.restore(store, records, begin)
    one.write_restored()

    assert entries(one, store) == entries(other, store)
    assert one.changelog_offset(store) == other.changelog_offset(store) == begin
    for each in one, other:
        each.close()
        each.open()
    assert entries(one, store) == entries(other, store)
    assert one.changelog_offset(store) == begin


def test_only_what_rocksdb_has_as_the_changelog_has_it_is_packed(tmp_path: Path) -> None:
    assert not open_stores(tmp_path).takes_packed("memory")


def test_records_are_gathered_until_they_are_many(
    path: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persistence, "_GATHERED_BYTES", 200)
    stores = open_stores(tmp_path)
    gather(stores, path, [raw(0, key=b"a", value=b"1")])
    assert entries(stores, PLAIN) == {}
    gather(stores, path, [raw(1, key=b"b", value=b"2" * 150)])
    assert set(entries(stores, PLAIN)) == {b"a", b"b"}


def test_little_memory_for_what_waits_is_kept_to(path: ModuleType, tmp_path: Path) -> None:
    stores = open_stores(tmp_path, backlog_bytes=3 * 100)
    gather(stores, path, [raw(0, key=b"a", value=b"1" * 150)])
    assert set(entries(stores, PLAIN)) == {b"a"}


def test_a_replica_can_be_read_at_once(path: ModuleType, tmp_path: Path) -> None:
    stores = open_stores(tmp_path)
    gather(stores, path, [raw(0, key=b"a", value=b"1")], at_once=True)
    assert stores.views[PLAIN].get(b"a", committed=True)[0] == b"1"


def test_a_copy_has_what_is_gathered_with_the_offset(path: ModuleType, tmp_path: Path) -> None:
    stores = open_stores(tmp_path / "task")
    gather(stores, path, [raw(4, key=b"a", value=b"1")])
    stores.restored({}, {})
    assert stores.checkpoint(tmp_path / "copy" / "rocksdb") is not None
    copy = open_stores(tmp_path / "copy")
    assert (set(entries(copy, PLAIN)), copy.changelog_offset(PLAIN)) == ({b"a"}, 5)


def test_a_store_that_is_closed_meanwhile_keeps_what_is_gathered(path: ModuleType, tmp_path: Path) -> None:
    stores = open_stores(tmp_path)
    gather(stores, path, [raw(4, key=b"a", value=b"1")])
    stores.close()
    stores.open()
    assert (set(entries(stores, PLAIN)), stores.changelog_offset(PLAIN)) == ({b"a"}, 5)


def test_what_rocksdb_refuses_is_restored_again(
    path: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = open_stores(tmp_path)
    gather(stores, path, [raw(4, key=b"a", value=b"1")], at_once=True)
    with monkeypatch.context() as full:

        def refuse(*_: object) -> None:
            raise StateStoreError("the disk is full")

        full.setattr(stores._persistence._database, "write", refuse)  # type: ignore[union-attr]
        gather(stores, path, [raw(5, key=b"b", value=b"1")])
        with pytest.raises(StateStoreError, match="disk is full"):
            stores.write_restored()
    stores.close()
    stores.open()
    assert (set(entries(stores, PLAIN)), stores.changelog_offset(PLAIN)) == ({b"a"}, 5)


def test_commits_that_wait_are_written_before_what_a_replica_gets(path: ModuleType, tmp_path: Path) -> None:
    """A task was active here, and follows its changelog from now on."""
    stores = open_stores(tmp_path)
    stores.restored({}, {})
    stores.stores[PLAIN].put(b"a", b"mine")
    stores.stores[PLAIN].put(b"b", b"mine")
    list(stores.apply(stores.freeze(), {PLAIN: 2}))
    gather(stores, path, [raw(2, key=b"a", value=b"theirs")], at_once=True)
    assert [stores.views[PLAIN].get(key, committed=True)[0] for key in (b"a", b"b")] == [b"theirs", b"mine"]
