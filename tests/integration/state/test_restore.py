"""Restoring stores from raw changelog records, into RocksDB and into memory."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from streamsapp.record import RawRecord, TaskId
from streamsapp.serdes.api import Serde
from streamsapp.state.api import Engine, StoreBuilder, ValueAndTimestamp
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.kinds.key_value import KEY_VALUE, TIMESTAMPED_KEY_VALUE
from streamsapp.state.kinds.store_type import StoreType
from streamsapp.state.task_stores import TaskStores

STRING = Serde[str](str.encode, bytes.decode, immutable=True, name="string")
LONG = Serde[int](struct.Struct(">q").pack, lambda raw: struct.unpack(">q", raw)[0], immutable=True, name="long")


def changed(key: bytes | None, value: bytes | None, timestamp_ms: int = 0) -> RawRecord:
    """A record of the store's changelog."""
    return RawRecord("app-store-changelog", 0, 0, key, value, timestamp_ms)


def opened(directory: Path, kind: StoreType, engine: Engine) -> TaskStores:
    stores = TaskStores(
        TaskId(0, 0),
        directory,
        [StoreBuilder("store", kind, engine)],
        StateResources(16 << 20),
        default_serdes=(STRING, LONG),
        context_timestamp=lambda: 0,
    )
    stores.open()
    return stores


def long(number: int) -> bytes:
    return struct.pack(">q", number)


@pytest.mark.parametrize("engine", list(Engine))
def test_the_last_record_of_a_key_wins_and_null_values_delete(tmp_path: Path, engine: Engine) -> None:
    stores = opened(tmp_path, TIMESTAMPED_KEY_VALUE, engine)
    stores.restore("store", [changed(b"a", long(1), 10), changed(b"gone", long(1), 10)], 2)
    stores.restore(
        "store",
        [
            changed(b"a", None, 20),
            changed(b"a", long(3), 30),
            changed(b"gone", None, 20),
            changed(None, long(9), 40),
        ],
        6,
    )
    assert list(stores.stores["store"].all()) == [("a", ValueAndTimestamp(3, 30))]
    assert stores.changelog_offset("store") == 6
    stores.close()


@pytest.mark.parametrize("engine", list(Engine))
def test_reads_before_a_batch_do_not_hide_it(tmp_path: Path, engine: Engine) -> None:
    stores = opened(tmp_path, KEY_VALUE, engine)
    store = stores.stores["store"]
    assert store.get("a") is None
    stores.restore("store", [changed(b"a", long(1))], 1)
    assert store.get("a") == 1
    stores.close()


def test_a_batch_larger_than_one_write_is_restored_whole_and_survives_a_restart(tmp_path: Path) -> None:
    stores = opened(tmp_path, KEY_VALUE, Engine.ROCKSDB)
    stores.restore("store", [changed(b"%05d" % i, long(i)) for i in range(4001)], 4001)
    stores.close()
    again = opened(tmp_path, KEY_VALUE, Engine.ROCKSDB)
    assert [value for _, value in again.stores["store"].all()] == list(range(4001))
    assert again.changelog_offset("store") == 4001
    assert 3000 < again.stores["store"].approximate_num_entries() < 5000
    again.close()


def test_a_batch_without_any_key_is_not_read_again(tmp_path: Path) -> None:
    stores = opened(tmp_path, KEY_VALUE, Engine.ROCKSDB)
    stores.restore("store", [changed(None, long(1))], 1)
    stores.close()
    again = opened(tmp_path, KEY_VALUE, Engine.ROCKSDB)
    assert again.changelog_offset("store") == 1
    again.close()


def test_a_memory_store_starts_over_when_it_is_opened_again(tmp_path: Path) -> None:
    stores = opened(tmp_path, KEY_VALUE, Engine.MEMORY)
    stores.restore("store", [changed(b"a", long(1))], 1)
    stores.close()
    again = opened(tmp_path, KEY_VALUE, Engine.MEMORY)
    assert again.changelog_offset("store") is None
    assert again.stores["store"].get("a") is None
    again.close()


@pytest.mark.parametrize("engine", list(Engine))
def test_wiped_stores_that_are_opened_again_stand_nowhere(tmp_path: Path, engine: Engine) -> None:
    stores = opened(tmp_path, KEY_VALUE, engine)
    stores.restore("store", [changed(b"a", long(1))], 7)
    stores.wipe()
    stores.open()
    assert stores.changelog_offset("store") is None
    assert stores.stores["store"].get("a") is None
    stores.close()
