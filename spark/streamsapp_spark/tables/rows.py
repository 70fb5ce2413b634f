"""The rows of a store: the rows of one snapshot, and the rows that differ between two.

Used in Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streamsapp.remote.snapshot import Snapshot
from streamsapp.serdes.windowed import Windowed
from streamsapp.state.api import AggregationWithHeaders, ValueAndTimestamp
from streamsapp.state.kinds.session import SessionStoreImpl
from streamsapp.state.kinds.versioned import VersionedRecord, VersionedStoreImpl
from streamsapp.tasks.assembly import task_stores
from streamsapp_spark.snapshots.database_comparison import Comparison, EntryReader
from streamsapp_spark.snapshots.download import bring, database_of
from streamsapp_spark.tables.application import StoredApplication
from streamsapp_spark.tables.columns import StoreColumns

Rows = Iterator[tuple[Any, ...]]

_TIMED = ValueAndTimestamp | VersionedRecord


def stored_rows(app: StoredApplication, columns: StoreColumns, snapshot: Snapshot, directory: Path) -> Rows:
    """Yields what a store has in a snapshot, which is brought to ``directory``."""
    bring(app.chain(snapshot.task_id), snapshot, directory)
    stores = task_stores(app.plan(snapshot.task_id), directory, app.config, app.resources)
    stores.open()
    try:
        rest = _rest(columns, snapshot)
        for key, value in _entries(stores.stores[columns.store]):
            timed = isinstance(value, _TIMED)
            plain = columns.value(_plain(value))
            yield (*_key(columns, key), plain, value.timestamp if timed else None, *rest)
    finally:
        stores.close()


def changed_rows(
    app: StoredApplication, columns: StoreColumns, snapshots: tuple[Snapshot, Snapshot], directory: Path
) -> Rows:
    """Yields the keys whose entries differ between two snapshots of a task, the older one first."""
    before, after = snapshots
    for snapshot, name in ((before, "before"), (after, "after")):
        bring(app.chain(snapshot.task_id), snapshot, directory / name)
    plan = app.plan(after.task_id)
    family = task_stores(plan, directory, app.config, app.resources).families[columns.store]
    topic = plan.changelog_topics.get(columns.store, columns.store)
    builder = app.builder(columns.store)
    read, end = EntryReader(builder, topic, app.config), builder.type.layout().behind_entries
    with (
        database_of(app.resources, [family], directory / "before") as older,
        database_of(app.resources, [family], directory / "after") as newer,
    ):
        rest = _rest(columns, after)
        for key, was, is_ in Comparison(older.scan(family, b"", end, False), newer.scan(family, b"", end, False)):
            old, new = (None if each is None else read.value(each) for each in (was, is_))
            values = (columns.value(None if each is None else each[0]) for each in (old, new))
            change = "insert" if old is None else "delete" if new is None else "update"
            yield (*_key(columns, read.key(key)), change, *values, None if new is None else new[1], *rest)


def _entries(store: Any) -> Iterator[tuple[Any, Any]]:
    """Iterates over all that a store has, of a versioned one over the latest versions."""
    if isinstance(store, SessionStoreImpl):
        return store.fetch_range(None, None)
    return store.latest_versions() if isinstance(store, VersionedStoreImpl) else iter(store.all())


def _plain(value: Any) -> Any:
    if isinstance(value, AggregationWithHeaders):
        return value.aggregation
    return value.value if isinstance(value, _TIMED) else value


def _key(columns: StoreColumns, key: Any) -> tuple[Any, ...]:
    if not columns.windowed:
        return (columns.key(key),)
    assert isinstance(key, Windowed)
    return columns.key(key.key), key.start_ms, key.end_ms


def _rest(columns: StoreColumns, snapshot: Snapshot) -> tuple[str, int | None]:
    point = snapshot.stores.get(columns.store)
    return snapshot.task, None if point is None else point.offset
