"""Entries of stores are counted as they are, and not as often as they were written."""

from __future__ import annotations

from pathlib import Path

from streamsapp import Serdes, TaskId
from streamsapp.runtime.micro_batches import state_rows
from streamsapp.runtime.micro_batches.state_rows import StateRows
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.kinds.key_value import KEY_VALUE
from streamsapp.state.task_stores import TaskStores

TASK = TaskId(0, 0)


def open_stores(directory: Path) -> TaskStores:
    stores = TaskStores(
        TASK,
        directory,
        [StoreBuilder("s", KEY_VALUE, Engine.ROCKSDB), StoreBuilder("m", KEY_VALUE, Engine.MEMORY)],
        StateResources(8 << 20),
        default_serdes=(Serdes.string(), Serdes.string()),
        context_timestamp=lambda: 0,
    )
    stores.open()
    stores.restored({"s": 0, "m": 0}, {})
    return stores


def written(stores: TaskStores, keys: range, value: str | None) -> None:
    """Writes these, down to RocksDB."""
    for key in keys:
        stores.stores["s"].put(f"k{key}", value)
    list(stores.apply(stores.freeze(), {"s": 1}))
    stores.flush()


def counted(rows: StateRows, stores: TaskStores) -> int:
    return rows.of(TASK, stores, stores.statistics())


def test_entries_that_are_written_again_and_again_are_counted_once(tmp_path: Path) -> None:
    stores, rows = open_stores(tmp_path), StateRows()
    assert counted(rows, stores) == 0
    for number in range(3):
        written(stores, range(20), f"{number}")
        assert counted(rows, stores) == counted(rows, stores) == 20
    written(stores, range(15), None)
    assert counted(rows, stores) == 5
    stores.close()


def test_entries_are_counted_for_a_small_part_of_the_time_and_estimated_between(tmp_path: Path) -> None:
    seconds, taken = [0.0], iter(range(1_000))
    rows = StateRows(lambda: seconds[-1], lambda: next(taken))  # each count takes a second
    stores = open_stores(tmp_path)
    written(stores, range(20), "one")
    assert counted(rows, stores) == 20
    written(stores, range(20, 30), "one")
    assert counted(rows, stores) == 30, "RocksDB tells of new ones"
    written(stores, range(30), "two")
    estimated = counted(rows, stores)
    assert estimated > 30, "nor does it know what was there before"
    seconds.append(100.0)
    assert counted(rows, stores) == 30
    stores.close()


def test_a_large_store_is_not_counted(tmp_path: Path) -> None:
    stores, rows = open_stores(tmp_path), StateRows()
    written(stores, range(state_rows._MOST + 1), "one")
    written(stores, range(10), "two")
    assert counted(rows, stores) > state_rows._MOST
    stores.close()
