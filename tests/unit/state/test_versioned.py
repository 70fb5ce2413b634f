"""Versioned stores: they give, forget and restore the versions of each time."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from random import Random

import pytest

from changelog import changelog_records
from streamsapp import Materialized, Serdes, Stores, StreamsBuilder, TaskId
from streamsapp.dsl.kgroupedstream import KGroupedStream
from streamsapp.errors import StateStoreError, TopologyError
from streamsapp.record import RawRecord
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.kinds.versioned import (
    PUT_RETURN_CODE_NOT_PUT,
    PUT_RETURN_CODE_VALID_TO_UNDEFINED,
    VersionedRecord,
    VersionedType,
)
from streamsapp.state.task_stores import TaskStores

HISTORY = 100


def _opened(directory: Path, history: int) -> TaskStores:
    supplier = Stores.persistent_versioned_key_value_store("v", history)
    stores = TaskStores(
        TaskId(0, 0),
        directory,
        [Stores.versioned_key_value_store_builder(supplier, Serdes.string(), Serdes.long())],
        StateResources(16 << 20),
        default_serdes=(Serdes.bytes(), Serdes.bytes()),
        context_timestamp=lambda: 7,
    )
    stores.open()
    return stores


@pytest.fixture
def stores(tmp_path: Path) -> TaskStores:
    return _opened(tmp_path, HISTORY)


def commit(stores: TaskStores, offset: int = 1) -> list[tuple[bytes | None, bytes | None, int]]:
    """Returns the records that the changelog gets."""
    frozen = stores.freeze()
    records = [] if frozen is None else [record[1:] for record in changelog_records(frozen)]
    for _ in stores.apply(frozen, {"v": offset}):
        pass
    return records


def test_a_value_is_valid_until_the_next_version(stores: TaskStores) -> None:
    store = stores.stores["v"]
    assert store.put("a", 1, 10) == PUT_RETURN_CODE_VALID_TO_UNDEFINED
    assert store.put("a", 3, 30) == PUT_RETURN_CODE_VALID_TO_UNDEFINED
    commit(stores)
    assert store.put("a", 2, 20) == 30
    store.put("aa", 9, 25)
    assert store.get("a") == VersionedRecord(3, 30)
    assert store.get("a", 9) is None
    assert [store.get("a", at) for at in (10, 19, 20, 29, 30)] == [
        VersionedRecord(1, 10, 20),
        VersionedRecord(1, 10, 20),
        VersionedRecord(2, 20, 30),
        VersionedRecord(2, 20, 30),
        VersionedRecord(3, 30),
    ]


def test_a_deletion_is_a_version(stores: TaskStores) -> None:
    store = stores.stores["v"]
    store.put("a", 1, 10)
    assert store.delete("a", 20) == VersionedRecord(1, 10)
    commit(stores)
    assert store.get("a") is None
    assert store.get("a", 19) == VersionedRecord(1, 10, 20)
    assert store.put("a", 2, 15) == 20
    assert store.get("a") is None


def test_the_changelog_has_each_version_with_its_timestamp(stores: TaskStores) -> None:
    store = stores.stores["v"]
    store.put("a", 1, 10)
    store.put("a", None, 20)
    assert commit(stores) == [(b"a", (1).to_bytes(8, "big"), 10), (b"a", None, 20)]


def test_what_nobody_can_ask_for_is_refused_and_forgotten(stores: TaskStores) -> None:
    store = stores.stores["v"]
    for timestamp in (10, 20, 30, 150):
        store.put("a", timestamp, timestamp)
    assert store.put("a", 0, 49) == PUT_RETURN_CODE_NOT_PUT
    assert store.get("a", 49) is None
    assert store.get("a", 50) == VersionedRecord(30, 30, 150)


def _entries(stores: TaskStores) -> int:
    """Entries on disk, latest values and what is over."""
    stores.flush()
    return len(list(stores._managed["v"].engine.scan(b"", None, reverse=False)))


def test_what_is_over_and_what_was_deleted_goes_without_being_written_again(tmp_path: Path) -> None:
    stores = _opened(tmp_path, history=200_000)
    store = stores.stores["v"]
    for number in range(5):
        store.put(f"deleted{number}", 1, 10)
        store.put(f"deleted{number}", None, 20)
        store.put(f"changed{number}", 1, 10)
        store.put(f"changed{number}", 2, 20)
    commit(stores)
    assert _entries(stores) == 20
    store.put("other", 3, 199_999)
    commit(stores)
    assert _entries(stores) == 21
    store.put("other", 4, 300_020)
    commit(stores)
    assert _entries(stores) == 7
    assert store.get("changed0", 100_020) == VersionedRecord(2, 20)
    assert store.get("other", 299_999) == VersionedRecord(3, 199_999, 300_020)


class _Model:
    """A model of a versioned store that looks at all puts."""

    def __init__(self, history: int) -> None:
        self.history = history
        self.time = -1
        self.puts: dict[str, dict[int, int | None]] = {}

    def put(self, key: str, value: int | None, timestamp: int) -> int:
        if timestamp < self.time - self.history:
            return PUT_RETURN_CODE_NOT_PUT
        self.time = max(self.time, timestamp)
        self.puts.setdefault(key, {})[timestamp] = value
        return min((each for each in self.puts[key] if each > timestamp), default=PUT_RETURN_CODE_VALID_TO_UNDEFINED)

    def get(self, key: str, as_of: int) -> VersionedRecord | None:
        puts = self.puts.get(key, {})
        since = max((each for each in puts if each <= as_of), default=None)
        if since is None or puts[since] is None:
            return None
        until = min((each for each in puts if each > since), default=None)
        if until is not None and as_of < self.time - self.history:
            return None
        return VersionedRecord(puts[since], since, until)


@pytest.mark.parametrize("seed", range(6))
def test_random_puts_commits_reverts_and_restores_are_those_of_a_list_of_all_puts(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    history = random.choice([0, 50_000, 150_000])
    model, committed = _Model(history), _Model(history)
    stores, logged, now = _opened(tmp_path / "0", history), list[RawRecord](), 0
    for step in range(100):
        now += random.choice([0, 1, 500, 20_000])
        key, at = random.choice("ab"), max(0, now - random.choice([0, 0, 1, 1_000, 60_000]))
        value = random.choice([None, step, step])
        assert stores.stores["v"].put(key, value, at) == model.put(key, value, at)
        for key in "ab":
            for asked in {at, at + 1, now, now - history, random.randint(0, now), max(model.puts.get(key, {0: 0}))}:
                assert stores.stores["v"].get(key, asked) == model.get(key, asked), (step, key, asked)
        then = random.random()
        if then < 0.2:
            logged += [
                RawRecord("c", 0, 0, key, value, timestamp) for key, value, timestamp in commit(stores, len(logged))
            ]
            committed = deepcopy(model)
        elif then < 0.25:
            stores.revert()
            model = deepcopy(committed)
        elif then < 0.3:
            stores.close()
            stores = _opened(tmp_path / str(step), history)
            cut = random.randint(0, len(logged))
            stores.restore("v", logged[:cut], cut)
            stores.restore("v", logged[cut:], len(logged))
            model = deepcopy(committed)


def test_what_is_restored_is_found_in_any_order(stores: TaskStores) -> None:
    values = [(2, 20), (1, 10), (None, 30)]
    records = [
        RawRecord("c", 0, at, b"a", None if value is None else value.to_bytes(8, "big"), timestamp)
        for at, (value, timestamp) in enumerate(values)
    ]
    stores.restore("v", records, 3)
    store = stores.stores["v"]
    assert store.get("a") is None
    assert store.get("a", 15) == VersionedRecord(1, 10, 20)
    assert store.get("a", 29) == VersionedRecord(2, 20, 30)


def test_the_changelog_is_not_compacted_before_the_history_is_over() -> None:
    assert VersionedType(HISTORY).changelog_settings == {"min.compaction.lag.ms": str(HISTORY + 86_400_000)}


def test_a_null_key_and_what_is_no_timestamp_are_refused(stores: TaskStores) -> None:
    with pytest.raises(StateStoreError, match="null key"):
        stores.stores["v"].put(None, 1, 10)
    with pytest.raises(ValueError, match="timestamp -1"):
        stores.stores["v"].put("a", 1, -1)


def test_a_versioned_table_is_kept_in_rocksdb_and_sends_updates_at_once() -> None:
    grouped: KGroupedStream[str, str] = StreamsBuilder().stream("in").group_by_key()
    for materialized in (
        Materialized[str, int]("st", versioned=10, store="memory"),
        Materialized("st", versioned=10, emit="commit"),
    ):
        with pytest.raises(TopologyError, match="versioned"):
            grouped.count(materialized)
    with pytest.raises(TopologyError, match="global table"):
        StreamsBuilder().global_table("in", Materialized("st", versioned=10))
