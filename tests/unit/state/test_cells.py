"""Counting in place on a real task's stores, against a plain dictionary."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from changelog import changelog_records
from streamsapp.dsl.operators.aggregate import Count
from streamsapp.record import TaskId
from streamsapp.serdes.serdes import Serdes
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.key_value import TIMESTAMPED_KEY_VALUE
from streamsapp.state.resources import StateResources
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


@pytest.mark.seeds(10)
def test_counting_in_place_agrees_with_a_dictionary_through_commits_reverts_and_evictions(
    seed: int, tmp_path: Path
) -> None:
    choose = random.Random(seed)
    resources = StateResources(read_cache_bytes=choose.choice([3_000, 1 << 20]))
    builder = StoreBuilder("counts", TIMESTAMPED_KEY_VALUE, Engine.MEMORY, Serdes.string(), Serdes.long())
    stores = TaskStores(
        TaskId(0, 0), tmp_path, [builder], resources,
        default_serdes=(Serdes.string(), Serdes.long()), context_timestamp=lambda: 0,
    )  # fmt: skip
    stores.open()
    node, count = Node(stores), Count("counts", emit_at_commit=True, send_old_values=False)
    push = count.bind(node)  # type: ignore[arg-type]
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
            count.emit_held(choose.randrange(1, 10))
        elif step < 0.8:
            while count.emit_held(7):
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
            push = count.bind(node)  # type: ignore[arg-type]
            now = dict(committed)
            node.sent = [(key, value, at) for key, (value, at) in now.items()]
        assert {key: tuple(entry) for key, entry in stores.stores["counts"].all()} == now
    stores.close()
