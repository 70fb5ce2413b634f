"""RocksDB files with flipped bits: every way to read them gives what was written, or says that it is damaged."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamsapp.errors import TaskCorruptedError
from streamsapp.record import TaskId
from streamsapp.serdes.serdes import Serdes
from streamsapp.state.builders import Stores
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.engine.rocksdb import TaskDatabase
from streamsapp.state.task_stores import TaskStores

FAMILY = "key_value/store"
ENTRIES = {b"%06d" % number: random.Random(number).randbytes(200) for number in range(400)}
FACTS = {f"fact {number}": b"%d" % number for number in range(400)}
TRIES = 25


def opened(directory: Path) -> TaskStores:
    bytes_ = Serdes.bytes()
    stores = TaskStores(
        TaskId(0, 0),
        directory,
        [Stores.key_value_store_builder(Stores.persistent_key_value_store("store"), bytes_, bytes_)],
        StateResources(16 << 20),
        default_serdes=(bytes_, bytes_),
        context_timestamp=lambda: 0,
    )
    stores.open()
    return stores


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task's directory, as a clean end leaves it."""
    directory = tmp_path_factory.mktemp("written")
    stores = opened(directory)
    for key, value in ENTRIES.items():
        stores.stores["store"].put(key, value)
    for name, fact in FACTS.items():
        stores.put_metadata(name, fact)
    for _ in stores.apply(stores.freeze(), {"store": 400}):
        pass
    stores.close()
    return directory


def damaged(written: Path, directory: Path, number: int) -> Path:
    """A copy with one bit flipped somewhere in its tables."""
    shutil.copytree(written, directory)
    chosen = random.Random(number)
    tables = sorted(directory.rglob("*.sst"))
    table = chosen.choices(tables, [each.stat().st_size for each in tables])[0]
    data = bytearray(table.read_bytes())
    data[chosen.randrange(len(data))] ^= 1 << chosen.randrange(8)
    table.write_bytes(data)
    return directory


def forwards(stores: TaskStores) -> Any:
    return dict(stores.stores["store"].all())


def backwards(stores: TaskStores) -> Any:
    return dict(stores.stores["store"].reverse_all())


def bounded(stores: TaskStores) -> Any:
    return dict(stores.stores["store"].range(b"000000", b"999999"))


def bounded_backwards(stores: TaskStores) -> Any:
    return dict(stores.stores["store"].reverse_range(b"000000", b"999999"))


def queried(stores: TaskStores) -> Any:
    view = stores.views["store"]
    return {key: entry[0] for key, entry in view.range(b"", None, committed=True)}


def one_by_one(stores: TaskStores) -> Any:
    return {key: stores.stores["store"].get(key) for key in ENTRIES}


def prefetched(stores: TaskStores) -> Any:
    store = stores.stores["store"]
    store.prefetch(ENTRIES)
    return {key: store.get(key) for key in ENTRIES}


WAYS = [forwards, backwards, bounded, bounded_backwards, queried, one_by_one, prefetched]


@pytest.mark.parametrize("read", WAYS, ids=lambda read: read.__name__)
def test_a_flipped_bit_is_found_and_never_ends_a_read_early(
    written: Path, tmp_path: Path, read: Callable[[TaskStores], Any]
) -> None:
    found = 0
    for number in range(TRIES):
        directory = damaged(written, tmp_path / str(number), number)
        try:
            stores = opened(directory)
        except TaskCorruptedError:
            found += 1
            continue
        try:
            assert {name: stores.get_metadata(name) for name in FACTS} == FACTS
            assert stores.changelog_offset("store") == 400
            assert read(stores) == ENTRIES
        except TaskCorruptedError:
            found += 1
        finally:
            stores.close()
    assert found > TRIES // 2


def test_a_walk_over_the_bytes_of_a_damaged_database_is_refused_too(written: Path, tmp_path: Path) -> None:
    """As the audit and copies of a whole store read it."""
    found = 0
    for number in range(TRIES):
        directory = damaged(written, tmp_path / str(number), number)
        try:
            database = TaskDatabase(directory / "rocksdb", [FAMILY], StateResources(16 << 20))
        except TaskCorruptedError:
            found += 1
            continue
        try:
            assert dict(database.scan(FAMILY, b"", None, False)) == ENTRIES
        except TaskCorruptedError:
            found += 1
        finally:
            database.close()
    assert found > TRIES // 2
