"""Writes that wait for RocksDB are committed all the same: read, iterated, copied, and written there in time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from streamsapp import Serdes, TaskId
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.engine.entries import Entry
from streamsapp.state.engine.epoch import Epoch
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.kinds.key_value import KEY_VALUE
from streamsapp.state.task_stores import TaskStores
from task_parts import raw


def open_stores(directory: Path, **resources: int) -> TaskStores:
    stores = TaskStores(
        TaskId(0, 0),
        directory,
        [StoreBuilder("s", KEY_VALUE, Engine.ROCKSDB)],
        StateResources(8 << 20, **resources),
        default_serdes=(Serdes.string(), Serdes.string()),
        context_timestamp=lambda: 0,
    )
    stores.open()
    stores.restored({"s": 0}, {})
    return stores


@pytest.fixture
def stores(tmp_path: Path) -> TaskStores:
    return open_stores(tmp_path / "task")


def commit(stores: TaskStores, offset: int, **writes: str | None) -> None:
    for key, value in writes.items():
        stores.stores["s"].put(key, value)
    list(stores.apply(stores.freeze(), {"s": offset}))


def waiting(stores: TaskStores) -> int:
    return stores.statistics()["s"]["backlog_entries"]


def in_rocksdb(stores: TaskStores, directory: Path) -> dict[str, str]:
    """Returns what a crash now would leave: a copy of the files, opened elsewhere."""
    stores.checkpoint(directory / "rocksdb")
    copy = open_stores(directory)
    found = dict(copy.stores["s"].all())
    copy.close()
    return found


def test_commits_wait_and_are_read_as_if_they_did_not(stores: TaskStores) -> None:
    commit(stores, 2, a="1", b="1")
    commit(stores, 4, b="2", c="2")
    stores.stores["s"].put("d", "3")
    stores.revert()  # and empties the caches

    assert waiting(stores) == 3
    assert [stores.stores["s"].get(key) for key in "abcd"] == ["1", "2", "2", None]
    assert dict(stores.stores["s"].all()) == {"a": "1", "b": "2", "c": "2"}
    assert [key for key, _ in stores.stores["s"].reverse_range("a", "b")] == ["b", "a"]
    assert stores.views["s"].get(b"b", committed=True)[0] == "2"


def test_a_query_that_has_begun_sees_the_commits_of_before(stores: TaskStores) -> None:
    commit(stores, 3, a="1", b="1", c="1")
    begun = stores.views["s"].range(b"", None, committed=True)
    assert next(begun)[0] == b"a"
    commit(stores, 6, b=None, c="2", d="2")
    commit(stores, 7, c="3")

    assert [(key, value) for key, (value, _) in begun] == [(b"b", "1"), (b"c", "1")]
    assert [key for key, _ in stores.views["s"].range(b"", None, committed=True)] == [b"a", b"c", b"d"]
    assert stores.views["s"].get(b"c", committed=True)[0] == "3"


def distinct_values(stores: TaskStores) -> int:
    return len({entry[0] for _, entry in stores.views["s"].range(b"", None, committed=True)})


def count(stores: TaskStores) -> int:
    assert stores.stores["s"].approximate_num_entries() >= 1
    return 1


@pytest.mark.parametrize("look", [distinct_values, count])
def test_queries_and_counts_go_on_while_commits_come(stores: TaskStores, look: Callable[[TaskStores], int]) -> None:
    """Each commit writes its number to every key there is, and to one more."""
    over = Event()

    def look_on() -> set[int]:
        seen = {look(stores)}  # also where this thread begins when all is over
        while not over.is_set():
            seen.add(look(stores))
        return seen

    commit(stores, 0, a0="0")
    with ThreadPoolExecutor(2) as pool:
        looking = [pool.submit(look_on) for _ in range(2)]
        for number in range(1, 200):
            commit(stores, number, **{f"a{key}": str(number) for key in range(number + 1)})
        over.set()
        assert [each.result() for each in looking] == [{1}, {1}]


def test_many_commits_wait_as_one(stores: TaskStores) -> None:
    for offset in range(1, 30):
        commit(stores, offset, a=str(offset), **{f"b{offset}": "1"})
    stores.revert()

    assert 30 <= waiting(stores) < 40
    assert stores.stores["s"].get("a") == "29"
    assert len(dict(stores.stores["s"].all())) == 30
    stores.close()


def test_a_deletion_that_waits_hides_what_rocksdb_has(tmp_path: Path) -> None:
    commit(open_it := open_stores(tmp_path / "task"), 2, a="1", b="1")
    open_it.close()

    stores = open_stores(tmp_path / "task")
    commit(stores, 3, a=None)
    stores.revert()

    assert waiting(stores) == 1
    assert stores.stores["s"].get("a") is None
    assert dict(stores.stores["s"].all()) == {"b": "1"}
    stores.close()


def test_closing_writes_what_waits_with_its_offset(tmp_path: Path) -> None:
    stores = open_stores(tmp_path / "task")
    commit(stores, 2, a="1", b="1")
    stores.put_metadata("fact", b"x")
    commit(stores, 3, a="2")
    stores.close()

    again = open_stores(tmp_path / "task")
    assert again.changelog_offset("s") == 3
    assert again.get_metadata("fact") == b"x"
    assert dict(again.stores["s"].all()) == {"a": "2", "b": "1"}
    again.close()


def test_a_copy_has_what_waits(stores: TaskStores, tmp_path: Path) -> None:
    commit(stores, 2, a="1", b="1")

    assert in_rocksdb(stores, tmp_path / "copy") == {"a": "1", "b": "1"}


def test_a_replica_that_was_active_writes_what_waits_before_it_follows_the_changelog(stores: TaskStores) -> None:
    commit(stores, 2, a="1", b="1")

    stores.restore("s", [raw(2, key=b"a", value=b"9")], 3)

    assert waiting(stores) == 0
    assert dict(stores.stores["s"].all()) == {"a": "9", "b": "1"}


def test_commits_wait_as_long_as_there_is_room_for_two_more_like_the_newest(tmp_path: Path) -> None:
    stores = open_stores(tmp_path / "task", backlog_bytes=20_000)
    for number in range(8):
        commit(stores, number, **{f"{number}-{each}": "1" for each in range(5)})
    assert waiting(stores) == 40
    assert stores.uncommitted_bytes == 0
    assert 10_000 < stores.unwritten_bytes < 20_000

    commit(stores, 8, **{str(each): "1" for each in range(20)})

    assert waiting(stores) == stores.unwritten_bytes == 0
    stores.close()


def test_one_large_commit_does_not_make_later_small_ones_be_written_at_once(tmp_path: Path) -> None:
    stores = open_stores(tmp_path / "task", backlog_bytes=20_000)
    commit(stores, 0, **{str(each): "1" for each in range(60)})
    assert waiting(stores) == 0

    commit(stores, 1)
    assert not stores.is_writing_due
    stores.close()


@pytest.mark.parametrize("tight", [{"backlog_bytes": 0}, {"backlog_records": 0}])
def test_what_waits_is_written_when_it_becomes_much(tmp_path: Path, tight: dict[str, int]) -> None:
    stores = open_stores(tmp_path / "task", **tight)

    commit(stores, 2, a="1", b="1")

    assert waiting(stores) == 0
    stores.close()


def test_a_store_that_is_iterated_keeps_its_commits_waiting(stores: TaskStores) -> None:
    commit(stores, 1, a="1")
    assert [key for key, _ in stores.stores["s"].all()] == ["a"]

    commit(stores, 2, b="1")
    assert [key for key, _ in stores.stores["s"].all()] == ["a", "b"]
    commit(stores, 3, a=None, c="1")
    assert [key for key, _ in stores.stores["s"].reverse_all()] == ["c", "b"]

    assert waiting(stores) == 3


def test_a_range_read_costs_what_it_reads_however_much_waits(
    stores: TaskStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(stores, 1, **{f"{number:05d}": "1" for number in range(3000)})
    commit(stores, 2, **{f"{number:05d}": "2" for number in range(0, 3000, 100)})
    store = stores.stores["s"]
    list(store.range("00000", "00000"))  # brings the epochs into order
    looked_at: list[bytes] = []

    def look(epoch: Epoch, key: bytes) -> Entry:
        looked_at.append(key)
        return dict.__getitem__(epoch, key)

    def walk(epoch: Epoch) -> Iterator[bytes]:
        raise AssertionError("a range read walks over all that waits")

    monkeypatch.setattr(Epoch, "__getitem__", look, raising=False)
    monkeypatch.setattr(Epoch, "__iter__", walk, raising=False)
    assert [value for _, value in store.range("00100", "00103")] == ["2", "1", "1", "1"]
    assert len(looked_at) < 8
    assert next(store.range("02000", None)) == ("02000", "2")
    assert len(looked_at) < 14
    monkeypatch.undo()


def test_the_same_keys_again_and_again_count_for_what_a_crash_would_replay(tmp_path: Path) -> None:
    stores = open_stores(tmp_path / "task", backlog_records=5)
    for offset in range(1, 6):
        commit(stores, offset, a=str(offset))
    assert waiting(stores) > 0

    commit(stores, 6, a="6")
    assert waiting(stores) == 0
    stores.close()


def test_what_rocksdb_could_not_take_is_not_written_when_it_is_closed_and_leaves_no_offset(tmp_path: Path) -> None:
    stores = open_stores(tmp_path / "task", backlog_bytes=0)
    commit(stores, 1, a="1")
    stores.stores["s"].put("b", "2")
    steps = stores.apply(stores.freeze(), {"s": 2}, slice_size=1)
    next(steps)
    steps.close()  # type: ignore[attr-defined]
    stores.close()

    stores.open()

    assert stores.changelog_offset("s") == 1
    stores.restore("s", [raw(1, key=b"b", value=b"2")], 2)
    assert dict(stores.stores["s"].all()) == {"a": "1", "b": "2"}
    stores.close()
