"""Session stores, on RocksDB and in memory: what they keep, give, forget and restore."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from changelog import changelog_records
from streamsapp import Serdes, Stores, TaskId
from streamsapp.errors import StateStoreError, TopologyError
from streamsapp.record import RawRecord
from streamsapp.serdes.windowed import Windowed
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.resources import StateResources
from streamsapp.state.session import SessionType, session_key
from streamsapp.state.task_stores import TaskStores

MINUTE = 60_000
RETENTION = 10 * MINUTE


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


def builder(supplier: Callable[..., Any]) -> StoreBuilder:
    return Stores.session_store_builder(supplier("s", RETENTION), Serdes.string(), Serdes.string())


def by_time(engine: Engine) -> StoreBuilder:
    kind = SessionType(RETENTION, by_time=True)
    return StoreBuilder("s", kind, engine, Serdes.string(), Serdes.string())


@pytest.fixture(
    params=[
        builder(Stores.persistent_session_store),
        builder(Stores.in_memory_session_store),
        by_time(Engine.ROCKSDB),
        by_time(Engine.MEMORY),
    ],
    ids=["rocksdb", "memory", "rocksdb-by-time", "memory-by-time"],
)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> TaskStores:
    return opened(tmp_path, request.param)


def commit(stores: TaskStores, offset: int = 1) -> list[tuple[bytes | None, bytes | None, int]]:
    """What the changelog gets."""
    frozen = stores.freeze()
    records = [] if frozen is None else [record[1:] for record in changelog_records(frozen)]
    for _ in stores.apply(frozen, {"s": offset}):
        pass
    return records


def test_a_session_is_found_by_key_and_time(stores: TaskStores) -> None:
    store = stores.stores["s"]
    store.put(Windowed("a", 0, 10), "x")
    store.put(Windowed("a", 30, 40), "y")
    store.put(Windowed("aa", 5, 20), "z")
    commit(stores)
    store.put(Windowed("a", 60, 70), "late")
    store.remove(Windowed("a", 0, 10))

    assert list(store.fetch("a")) == [(Windowed("a", 30, 40), "y"), (Windowed("a", 60, 70), "late")]
    assert [window for window, _ in store.backward_fetch("a")] == [Windowed("a", 60, 70), Windowed("a", 30, 40)]
    assert list(store.find_sessions("a", 35, 50)) == [(Windowed("a", 30, 40), "y")]
    assert list(store.find_sessions("a", 41, 50)) == []
    assert store.fetch_session("aa", 5, 20) == "z"
    assert store.fetch_session("a", 0, 10) is None
    assert {window for window, _ in store.fetch_range("a", None)} == {
        Windowed("a", 30, 40),
        Windowed("a", 60, 70),
        Windowed("aa", 5, 20),
    }


def test_the_changelog_has_kafka_streams_keys_once_each(stores: TaskStores) -> None:
    stores.stores["s"].put(Windowed("a", 5, 9), "x")
    assert commit(stores) == [(b"a" + (9).to_bytes(8, "big") + (5).to_bytes(8, "big"), b"x", 7)]
    stores.stores["s"].remove(Windowed("a", 5, 9))
    assert commit(stores) == [(session_key(b"a", 5, 9), None, 7)]


def test_sessions_expire_when_stream_time_has_passed_their_end_by_the_retention(stores: TaskStores) -> None:
    store = stores.stores["s"]
    store.put(Windowed("a", 0, MINUTE), "x")
    store.put(Windowed("b", 0, MINUTE + RETENTION - 1), "y")
    assert store.fetch_session("a", 0, MINUTE) == "x"
    store.put(Windowed("b", 0, MINUTE + RETENTION), "z")
    assert store.fetch_session("a", 0, MINUTE) is None
    assert [window.key for window, _ in store.fetch_range(None, None)] == ["b", "b"]


def test_what_is_restored_is_found(stores: TaskStores) -> None:
    sessions = [("a", 0, 10), ("b", 5, 20), ("a", 30, 2 * RETENTION)]
    keys = [session_key(key.encode(), start, end) for key, start, end in sessions]
    stores.restore("s", [RawRecord("c", 0, at, key, b"v", 1) for at, key in enumerate(keys)], 3)
    found = [window for window, _ in stores.stores["s"].fetch_range(None, None)]
    assert found == [Windowed("a", 30, 2 * RETENTION)]


@pytest.mark.parametrize("engine", Engine)
def test_sessions_are_found_by_the_time_of_their_end(engine: Engine, tmp_path: Path) -> None:
    stores = opened(tmp_path, by_time(engine))
    store = stores.stores["s"]
    for key, start, end in [("b", 3, 10), ("a", 4, 10), ("c", 0, 11), ("a", 20, 200_000), ("d", 1, 9)]:
        store.put(Windowed(key, start, end), key)
    commit(stores)
    store.remove(Windowed("c", 0, 11))
    found = [(window.key, window.start_ms, entry) for window, entry in store.between(10, 200_000)]
    assert found == [("b", 3, ("b", 10)), ("a", 4, ("a", 10)), ("a", 20, ("a", 200_000))]


@pytest.mark.parametrize(
    ("session", "message"),
    [("a", "Windowed"), (Windowed(None, 0, 1), "null key"), (Windowed("a", 5, 4), "from 5 to 4")],
)
def test_what_is_no_session_is_refused(stores: TaskStores, session: Any, message: str) -> None:
    with pytest.raises(StateStoreError, match=message):
        stores.stores["s"].put(session, "x")


def test_a_negative_retention_is_refused() -> None:
    with pytest.raises(TopologyError, match="session store s: the retention must not be negative"):
        Stores.persistent_session_store("s", -1)
