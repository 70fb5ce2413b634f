"""Stores read from outside of their task."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from streamsapp import Serdes, TaskId
from streamsapp.errors import StoreNotAvailableError
from streamsapp.state.api import Engine, StoreBuilder, ValueAndTimestamp
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.kinds.key_value import TIMESTAMPED_KEY_VALUE
from streamsapp.state.layers.views import Readers, StoreView
from streamsapp.state.task_stores import TaskStores


def make_stores(directory: Path, engine: Engine = Engine.ROCKSDB) -> TaskStores:
    builder = StoreBuilder("counts", TIMESTAMPED_KEY_VALUE, engine, Serdes.string(), Serdes.long())
    return TaskStores(
        TaskId(0, 0),
        directory,
        [builder],
        StateResources(16 << 20),
        default_serdes=(Serdes.string(), Serdes.string()),
        context_timestamp=lambda: 0,
    )


@pytest.fixture(params=list(Engine), ids=lambda engine: engine.value)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TaskStores]:
    stores = make_stores(tmp_path, request.param)
    stores.open()
    yield stores
    stores.close()


def put(stores: TaskStores, **counts: int | None) -> None:
    for key, count in counts.items():
        stores.stores["counts"].put(key, None if count is None else ValueAndTimestamp(count, 7))


def commit(stores: TaskStores) -> None:
    for _ in stores.apply(stores.freeze(), {"counts": 1}):
        pass


def get(stores: TaskStores, key: bytes, *, committed: bool) -> int | None:
    view = stores.views["counts"]
    found = view.value(view.get(key, committed=committed))
    return None if found is None else found.value


def keys(view: StoreView, limit: int = 10, *, committed: bool) -> list[bytes]:
    return [key for key, _ in islice(view.range(b"b", b"d", committed=committed), limit)]


def read_for_ever(view: StoreView) -> None:
    while True:
        list(view.range(b"", None, committed=False))


def test_a_committed_read_waits_for_the_commit_to_be_applied(stores: TaskStores) -> None:
    put(stores, a=1)
    commit(stores)
    put(stores, a=2)
    frozen = stores.freeze()
    put(stores, a=3)
    assert [get(stores, b"a", committed=yes) for yes in (True, False)] == [1, 3]
    list(stores.apply(frozen, {"counts": 2}))
    assert [get(stores, b"a", committed=yes) for yes in (True, False)] == [2, 3]


def test_a_read_of_the_newest_sees_frozen_writes_and_deletions(stores: TaskStores) -> None:
    put(stores, a=1, b=1)
    commit(stores)
    put(stores, a=2)
    stores.freeze()
    put(stores, b=None)
    assert [get(stores, key, committed=False) for key in (b"a", b"b")] == [2, None]
    assert [get(stores, key, committed=True) for key in (b"a", b"b")] == [1, 1]


def test_a_range_is_in_order_without_what_was_deleted_and_within_its_limit(stores: TaskStores) -> None:
    put(stores, a=1, b=1, bb=1, c=1, d=1)
    commit(stores)
    put(stores, bb=None, cc=1)
    view = stores.views["counts"]
    assert keys(view, committed=False) == [b"b", b"c", b"cc"]
    assert keys(view, committed=True) == [b"b", b"bb", b"c"]
    assert keys(view, 2, committed=False) == [b"b", b"c"]


def test_reads_leave_no_trace_in_the_caches(stores: TaskStores) -> None:
    put(stores, a=1)
    commit(stores)
    stores.stores["counts"].layers.forget_cached()
    get(stores, b"a", committed=False)
    assert stores.stores["counts"].layers.cached_entries == 0


def test_a_value_is_given_with_its_timestamp_or_as_the_changelog_has_it(stores: TaskStores) -> None:
    put(stores, a=5)
    view = stores.views["counts"]
    entry = view.get(b"a", committed=False)
    assert view.value(entry) == ValueAndTimestamp(5, 7)
    assert view.raw(entry) == Serdes.long().serialize(5)
    assert view.raw(view.get(b"none", committed=False)) is None


def test_closed_stores_let_nobody_in(stores: TaskStores) -> None:
    readers = stores.views["counts"].readers
    stores.close()
    with pytest.raises(StoreNotAvailableError, match="moving or starting"), readers.reading():
        pass
    stores.open()
    with readers.reading():
        assert get(stores, b"a", committed=True) is None


def test_closing_waits_for_readers_and_keeps_new_ones_out() -> None:
    readers = Readers()
    readers.open()
    closed = threading.Event()

    def close() -> None:
        readers.close()
        closed.set()

    closing = threading.Thread(target=close)
    with readers.reading():
        closing.start()
        while True:
            try:
                readers.check()
            except StoreNotAvailableError:
                break
        assert not closed.is_set()
    closing.join(60)
    assert closed.is_set()


def test_a_range_is_given_up_when_somebody_wants_to_close(stores: TaskStores) -> None:
    put(stores, b=1)
    view = stores.views["counts"]
    with view.readers.reading():
        closing = threading.Thread(target=view.readers.close)
        closing.start()
        with pytest.raises(StoreNotAvailableError):
            read_for_ever(view)
    closing.join(60)
    assert not closing.is_alive()


def test_stores_close_and_open_while_many_threads_read(tmp_path: Path) -> None:
    stores = make_stores(tmp_path)
    view, done, found = stores.views["counts"], threading.Event(), set[int | None]()
    failures: list[BaseException] = []

    def read() -> None:
        while not done.is_set():
            try:
                with view.readers.reading():
                    found.add(get(stores, b"k7", committed=True))
                    list(view.range(b"", None, committed=False))
            except StoreNotAvailableError:
                continue
            except BaseException as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for turn in range(15):
        stores.open()
        put(stores, **{f"k{number}": turn for number in range(300)})
        commit(stores)
        put(stores, k7=-1)
        stores.close()
    done.set()
    for thread in threads:
        thread.join(100)
    assert failures == []
    assert found <= {None, *range(15)}


def test_stores_that_are_opened_again_take_writes_again(stores: TaskStores) -> None:
    stores.wipe()
    stores.open()
    put(stores, a=1)
    assert get(stores, b"a", committed=False) == 1
