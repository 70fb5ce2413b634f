"""Windows counted in place on a real task's stores, against a plain dictionary."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from changelog import changelog_records
from streamsapp import Serdes, Stores, TaskId, TimeWindows
from streamsapp.dsl.operators.window_count import WindowCount
from streamsapp.dsl.operators.windowed import COUNTING
from streamsapp.dsl.windows import EmitStrategy
from streamsapp.errors import StateStoreError
from streamsapp.processor.operator import Push
from streamsapp.record import Headers, RawRecord
from streamsapp.serdes.api import Serde
from streamsapp.serdes.windowed import Windowed
from streamsapp.state.api import ValueAndTimestamp
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.engine.rocksdb import RocksDBStore
from streamsapp.state.kinds.window import window_key
from streamsapp.state.layers.window_view import TimeView, WindowRange
from streamsapp.state.task_stores import TaskStores

WINDOWS = TimeWindows.of(40_000, grace=50_000).advance_by(20_000)
#: By key and start: count and time.
Counts = dict[tuple[str, int], tuple[int, int]]


class Node:
    """The context that the operator is bound to: one store, and what it forwards."""

    node_name = "count"
    record_is_read = False

    def __init__(self, stores: TaskStores) -> None:
        self._stores = stores
        self.sent: list[tuple[tuple[str, int], tuple[Any, int], Any]] = []
        self.drops = 0

    def forward(self, key: Windowed[str], value: Any, timestamp: int, headers: Any) -> None:
        self.sent.append(((key.key, key.start_ms), (value[0], timestamp), headers))

    @property
    def latest(self) -> dict[tuple[str, int], tuple[Any, int]]:
        return {window: entry for window, entry, _ in self.sent}

    def store(self, name: str) -> Any:
        return self._stores.stores[name]

    def keep_stream_time(self, observed: Callable[[], int]) -> int | None:
        return None

    def on_error(self, error: Exception, *_: Any) -> None:
        raise error

    def dropped(self, reason: str) -> None:
        self.drops += 1


def opened(
    directory: Path, *, memory: bool = False, cache_bytes: int = 1 << 20, key_serde: Serde[Any] | None = None
) -> TaskStores:
    supplier = Stores.in_memory_window_store if memory else Stores.persistent_window_store
    builder = Stores.timestamped_window_store_builder(
        supplier("counts", 90_000, WINDOWS.size_ms, False), key_serde or Serdes.string(), Serdes.long()
    )
    resources = StateResources(16 << 20, read_cache_bytes=cache_bytes)
    stores = TaskStores(
        TaskId(0, 0), directory, [builder], resources,
        default_serdes=(Serdes.string(), Serdes.long()), context_timestamp=lambda: 0,
    )  # fmt: skip
    stores.open()
    return stores


def counting(
    stores: TaskStores, *, at_commit: bool = False, windows: TimeWindows = WINDOWS
) -> tuple[Any, WindowCount, Push]:
    node: Any = Node(stores)
    count = WindowCount(windows, EmitStrategy.WINDOW_UPDATE, COUNTING, "counts", at_commit, send_old_values=False)
    count.start(node)
    return node, count, count.bind(node)


def kept(stores: TaskStores) -> Counts:
    return {(each.key, each.start_ms): tuple(entry) for each, entry in stores.stores["counts"].all()}


def commit(stores: TaskStores) -> dict[bytes, tuple[int | None, int]]:
    """Returns the records that the changelog gets."""
    frozen = stores.freeze()
    records = [] if frozen is None else list(changelog_records(frozen))
    for _ in stores.apply(frozen, {"counts": 1}):
        pass
    return {
        key: (None if value is None else int.from_bytes(value, "big"), at)
        for _, key, value, at in records
        if key is not None
    }


def starts(timestamp: int) -> list[int]:
    return list(WINDOWS.starts_for(timestamp))


class Model:
    """The same in dictionaries."""

    def __init__(self, choose: random.Random, *, at_commit: bool) -> None:
        self.choose = choose
        self.at_commit = at_commit
        self.now: Counts = {}
        self.committed: Counts = {}
        self.noted: set[tuple[str, int]] = set()
        self.stream_time = self.latest_start = -1

    def count(self, key: str, timestamp: int) -> int:
        """Returns how many windows had closed."""
        self.stream_time = max(self.stream_time, timestamp)
        closed = 0
        for start in starts(timestamp):
            if start + WINDOWS.size_ms <= self.stream_time - WINDOWS.grace_ms:
                closed += 1
                continue
            before, at = self.now.get((key, start), (0, -1))
            self.now[key, start] = before + 1, max(at, timestamp)
            if self.at_commit:
                self.noted.add((key, start))
            self.latest_start = max(self.latest_start, start)
        return closed

    @property
    def alive(self) -> Counts:
        return {window: entry for window, entry in self.now.items() if window[1] > self.latest_start - 90_000}


@pytest.mark.seeds(20)
@pytest.mark.parametrize("at_commit", [True, False])
def test_counting_agrees_with_a_dictionary_through_commits_reverts_and_other_writers(
    seed: int, at_commit: bool, tmp_path: Path
) -> None:
    choose = random.Random(seed)
    stores = opened(tmp_path, memory=choose.random() < 0.3, cache_bytes=choose.choice([4_000, 20_000, 1 << 20]))
    node, count, push = counting(stores, at_commit=at_commit)
    model, time, drops = Model(choose, at_commit=at_commit), 0, 0
    for _ in range(80):
        for _ in range(choose.randrange(30)):
            time += choose.choice([0, 0, 0, 1_000, 5_000, 30_000])
            key, timestamp = f"k{choose.randrange(8)}", max(0, time - choose.choice([0, 0, 10_000, 70_000, 150_000]))
            before = len(node.sent)
            push(key, "x", timestamp, None)
            drops += (closed := model.count(key, timestamp))
            assert node.drops == drops
            assert len(node.sent) == before + (0 if at_commit else len(starts(timestamp)) - closed)
            assert all(entry == model.now[window] for window, entry, _ in node.sent[before:])
        if choose.random() < 0.3 and model.alive:
            other_writes(stores, model)
        assert kept(stores) == model.alive
        step = choose.random()
        if step < 0.2:
            node.sent.clear()
            count.emit_held(node, choose.randrange(1, 10))
            check_sent(node, model)
        elif step < 0.8:
            node.sent.clear()
            while count.emit_held(node, 7):
                pass
            check_sent(node, model)
            assert not model.noted
            changelog = commit(stores)
            for window in model.alive.keys() | model.committed.keys():
                if model.now.get(window) != model.committed.get(window):
                    assert changelog[window_key(window[0].encode(), window[1])] == model.now.get(window, (None, 11))
            model.committed = dict(model.now)
        elif step < 0.9:
            stores.revert()
            node, count, push = counting(stores, at_commit=at_commit)
            model.now, drops = dict(model.committed), 0
            model.stream_time = model.latest_start = stores.stores["counts"].stream_time
            model.noted.clear()
        assert kept(stores) == model.alive
    stores.close()


def check_sent(node: Node, model: Model) -> None:
    """Of windows that were held all were sent as they are now, and once."""
    assert len(node.latest) == len(node.sent)
    for window, entry in node.latest.items():
        assert entry == model.now.get(window, (None, 11))
        model.noted.remove(window)


def other_writes(stores: TaskStores, model: Model) -> None:
    """A processor writes or deletes a window of the same store."""
    window = model.choose.choice(sorted(model.alive))
    if window[1] + WINDOWS.size_ms <= model.stream_time - WINDOWS.grace_ms:
        return
    if model.choose.random() < 0.5:
        model.now[window] = model.choose.randrange(100), 11
        stores.stores["counts"].put(window[0], ValueAndTimestamp(*model.now[window]), window[1])
    else:
        del model.now[window]
        stores.stores["counts"].write(window[0].encode(), window[1], None, 11)


def test_queries_see_a_count_before_the_commit_and_as_it_was_committed(tmp_path: Path) -> None:
    stores = opened(tmp_path)
    _, _, push = counting(stores)
    push("a", "x", 5, None)
    commit(stores)
    push("a", "x", 7, None)
    push("b", "x", 3, None)

    view = stores.views["counts"]
    assert isinstance(view, TimeView)
    for committed, expected in ((False, {b"a": (2, 7), b"b": (1, 3)}), (True, {b"a": (1, 5)})):
        found = {key[8:-12]: entry for key, entry in view.in_time(WindowRange(b""), committed=committed)}
        assert found == expected


def test_windows_that_are_new_are_not_looked_for_though_earlier_ones_were_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = opened(tmp_path, cache_bytes=20_000)
    _, _, push = counting(stores, windows=TimeWindows.of(1_000, grace=50_000))
    asked: list[bytes] = []
    get = RocksDBStore.get
    monkeypatch.setattr(RocksDBStore, "get", lambda self, key: asked.append(key) or get(self, key))  # type: ignore[func-returns-value]
    for step in range(40):
        for number in range(40):
            push(f"k{number}", "x", step * 1_000, None)
        commit(stores)

    assert stores.stores["counts"]._layers.cached_entries < 40 * 40 / 4
    assert len(asked) == 1  # a first read, which finds out whether the store is open
    assert kept(stores) == {
        (f"k{number}", step * 1_000): (1, step * 1_000) for number in range(40) for step in range(40)
    }


def test_a_store_that_was_restored_goes_on_from_what_it_has(tmp_path: Path) -> None:
    stores = opened(tmp_path)
    _, _, push = counting(stores)
    push("a", "x", 5, None)
    commit(stores)
    stores.restore("counts", [RawRecord("log", 0, 0, window_key(b"a", 0), (40).to_bytes(8, "big"), 3)], 1)
    stores.restore("counts", [RawRecord("log", 0, 1, window_key(b"b", 20_000), (7).to_bytes(8, "big"), 30_000)], 2)
    push("a", "x", 5, None)
    push("b", "x", 30_000, None)

    assert kept(stores) == {("a", 0): (41, 5), ("b", 0): (1, 30_000), ("b", 20_000): (8, 30_000)}


def test_a_closed_store_is_not_counted_in(tmp_path: Path) -> None:
    stores = opened(tmp_path)
    _, _, push = counting(stores)
    push("a", "x", 5, None)
    stores.close()

    for timestamp in (5, 500_000):
        with pytest.raises(StateStoreError, match="closed"):
            push("a", "x", timestamp, None)


def test_the_headers_that_are_sent_at_the_commit_are_those_of_the_last_record(tmp_path: Path) -> None:
    stores = opened(tmp_path)
    node, count, push = counting(stores, at_commit=True)
    pushed: list[tuple[str, Headers | None]] = [
        ("a", [("h", b"1")]),
        ("b", [("h", b"2")]),
        ("a", None),
        ("b", [("h", b"3")]),
    ]
    for key, headers in pushed:
        push(key, "x", 5, headers)
    while count.emit_held(node, 1):
        pass
    commit(stores)
    push("b", "x", 5, None)
    count.emit_held(node, 9)

    assert node.sent == [
        (("a", 0), (2, 5), None),
        (("b", 0), (2, 5), [("h", b"3")]),
        (("b", 0), (3, 5), None),
    ]


@pytest.mark.parametrize("like", [bytes, bytearray, memoryview])
def test_keys_may_be_anything_that_is_like_bytes(like: Callable[[bytes], Any], tmp_path: Path) -> None:
    serde = Serde[str](lambda key: like(key.encode()), lambda data: bytes(data).decode(), name="like bytes")
    stores = opened(tmp_path, key_serde=serde)
    _, _, push = counting(stores)
    for _ in range(2):
        push("a", "x", 5, None)

    assert list(stores.stores["counts"].scan(b"a", 0, 0)) == [(0, (2, 5))]


def test_a_window_that_begins_later_than_all_is_not_looked_for_and_one_that_was_forgotten_is(tmp_path: Path) -> None:
    stores = opened(tmp_path, cache_bytes=1)
    _, _, push = counting(stores)
    layers = stores.stores["counts"]._layers
    push("a", "x", 0, None)
    asked = layers.figures.read_misses
    for key in range(100):
        push(str(key), "x", 100_000, None)
    assert layers.figures.read_misses == asked
    commit(stores)
    commit(stores)
    push("0", "x", 100_000, None)
    assert layers.figures.read_misses == asked
    commit(stores)
    push("1", "x", 100_000, None)
    assert layers.figures.read_misses == asked + 2
    assert kept(stores)["1", 100_000] == (2, 100_000)


def test_a_window_that_was_forgotten_between_two_commits_is_sent_once(tmp_path: Path) -> None:
    stores = opened(tmp_path)
    node, count, push = counting(stores, at_commit=True, windows=TimeWindows.of(10, grace=80_000))
    for timestamp in (5, *range(15, 30_000, 10), 6):
        push("a", "x", timestamp, None)
    while count.emit_held(node, 1_000):
        pass

    assert len(node.sent) == 3_000
    assert node.sent[-1] == (("a", 0), (2, 6), None)
    assert kept(stores)["a", 0] == (2, 6)
