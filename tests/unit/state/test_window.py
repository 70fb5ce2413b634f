"""Window stores, on RocksDB and in memory: they keep, give, forget and restore windows."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from changelog import changelog_records
from streamsapp import Serdes, Stores, TaskId
from streamsapp.errors import StateStoreError, TopologyError
from streamsapp.record import RawRecord
from streamsapp.serdes.windowed import Windowed
from streamsapp.state.api import StoreBuilder, ValueAndTimestamp
from streamsapp.state.engine.backlog import BackloggedStore
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.engine.rocksdb import TaskDatabase
from streamsapp.state.kinds.window import window_key
from streamsapp.state.task_stores import TaskStores

MINUTE = 60_000
RETENTION = 10 * MINUTE
SUPPLIERS = [Stores.persistent_window_store, Stores.in_memory_window_store]

Opener = Callable[..., TaskStores]


def builder(supplier: Callable[..., Any], *, duplicates: bool = False, timestamps: bool = False) -> StoreBuilder:
    build = Stores.timestamped_window_store_builder if timestamps else Stores.window_store_builder
    return build(supplier("w", RETENTION, MINUTE, duplicates), Serdes.string(), Serdes.string())


def opened(directory: Path, store: StoreBuilder) -> TaskStores:
    stores = TaskStores(
        TaskId(0, 0),
        directory,
        [store],
        StateResources(16 << 20),
        default_serdes=(Serdes.bytes(), Serdes.bytes()),
        context_timestamp=lambda: 7,
    )
    stores.open()
    return stores


@pytest.fixture(params=SUPPLIERS, ids=["rocksdb", "memory"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> TaskStores:
    return opened(tmp_path, builder(request.param))


def commit(stores: TaskStores, offset: int = 1) -> list[tuple[bytes | None, bytes | None, int]]:
    """Returns the records that the changelog gets."""
    frozen = stores.freeze()
    records = [] if frozen is None else [record[1:] for record in changelog_records(frozen)]
    for _ in stores.apply(frozen, {"w": offset}):
        pass
    return records


def test_a_window_is_fetched_by_key_and_start(stores: TaskStores) -> None:
    store = stores.stores["w"]
    store.put("a", "x", 0)
    store.put("a", "y", MINUTE)
    store.put("aa", "z", 0)
    commit(stores)
    store.put("a", None, MINUTE)

    assert store.fetch("a", 0) == "x"
    assert store.fetch("a", MINUTE) is None
    assert store.fetch("a", 1) is None
    assert list(store.fetch("a", 0, 5 * MINUTE)) == [(0, "x")]
    assert list(store.fetch("aa", 0, 0)) == [(0, "z")]


def test_the_changelog_has_kafka_streams_keys(stores: TaskStores) -> None:
    stores.stores["w"].put("a", "x", 5)
    assert commit(stores) == [(b"a" + (5).to_bytes(8, "big") + bytes(4), b"x", 7)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("supplier", SUPPLIERS, ids=["rocksdb", "memory"])
def test_every_read_gives_what_a_dict_of_live_windows_gives(
    tmp_path: Path, supplier: Callable[..., Any], seed: int
) -> None:
    choose, model, time, newest = random.Random(seed), dict[tuple[str, int], str](), 0, 0
    stores = opened(tmp_path, builder(supplier))
    store = stores.stores["w"]
    for step in range(300):
        time += choose.choice([0, 1, MINUTE // 2, 3 * MINUTE]) if choose.random() < 0.3 else 0
        start = max(0, time - choose.randrange(12 * MINUTE))
        key, value = choose.choice(["", "a", "aa", "ab", "b\0"]), choose.choice([None, str(step)])
        store.put(key, value, start)
        newest = max(newest, start)
        if value is None:
            model.pop((key, start), None)
        elif start > newest - RETENTION:
            model[key, start] = value
        model = {(k, at): v for (k, at), v in model.items() if at > newest - RETENTION}
        if choose.random() < 0.2:
            commit(stores, step)
        if choose.random() < 0.1:
            low, high = sorted([choose.randrange(newest + 2), choose.randrange(newest + 2)])
            expected = [(at, v) for (k, at), v in sorted(model.items(), key=lambda e: e[0][1]) if k == key]
            assert list(store.fetch(key, 0, newest)) == expected
            assert list(store.backward_fetch(key, 0, newest)) == expected[::-1]
            found = {(each.key, each.start_ms): v for each, v in store.fetch_range("a", "b", low, high)}
            assert found == {(k, at): v for (k, at), v in model.items() if "a" <= k <= "b" and low <= at <= high}
            everything = list(store.all())
            assert {(each.key, each.start_ms): v for each, v in everything} == model
            assert list(store.backward_all()) == everything[::-1]
            assert all(each.end_ms == each.start_ms + MINUTE for each, _ in everything)
    stores.close()


def test_what_has_expired_is_deleted_where_it_is_kept(tmp_path: Path) -> None:
    stores = opened(tmp_path, builder(Stores.persistent_window_store))
    store = stores.stores["w"]
    for start in range(0, 40 * MINUTE, MINUTE):
        store.put("a", "x", start)
        commit(stores)
    stores.close()

    family = stores.families["w"]
    database = TaskDatabase(tmp_path / "rocksdb", [family], StateResources(16 << 20))
    kept = list(database.scan(family, b"", None, False))
    database.close()
    # The windows that live, and at most the rest of their oldest segment.
    assert 10 <= len(kept) <= 15


def staged(engine: BackloggedStore) -> list[bytes]:
    """Returns the keys that RocksDB is to get next."""
    keys = list[bytes]()
    entries = engine.in_order()
    while entries.stage(lambda key, value, family: keys.append(key), lambda key, family: keys.append(key), None, 7):
        pass
    return keys


def test_what_expires_before_rocksdb_has_it_is_never_written_there(tmp_path: Path) -> None:
    stores = opened(tmp_path, builder(Stores.persistent_window_store))
    store, engine = stores.stores["w"], stores._managed["w"].engine
    for start in range(0, 40 * MINUTE, MINUTE):
        store.put("a", "x", start)
        commit(stores)

    assert isinstance(engine, BackloggedStore)
    times = [int.from_bytes(key[-12:-4], "big") for key in staged(engine)]
    # The windows that live, without the rest of their oldest segment.
    assert times == list(range(30 * MINUTE, 40 * MINUTE, MINUTE))
    stores.close()


def test_what_lives_at_the_last_commit_is_written_though_time_went_on_since(tmp_path: Path) -> None:
    stores = opened(tmp_path, builder(Stores.persistent_window_store))
    store, engine = stores.stores["w"], stores._managed["w"].engine
    for start in range(0, 12 * MINUTE, MINUTE):
        store.put("a", "x", start)
        commit(stores)
    store.put("a", "of an epoch that is given up", 20 * MINUTE)
    assert stores.freeze() is not None
    store.put("a", "of the one after it", 21 * MINUTE)

    assert isinstance(engine, BackloggedStore)
    stores.checkpoint(tmp_path / "copy" / "rocksdb")
    assert not staged(engine)
    stores.revert()
    lived = list(range(2 * MINUTE, 12 * MINUTE, MINUTE))
    assert [each.start_ms for each, _ in store.all()] == lived
    stores.close()

    copy = opened(tmp_path / "copy", builder(Stores.persistent_window_store))
    assert [each.start_ms for each, _ in copy.stores["w"].all()] == lived
    copy.close()


def test_a_late_deletion_of_an_expired_window_brings_nothing_back(tmp_path: Path) -> None:
    stores = opened(tmp_path, builder(Stores.persistent_window_store))
    stores.stores["w"].put("a", "x", 6 * MINUTE)
    commit(stores)
    stores.close()

    stores = opened(tmp_path, builder(Stores.persistent_window_store))
    store = stores.stores["w"]
    store.put("a", "x", 17 * MINUTE)
    store.put("a", None, 6 * MINUTE)  # it has expired, and its segment lives: the changelog has the deletion
    assert len(commit(stores)) == 2
    stores.close()

    stores = opened(tmp_path, builder(Stores.persistent_window_store))
    assert [each.start_ms for each, _ in stores.stores["w"].all()] == [17 * MINUTE]
    assert list(stores.stores["w"].fetch("a", 0, 10 * MINUTE)) == []
    stores.close()


def test_memory_gives_up_what_has_expired(tmp_path: Path) -> None:
    stores = opened(tmp_path, builder(Stores.in_memory_window_store))
    for start in range(0, 100 * MINUTE, MINUTE):
        stores.stores["w"].put("a", "x", start)
        commit(stores)
    assert 10 <= stores.stores["w"]._layers.count() <= 15


def test_a_deletion_that_was_reverted_is_made_by_the_next_commit(tmp_path: Path) -> None:
    stores = opened(tmp_path, builder(Stores.persistent_window_store))
    store = stores.stores["w"]
    store.put("a", "old", 0)
    commit(stores)
    store.put("a", "new", 100 * MINUTE)
    assert stores.freeze() is not None
    stores.revert()

    assert store.fetch("a", 0) == "old"
    store.put("a", "new", 100 * MINUTE)
    commit(stores)
    assert [each.start_ms for each, _ in store.all()] == [100 * MINUTE]
    stores.restored({}, {})
    stores.checkpoint(tmp_path / "copy" / "rocksdb")
    stores.close()
    database = TaskDatabase(tmp_path / "copy" / "rocksdb", [stores.families["w"]], StateResources(16 << 20))
    assert len(list(database.scan(stores.families["w"], b"", None, False))) == 1
    database.close()


def test_a_late_window_is_not_read_and_one_of_a_dead_segment_is_not_logged(stores: TaskStores) -> None:
    store = stores.stores["w"]
    store.put("a", "new", 20 * MINUTE)
    store.put("a", "of a dead segment", 10 * MINUTE - 1)
    store.put("a", "late", 10 * MINUTE)
    store.put("a", "just in time", 10 * MINUTE + 1)
    assert store.fetch("a", 10 * MINUTE) is None
    assert [start for start, _ in store.fetch("a", 0, 20 * MINUTE)] == [10 * MINUTE + 1, 20 * MINUTE]
    assert [key and key[1:9] for key, _, _ in commit(stores)] == [
        (20 * MINUTE).to_bytes(8, "big"),
        (10 * MINUTE).to_bytes(8, "big"),
        (10 * MINUTE + 1).to_bytes(8, "big"),
    ]


def restored(stores: TaskStores, *starts: int) -> None:
    records = [
        RawRecord("c", 0, offset, window_key(b"a", start), b"%d" % start, start) for offset, start in enumerate(starts)
    ]
    stores.restore("w", records, len(records))


def test_expired_records_are_not_restored_and_time_is_known_afterwards(stores: TaskStores) -> None:
    restored(stores, 0, 30 * MINUTE, 5 * MINUTE, 25 * MINUTE)
    store = stores.stores["w"]
    assert [each.start_ms for each, _ in store.all()] == [25 * MINUTE, 30 * MINUTE]
    store.put("a", "late", 20 * MINUTE - 1)
    assert stores.freeze() is None


def test_what_expires_while_restoring_is_deleted(tmp_path: Path) -> None:
    stores = opened(tmp_path, builder(Stores.persistent_window_store))
    for start in range(0, 40 * MINUTE, 5 * MINUTE):
        restored(stores, start)
    stores.close()
    database = TaskDatabase(tmp_path / "rocksdb", [stores.families["w"]], StateResources(16 << 20))
    assert len(list(database.scan(stores.families["w"], b"", None, False))) <= 3
    database.close()


def test_time_is_known_after_a_restart_without_restoring(tmp_path: Path) -> None:
    stores = opened(tmp_path, builder(Stores.persistent_window_store))
    stores.stores["w"].put("a", "x", 30 * MINUTE)
    commit(stores)
    stores.close()

    again = opened(tmp_path, builder(Stores.persistent_window_store))
    assert list(again.stores["w"].all()) == [(Windowed("a", 30 * MINUTE, 31 * MINUTE), "x")]
    again.stores["w"].put("a", "late", 20 * MINUTE - 1)
    assert again.freeze() is None
    again.close()


def test_time_goes_back_with_what_was_not_committed(stores: TaskStores) -> None:
    store = stores.stores["w"]
    store.put("a", "x", MINUTE)
    commit(stores)
    store.put("a", "y", 100 * MINUTE)
    stores.revert()
    store.put("a", "z", 2 * MINUTE)
    assert list(store.fetch("a", 0, 100 * MINUTE)) == [(MINUTE, "x"), (2 * MINUTE, "z")]


@pytest.mark.parametrize("supplier", SUPPLIERS, ids=["rocksdb", "memory"])
def test_duplicates_are_appended_also_after_a_restart_and_a_restore(
    tmp_path: Path, supplier: Callable[..., Any]
) -> None:
    stores = opened(tmp_path / "one", builder(supplier, duplicates=True))
    for value in ["1", "2", None, "2"]:
        stores.stores["w"].put("a", value, 5)
    changelog = commit(stores, 4)
    # As in Kafka Streams, what has no value is numbered and logged, too.
    assert [value for _, value, _ in changelog] == [b"1", b"2", None, b"2"]
    stores.close()

    again = opened(tmp_path / "two", builder(supplier, duplicates=True))
    records = [RawRecord("c", 0, at, key, value, time) for at, (key, value, time) in enumerate(changelog)]
    again.restore("w", records, 4)
    again.stores["w"].put("a", "3", 5)
    assert [value for _, value in again.stores["w"].fetch("a", 0, 10)] == ["1", "2", "2", "3"]
    again.close()


@pytest.mark.parametrize("supplier", SUPPLIERS, ids=["rocksdb", "memory"])
def test_what_has_no_value_moves_the_time_of_a_store_of_duplicates_neither_live_nor_restored(
    tmp_path: Path, supplier: Callable[..., Any]
) -> None:
    stores = opened(tmp_path / "one", builder(supplier, duplicates=True))
    for value, start in (("1", 0), (None, 100 * MINUTE)):
        stores.stores["w"].put("a", value, start)
    changelog = commit(stores, 2)
    records = [RawRecord("c", 0, at, key, value, time) for at, (key, value, time) in enumerate(changelog)]

    again = opened(tmp_path / "two", builder(supplier, duplicates=True))
    again.restore("w", records, 2)
    for each in (stores, again):
        each.stores["w"].put("a", "2", MINUTE)
        assert [value for _, value in each.stores["w"].fetch("a", 0, 10 * MINUTE)] == ["1", "2"]
        each.close()


def test_a_timestamped_window_store_keeps_the_time_of_the_record_that_wrote(tmp_path: Path) -> None:
    stores = opened(tmp_path, builder(Stores.persistent_window_store, timestamps=True))
    stores.stores["w"].put("a", ValueAndTimestamp("x", 99), 5)
    assert commit(stores) == [(window_key(b"a", 5), b"x", 99)]
    stores.revert()
    assert stores.stores["w"].fetch("a", 5) == ValueAndTimestamp("x", 99)
    stores.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("", 1, 1), "needs a name"),
        (("w", 0, 0), "retention at least 1 ms"),
        (("w", 5, -1), "must not be negative"),
        (("w", 5, 6), "shorter than the windows' size"),
    ],
)
def test_a_store_that_could_keep_nothing_is_refused(options: tuple[str, int, int], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        Stores.persistent_window_store(*options)


@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("start", [1e12, "1", 1 << 63, None])
def test_a_start_that_no_key_can_have_is_refused_before_it_moves_the_time(
    tmp_path: Path, duplicates: bool, start: Any
) -> None:
    stores = opened(tmp_path, builder(Stores.in_memory_window_store, duplicates=duplicates))
    store = stores.stores["w"]
    with pytest.raises(ValueError, match=r"state store 'w' cannot have .* for window_start_ms"):
        store.put("a", "x", start)
    store.put("a", "y", 5)
    assert store.fetch("a", 5) == "y"
    assert len(commit(stores)) == 1


def test_a_key_that_is_too_short_is_refused_by_name_when_it_is_restored(stores: TaskStores) -> None:
    records = [
        RawRecord("c", 0, 3, window_key(b"a", 0), b"x", 7),
        RawRecord("c", 0, 4, b"foreign", b"x", 7),
    ]
    with pytest.raises(StateStoreError, match=r"record c-0@4 is not an entry .* reset the application"):
        stores.restore("w", records, 5)


def test_the_living_windows_of_a_database_are_the_same_however_often_it_was_committed(tmp_path: Path) -> None:
    windows = builder(Stores.persistent_window_store)
    often, once = opened(tmp_path / "often", windows), opened(tmp_path / "once", windows)
    family = often.families["w"]
    for stores in (often, once):
        for minute in range(15):
            stores.stores["w"].put(f"k{minute % 3}", str(minute), minute * MINUTE)
            if stores is often:
                commit(stores)
                stores.checkpoint(tmp_path / f"often-{minute}" / "rocksdb")  # which writes all of them to RocksDB
        commit(stores)
        stores.checkpoint(tmp_path / "last" / f"{stores is often}" / "rocksdb")
        stores.close()
    found = []
    reader = opened(tmp_path / "reader", windows)
    for minute in range(15):
        reader.stores["w"].put("at", "any", minute * MINUTE)
    commit(reader)
    for name in (True, False):
        database = TaskDatabase(tmp_path / "last" / str(name) / "rocksdb", [family], StateResources(16 << 20))
        whole = list(database.scan(family, b"", None, False))
        found.append((len(whole), list(reader.living("w", database.scan(family, b"", None, False)))))
        database.close()
    reader.close()
    (often_has, living), (once_has, of_once) = found
    assert often_has > once_has
    assert living == of_once
    assert len(living) == 10
