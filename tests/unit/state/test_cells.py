"""Counting in place on a real task's stores, against a plain dictionary."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from changelog import changelog_records
from models import without_cells
from streamsapp.dsl.operators.aggregate import Count
from streamsapp.record import TaskId
from streamsapp.serdes.serdes import Serdes
from streamsapp.state.api import Engine, StoreBuilder, ValueAndTimestamp
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.kinds.key_value import TIMESTAMPED_KEY_VALUE
from streamsapp.state.task_stores import TaskStores


class Node:
    """The context that the operator is bound to: one store, and a list of what it forwards."""

    node_name = "count"
    record_is_read = False

    def __init__(self, stores: TaskStores) -> None:
        self._stores = stores
        self.sent: list[tuple[str, int, int]] = []

    def forward(self, key: Any, value: Any, timestamp: int, headers: Any) -> None:
        self.sent.append((key, value[0], timestamp))

    def store(self, name: str) -> Any:
        return self._stores.stores[name]

    def on_error(self, error: Exception, *_: Any) -> None:
        raise error

    def dropped(self, reason: str) -> None:
        raise AssertionError(reason)


def take(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes stores have cells, or entries as of other values."""
    if path == "entries":
        without_cells(monkeypatch)


@pytest.mark.seeds(10)
@pytest.mark.parametrize("path", ["entries", "cells"])
def test_counting_in_place_agrees_with_a_dictionary_through_commits_reverts_and_evictions(
    path: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(path, monkeypatch)
    choose = random.Random(seed)
    resources = StateResources(read_cache_bytes=choose.choice([3_000, 1 << 20]))
    builder = StoreBuilder("counts", TIMESTAMPED_KEY_VALUE, Engine.MEMORY, Serdes.string(), Serdes.long())
    stores = TaskStores(
        TaskId(0, 0), tmp_path, [builder], resources,
        default_serdes=(Serdes.string(), Serdes.long()), context_timestamp=lambda: 0,
    )  # fmt: skip
    stores.open()
    node: Any = Node(stores)
    count = Count("counts", emit_at_commit=True, send_old_values=False)
    count.start(node)
    push = count.bind(node)
    now: dict[str, tuple[int, int]] = {}
    committed: dict[str, tuple[int, int]] = {}
    changelog: dict[bytes, tuple[int, int]] = {}
    for _ in range(60):
        for _ in range(choose.randrange(40)):
            key, timestamp = f"k{choose.randrange(30)}", choose.randrange(1000)
            push(key, "x", timestamp, None)
            before, at = now.get(key, (0, -1))
            now[key] = (before + 1, max(at, timestamp))
        step = choose.random()
        if step < 0.3:
            count.emit_held(node, choose.randrange(1, 10))
        elif step < 0.8:
            while count.emit_held(node, 7):
                pass
            assert {key: (value, at) for key, value, at in node.sent} == now
            frozen = stores.freeze()
            for key in choose.sample(sorted(now), min(5, len(now))):
                push(key, "x", 0, None)  # the next epoch must not change what is frozen
            expected = dict(now)
            for _, raw, value, at in [] if frozen is None else changelog_records(frozen):
                assert raw is not None
                assert value is not None
                changelog[raw] = (int.from_bytes(value, "big"), at)
            assert {raw.decode(): entry for raw, entry in changelog.items()} == expected
            for _ in stores.apply(frozen, {}):
                pass
            committed = expected
            now = {key: tuple(stores.stores["counts"].get(key)) for key in expected}
        elif step < 0.9:
            stores.revert()
            count = Count("counts", emit_at_commit=True, send_old_values=False)
            count.start(node)
            push = count.bind(node)
            now = dict(committed)
            node.sent = [(key, value, at) for key, (value, at) in now.items()]
        assert {key: tuple(entry) for key, entry in stores.stores["counts"].all()} == now
    stores.close()


class Model:
    """The counts that a store should have: now, at the end of the epoch that is being committed, and committed."""

    def __init__(self) -> None:
        self.now: dict[str, tuple[int, int]] = {}
        self.committed: dict[str, tuple[int, int]] = {}
        self.frozen: dict[str, tuple[int, int]] | None = None

    def write(self, key: str, count: int | None, timestamp: int) -> None:
        if count is None:
            self.now.pop(key, None)
        else:
            self.now[key] = count, timestamp


class Counted:
    """A store of counts on disk, in little memory, with all that happens to it."""

    def __init__(self, rng: random.Random, directory: Path) -> None:
        self.rng, self.directory, self.model = rng, directory, Model()
        self.stores = self._open()
        self._steps: Iterator[None] = iter(())
        self._changelog: dict[str, tuple[int, int]] = {}

    def _open(self) -> TaskStores:
        resources = StateResources(
            8 << 20,
            read_cache_bytes=self.rng.choice([0, 3_000, 9_000, 1 << 20]),
            backlog_records=self.rng.choice([1, 60, 10_000]),
        )
        builder = StoreBuilder("counts", TIMESTAMPED_KEY_VALUE, Engine.ROCKSDB, Serdes.string(), Serdes.long())
        stores = TaskStores(
            TaskId(0, 0), self.directory, [builder], resources,
            default_serdes=(Serdes.string(), Serdes.long()), context_timestamp=lambda: 77,
        )  # fmt: skip
        stores.open()
        stores.restored({"counts": 0}, {})
        node: Any = Node(stores)
        self._push = Count("counts", emit_at_commit=False, send_old_values=False).bind(node)
        return stores

    @property
    def store(self) -> Any:
        return self.stores.stores["counts"]

    def key(self) -> str:
        return f"{self.rng.choice(['', 'same '])}{self.rng.randrange(40)}"

    def count(self) -> None:
        key, timestamp = self.key(), self.rng.randrange(1000)
        self._push(key, "x", timestamp, None)
        before, at = self.model.now.get(key, (0, -1))
        self.model.write(key, before + 1, max(at, timestamp))

    def put(self) -> None:
        key, count = self.key(), self.rng.choice([None, -5, 1 << 40])
        self.store.put(key, None if count is None else ValueAndTimestamp(count, 66))
        self.model.write(key, count, 66)

    def read(self) -> None:
        key = self.key()
        assert self.store.get(key) == self.model.now.get(key)

    def prefetch(self) -> None:
        self.store.prefetch([self.key().encode() for _ in range(5)])

    def scan(self) -> None:
        found = list(self.store.reverse_all() if self.rng.randrange(2) else self.store.all())
        assert sorted(found) == sorted(self.model.now.items())

    def query(self) -> None:
        committed = self.rng.random() < 0.5
        expected = self.model.committed if committed else self.model.now
        view, key = self.stores.views["counts"], self.key()
        if self.rng.randrange(3):
            found = view.get(key.encode(), committed=committed)
            assert (None if found[0] is None else tuple(found)) == expected.get(key)
        else:
            rows = {raw.decode(): tuple(entry) for raw, entry in view.range(b"", None, committed=committed)}
            assert rows == expected

    def freeze(self) -> None:
        self.finish()
        frozen = self.stores.freeze()
        if frozen is None:
            return
        self.model.frozen = dict(self.model.now)
        for _ in range(self.rng.randrange(6)):
            self.count()  # the next epoch must not change what is frozen
        for _, raw, value, at in changelog_records(frozen):
            assert raw is not None
            if value is None:
                self._changelog.pop(raw.decode(), None)
            else:
                self._changelog[raw.decode()] = int.from_bytes(value, "big", signed=True), at
        assert self._changelog == self.model.frozen
        slice_size = self.rng.randrange(1, 9)
        self._steps = self.stores.apply(frozen, {"counts": len(self._changelog)}, slice_size=slice_size)

    def apply_some(self) -> None:
        if self.model.frozen is None:
            return
        for _ in range(self.rng.randrange(4)):
            is_done = next(self._steps, "done") == "done"
            self.model.committed = self.model.frozen  # with the first step: the engine has it, if RocksDB has not
            if is_done:
                self.model.frozen = None
                return

    def finish(self) -> None:
        while self.model.frozen is not None:
            self.apply_some()

    def revert(self) -> None:
        if self.rng.randrange(2):
            self.finish()
        if self.model.frozen is not None and self.model.committed is self.model.frozen:
            return  # changes that have begun to be applied are committed
        self.stores.revert()
        self._steps, self.model.frozen = iter(()), None
        self.model.now, self._changelog = dict(self.model.committed), dict(self.model.committed)

    def reopen(self) -> None:
        self.finish()
        self.stores.close()
        self.stores = self._open()
        self.model.now, self._changelog = dict(self.model.committed), dict(self.model.committed)


@pytest.mark.seeds(12)
@pytest.mark.parametrize("path", ["entries", "cells"])
def test_counts_on_disk_agree_with_a_dictionary_whatever_happens_to_them(
    path: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(path, monkeypatch)
    counted = Counted(random.Random(seed), tmp_path)
    often = [counted.count, counted.count, counted.count, counted.put, counted.read, counted.apply_some]
    seldom = [counted.scan, counted.query, counted.query, counted.prefetch, counted.freeze, counted.freeze]
    rarely = [counted.revert, counted.reopen]
    for _ in range(1500):
        [happening] = counted.rng.choices([often, seldom, rarely], [100, 12, 1])
        counted.rng.choice(happening)()
    counted.reopen()
    counted.scan()
    counted.stores.close()


@pytest.mark.parametrize("path", ["entries", "cells"])
def test_counts_that_are_queried_meanwhile_never_go_back(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(path, monkeypatch)
    counted = Counted(random.Random(1), tmp_path)
    over, looks = Event(), {True: 0, False: 0}

    def look(committed: bool) -> int:
        view, seen = counted.stores.views["counts"], dict[bytes, int]()
        while not over.is_set():
            key = counted.key().encode()
            if looks[committed] % 50:
                found = {key: view.get(key, committed=committed)}
            else:
                found = dict(view.range(b"", None, committed=committed))
            for each, entry in found.items():
                count = entry[0] or 0
                assert count >= seen.get(each, 0)
                seen[each] = count
            looks[committed] += 1
        return looks[committed]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(2) as pool:
            looking = [pool.submit(look, committed) for committed in (True, False)]
            turns = 0
            # Until both have looked meanwhile, however late their threads begin, or have failed.
            while turns < 300 or not (all(looks.values()) or any(each.done() for each in looking)):
                turns += 1
                counted.count()
                counted.freeze()
                counted.apply_some()
            over.set()
            assert all(each.result() for each in looking)
    finally:
        over.set()
        sys.setswitchinterval(interval)
    counted.stores.close()
