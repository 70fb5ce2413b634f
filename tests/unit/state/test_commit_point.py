"""A copy of the stores stands at a commit exactly, with the offsets of that commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsapp import Serdes, TaskId, TopicPartition
from streamsapp.errors import StateStoreError
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.commit_point import CommitPoint
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.kinds.key_value import KEY_VALUE
from streamsapp.state.task_stores import TaskStores
from task_parts import raw

IN = TopicPartition("in", 0)


def open_stores(directory: Path, backlog_bytes: int = 0) -> TaskStores:
    stores = TaskStores(
        TaskId(0, 0),
        directory,
        [StoreBuilder("s", KEY_VALUE, Engine.ROCKSDB)],
        StateResources(8 << 20, backlog_bytes=backlog_bytes),
        default_serdes=(Serdes.string(), Serdes.string()),
        context_timestamp=lambda: 0,
    )
    stores.open()
    return stores


@pytest.fixture
def stores(tmp_path: Path) -> TaskStores:
    made = open_stores(tmp_path / "task")
    made.restored({"s": 0}, {IN: (5, "before")})
    return made


def keys_of(copy: Path) -> list[str]:
    stores = open_stores(copy.parent)
    found = [key for key, _ in stores.stores["s"].all()]
    stores.close()
    return found


def write(stores: TaskStores, *keys: str) -> None:
    for key in keys:
        stores.stores["s"].put(key, "v")


def test_a_task_that_committed_nothing_stands_where_it_started(stores: TaskStores, tmp_path: Path) -> None:
    copied = stores.checkpoint(tmp_path / "copy" / "rocksdb")

    assert copied == CommitPoint({"s": 0}, {IN: (5, "before")})
    assert keys_of(tmp_path / "copy" / "rocksdb") == []


def test_a_copy_has_the_offsets_of_the_commit_that_it_stands_at(stores: TaskStores, tmp_path: Path) -> None:
    write(stores, "a")
    list(stores.apply(stores.freeze(), {"s": 1}, {IN: (6, "then")}))
    write(stores, "b")

    copied = stores.checkpoint(tmp_path / "copy" / "rocksdb")

    assert copied == CommitPoint({"s": 1}, {IN: (6, "then")})
    assert keys_of(tmp_path / "copy" / "rocksdb") == ["a"]


def test_no_copy_is_made_between_two_slices_of_a_commit(stores: TaskStores, tmp_path: Path) -> None:
    write(stores, "a", "b", "c")
    steps = stores.apply(stores.freeze(), {"s": 3}, {IN: (8, "")}, slice_size=1)
    next(steps)

    assert stores.commit_point is None
    assert stores._standing._lock.locked()

    list(steps)
    assert stores.checkpoint(tmp_path / "copy" / "rocksdb") == CommitPoint({"s": 3}, {IN: (8, "")})


def test_a_commit_comes_back_later_while_a_copy_is_made_and_does_not_wait(stores: TaskStores) -> None:
    write(stores, "a")
    steps = stores.apply(stores.freeze(), {"s": 1}, {IN: (6, "")})

    with stores._standing.still() as point:
        for _ in range(3):
            next(steps)
        assert point == stores.commit_point == CommitPoint({"s": 0}, {IN: (5, "before")})

    list(steps)
    assert stores.commit_point == CommitPoint({"s": 1}, {IN: (6, "")})


def test_a_commit_that_broke_off_leaves_stores_that_stand_at_no_commit(stores: TaskStores, tmp_path: Path) -> None:
    write(stores, "a", "b")
    steps = stores.apply(stores.freeze(), {"s": 2}, {IN: (7, "")}, slice_size=1)
    next(steps)
    steps.close()  # type: ignore[attr-defined]

    assert stores.checkpoint(tmp_path / "copy" / "rocksdb") is None
    assert not (tmp_path / "copy").exists()


def test_input_offsets_that_were_committed_without_a_write_are_of_the_point(stores: TaskStores) -> None:
    stores.committed({IN: (9, "later")})

    assert stores.commit_point == CommitPoint({"s": 0}, {IN: (9, "later")})


def test_a_replica_that_is_updated_stands_at_no_commit(stores: TaskStores, tmp_path: Path) -> None:
    stores.restore("s", [raw(0, key=b"a")], 1)

    assert stores.commit_point is None
    assert stores.checkpoint(tmp_path / "copy" / "rocksdb") is None


def test_where_less_was_applied_than_the_changelog_has_the_lower_offset_counts(stores: TaskStores) -> None:
    stores.restore("s", [raw(0, key=b"a")], 1)

    stores.restored({"s": 2}, {})

    assert stores.commit_point == CommitPoint({"s": 1}, {})


def test_closed_stores_cannot_be_copied(stores: TaskStores, tmp_path: Path) -> None:
    stores.close()

    with pytest.raises(StateStoreError, match="no persistent store open"):
        stores.checkpoint(tmp_path / "copy" / "rocksdb")
