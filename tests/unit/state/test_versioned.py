"""Versioned stores: what they give of which time, forget and restore."""

from __future__ import annotations

from pathlib import Path

import pytest

from changelog import changelog_records
from streamsapp import Materialized, Serdes, Stores, StreamsBuilder, TaskId
from streamsapp.dsl.kgroupedstream import KGroupedStream
from streamsapp.errors import StateStoreError, TopologyError
from streamsapp.record import RawRecord
from streamsapp.state.resources import StateResources
from streamsapp.state.task_stores import TaskStores
from streamsapp.state.versioned import (
    PUT_RETURN_CODE_NOT_PUT,
    PUT_RETURN_CODE_VALID_TO_UNDEFINED,
    VersionedRecord,
    VersionedType,
)

HISTORY = 100


@pytest.fixture
def stores(tmp_path: Path) -> TaskStores:
    supplier = Stores.persistent_versioned_key_value_store("v", HISTORY)
    stores = TaskStores(
        TaskId(0, 0),
        tmp_path,
        [Stores.versioned_key_value_store_builder(supplier, Serdes.string(), Serdes.long())],
        StateResources(16 << 20),
        default_key_serde=Serdes.bytes(),
        default_value_serde=Serdes.bytes(),
        context_timestamp=lambda: 7,
    )
    stores.open()
    return stores


def commit(stores: TaskStores, offset: int = 1) -> list[tuple[bytes | None, bytes | None, int]]:
    """What the changelog gets."""
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
    commit(stores)
    kept = [timestamp for timestamp, _ in store._versions(b"a", 0, 1000, reverse=False)]
    assert kept == [30, 150]


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


def test_an_aggregation_cannot_be_versioned() -> None:
    grouped: KGroupedStream[str, str] = StreamsBuilder().stream("in").group_by_key()
    with pytest.raises(TopologyError, match="versioned"):
        grouped.count(Materialized("st", versioned=10))
