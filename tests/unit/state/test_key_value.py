"""The typed stores: the API users call, over an in-memory engine."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from changelog import changelog_records
from streamsapp.errors import StateStoreError, TopologyError
from streamsapp.record import TaskId
from streamsapp.serdes.api import Serde
from streamsapp.state.api import Engine, StoreBuilder, ValueAndTimestamp
from streamsapp.state.builders import Stores
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.kinds.key_value import TIMESTAMPED_KEY_VALUE, KeyValueStoreImpl
from streamsapp.state.task_stores import TaskStores

STRING = Serde[str](str.encode, bytes.decode, immutable=True, name="string")
LONG = Serde[int](struct.Struct(">q").pack, lambda raw: struct.unpack(">q", raw)[0], immutable=True, name="long")
LIST = Serde[list[int]](bytes, list, immutable=False, name="list")

NOW = 77
MEMORY = Stores.in_memory_key_value_store("store")


def opened(*builders: StoreBuilder) -> TaskStores:
    stores = TaskStores(
        TaskId(0, 0),
        Path("unused"),
        builders,
        StateResources(16 << 20),
        default_serdes=(STRING, LONG),
        context_timestamp=lambda: NOW,
    )
    stores.open()
    return stores


def plain() -> KeyValueStoreImpl:
    store: KeyValueStoreImpl = opened(Stores.key_value_store_builder(MEMORY)).stores["store"]
    return store


def timestamped() -> TaskStores:
    return opened(Stores.timestamped_key_value_store_builder(MEMORY))


def test_put_if_absent_returns_what_was_there_and_keeps_it() -> None:
    store = plain()
    assert store.put_if_absent("a", 1) is None
    assert store.put_if_absent("a", 2) == 1
    assert store.get("a") == 1


def test_delete_returns_what_was_there() -> None:
    store = plain()
    store.put("a", 1)
    assert store.delete("a") == 1
    assert store.delete("a") is None
    assert store.get("a") is None


def test_putting_null_deletes() -> None:
    store = plain()
    store.put("a", 1)
    store.put("a", None)
    assert list(store.all()) == []


@pytest.mark.parametrize("call", ["get", "delete", "prefix_scan"])
def test_a_null_key_is_refused_by_the_name_of_the_store(call: str) -> None:
    with pytest.raises(StateStoreError, match="null key for state store 'store'"):
        getattr(plain(), call)(None)


@pytest.mark.parametrize("call", ["put", "put_if_absent"])
def test_a_null_key_is_refused_when_writing(call: str) -> None:
    with pytest.raises(StateStoreError, match="null key for state store 'store'"):
        getattr(plain(), call)(None, 1)


def test_ranges_include_both_ends_and_null_ends_are_open() -> None:
    store = plain()
    store.put_all([(key, len(key)) for key in ("a", "aa", "b", "c")])
    assert [key for key, _ in store.range("a", "b")] == ["a", "aa", "b"]
    assert [key for key, _ in store.range(None, "a")] == ["a"]
    assert [key for key, _ in store.reverse_range("aa", None)] == ["c", "b", "aa"]
    assert list(store.range("c", "a")) == []


def test_prefix_scan_uses_the_serde_of_the_prefix() -> None:
    store = plain()
    store.put_all([("1a", 1), ("1b", 2), ("2a", 3)])
    number = Serde[int](lambda value: str(value).encode(), int)
    assert list(store.prefix_scan(1, number)) == [("1a", 1), ("1b", 2)]


def test_the_number_of_entries_counts_uncommitted_writes_and_deletions() -> None:
    stores = opened(Stores.key_value_store_builder(MEMORY))
    store = stores.stores["store"]
    store.put_all([("a", 1), ("b", 2), ("c", 3)])
    for _ in stores.apply(stores.freeze(), {}):
        pass
    store.put("a", 9)
    store.delete("b")
    store.delete("never there")
    store.put("d", 4)
    assert store.approximate_num_entries() == 3


def test_a_timestamped_store_keeps_the_timestamps_it_is_given() -> None:
    store = timestamped().stores["store"]
    store.put("a", ValueAndTimestamp(1, 10))
    assert store.get("a") == ValueAndTimestamp(1, 10)
    assert list(store.all()) == [("a", ValueAndTimestamp(1, 10))]


def test_changelog_records_carry_raw_values_and_their_timestamps() -> None:
    stores = timestamped()
    stores.stores["store"].put_all([("a", ValueAndTimestamp(1, 10)), ("b", None), ("a", ValueAndTimestamp(2, 20))])
    frozen = stores.freeze()
    assert frozen is not None
    assert list(changelog_records(frozen)) == [
        ("store", b"a", b"\0\0\0\0\0\0\0\2", 20),
        ("store", b"b", None, NOW),
    ]


def test_changelog_records_of_a_plain_store_carry_the_timestamp_of_the_record_in_process() -> None:
    stores = opened(Stores.key_value_store_builder(MEMORY))
    stores.stores["store"].put("a", 1)
    frozen = stores.freeze()
    assert frozen is not None
    assert list(changelog_records(frozen)) == [("store", b"a", b"\0\0\0\0\0\0\0\1", NOW)]


def test_stores_without_changelog_of_their_own_write_none() -> None:
    unlogged = Stores.key_value_store_builder(MEMORY).with_logging_disabled()
    source = StoreBuilder("table", TIMESTAMPED_KEY_VALUE, Engine.MEMORY, changelog_topic="input")
    stores = opened(unlogged, source)
    stores.stores["store"].put("a", 1)
    stores.stores["table"].put("a", ValueAndTimestamp(1, 10))
    frozen = stores.freeze()
    assert frozen is not None
    assert frozen.entries == 2
    assert list(changelog_records(frozen)) == []


def test_a_value_that_can_be_changed_in_place_is_stored_as_it_was() -> None:
    store = opened(Stores.key_value_store_builder(MEMORY, STRING, LIST)).stores["store"]
    value = [1]
    store.put("a", value)
    value.append(2)
    assert store.get("a") == [1]
    store.get("a").append(3)
    assert store.get("a") == [1]


def test_the_fast_protocol_and_the_typed_one_see_the_same_entries() -> None:
    store = opened(Stores.timestamped_key_value_store_builder(MEMORY, STRING, LIST)).stores["store"]
    key = store.key_bytes("a")
    store.write(key, store.to_stored("a", [1, 2]), 10)
    assert store.get("a") == ValueAndTimestamp([1, 2], 10)
    stored, timestamp = store.read(key)
    assert (store.from_stored(stored), timestamp) == ([1, 2], 10)
    store.write(key, None, 11)
    assert store.get("a") is None
    assert store.read(key) == (None, -1)


def test_metadata_is_seen_once_it_is_applied_and_forgotten_when_reverted() -> None:
    stores = timestamped()
    stores.put_metadata("position", b"1")
    stores.revert()
    for _ in stores.apply(None, {}):
        pass
    assert stores.get_metadata("position") is None
    stores.put_metadata("position", b"2")
    for _ in stores.apply(None, {"store": 5}):
        pass
    assert stores.get_metadata("position") == b"2"
    assert stores.changelog_offset("store") == 5


def test_builders_are_values_that_fluent_calls_do_not_change() -> None:
    builder = Stores.key_value_store_builder(Stores.persistent_key_value_store("s"), STRING, LONG)
    assert builder.with_logging_enabled({"retention.ms": "1"}).log_config == {"retention.ms": "1"}
    assert not builder.with_logging_disabled().logging
    assert not builder.with_caching_disabled().caching
    assert builder.with_caching_disabled().with_caching_enabled() == builder
    assert builder.engine is Engine.ROCKSDB


def test_a_store_without_name_is_refused() -> None:
    with pytest.raises(TopologyError, match="needs a name"):
        Stores.in_memory_key_value_store("")


def test_the_keys_of_a_store_in_memory_are_counted() -> None:
    stores = timestamped()
    store = stores.stores["store"]
    for key in ("a", "b"):
        store.put(key, ValueAndTimestamp(1, 5))
    assert stores.statistics()["store"]["num_keys"] == 0
    list(stores.apply(stores.freeze(), {}))
    assert stores.statistics()["store"]["num_keys"] == 2
    store.delete("a")
    list(stores.apply(stores.freeze(), {}))
    assert stores.statistics()["store"]["num_keys"] == 1
