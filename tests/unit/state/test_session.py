"""Session stores, on RocksDB and in memory: they keep, give, forget and restore sessions."""

from __future__ import annotations

import copy
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
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.kinds.session import SessionType, session_key
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
    """Returns the records that the changelog gets."""
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


def extend(stores: TaskStores, key: str, at: int, gap: int = 5, value: str | None = "v") -> None:
    """Adds a moment to a key's sessions, as the aggregation of sessions does."""
    store, key_bytes = stores.stores["s"], key.encode()
    merged = [each for each in store.near(key_bytes, at - gap) if each[1] <= at + gap]
    start, end = min([at, *(each[1] for each in merged)]), max([at, *(each[0] for each in merged)])
    if (start, end) != (at, at):
        for each in merged:
            store.give_up(key_bytes, each, at)
    epoch = merged[0][3] if merged and (start, end) == (at, at) else None
    store.write(key_bytes, start, end, value, at, epoch)


def sessions(stores: TaskStores, key: str) -> set[tuple[int, int]]:
    return {(window.start_ms, window.end_ms) for window, _ in stores.stores["s"].fetch(key)}


@pytest.mark.parametrize("moments", [(10, 14, 18), (10, 10, 14, 14, 18, 11)])
def test_a_session_that_comes_and_goes_within_an_epoch_is_not_in_the_changelog(
    stores: TaskStores, moments: tuple[int, ...]
) -> None:
    stores.stores["s"].keep_recent()
    for at in moments:
        extend(stores, "a", at)

    assert sessions(stores, "a") == {(10, 18)}
    assert commit(stores) == [(session_key(b"a", 10, 18), b"v", moments[-1])]


def test_a_session_that_was_committed_is_deleted_in_the_changelog(stores: TaskStores) -> None:
    stores.stores["s"].keep_recent()
    extend(stores, "a", 10)
    commit(stores)
    extend(stores, "a", 14)

    deleted, kept = (session_key(b"a", 10, 10), None, 14), (session_key(b"a", 10, 14), b"v", 14)
    assert commit(stores) == [deleted, kept]
    assert sessions(stores, "a") == {(10, 14)}


def test_a_committed_session_that_was_deleted_and_came_again_goes_for_good(stores: TaskStores) -> None:
    store = stores.stores["s"]
    store.keep_recent()
    extend(stores, "a", 10)
    commit(stores)
    store.remove(Windowed("a", 10, 10))
    extend(stores, "a", 10)
    extend(stores, "a", 14)

    assert sessions(stores, "a") == {(10, 14)}
    assert (session_key(b"a", 10, 10), None, 14) in commit(stores)
    assert sessions(stores, "a") == {(10, 14)}


@pytest.mark.parametrize("seed", range(4))
def test_the_changelog_makes_the_sessions_that_the_store_has(stores: TaskStores, seed: int) -> None:
    choose = random.Random(seed)
    stores.stores["s"].keep_recent()
    logged: dict[bytes | None, bytes | None] = {}
    model: dict[str, set[tuple[int, int]]] = {"a": set(), "ab": set()}
    committed = copy.deepcopy(model)
    for step in range(400):
        key, at = choose.choice(["a", "ab"]), step * 2 + choose.randrange(40)
        near = {each for each in model[key] if each[1] >= at - 5 and each[0] <= at + 5}
        start, end = min([at, *(each[0] for each in near)]), max([at, *(each[1] for each in near)])
        kept = None if choose.random() < 0.1 else "v"
        extend(stores, key, at, value=kept)
        model[key] = model[key] - near | ({(start, end)} if kept else set())
        event = choose.random()
        if event < 0.1:
            logged |= {key: value for key, value, _ in commit(stores, step)}
            committed = copy.deepcopy(model)
            alive = {session_key(k.encode(), *each) for k, found in model.items() for each in found}
            assert {key for key, value in logged.items() if value is not None} == alive
        elif event < 0.13:
            stores.revert()
            model = copy.deepcopy(committed)
        if event < 0.3:
            assert {each: sessions(stores, each) for each in model} == model


@pytest.mark.parametrize(("start", "end"), [(1.5, 2), (1, 2.5), (1, 1 << 63)])
def test_bounds_that_no_key_can_have_are_refused_before_they_move_the_time(
    stores: TaskStores, start: Any, end: Any
) -> None:
    store = stores.stores["s"]
    for write in (lambda session: store.put(session, "x"), store.remove):
        with pytest.raises(ValueError, match=r"state store 's' cannot have .* for (start|end)_ms"):
            write(Windowed("a", start, end))
    store.put(Windowed("a", 1, 2), "y")
    assert store.fetch_session("a", 1, 2) == "y"
    assert len(commit(stores)) == 1
